"""Keeping logits and targets as they are, for what has to look at all of them: memory grows with the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lightning_evalkit.counts.counter import Ledger, Totals
from lightning_evalkit.counts.counts import real_dtype
from lightning_evalkit.errors import InputError
from lightning_evalkit.inputs import Multiclass

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.inputs import Declaration


class KeptLogits:
    """Rows of targets, and as reals of logits, of a declaration; see ``Counter`` for what the methods promise."""

    by_rows = True

    def __init__(self, task: Declaration) -> None:
        self.task: Any = task
        self.many = isinstance(task, Multiclass)
        self.real_width = task.classes if isinstance(task, Multiclass) else getattr(task, "num_labels", 1)
        self.width = 1 if self.many else self.real_width

    def count(self, preds: Tensor, target: Tensor, _: Tensor | None = None) -> Totals:
        """The rows of a batch."""
        preds, target, _ = self.task.arranged(preds, target, None)
        rows = preds.to(real_dtype(preds.device)).reshape(-1, self.real_width)
        return Totals(target.long().reshape(-1, self.width), rows)

    def rows(self, totals: Totals) -> tuple[Tensor, Tensor]:
        """Logits and targets in the shapes of the task."""
        assert totals.reals is not None  # always kept
        logits = totals.reals.squeeze(1) if self.real_width == 1 else totals.reals
        return logits, totals.integers.squeeze(1) if self.width == 1 else totals.integers

    def counts(self, totals: Totals) -> Any:
        """Refused: nothing is counted."""
        raise InputError("logits are kept, not counted: an evaluation has counts.")

    def ledger(self, totals: Totals) -> Ledger:
        """Only updates happen."""
        return Ledger(int(len(totals.integers) > 0), ignored=0, invalid=0, guessed_logits=0, guessed_probabilities=0)
