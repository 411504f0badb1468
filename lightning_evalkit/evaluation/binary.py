"""The evaluation of yes-or-no predictions."""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING, Any, Literal

from lightning_evalkit.counts import BinaryCounter
from lightning_evalkit.diagnosis import Finding, compared, told_of_table
from lightning_evalkit.errors import InputError
from lightning_evalkit.evaluation.base import Evaluation, checked_names
from lightning_evalkit.evaluation.curves import CHOSEN, JUDGED, RANKED, declared_binning, with_curves
from lightning_evalkit.evaluation.losses import LOSSES, beside_loss, explained_by_scores, profile_of_scores, refused
from lightning_evalkit.evaluation.names import binary_statistic, score_readout
from lightning_evalkit.evaluation.readouts import OneTable, Readout
from lightning_evalkit.inputs import Binary, Inputs
from lightning_evalkit.inputs.threshold import Given, names_of, parsed, thresholds_of
from lightning_evalkit.intervals import at_prevalence
from lightning_evalkit.statistics import SCORE_STATISTICS, find

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from lightning_evalkit.counts import Counts

DEFAULT = ("accuracy", "balanced_accuracy", "precision", "recall", "specificity", "f1", "mcc")


class BinaryEvaluation(Evaluation):
    """All numbers of a binary classifier from one count of every batch.

    ``inputs`` says what ``update`` receives: "logits", "probabilities" or "labels". ``threshold`` is on the
    probability, also for logits; with a list of thresholds every statistic is reported at each, as "precision@0.9".
    A threshold from ``best_threshold`` keeps its logit too, and decides here as it did there.

    >>> import torch
    >>> evaluation = BinaryEvaluation(inputs="probabilities", statistics=["accuracy", "f1"], prefix="val/")
    >>> evaluation.update(torch.tensor([0.9, 0.2, 0.7, 0.1]), torch.tensor([1, 0, 0, 0]))
    >>> evaluation.compute()
    {'val/accuracy': tensor(0.7500), 'val/f1': tensor(0.6667)}
    """

    def __init__(
        self,
        inputs: Inputs,
        threshold: Given | Sequence[Given] = 0.5,
        statistics: Sequence[str] | None = None,
        curves: bool = False,
        resolution: int | Literal["bfloat16"] | None = None,
        weighted: bool = False,
        ignore_index: int | None = None,
        zero_division: float = nan,
        prefix: str | None = None,
        postfix: str | None = None,
        buckets: int | None = None,
        **kwargs: Any,
    ) -> None:
        names = with_curves(checked_names(inputs, statistics, DEFAULT), curves, (*RANKED, *JUDGED, *CHOSEN))
        threshold = parsed(threshold)
        single, thresholds = isinstance(threshold, (int, float)), thresholds_of(threshold)
        binning = declared_binning(curves, resolution, num_curves=1)
        task = Binary(inputs, ignore_index, weighted, thresholds=thresholds, binning=binning, buckets=buckets)
        readouts: dict[str, Readout] = {
            name if single else f"{name}@{cut}": OneTable(binary_statistic(name), place)
            for place, cut in enumerate(names_of(task.thresholds))
            for name in names
            if name not in SCORE_STATISTICS
        }
        readouts |= {name: score_readout(name, {}) for name in names if name in SCORE_STATISTICS}
        super().__init__(BinaryCounter(task), readouts, zero_division, prefix, postfix, **kwargs)
        self.threshold = threshold

    @property
    def counts(self) -> Counts:
        """The counts over all ranks: scalars, or one per threshold of a declared list."""
        counts = super().counts
        return counts.at(0) if isinstance(self.threshold, (int, float)) else counts

    def at_prevalence(self, prevalence: float) -> dict[str, Tensor]:
        """The numbers at another share of positives, with unchanged recall and specificity."""
        counts = at_prevalence(self.tally.counts, prevalence)
        readouts = {name: entry.readout for name, entry in self._entries()}
        return {
            name: readout.of(counts, self.zero_division).float()
            for name, readout in readouts.items()
            if isinstance(readout, OneTable)
        }

    def explain(
        self, first: str | None = None, second: str | None = None, before: BinaryEvaluation | None = None
    ) -> Finding:
        """Explain why two numbers are equal, or how far apart they are and why; or what one number says and hides.

        The default is accuracy and F1. "loss" and "accuracy" (with ``curves``; with several thresholds "accuracy@0.9")
        explain where the log loss comes from and, given the evaluation of an epoch ``before``, what has changed since.
        """
        if (beside := beside_loss(first, second, "accuracy")) is not None:
            return self._explained_loss(beside, before)
        if first is not None and second is None:
            return self._explained_alone(first)
        first, second = first or "accuracy", second or "f1"
        one, other = (self._table(name) for name in (first, second))
        if one.place != other.place:
            raise InputError(f"expected two entries at one threshold, got {first!r} and {second!r}.")
        return self._explained_at(one.place, one.statistic.name, other.statistic.name)

    def _explained_alone(self, name: str) -> Finding:
        if name in self and not isinstance(readout := self[name].readout, OneTable):
            if (nothing := self.nothing_counted()) is not None:
                return nothing
            return self._alone(name, readout, self._explained({name: readout})[name], ("",), exclusive=False)
        table = self._table(name)
        return self.nothing_counted() or told_of_table(
            self._counts_of(name), table.statistic.name, self.zero_division, name, self._interval(table)
        )

    def _explained_loss(self, accuracy: str, before: BinaryEvaluation | None) -> Finding:
        if accuracy in LOSSES or self._table(accuracy).statistic.name != "accuracy":
            raise refused("accuracy", accuracy)
        self._refuse_without_scores()
        if (nothing := self.nothing_counted()) is not None:
            return nothing
        earlier = None if before is None else profile_of_scores(before, before._counts_of(accuracy)).profile
        task: Any = self.tally.counter.task
        halfway = task.thresholds[self._table(accuracy).place] == 0.5
        return explained_by_scores(self, self._counts_of(accuracy), accuracy, halfway, earlier)

    def _counts_of(self, name: str) -> Counts:
        return self.tally.counts.at(self._table(name).place)

    def _explained_at(self, place: int, first: str = "accuracy", second: str = "f1") -> Finding:
        """Explain two statistics at one of the thresholds."""
        if (nothing := self.nothing_counted()) is not None:
            return nothing
        finding = compared(self.tally.counts.at(place), first, second, self.zero_division)
        return self._sure(finding, {name: OneTable(find(name), place) for name in (first, second)})

    def _table(self, name: str) -> OneTable:
        """The readout of an entry, or of any statistic if there is one threshold."""
        if name not in self and isinstance(self.threshold, (int, float)):
            return OneTable(find(name), 0)
        readout = self[name].readout
        if not isinstance(readout, OneTable):
            raise InputError(f"expected statistics of a confusion matrix, got {name!r}, which is read from the scores.")
        return readout
