"""Stores all logits and targets unchanged: memory grows with the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from lightning_evalkit.counts.counter import Ledger, Totals
from lightning_evalkit.counts.counts import real_dtype
from lightning_evalkit.counts.layout import Cells, Layout
from lightning_evalkit.inputs import Multiclass

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.inputs import Declaration


class StoredLogits:
    """Rows of targets, and as reals of logits and their weights, of a declaration; see ``Counter`` for the methods.

    Classes and labels are the second dimension of inputs and the last of stored rows, one for every element.
    """

    by_rows = True

    def __init__(self, task: Declaration) -> None:
        self.task: Any = task
        self.is_multiclass = isinstance(task, Multiclass)
        self.classes = task.classes if isinstance(task, Multiclass) else getattr(task, "num_labels", 1)
        self.targets = 1 if self.is_multiclass else self.classes
        weights = self.targets if task.weighted else 0
        self.layout = Layout(Cells(targets=self.targets), Cells(logits=self.classes, weights=weights))

    def count(self, preds: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> Totals:
        """The rows of a batch."""
        preds, target, weight = self.task.arranged(preds, target, sample_weight)
        logits = preds.movedim(1, -1) if self.is_multiclass else preds  # labels come last already
        kind = real_dtype(preds.device)
        parts = {"logits": (logits, self.classes), "weights": (weight, self.targets)}
        reals = [part.to(kind).reshape(-1, width) for part, width in self.layout.reals.parts(**parts)]
        return Totals(target.long().reshape(-1, self.targets), torch.cat(reals, 1))

    def rows(self, totals: Totals) -> tuple[Tensor, Tensor, Tensor | None]:
        """Logits, targets and, where declared, weights, in the shapes of the task: (M, C) and (M,), (M, L), or (M,)."""
        assert totals.reals is not None  # always kept
        parts = (
            self.layout.reals.read(totals.reals, "logits"),
            totals.integers,
            self.layout.reals.read(totals.reals, "weights"),
        )
        logits, target, weights = (part.squeeze(1) if part.shape[1] == 1 else part for part in parts)
        return logits, target, weights if self.task.weighted else None

    def ledger(self, totals: Totals) -> Ledger:
        """The bookkeeping counts updates only."""
        return Ledger(int(len(totals.integers) > 0), ignored=0, invalid=0, guessed_logits=0, guessed_probabilities=0)
