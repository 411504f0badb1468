"""The evaluation of yes-or-no predictions."""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING, Any, Literal

from lightning_evalkit.counts import BinaryCounter
from lightning_evalkit.diagnosis import Finding, explain
from lightning_evalkit.errors import InputError
from lightning_evalkit.evaluation.base import Evaluation, checked_names
from lightning_evalkit.evaluation.curves import CHOSEN, JUDGED, RANKED, declared_scores, with_curves
from lightning_evalkit.evaluation.losses import asks_for_loss, explained_by_scores
from lightning_evalkit.evaluation.names import scored_reading
from lightning_evalkit.evaluation.readings import At, Reading
from lightning_evalkit.inputs import Binary, Inputs
from lightning_evalkit.intervals import at_prevalence
from lightning_evalkit.statistics import SCORED, find

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from lightning_evalkit.counts import Counts

DEFAULT = ("accuracy", "balanced_accuracy", "precision", "recall", "specificity", "f1", "mcc")


class BinaryEvaluation(Evaluation):
    """All numbers of a binary classifier from one count of every batch.

    ``inputs`` says what ``update`` receives: "logits", "probabilities" or "labels". ``threshold`` is on the
    probability, also for logits; with a list of thresholds every statistic is reported at each, as "precision@0.9".

    >>> import torch
    >>> evaluation = BinaryEvaluation(inputs="probabilities", statistics=["accuracy", "f1"], prefix="val/")
    >>> evaluation.update(torch.tensor([0.9, 0.2, 0.7, 0.1]), torch.tensor([1, 0, 0, 0]))
    >>> evaluation.compute()
    {'val/accuracy': tensor(0.7500), 'val/f1': tensor(0.6667)}
    """

    def __init__(
        self,
        inputs: Inputs,
        threshold: float | Sequence[float] = 0.5,
        statistics: Sequence[str] | None = None,
        curves: bool = False,
        resolution: int | Literal["bfloat16"] | None = None,
        weighted: bool = False,
        ignore_index: int | None = None,
        zero_division: float = nan,
        prefix: str | None = None,
        postfix: str | None = None,
        **kwargs: Any,
    ) -> None:
        names = with_curves(checked_names(inputs, statistics, DEFAULT), curves, (*RANKED, *JUDGED, *CHOSEN))
        single = isinstance(threshold, (int, float))
        thresholds: tuple[float, ...] = (threshold,) if isinstance(threshold, (int, float)) else tuple(threshold)
        scores = declared_scores(curves, resolution, questions=1)
        task = Binary(inputs, ignore_index, weighted, thresholds=thresholds, scores=scores)
        readings: dict[str, Reading] = {
            name if single else f"{name}@{cut:g}": At(find(name), place)
            for place, cut in enumerate(task.thresholds)
            for name in names
            if name not in SCORED
        }
        readings |= {name: scored_reading(name, {}) for name in names if name in SCORED}
        super().__init__(BinaryCounter(task), readings, zero_division, prefix, postfix, **kwargs)
        self.threshold = threshold

    @property
    def counts(self) -> Counts:
        """The counts over all ranks: scalars, or one per threshold where a list was declared."""
        counts = super().counts
        return counts.at(0) if isinstance(self.threshold, (int, float)) else counts

    def at_prevalence(self, prevalence: float) -> dict[str, Tensor]:
        """The same numbers had the share of positives been ``prevalence``, recall and specificity kept."""
        counts = at_prevalence(self.tally.counts, prevalence)
        readings = {name: entry.reading for name, entry in self._entries()}
        return {
            name: reading.of(counts, self[name].zero_division).float()
            for name, reading in readings.items()
            if isinstance(reading, At)
        }

    def explain(self, first: str = "accuracy", second: str = "f1", before: BinaryEvaluation | None = None) -> Finding:
        """Why two of the numbers are equal, or how far and why they are apart.

        "loss" and "accuracy" (with ``curves``): where the log loss comes from, and with an evaluation of an epoch
        ``before`` what has changed since.
        """
        if asks_for_loss(first, second, "accuracy"):
            return explained_by_scores(self, before)
        one, other = (self._table(name) for name in (first, second))
        if one.place != other.place:
            raise InputError(f"expected two entries at one threshold, got {first!r} and {second!r}.")
        return explain(self.tally.counts.at(one.place), one.statistic.name, other.statistic.name)

    def _table(self, name: str) -> At:
        """The reading of an entry, or of any statistic where there is one threshold."""
        if name not in self and isinstance(self.threshold, (int, float)):
            return At(find(name), 0)
        reading = self[name].reading
        if not isinstance(reading, At):
            raise InputError(f"expected statistics of a confusion matrix, got {name!r}, which is read from the scores.")
        return reading
