"""Counts and scores of one declaration in one state, which crosses ranks once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch

from lightning_evalkit.counts.counter import ArrayTotals, Ledger, Totals, in_a_row
from lightning_evalkit.counts.layout import Layout

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts.binned_scores import ScoreCounter
    from lightning_evalkit.counts.counter import BatchTotals
    from lightning_evalkit.counts.evidence import CountCounter, Evidence
    from lightning_evalkit.counts.layout import Cells
    from lightning_evalkit.counts.numpy_path import Array


Places = TypeVar("Places", "Tensor | None", "Array | None")


class CountsAndScores:
    """Counts of a task and its scores; a batch is arranged once for both."""

    def __init__(self, counts: CountCounter, scores: ScoreCounter) -> None:
        self.task: Any = counts.task
        self._counts, self._scores = counts, scores
        self.bins, self.plain = scores.bins, counts.plain and scores.plain
        pairs = zip(counts.layout, scores.layout, strict=True)
        self.layout = Layout(*(ours.under("counts") + theirs.under("scores") for ours, theirs in pairs))

    def count(self, preds: Tensor, target: Tensor, sample_weight: Tensor | None) -> BatchTotals:
        """The concatenated totals of both for one batch."""
        return self.count_arranged(*self.task.arranged(preds, target, sample_weight))

    def count_arranged(self, preds: Tensor, target: Tensor, weight: Tensor | None, batches: int = 1) -> BatchTotals:
        """The same for a batch that the declaration has arranged, or for several that are counted as one."""
        parts = (self._counts, self._scores)
        counts, scores = (part.count_arranged(preds, target, weight, batches) for part in parts)
        if isinstance(counts, ArrayTotals) and isinstance(scores, ArrayTotals):
            return self._joined(counts, scores)
        counts, scores = counts.tensors(), scores.tensors()
        reals = [part for part in (counts.reals, scores.reals) if part is not None]
        leading = torch.cat((counts.integers, scores.integers)) if len(scores.integers) else counts.integers
        return Totals(leading, in_a_row(reals), self._moved(scores.increments))

    def _joined(self, counts: ArrayTotals, scores: ArrayTotals) -> ArrayTotals:
        reals = [part for part in (counts.reals, scores.reals) if part is not None]
        whole = np.concatenate(reals) if len(reals) > 1 else reals[0] if reals else None
        return ArrayTotals(np.concatenate((counts.integers, scores.integers)), whole, self._moved(scores.increments))

    def _moved(self, increments: Places) -> Places:
        """The increments of the scores behind the counts."""
        return None if increments is None else increments + self._counts.layout.integers.width

    def evidence(self, totals: Totals) -> Evidence:
        """The evidence of these totals, scores included."""
        counts, scores = self._parts(totals)
        sums = self._scores.calibration(scores) if self._scores.sums.width else None
        return replace(self._counts.evidence(counts), scores=self._scores.scores(scores), calibration=sums)

    def ledger(self, totals: Totals) -> Ledger:
        """The bookkeeping of the counts; a sample is invalid if it is for either."""
        counts, scores = self._parts(totals)
        ledger = self._counts.ledger(counts)
        return replace(ledger, invalid=max(ledger.invalid, self._scores.ledger(scores).invalid))

    def _parts(self, totals: Totals) -> tuple[Totals, Totals]:
        ours, theirs = self._counts.layout, self._scores.layout
        if totals.increments is not None:
            return self._parts_of_batch(totals, totals.increments)
        integers = _split(totals.integers, ours.integers, theirs.integers)
        if totals.reals is None:
            return Totals(integers[0]), Totals(integers[1])
        reals = _split(totals.reals, ours.reals, theirs.reals)
        return Totals(integers[0], reals[0] if ours.reals.width else None), Totals(integers[1], reals[1])

    def _parts_of_batch(self, totals: Totals, places: Tensor) -> tuple[Totals, Totals]:
        counts, scores = self._counts.layout, self._scores
        integers = _split(totals.integers, counts.integers, scores.books)
        reals = (None, None) if totals.reals is None else _split(totals.reals, counts.reals, scores.layout.reals)
        increments = places - counts.integers.width
        return Totals(integers[0], reals[0] if counts.reals.width else None), Totals(integers[1], reals[1], increments)


def _split(row: Tensor, *cells: Cells) -> tuple[Tensor, ...]:
    parts: tuple[Tensor, ...] = row.split([each.width for each in cells])
    return parts
