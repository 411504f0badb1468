"""Adding up losses. Sums are kept, not means: a mean of batches' means depends on how the batches were cut.

Totals: losses, updates; as reals: weighted losses, weights
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from lightning_evalkit.counts.counter import Ledger, Totals
from lightning_evalkit.counts.counts import Counts, real_dtype
from lightning_evalkit.errors import InputError
from lightning_evalkit.inputs import Losses

if TYPE_CHECKING:
    from torch import Tensor


class LossCounter:
    """Adds up the losses of a ``Losses`` declaration; NaN and infinite losses are losses, and show in the sum."""

    width = real_width = 2

    def __init__(self, task: Losses | None = None) -> None:
        self.task = task or Losses()

    def count(self, losses: Tensor, weights: Tensor | None, _: Tensor | None = None) -> Totals:
        """The sums of one batch, without waiting for the device."""
        losses, weights = self.task.arranged(losses, weights)
        with torch.no_grad():
            kind = real_dtype(losses.device)
            values, shares = losses.to(kind), weights.to(kind)
            number = torch.ones_like(values, dtype=torch.int64).sum()
            return Totals(
                torch.stack((number, torch.ones_like(number))), torch.stack(((values * shares).sum(), shares.sum()))
            )

    def mean(self, totals: Totals) -> Tensor:
        """Sum of weighted losses over sum of weights."""
        assert totals.reals is not None  # always kept
        weighted, weights = totals.reals.unbind()
        return weighted / weights

    def counts(self, totals: Totals) -> Counts:
        """Refused: losses are added up, nothing is predicted."""
        raise InputError("losses are added up, not counted: an evaluation has counts.")

    def ledger(self, totals: Totals) -> Ledger:
        """Only updates happen."""
        return Ledger(
            updates=int(totals.integers.select(0, 1)), ignored=0, invalid=0, guessed_logits=0, guessed_probabilities=0
        )
