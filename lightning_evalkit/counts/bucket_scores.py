"""Scores in buckets: for every bucket of samples the sums over probabilities, and a coarse histogram of scores.

How much an area varies between buckets is seen in 64 bins as well as in 65,536; its value comes from the fine ones.
Totals, for B buckets and K questions: histograms B × K × 2 × 64 (as reals, where weighted), and as reals the sums of
``calibration_sums`` of B × K questions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from lightning_evalkit.counts import calibration_sums
from lightning_evalkit.counts.binned_scores import ScoreCounter
from lightning_evalkit.counts.calibration_sums import Calibration
from lightning_evalkit.counts.counts import real_dtype
from lightning_evalkit.counts.layout import Cells, Layout
from lightning_evalkit.counts.score_counts import Edges, ScoreCounts
from lightning_evalkit.counts.score_totals import limits_of

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts.counter import Totals
    from lightning_evalkit.inputs import Declaration

COARSE = 64
"""Bins of scores in every bucket."""
MOST = 2**22
"""Numbers that histograms of all buckets may have: 32 MB. With more classes or labels there are none."""


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
        self.kept = size > 0

    def add(self, totals: Totals, preds: Tensor, target: Tensor, weight: Tensor | None, group: Tensor) -> None:
        """Add a batch that was arranged, with the bucket of every element, to totals; bad values are left out."""
        preds, truth, ignored, whole = self._arranged(preds, target)
        there, weight = self._weights(truth, weight)
        used, probable = self._used(preds, truth, ignored, whole, there, weight)
        group, questions = group.reshape(truth.shape), torch.arange(self.num_curves, device=preds.device)
        if self.kept:
            places = self._places(preds, self._answers(preds, truth), group, questions, probable)
            self._add_histogram(totals, torch.where(used, places, 0), used, weight)
        assert totals.reals is not None  # declared
        sums = self._judged_by_bucket(preds, truth, group, questions, probable, weight, used)
        self._sums(totals.reals).add_(sums)

    def _places(self, preds: Tensor, answers: Tensor, group: Tensor, questions: Tensor, probable: Any) -> Tensor:
        fine = self.bins.deferred(self._as_binned(preds, probable))
        coarse = fine * COARSE // self.bins.number
        return ((group * self.num_curves + questions) * 2 + answers) * COARSE + coarse

    def _add_histogram(self, totals: Totals, places: Tensor, used: Tensor, weight: Tensor | None) -> None:
        kept: Any = totals.integers if weight is None else totals.reals
        amount = used if weight is None else torch.where(used, weight.expand(used.shape), 0.0)
        kept.index_add_(0, places.flatten(), amount.flatten().to(kept.dtype))

    def _judged_by_bucket(
        self,
        preds: Tensor,
        truth: Tensor,
        group: Tensor,
        questions: Tensor,
        probable: Any,
        weight: Tensor | None,
        used: Tensor,
    ) -> Tensor:
        """The sums of every bucket, as if each were a question of its own."""
        if self.is_multiclass:
            truth, used, asked = truth.squeeze(-1).clamp(0, self.num_curves - 1), used.select(-1, 0), group.squeeze(-1)
            weight = None if weight is None else weight.squeeze(-1)
            judged = self._judged(preds, truth, probable)
        else:
            asked = (group * self.judged + questions).expand(preds.shape)
            judged = self._judged(preds, truth == 1, probable)
        return calibration_sums.summed(judged, asked, self.sums, weight, used)

    # ---- reading

    def without_each(self, totals: Totals, filled: Tensor) -> tuple[ScoreCounts | None, Calibration]:
        """The histograms and sums of all samples but those of a bucket: (buckets · questions) rows."""
        assert totals.reals is not None  # declared
        sums = calibration_sums.unpack(self._sums(totals.reals), self.sums)
        judged = Calibration(*(_others(part, self.buckets, filled) for part in sums))
        if not self.kept:
            return None, judged
        kept = totals.reals if self.task.weighted else totals.integers
        cells = _others(kept.narrow(0, 0, 2 * self.num_curves * COARSE * self.buckets), self.buckets, filled)
        no, yes = cells.view(-1, 2, COARSE).unbind(1)
        return ScoreCounts(yes, no, *self._limits(yes.device)), judged

    def _sums(self, reals: Tensor) -> Tensor:
        """Those over probabilities, behind the histograms."""
        return reals.narrow(0, len(reals) - self.sums.width, self.sums.width)

    def _limits(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Edges]:
        limits = limits_of(self.task.binning, self.score_kind, False, device)
        places = torch.arange(COARSE + 1, device=device)
        starts, ends = (-(-part * self.bins.number // COARSE) for part in (places[:-1], places[1:]))
        alone = torch.zeros(COARSE, dtype=torch.bool, device=device)
        edges = Edges(limits.edges.first[starts], limits.edges.cut[starts], limits.edges.logits)
        return alone, limits.lowest[starts], limits.highest[ends - 1], edges


def _others(part: Tensor, buckets: int, filled: Tensor) -> Tensor:
    """What all other buckets hold, for every bucket that is filled; questions behind buckets, as rows."""
    rows = part.reshape(buckets, -1, *part.shape[1:])
    return (rows.sum(0) - rows)[filled].clamp(min=0).flatten(0, 1).to(real_dtype(part.device))
