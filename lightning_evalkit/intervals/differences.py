"""Intervals of the difference of two statistics of the same samples.

Both are computed from the same counts and vary together, so whether their intervals overlap says nothing about the
difference. The difference itself is therefore drawn at random, or linearised.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lightning_evalkit.counts import Counts
from lightning_evalkit.intervals import resampling
from lightning_evalkit.intervals.binomial import normal_quantile
from lightning_evalkit.intervals.interval import Interval, around, checked_level, no_interval
from lightning_evalkit.intervals.matrices import near_and_variance
from lightning_evalkit.intervals.tables import whole_numbers

if TYPE_CHECKING:
    from lightning_evalkit.intervals.matrices import Values, Whole
    from lightning_evalkit.statistics import Statistic

ROUNDING = 1e-9
UNDEFINED = "one of the two has no value"


def table_difference(counts: Counts, first: Statistic, second: Statistic, level: float = 0.95) -> Interval:
    """First minus second for one table: the equal-tailed interval of the difference, with ½ added to each cell.

    >>> from lightning_evalkit import Counts
    >>> from lightning_evalkit.statistics import find
    >>> print(table_difference(Counts(tp=10, fp=5, fn=5, tn=80), find("accuracy"), find("f1")))
    0.2333 [0.1147, 0.4122]
    """
    level, counts = checked_level(level), whole_numbers(counts)
    value = float(first(counts).value()) - float(second(counts).value())
    if not np.isfinite(value):
        return no_interval(value, level, UNDEFINED, counts.total)

    def values(drawn: Counts) -> Any:
        found = (first(drawn).value() - second(drawn).value()).numpy()
        return np.where(abs(found) < ROUNDING, 0.0, found)

    ends = resampling.dirichlet(np.array(counts.cells, dtype=np.int64), values, level)
    same = value == 0 and ends == (0.0, 0.0)
    return around(value, ends, level, "identity" if same else "dirichlet", counts.total)


def matrix_difference(
    values: tuple[Values, Values], found: tuple[Interval, Interval], whole: Whole, level: float
) -> Interval:
    """First minus second for all classes: the wider of two intervals, each of which is too short where the other holds.

    One is linear, from the change of the difference by one more sample in each cell: it is too short if a class has no
    errors. The other combines the intervals of both statistics with their correlation: the distance of each end from
    the difference is the third side of a triangle, whose other two sides are the distances of the ends that it depends
    on and whose angle is given by the correlation (Zou and Donner 2008). Two names of the same number differ by exactly
    0.
    """
    first, second = found
    value = first.value - second.value
    if not (first.known and second.known):
        return no_interval(value, level, first.reason or second.reason, whole.samples)
    if is_same(values, whole.counts.tp.shape[-1]):
        return Interval(value, value, value, level, "identity", whole.samples)
    apart = max(near_and_variance(lambda counts: values[0](counts) - values[1](counts), whole)[1], 0.0)
    angle, linear = _correlation(values, whole, apart), normal_quantile(level) * sqrt(apart)
    below = max(linear, _side(first.value - first.low, second.high - second.value, angle))
    above = max(linear, _side(first.high - first.value, second.value - second.low, angle))
    return around(value, (value - below, value + above), level, "smoothed", whole.samples)


def is_same(values: tuple[Values, Values], classes: int) -> bool:
    """Whether two statistics are the same number, judged on a table without any symmetry."""
    place = torch.arange(1, classes + 1, dtype=torch.float64)
    tp, fn = 1 + 20 * (place * sqrt(2) % 1), 1 + 10 * (place * sqrt(3) % 1)
    fp = fn.roll(1)  # errors of a class are predicted as the next class
    table = Counts(tp=tp, fp=fp, fn=fn, tn=(tp + fn).sum() - tp - fp - fn)
    return abs(float(values[0](table) - values[1](table))) < ROUNDING


def _side(one: float, other: float, correlation: float) -> float:
    return sqrt(max(one**2 + other**2 - 2 * correlation * one * other, 0.0))


def _correlation(values: tuple[Values, Values], whole: Whole, apart: float) -> float:
    """The correlation of two statistics, from the variance of each and of their difference."""
    one, other = (max(near_and_variance(each, whole)[1], 0.0) for each in values)
    return min(max((one + other - apart) / (2 * sqrt(one * other)), -1.0), 1.0) if one * other > 0 else 0.0
