"""A snapshot of an evaluation's scores, small enough to keep until it is drawn."""

from __future__ import annotations

from dataclasses import dataclass
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
"""The most thresholds of a PR curve in TensorBoard, which spaces them evenly from 0 to 1."""

ROUNDING = 2.0**-22


@dataclass(frozen=True)
class ScoreSnapshot:
    """The bins that are not empty and the calibration sums, on the CPU; every class or label is a row."""

    names: Sequence[str]
    scores: ScoreCounts
    sums: Calibration
    declared: Sequence[float] = ()
    """The thresholds of the evaluation, if any."""
    weighted: bool = False

    @property
    def positives(self) -> Tensor:
        """The number, or weight, of positives in each row."""
        return self.scores.yes.sum(-1)

    @property
    def negatives(self) -> Tensor:
        """The number, or weight, of negatives in each row."""
        return self.scores.no.sum(-1)

    @property
    def unnamed(self) -> bool:
        """Whether the problem is binary, so that its single row has no name."""
        return list(self.names) == [""]

    @property
    def exclusive(self) -> bool:
        """Whether the problem is multiclass, so that one calibration covers all classes together."""
        return len(self.names) > len(self.sums.weights)

    @cached_property
    def named(self) -> list[int]:
        """The indices of the rows shown by name: all, or those with the lowest AUROC if there are many."""
        if len(self.names) <= MAX_NAMED:
            return list(range(len(self.names)))
        values = auroc(self.scores).value
        return [place for place in values.argsort().tolist() if not values[place].isnan()][: MAX_NAMED - 1]

    def missing(self, place: int) -> str:
        """The reason why a value of a class or label is undefined."""
        wanting = [bool(part[place] == 0) for part in (self.positives, self.negatives)]
        return "no samples" if all(wanting) else "no positive targets" if wanting[0] else "no negative targets"

    def counts_at(self, thresholds: Tensor) -> Counts:
        """Counts of shape (rows, thresholds), with scores from the threshold up as positive, to the width of a bin."""
        points = reached(self.scores)
        # The bin of a threshold may begin a rounding error below it, as for 0.5; no bin is that narrow.
        lowest = thresholds - ROUNDING * torch.minimum(thresholds, 1 - thresholds)
        places = torch.searchsorted(-points.thresholds, -lowest, right=True) - 1
        return Counts(*(cell[:, places] for cell in points.counts.cells))

    def pr_curves(self) -> Iterator[tuple[str, Counts]]:
        """Yield the name and the counts at rising thresholds of every row with positives; nothing if there are many.

        Half of the thresholds are quantiles of all scores, half are quantiles of the scores of positives: evenly spaced
        thresholds would leave a single point of a curve whose scores are all small.
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
    """The first places at which evenly spaced shares of the last value are reached."""
    wanted = torch.linspace(0, 1, number, dtype=torch.float64) * reached[-1]
    return torch.searchsorted(reached.double(), wanted).clamp(max=len(reached) - 1)


def score_snapshot(evaluation: Evaluation) -> ScoreSnapshot | None:
    """The snapshot of an evaluation over all ranks, None without curves; every rank must call it."""
    evidence = evaluation.tally.evidence
    scores, calibration = evidence.scores, evidence.calibration
    if scores is None or calibration is None:
        return None
    # Copied, because a view would keep the whole state alive.
    sums = Calibration(*(part.to("cpu", torch.float64, copy=True) for part in calibration))
    task = evaluation.tally.counter.task
    return ScoreSnapshot(
        evaluation.curve_names(), scores.on_the_cpu(), sums, tuple(getattr(task, "thresholds", ())), task.weighted
    )
