"""The evaluation of yes-or-no predictions."""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING, Any

from lightning_evalkit.counts import BinaryCounter, Counts
from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.evaluation.base import Evaluation, statistic_names
from lightning_evalkit.inputs import Binary, Inputs

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        weighted: bool = False,
        ignore_index: int | None = None,
        zero_division: float = nan,
        prefix: str | None = None,
        postfix: str | None = None,
        **kwargs: Any,
    ) -> None:
        if inputs == "auto":
            raise DeclarationError(
                "an evaluation does not guess: declare inputs='logits', inputs='probabilities' or inputs='labels'."
            )
        names = statistic_names(statistics, DEFAULT)
        single = isinstance(threshold, (int, float))
        thresholds: tuple[float, ...] = (threshold,) if isinstance(threshold, (int, float)) else tuple(threshold)
        task = Binary(inputs, ignore_index, weighted, thresholds=thresholds)
        entries = [
            (name if single else f"{name}@{cut:g}", name, place)
            for place, cut in enumerate(task.thresholds)
            for name in names
        ]
        super().__init__(BinaryCounter(task), entries, zero_division, prefix, postfix, **kwargs)
        self.threshold = threshold

    @property
    def counts(self) -> Counts:
        """The counts over all ranks: scalars, or one per threshold where a list was declared."""
        counts = super().counts
        return counts.at(0) if isinstance(self.threshold, (int, float)) else counts
