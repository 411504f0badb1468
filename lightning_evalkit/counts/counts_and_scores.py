"""Two counters of one declaration as one: counts and scores in one state, which crosses ranks once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from lightning_evalkit.counts.counter import Ledger, Totals
from lightning_evalkit.counts.layout import Layout

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts.binned_scores import ScoreCounter
    from lightning_evalkit.counts.calibration_sums import Calibration
    from lightning_evalkit.counts.counts import Counts
    from lightning_evalkit.counts.score_counts import ScoreCounts


class CountsAndScores:
    """Counts of a task beside its scores; what reads counts does not notice the scores."""

    def __init__(self, counts: Any, scores: ScoreCounter) -> None:
        self.task = counts.task
        self._counts, self._scores = counts, scores
        self.bins = scores.bins
        pairs = zip(counts.layout, scores.layout, strict=True)
        self.layout = Layout(*(ours.under("counts") + theirs.under("scores") for ours, theirs in pairs))

    def count(self, preds: Tensor, target: Tensor, sample_weight: Tensor | None) -> Totals:
        """Both totals of a batch, behind each other."""
        pairs = [counter.count(preds, target, sample_weight) for counter in (self._counts, self._scores)]
        reals = [totals.reals for totals in pairs if totals.reals is not None]
        integers, places = torch.cat([totals.integers for totals in pairs]), pairs[1].increments
        places = None if places is None else places + self._counts.layout.integers.width
        return Totals(integers, torch.cat(reals) if reals else None, places)

    def _parts(self, totals: Totals) -> tuple[Totals, Totals]:
        layouts = (self._counts.layout, self._scores.layout)
        integers = totals.integers.split([each.integers.width for each in layouts])
        reals: Any = (None, None)
        if totals.reals is not None:
            widths = [each.reals.width for each in layouts]
            reals = [part if width else None for part, width in zip(totals.reals.split(widths), widths, strict=True)]
        return Totals(integers[0], reals[0]), Totals(integers[1], reals[1])

    def counts(self, totals: Totals) -> Counts:
        """Those at the threshold."""
        counts: Counts = self._counts.counts(self._parts(totals)[0])
        return counts

    def scores(self, totals: Totals) -> ScoreCounts:
        """The histograms."""
        return self._scores.scores(self._parts(totals)[1])

    def calibration(self, totals: Totals) -> Calibration:
        """The sums over probabilities."""
        return self._scores.calibration(self._parts(totals)[1])

    def ledger(self, totals: Totals) -> Ledger:
        """Of the counts; a sample is invalid if it is for either."""
        first, second = self._parts(totals)
        ledger: Ledger = self._counts.ledger(first)
        invalid = max(ledger.invalid, self._scores.ledger(second).invalid)
        return Ledger(ledger.updates, ledger.ignored, invalid, ledger.guessed_logits, ledger.guessed_probabilities)

    # ---- what only some tasks keep beside counts

    def matrix(self, totals: Totals) -> Tensor:
        """The confusion matrix."""
        matrix: Tensor = self._counts.matrix(self._parts(totals)[0])
        return matrix

    def hits(self, totals: Totals, k: int) -> Tensor:
        """How often the target was among the k largest scores."""
        hits: Tensor = self._counts.hits(self._parts(totals)[0], k)
        return hits

    def sample_sums(self, totals: Totals, name: str) -> tuple[Tensor, Tensor]:
        """Sums over samples."""
        rows: tuple[Tensor, Tensor] = self._counts.sample_sums(self._parts(totals)[0], name)
        return rows
