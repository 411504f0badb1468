"""An evaluation: many numbers, one tally, one update per batch, one collective per compute."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any

import torch
from torchmetrics import MetricCollection
from torchmetrics.utilities import rank_zero_warn

from lightning_evalkit.counts import BucketCounter
from lightning_evalkit.errors import DeclarationError, InputError, nearest
from lightning_evalkit.evaluation.curves import Curves, with_scores
from lightning_evalkit.evaluation.diagnosing import Diagnosing
from lightning_evalkit.evaluation.entry import Entry
from lightning_evalkit.evaluation.explaining import Explaining
from lightning_evalkit.evaluation.intervals import Intervals
from lightning_evalkit.evaluation.looking import Looking
from lightning_evalkit.evaluation.readouts import Averaged, FromScores
from lightning_evalkit.inputs.numbers import checked_zero_division, listed
from lightning_evalkit.state import BucketTally, EvidenceTally
from lightning_evalkit.state.unscripted import Unscripted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from torch import Tensor

    from lightning_evalkit.counts import CountCounter, Counts
    from lightning_evalkit.evaluation.readouts import Readout
    from lightning_evalkit.inputs import Inputs

MAX_LOGGED = 50
"""With more entries than this, logging every batch costs more than most training steps."""


class Evaluation(Curves, Diagnosing, Intervals, Explaining, Looking, Unscripted, MetricCollection):
    """Base of every task's evaluation: entries that read one shared tally.

    Parameters of all evaluations: ``statistics`` (names from the statistics table), ``zero_division`` (the value of
    0/0; NaN by default, which warns once), ``prefix`` and ``postfix`` of the reported names, and torchmetrics' own
    ``process_group``, ``sync_on_compute``, ``dist_sync_on_step``, ``dist_sync_fn``. ``curves=True`` keeps the scores in
    a histogram of fixed size, by default of up to 65,536 bins (``resolution``), and adds AUROC, average precision,
    Brier score, log loss, calibration error, best F1, curves and thresholds. ``weighted=True`` takes a
    ``sample_weight`` in ``update``. Targets equal to ``ignore_index`` are left out. ``buckets=1024`` also counts the
    samples by their ids, for paired comparisons and for intervals of more statistics.
    """

    def __init__(
        self,
        counter: CountCounter,
        readouts: Mapping[str, Readout],
        zero_division: float,
        prefix: str | None,
        postfix: str | None,
        **kwargs: Any,
    ) -> None:
        zero_division = checked_zero_division(zero_division)
        tally = tally_of(counter, title=type(self).__name__, **kwargs)
        super().__init__([], prefix=prefix, postfix=postfix, compute_groups=False)
        self.__dict__["_tally"] = tally  # not registered here: the entries hold, move and copy it
        self.zero_division = zero_division
        self._items_asked, self._warned_many = 0, False
        for name, readout in readouts.items():
            self[_key(name)] = Entry(name, tally, readout, zero_division)

    def add_metrics(self, metrics: Any, *additional_metrics: Any) -> None:
        """Refuse: all entries read one state, which counts what was declared."""
        if metrics or additional_metrics:
            raise DeclarationError(
                "expected no more metrics, as all entries of an evaluation are read from its one state: name them as "
                "statistics when it is constructed, or put other metrics into a separate MetricCollection."
            )
        super().add_metrics([])  # torchmetrics 1.6 starts its bookkeeping here

    def __new__(cls, *args: Any, **kwargs: Any) -> Evaluation:
        """Remember the declared arguments."""
        evaluation = super().__new__(cls)
        evaluation.__dict__["_declared"] = (args, kwargs)
        return evaluation

    def replace(self, **changes: Any) -> Evaluation:
        """Return an empty evaluation of the same declaration with some arguments changed."""
        args, kwargs = self.__dict__["_declared"]
        given = dict(signature(type(self)).bind(*args, **kwargs).arguments)
        more = given.pop("kwargs", {})
        return type(self)(**{**given, **more, "prefix": self.prefix, "postfix": self.postfix, **changes})

    @property
    def tally(self) -> EvidenceTally:
        """The one state of all entries."""
        tally: EvidenceTally = self.__dict__["_tally"]
        return tally

    # ---- counting: once for all

    def update(  # type: ignore[override]  # of ModuleDict, which a MetricCollection overrides too
        self,
        preds: Tensor,
        target: Tensor,
        sample_weight: Tensor | None = None,
        sample: Any = None,
        cluster: Any = None,
    ) -> None:
        """Count a batch. If it raises, nothing of the batch was counted.

        With ``buckets``, ``sample`` holds the ids of the samples, integers or texts; or ``cluster`` holds the ids of
        groups of dependent samples, such as patients.
        """
        tally: EvidenceTally = self.__dict__["_tally"]
        if sample is None and cluster is None:
            tally.update(preds, target, sample_weight)
        else:
            tally.update(preds, target, sample_weight, **self._ids(sample, cluster))

    def _ids(self, sample: Any, cluster: Any) -> dict[str, Any]:
        """The given ids, if the evaluation has buckets."""
        given = {name: ids for name, ids in (("sample", sample), ("cluster", cluster)) if ids is not None}
        if given and self.tally.counter.task.buckets is None:
            raise InputError(
                f"got {' and '.join(given)}, but the evaluation does not count by ids: construct it with buckets=1024."
            )
        return given

    @torch.jit.unused
    def forward(
        self,
        preds: Tensor,
        target: Tensor,
        sample_weight: Tensor | None = None,
        sample: Any = None,
        cluster: Any = None,
    ) -> dict[str, Tensor]:
        """Count a batch and return the values of this batch alone."""
        totals = self.tally.batch_totals(preds, target, sample_weight, **self._ids(sample, cluster))
        evidence = self.tally.value_of(totals)
        values = {}
        for name, entry in self._entries():
            entry._forward_cache = values[name] = entry.value_of(evidence)  # Lightning logs them on_step
        return values

    def compute(self) -> dict[str, Tensor]:
        """Compute every number over all ranks as a scalar, by one collective."""
        evidence, entries = self.tally.compute(), self._entries()
        numbers = [entry.readout.value(evidence, self.zero_division) for _, entry in entries]
        together, values = torch.stack(numbers), {}
        for (name, entry), number, single, is_undefined in zip(
            entries, numbers, together.float().unbind(), together.isnan().tolist(), strict=True
        ):
            values[name] = entry.in_its_precision(number) if entry.is_threshold else single
            if is_undefined:
                entry.warn_undefined(evidence)
            if entry.is_threshold:
                entry.warn_if_untold(values[name], evidence)
        return values

    def reset(self) -> None:
        """Forget all counts."""
        self.tally.reset()
        self._items_asked = 0
        for _, entry in self._entries():
            entry._forward_cache = None

    def merge_state(self, other: Evaluation) -> None:
        """Add the counts of another evaluation of the same declaration."""
        self.tally.merge_state(other.tally if isinstance(other, Evaluation) else other)

    # ---- asking

    @property
    def counts(self) -> Counts:
        """The counts over all ranks."""
        return self.tally.counts

    @property
    def confusion_matrix(self) -> Tensor:
        """Targets in rows, predictions in columns, negatives first: (2, 2), or one such per threshold or label."""
        counts = self.counts
        rows = (torch.stack((counts.tn, counts.fp), -1), torch.stack((counts.fn, counts.tp), -1))
        return torch.stack(rows, -2)

    def averaged_over(self) -> dict[str, int]:
        """The number of classes or labels in each macro and weighted average: those with a value."""
        evidence = self.tally.evidence
        readouts = {name: entry.readout for name, entry in self._entries()}
        return {
            name: int(readout.included(evidence).sum())
            for name, readout in readouts.items()
            if isinstance(readout, (Averaged, FromScores)) and readout.average in ("macro", "weighted")
        }

    def _reports(self, name: str) -> bool:
        return name in self

    def _reported(self, name: str) -> Readout:
        return self[name].readout

    # ---- names: any string, in the order given; only modules may not have a dot in theirs

    def _entries(self) -> list[tuple[str, Entry]]:
        entries: Iterable[Any] = self._modules.values()
        return [(self._set_name(entry.name), entry) for entry in entries]

    def keys(self, keep_base: bool = False) -> Iterable[str]:  # type: ignore[override]
        """The reported names; without prefix and postfix if ``keep_base``."""
        return [name for name, _ in self.items(keep_base)]

    def items(self, keep_base: bool = False, copy_state: bool = True) -> Iterable[tuple[str, Entry]]:  # type: ignore[override]
        """Names and entries."""
        self._notice_logging()
        return [(entry.name if keep_base else name, entry) for name, entry in self._entries()]

    def __getitem__(self, key: str, copy_state: bool = True) -> Entry:
        name = key.removeprefix(self.prefix or "").removesuffix(self.postfix or "")
        if name not in self:
            raise DeclarationError(f"there is no entry {key!r}: {nearest(name, self.keys(keep_base=True))}")
        entry = self._modules[_key(name)]
        assert isinstance(entry, Entry)  # nothing else is ever added
        return entry

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and _key(name) in self._modules

    def _notice_logging(self) -> None:
        """Warn if ``log_dict(evaluation)``, which reads the items in every step, has many entries."""
        self._items_asked += 1
        if self._items_asked > 2 and len(self) > MAX_LOGGED and not self._warned_many:
            self._warned_many = True
            rank_zero_warn(
                f"an evaluation with {len(self)} entries is logged in every step; Lightning spends about half a "
                "millisecond per entry on that. Call self.log_dict(evaluation.compute()) once per epoch instead.",
                UserWarning,
            )

    # ---- copying, moving, saving

    def clone(self, prefix: str | None = None, postfix: str | None = None) -> Evaluation:
        """Return a copy with its own state, and another prefix or postfix if given."""
        with torch.inference_mode(False):
            copy = super().clone(prefix, postfix)
        assert isinstance(copy, Evaluation)  # a deep copy
        return copy

    @property
    def metric_state(self) -> dict[str, dict[str, Any]]:
        """The one state."""
        return {"tally": self.tally.metric_state}

    def persistent(self, mode: bool = True) -> None:
        """Whether ``state_dict`` holds the state."""
        self.tally.persistent(mode)

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]
        """The one state, if ``persistent``."""
        return self.tally.state_dict(*args, **kwargs)

    def _load_from_state_dict(self, *args: Any) -> None:
        self.tally._load_from_state_dict(*args)


def tally_of(counter: CountCounter, **kwargs: Any) -> EvidenceTally:
    """The state for a counter, with scores and buckets if they are declared."""
    whole, buckets = with_scores(counter), counter.task.buckets
    if buckets is None:
        return EvidenceTally(whole, **kwargs)
    bucketed: Any = BucketCounter(whole, counter, buckets)
    return BucketTally(bucketed, **kwargs)


def _key(name: str) -> str:
    """Escape a name as in an address, so that no two names, nor a name and an attribute (``lift``), collide."""
    key = name.replace("%", "%25").replace(".", "%2E")
    return f"%{ord(key[0]):02X}{key[1:]}" if hasattr(Evaluation, key) else key


def checked_names(inputs: Inputs, chosen: Sequence[str] | None, default: Sequence[str]) -> list[str]:
    """Check the statistics to report."""
    if inputs == "auto":
        raise DeclarationError(
            "an evaluation does not guess: declare inputs='logits', inputs='probabilities' or inputs='labels'."
        )
    if isinstance(chosen, str):
        raise DeclarationError(f"expected statistics to be a list of names, got a text: write [{chosen!r}].")
    names = list(default if chosen is None else listed("statistics", chosen))
    wrong = [name for name in names if not isinstance(name, str)]
    if wrong:
        raise DeclarationError(f"expected statistics to be names of statistics, such as 'accuracy', got {wrong[0]!r}.")
    if not names:
        raise DeclarationError("expected at least one statistic, got an empty list.")
    double = [name for name in names if names.count(name) > 1]
    if double:
        raise DeclarationError(f"expected different statistics, got {double[0]!r} twice.")
    return names
