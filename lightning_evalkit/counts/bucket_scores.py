"""Scores in buckets: the sums over probabilities and a coarse histogram of scores for every bucket.

64 bins show the variation of an area between buckets as well as 65,536; its value comes from the fine ones.
Totals, for B buckets and K questions: histograms B × K × 2 × 64 (as reals, where weighted), and as reals the sums of
``calibration_sums`` of B × K questions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from lightning_evalkit.counts import calibration_sums
from lightning_evalkit.counts.binned_scores import Looked, ScoreCounter
from lightning_evalkit.counts.calibration_sums import Calibration
from lightning_evalkit.counts.counts import real_dtype
from lightning_evalkit.counts.layout import Cells, Layout
from lightning_evalkit.counts.score_counts import Edges, Limits, ScoreCounts
from lightning_evalkit.counts.score_totals import limits_of

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts.counter import Totals
    from lightning_evalkit.inputs import Declaration

COARSE = 64
"""Bins of scores in every bucket."""
MOST = 2**22
"""The most numbers of all buckets' histograms (32 MB); more classes or labels have no histograms."""


class BucketScores(ScoreCounter):
    """Counts the scores of a declaration by bucket."""

    def __init__(self, task: Declaration, buckets: int) -> None:
        super().__init__(task)
        self.buckets = buckets
        size = 2 * self.num_curves * COARSE * buckets
        size = size if size <= MOST else 0
        weighed = size if task.weighted else 0
        assert task.binning is not None  # declared with curves
        self.sums = calibration_sums.cells_of(self.judged * buckets, task.binning.calibration_bins)
        self.layout = Layout(Cells(histogram=size - weighed), Cells(histogram=weighed) + self.sums)
        self.has_histograms = size > 0

    def add(self, totals: Totals, preds: Tensor, target: Tensor, weight: Tensor | None, group: Tensor) -> None:
        """Add an arranged batch, with the bucket of every element, to totals; bad values are left out."""
        looked = self._looked(preds, target, weight)
        unused, group = looked.unused, group.reshape(looked.target.shape)
        if self.has_histograms:
            self._add_histogram(totals, self._bucket_places(looked, group), unused, looked.weight)
        assert totals.reals is not None  # declared
        self._sums(totals.reals).add_(self._judged_deferred(looked, unused, group))

    def _bucket_places(self, looked: Looked, group: Tensor) -> Tensor:
        fine = self.bins.deferred(self._as_binned(looked.scores, looked.probable))
        places = torch.add(fine * COARSE // self.bins.number, looked.yes, alpha=COARSE)
        questions = torch.arange(self.num_curves, device=places.device) if places.ndim > 1 else 0
        return places + (group * self.num_curves + questions) * (2 * COARSE)

    def _add_histogram(self, totals: Totals, places: Tensor, unused: Tensor, weight: Tensor | None) -> None:
        kept: Any = totals.integers if weight is None else totals.reals
        amount = unused.logical_not() if weight is None else weight.masked_fill(unused, 0.0)
        places, amount = places.masked_fill(unused, 0), amount.expand(places.shape)
        kept.index_add_(0, places.flatten(), amount.flatten().to(kept.dtype))

    # ---- reading

    def without_each(self, totals: Totals, filled: Tensor) -> tuple[ScoreCounts | None, Calibration]:
        """The histograms and sums without each bucket: (buckets · questions) rows."""
        assert totals.reals is not None  # declared
        sums = calibration_sums.unpack(self._sums(totals.reals), self.sums)
        judged = Calibration(*(_others(part, self.buckets, filled) for part in sums))
        if not self.has_histograms:
            return None, judged
        kept = totals.reals if self.task.weighted else totals.integers
        cells = _others(kept.narrow(0, 0, 2 * self.num_curves * COARSE * self.buckets), self.buckets, filled)
        no, yes = cells.view(-1, 2, COARSE).unbind(1)
        return ScoreCounts(yes, no, self._limits(yes.device)), judged

    def _sums(self, reals: Tensor) -> Tensor:
        """The sums over probabilities, which follow the histograms."""
        return reals.narrow(0, len(reals) - self.sums.width, self.sums.width)

    def _limits(self, device: torch.device) -> Limits:
        limits = limits_of(self.task.binning, self.score_kind, False, device)
        places = torch.arange(COARSE + 1, device=device)
        starts, ends = (-(-part * self.bins.number // COARSE) for part in (places[:-1], places[1:]))
        alone = torch.zeros(COARSE, dtype=torch.bool, device=device)
        edges = Edges(limits.edges.first[starts], limits.edges.cut[starts], limits.edges.logits)
        return Limits(alone, limits.lowest[starts], limits.highest[ends - 1], edges)


def _others(part: Tensor, buckets: int, filled: Tensor) -> Tensor:
    """The sum of all other buckets for every filled bucket; one row per bucket and question."""
    rows = part.reshape(buckets, -1, *part.shape[1:])
    return (rows.sum(0) - rows)[filled].clamp(min=0).flatten(0, 1).to(real_dtype(part.device))
