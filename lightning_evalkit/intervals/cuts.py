"""The gain in F1 between two thresholds on the same scores, with its interval."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

from lightning_evalkit.intervals.binomial import normal_quantile
from lightning_evalkit.intervals.interval import Interval, undefined

if TYPE_CHECKING:
    from lightning_evalkit.counts import Counts


def f1_gain(now: Counts, then: Counts, level: float) -> Interval:
    """F1 of ``then`` minus F1 of ``now``, for the same samples at two thresholds (linearised error).

    The samples that only one of the thresholds calls positive are the difference of the two tables. With
    D = 2TP + FP + FN, a sample changes F1 by (2 tp - F1 (2 tp + fp + fn)) / D.
    """
    if not all(2 * each.tp + each.fp + each.fn for each in (now, then)):
        return undefined(float("nan"), level)
    low, high = (then, now) if then.tp + then.fp > now.tp + now.fp else (now, then)
    by_low, by_high = _moves(low), _moves(high)
    variance = sum(
        float(number) * (by_low[positive][lower] - by_high[positive][higher]) ** 2
        for number, positive, lower, higher in (
            (high.fp, 0, 1, 1),
            (low.fp - high.fp, 0, 1, 0),
            (high.tp, 1, 1, 1),
            (low.tp - high.tp, 1, 1, 0),
            (low.fn, 1, 0, 0),
        )
    )
    value = _f1(then) - _f1(now)
    reach = normal_quantile(level) * sqrt(variance)
    return Interval(value, value - reach, value + reach, level, "linearised", int(now.total))


def _f1(counts: Counts) -> float:
    return float(2 * counts.tp / (2 * counts.tp + counts.fp + counts.fn))


def _moves(counts: Counts) -> tuple[tuple[float, float], tuple[float, float]]:
    """The change of F1 by one negative and by one positive, each if called negative and if called positive."""
    whole, f1 = float(2 * counts.tp + counts.fp + counts.fn), _f1(counts)
    return (0.0, -f1 / whole), (-f1 / whole, (2 - 2 * f1) / whole)
