"""What the state of an evaluation knows of its scores, small enough to be kept until it is drawn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import torch

from lightning_evalkit.counts import Calibration, Counts
from lightning_evalkit.statistics.curves import auroc, reached

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor

    from lightning_evalkit.counts import ScoreCounts
    from lightning_evalkit.evaluation.base import Evaluation

MAX_NAMED = 10
"""More classes or labels than this are not shown one by one."""
THRESHOLDS = 127
"""As many as TensorBoard's PR curves take; it numbers them from 0 to 1."""

ROUNDING = 2.0**-22


@dataclass(frozen=True)
class ScoreSnapshot:
    """The bins that hold something, and the sums of calibration, on the CPU; every class or label is a row."""

    names: Sequence[str]
    scores: ScoreCounts
    sums: Calibration
    declared: Sequence[float] = ()
    """The thresholds of the evaluation, where its scores are cut at some."""
    weighted: bool = False

    @property
    def positives(self) -> Tensor:
        """How many samples, or how much weight, each has."""
        return self.scores.yes.sum(-1)

    @property
    def negatives(self) -> Tensor:
        """How much each does not have."""
        return self.scores.no.sum(-1)

    @property
    def unnamed(self) -> bool:
        """Whether it is a binary problem, of which there is only one."""
        return list(self.names) == [""]

    @property
    def exclusive(self) -> bool:
        """Whether one class is right and the others are wrong; they are judged together then."""
        return len(self.names) > len(self.sums.weights)

    @cached_property
    def named(self) -> list[int]:
        """The places of those that are shown by name: all, or of many the ones with the lowest AUROC."""
        if len(self.names) <= MAX_NAMED:
            return list(range(len(self.names)))
        values = auroc(self.scores).value
        return [place for place in values.argsort().tolist() if not values[place].isnan()][: MAX_NAMED - 1]

    def missing(self, place: int) -> str:
        """Why something of a class or label is undefined."""
        wanting = [bool(part[place] == 0) for part in (self.positives, self.negatives)]
        return "no samples" if all(wanting) else "no positive targets" if wanting[0] else "no negative targets"

    def counts_at(self, thresholds: Tensor) -> Counts:
        """Counts of shape (rows, thresholds) if scores from the threshold up are positive, to the width of a bin."""
        points = reached(self.scores)
        # The bin of a threshold may begin a rounding error below it, as that of one half does; no bin is so narrow.
        lowest = thresholds - ROUNDING * torch.minimum(thresholds, 1 - thresholds)
        places = torch.searchsorted(-points.thresholds, -lowest, right=True) - 1
        return Counts(*(cell[:, places] for cell in points.counts.cells))

    def pr_curves(self) -> Iterator[tuple[str, Counts]]:
        """Names, and counts at rising thresholds, of those that have a recall; of none if they are many.

        Half of the thresholds are quantiles of all scores, half of those of the positives: evenly spaced ones would
        leave one point of a curve whose scores are all small.
        """
        if len(self.names) > MAX_NAMED:
            return
        tables = reached(self.scores).counts
        for place, name in enumerate(self.names):
            if self.positives[place] > 0:
                table = Counts(*(cell[place] for cell in tables.cells))
                of_all, of_positives = _quantiles(table.predicted_positives, 64), _quantiles(table.tp, THRESHOLDS - 64)
                falling = torch.cat((of_all, of_positives)).sort(descending=True).values
                yield name, Counts(*(cell[falling] for cell in table.cells))


def _quantiles(reached: Tensor, number: int) -> Tensor:
    """The first places at which evenly spaced shares of the most are reached."""
    wanted = torch.linspace(0, 1, number, dtype=torch.float64) * reached[-1]
    return torch.searchsorted(reached.double(), wanted).clamp(max=len(reached) - 1)


def score_snapshot(evaluation: Evaluation) -> ScoreSnapshot | None:
    """Those of an evaluation, over all ranks, which joins them; none of an evaluation without curves."""
    evidence = evaluation.tally.evidence
    scores, calibration = evidence.scores, evidence.calibration
    if scores is None or calibration is None:
        return None
    filled = ((scores.yes + scores.no) != 0).any(0)
    parts = {name: getattr(scores, name)[..., filled].cpu() for name in ("yes", "no", "alone", "lowest", "highest")}
    # Copied, as a view would keep the whole state.
    sums = Calibration(*(part.to("cpu", torch.float64, copy=True) for part in calibration))
    kept = replace(scores, edges=scores.edges.only(filled), **parts)
    task = evaluation.tally.counter.task
    return ScoreSnapshot(evaluation.curve_names(), kept, sums, tuple(getattr(task, "thresholds", ())), task.weighted)
