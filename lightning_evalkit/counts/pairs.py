"""Counts two models on the same samples: the buckets of each, and the samples that only one gets right.

Totals: those of the first model, those of the second, then the samples that only the first and only the second gets
right, and the number of rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from lightning_evalkit.counts.counter import Ledger, Totals
from lightning_evalkit.counts.counts import real_dtype
from lightning_evalkit.counts.layout import Cells, Layout
from lightning_evalkit.counts.slices import SliceCounter

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts.buckets import BucketCounter

ONLY = Cells(only=2, rows=1)


class PairTotals(NamedTuple):
    """The totals of both models, and of their samples."""

    first: Totals
    second: Totals
    only: Tensor
    rows: Tensor


class PairCounter:
    """Counts every batch for two models of one declaration."""

    def __init__(self, each: BucketCounter) -> None:
        self.task, self.each = each.task, each
        integers, reals = (cells.under("first") + cells.under("second") for cells in each.layout)
        self.layout = Layout(integers + ONLY, reals)

    def count(
        self,
        first: Tensor,
        second: Tensor,
        target: Tensor,
        sample_weight: Tensor | None,
        sample: Any = None,
        cluster: Any = None,
    ) -> Totals:
        """The totals of one batch."""
        width = self.each.layout.integers.width
        both = [
            self.each.count(preds, target, sample_weight, sample, cluster).dense(width) for preds in (first, second)
        ]
        one, other = (self._right(preds, target, sample_weight) for preds in (first, second))
        rows = torch.full((), len(target), device=one.device)
        only = torch.stack(((one > other).sum(), (other > one).sum(), rows))
        reals = [part.reals for part in both if part.reals is not None]
        return Totals(torch.cat([*(part.integers for part in both), only]), torch.cat(reals) if reals else None)

    def _right(self, preds: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
        """Which samples have no error, each counted as a separate group."""
        counter = SliceCounter(self.each.counts, max(len(target), 1))
        integers, reals = (cells.width for cells in counter.layout)
        totals = Totals(
            torch.zeros(integers, dtype=torch.int64, device=target.device),
            torch.zeros(reals, dtype=real_dtype(target.device), device=target.device) if reals else None,
        )
        counter.add(totals, preds, target, torch.arange(len(target), device=target.device), weight)
        errors: Tensor = counter.counts(totals).errors
        return errors.sum(-1).narrow(0, 0, len(target)) == 0

    # ---- reading

    def split(self, totals: Totals) -> PairTotals:
        """Split totals into their parts."""
        width = self.each.layout.integers.width
        first, second, only = totals.integers.split([width, width, ONLY.width])
        halves: tuple[Tensor | None, ...] = (None, None)
        if totals.reals is not None:
            halves = totals.reals.split(self.each.layout.reals.width)
        right, rows = (ONLY.read(only, name) for name in ("only", "rows"))
        return PairTotals(Totals(first, halves[0]), Totals(second, halves[1]), right, rows)

    def ledger(self, totals: Totals) -> Ledger:
        """The bookkeeping of both models; a sample is invalid if it is for either."""
        one, other = (self.each.ledger(part) for part in self.split(totals)[:2])
        invalid = one.invalid + other.invalid
        return Ledger(one.updates, one.ignored, invalid, one.guessed_logits, one.guessed_probabilities)
