"""Sums losses. It stores sums, not means: a mean of batches' means depends on how the batches were cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from lightning_evalkit.counts.counter import Ledger, Totals
from lightning_evalkit.counts.counts import real_dtype
from lightning_evalkit.counts.histogram import weighted_histogram
from lightning_evalkit.counts.layout import Cells, Layout
from lightning_evalkit.inputs import Losses

if TYPE_CHECKING:
    from torch import Tensor


BINS = 2**15
"""The number of distinguished sizes: losses with equal first 16 bits as float32, so within 1/128, share one."""


def by_size(losses: Tensor, part: Tensor) -> Tensor:
    """Sum amounts by the size of their loss; infinite losses have a separate size."""
    if losses.dtype == torch.float64:  # losses beyond single precision are large, but not infinite
        losses = torch.where(losses == torch.inf, losses, losses.clamp(max=torch.finfo(torch.float32).max))
    sizes = losses.float().relu().view(torch.int32) >> 16 & (BINS - 1)
    return weighted_histogram(sizes.long(), part, BINS)


def share_of_worst(weighted: Tensor, weights: Tensor, worst: float) -> Tensor:
    """The share of the sum of weighted losses that the worst share of all weights carries, both given by size.

    The share ends within one size, whose losses are treated as equal.
    """
    weighted, weights = beside_infinite(weighted, weights).flip(0), weights.flip(0)
    before = weights.cumsum(0) - weights
    taken = ((worst * weights.sum() - before) / weights).nan_to_num(0.0).clamp(0, 1)
    return (weighted * taken).sum() / weighted.sum()


def beside_infinite(weighted: Tensor, weights: Tensor) -> Tensor:
    """Losses by size in proportion to each other: next to infinite ones, all others are 0."""
    infinite = weighted == torch.inf
    return torch.where(infinite.any(), torch.where(infinite, weights, 0), weighted)


class LossCounter:
    """Adds up the losses of a ``Losses`` declaration; NaN and infinite losses are losses, and show in the sum."""

    def __init__(self, histogram: bool = False) -> None:
        self.task, self.bins = Losses(histogram=histogram), BINS if histogram else 1
        self.layout = Layout(Cells(losses=1, updates=1), Cells(weighted=self.bins, weights=self.bins))

    def count(self, losses: Tensor, weights: Tensor | None, _: Tensor | None = None) -> Totals:
        """The sums of one batch, without waiting for the device."""
        losses, weights = self.task.arranged(losses, weights)
        with torch.no_grad():
            kind = real_dtype(losses.device)
            shares = weights.to(kind).flatten()
            weighted = torch.where(shares == 0, 0.0, losses.to(kind).flatten() * shares)
            number = (shares != 0).sum()
            integers = self.layout.integers.parts(losses=number, updates=torch.ones_like(number))
            reals = self.layout.reals.parts(weighted=weighted, weights=shares)
            return Totals(torch.stack(integers), torch.cat([self._summed(losses, part) for part in reals]))

    def _summed(self, losses: Tensor, part: Tensor) -> Tensor:
        return part.sum().unsqueeze(0) if self.bins == 1 else by_size(losses.flatten(), part)

    def mean(self, totals: Totals) -> Tensor:
        """Sum of weighted losses / sum of weights."""
        weighted, weights = self._sums(totals)
        return weighted.sum() / weights.sum()

    def share_of_worst(self, totals: Totals, worst: float) -> Tensor:
        """The share of the loss that this share of the samples carries, those with the largest losses."""
        return share_of_worst(*self._sums(totals), worst)

    def _sums(self, totals: Totals) -> tuple[Tensor, Tensor]:
        assert totals.reals is not None  # always kept
        return self.layout.reals.read(totals.reals, "weighted"), self.layout.reals.read(totals.reals, "weights")

    def ledger(self, totals: Totals) -> Ledger:
        """The bookkeeping counts updates only."""
        updates = int(self.layout.integers.one(totals.integers, "updates"))
        return Ledger(updates, ignored=0, invalid=0, guessed_logits=0, guessed_probabilities=0)
