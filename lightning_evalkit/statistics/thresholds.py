"""Chooses a threshold: by a statistic of the table or by the cost of errors, within bounds of other statistics."""

from __future__ import annotations

import math
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, NamedTuple

import torch

from lightning_evalkit.errors import InputError
from lightning_evalkit.inputs.numbers import as_number
from lightning_evalkit.inputs.threshold import Threshold, cut_of
from lightning_evalkit.statistics.curves import reached
from lightning_evalkit.statistics.quantity import ratio
from lightning_evalkit.statistics.table import find

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from lightning_evalkit.counts import Counts, ScoreCounts
    from lightning_evalkit.statistics.curves import Reached


class Choice(NamedTuple):
    """The chosen cut of every question, as a score, and the value there; NaN if no threshold qualifies."""

    cut: Tensor
    value: Tensor
    logits: bool
    """Whether the scores are logits."""

    @property
    def threshold(self) -> Tensor:
        """The cuts as probabilities, which cannot tell large logits apart."""
        return self.cut.sigmoid() if self.logits else self.cut

    @property
    def thresholds(self) -> list[Threshold]:
        """The cuts as thresholds, logits where scores are logits."""
        return [Threshold.from_logit(cut) if self.logits else Threshold(cut) for cut in self.cut.tolist()]


def best_threshold(
    scores: ScoreCounts,
    criterion: str = "f1",
    costs: Mapping[str, float] | None = None,
    at_least: Mapping[str, float] | None = None,
) -> Choice:
    """Find the threshold at which a statistic is best, the highest one if several are; scores above it are positive.

    The threshold lies just below the smallest score that it calls positive, so it can be declared as the ``threshold``
    of an evaluation; it is 1 if no score should be called positive. No threshold calls a probability of 0 positive.
    With ``costs`` (of "fp", "fn" and, if wanted, "tp", "tn") the smallest mean cost decides instead. ``at_least``
    allows only thresholds where other statistics reach a bound:
    ``best_threshold(..., "precision", at_least={"recall": 0.9})``. Without samples of both classes the result is NaN.
    """
    points = reached(scores)
    values = _values(points.counts, criterion) if costs is None else -mean_cost(points.counts, costs)
    for name, bound in (at_least or {}).items():
        values = torch.where(find(name)(points.counts).value() >= bound, values, -torch.inf)
    values = torch.where(values.isnan() | points.edges.cut.isnan(), -torch.inf, values)
    best, place = values.max(-1)  # the first of equal ones has the highest threshold
    cut = points.edges.cut[place]
    one_class = (points.positives == 0) | (points.negatives == 0)
    impossible = (best == -torch.inf) | one_class.squeeze(-1)
    value = (best if costs is None else -best).masked_fill(impossible, torch.nan)
    return Choice(cut.masked_fill(impossible, torch.nan), value, points.edges.logits)


def counts_at(scores: ScoreCounts, threshold: float) -> Counts:
    """The counts of every question if scores above the threshold are positive, to the width of a bin.

    The bin that holds the threshold counts as negative: its scores may be equal to the threshold.
    """
    if not 0 <= threshold <= 1:
        raise InputError(f"expected a threshold in [0, 1], got {threshold}.")
    points: Reached = reached(scores)
    reading = "logits" if points.edges.logits else "probabilities"
    cut = max(cut_of(threshold, reading, kind) for kind in (torch.float32, torch.float64))
    return points.counts.at(int((points.edges.first[1:] > cut).sum()))  # the first point is above all scores


def _values(counts: Counts, name: str) -> Tensor:
    """The statistic, negated if lower is better."""
    statistic = find(name)
    value = statistic(counts).value()
    return -value if statistic.higher_is_better is False else value


def mean_cost(counts: Counts, costs: Mapping[str, float]) -> Tensor:
    """The mean cost of a sample, given the cost of each cell of the table."""
    unknown = sorted(set(costs) - {"tp", "fp", "fn", "tn"})
    if unknown or not costs:
        raise InputError(f"expected costs of 'fp', 'fn', 'tp' or 'tn', got {unknown[0] if unknown else 'none'!r}.")
    for cell, cost in costs.items():
        number = as_number(cost)
        if number is None or not math.isfinite(number):
            raise InputError(f"expected a finite number as the cost of {cell!r}, got {cost!r}.")
    sums = counts.of_any_size()
    return ratio(reduce(add, (cost * getattr(sums, cell) for cell, cost in costs.items())), sums.total).value()
