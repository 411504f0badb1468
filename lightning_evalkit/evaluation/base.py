"""An evaluation: many numbers, one tally, one update per batch, one collective per compute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torchmetrics import MetricCollection
from torchmetrics.utilities import rank_zero_warn

from lightning_evalkit.diagnosis import Finding, explain
from lightning_evalkit.errors import DeclarationError, InputError, nearest
from lightning_evalkit.evaluation.entry import Entry
from lightning_evalkit.intervals import at_prevalence
from lightning_evalkit.state import Tally
from lightning_evalkit.statistics import find

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torch import Tensor

    from lightning_evalkit.counts import Counter, Counts

MANY = 50
"""With more entries than this, logging every batch costs more than most training steps."""


class Evaluation(MetricCollection):
    """Entries that view one tally: what every task's evaluation shares.

    Parameters of all evaluations: ``statistics`` (names from the statistics table), ``zero_division`` (the value of
    0/0; NaN by default, which warns once), ``prefix`` and ``postfix`` of the reported names, and torchmetrics' own
    ``process_group``, ``sync_on_compute``, ``dist_sync_on_step``, ``dist_sync_fn``.
    """

    tally: Tally

    def __init__(
        self,
        counter: Counter,
        entries: Iterable[tuple[str, str, int]],
        zero_division: float,
        prefix: str | None,
        postfix: str | None,
        **kwargs: Any,
    ) -> None:
        tally = Tally(counter, **kwargs)
        super().__init__([], prefix=prefix, postfix=postfix, compute_groups=False)
        self.__dict__["tally"] = tally  # not registered here: it is reached, moved and copied through the entries
        self._items_asked = 0
        for name, statistic, place in entries:
            if name in self:
                raise DeclarationError(f"expected different statistics, got {name!r} twice.")
            self[_key(name)] = Entry(name, tally, find(statistic), place, zero_division)

    # ---- counting: once for all

    def update(  # type: ignore[override]  # of ModuleDict, which a MetricCollection overrides too
        self, preds: Tensor, target: Tensor, sample_weight: Tensor | None = None
    ) -> None:
        """Count a batch. If it raises, nothing of the batch was counted."""
        self.tally.update(preds, target, sample_weight)

    def forward(self, preds: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> dict[str, Tensor]:
        """Count a batch and give the values of this batch alone."""
        counts = self.tally.counter.counts(self.tally.batch_totals(preds, target, sample_weight))
        values = {}
        for name, entry in self._entries():
            entry._forward_cache = values[name] = entry.value_of(counts)  # which Lightning logs on_step
        return values

    def compute(self) -> dict[str, Tensor]:
        """Every number over all ranks, by one collective; each is a scalar."""
        counts = self.tally.counter.counts(self.tally.compute())
        values = {name: entry.value_of(counts) for name, entry in self._entries()}
        for name, entry in self._entries():
            entry.warn_if_undefined(values[name], counts)
        return values

    def reset(self) -> None:
        """Back to no samples."""
        self.tally.reset()
        self._items_asked = 0
        for _, entry in self._entries():
            entry._forward_cache = None

    def merge_state(self, other: Evaluation) -> None:
        """Add the counts of another evaluation of the same declaration."""
        self.tally.merge_state(other.tally)

    # ---- asking

    @property
    def counts(self) -> Counts:
        """The counts over all ranks."""
        return self.tally.counts

    def at_prevalence(self, prevalence: float) -> dict[str, Tensor]:
        """The same numbers had the share of positives been ``prevalence``, recall and specificity kept."""
        counts = at_prevalence(self.tally.counts, prevalence)
        return {name: entry.value_of(counts) for name, entry in self._entries()}

    def explain(self, first: str = "accuracy", second: str = "f1") -> Finding:
        """Why two of the numbers are equal, or how far and why they are apart."""
        one, other = self[first], self[second]
        if one.place != other.place:
            raise InputError(f"expected two entries at one threshold, got {first!r} and {second!r}.")
        return explain(one.selected(self.tally.counts), one.statistic.name, other.statistic.name)

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
        """``log_dict(evaluation)`` asks for the items in every step; with many entries that is worth a word."""
        self._items_asked += 1
        if self._items_asked == 3 and len(self) > MANY:
            rank_zero_warn(
                f"an evaluation with {len(self)} entries is logged in every step; Lightning spends about half a "
                "millisecond per entry on that. Call self.log_dict(evaluation.compute()) once per epoch instead.",
                UserWarning,
            )

    # ---- copying, moving, saving

    def clone(self, prefix: str | None = None, postfix: str | None = None) -> Evaluation:
        """A copy with a state of its own, under another prefix or postfix if given."""
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


def _key(name: str) -> str:
    return name.replace(".", "\N{ONE DOT LEADER}")


def statistic_names(chosen: Sequence[str] | None, default: Sequence[str]) -> Sequence[str]:
    """The statistics to report, each known."""
    if isinstance(chosen, str):
        raise DeclarationError(
            f"expected statistics to be a list of names, got the text {chosen!r}: write [{chosen!r}]."
        )
    names = default if chosen is None else list(chosen)
    if not names:
        raise DeclarationError("expected at least one statistic, got an empty list.")
    for name in names:
        find(name)
    return names
