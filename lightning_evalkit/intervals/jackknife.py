"""Intervals from buckets of samples: the jackknife leaves out each bucket in turn and sees how much a number changes.

It holds for any statistic, for weights, for labels of one sample that depend on each other, and for clusters, as long
as samples of different buckets are independent of each other.
"""

from __future__ import annotations

from math import isfinite, sqrt
from typing import TYPE_CHECKING, NamedTuple

from lightning_evalkit.intervals.binomial import score_ends
from lightning_evalkit.intervals.comparison import Difference, no_difference
from lightning_evalkit.intervals.interval import Interval, around, no_interval, undefined

if TYPE_CHECKING:
    from torch import Tensor

LEAST = 1e-10
"""Standard errors below this are rounding."""
FEW = "fewer than two buckets hold samples, so their variance is unknown"
LONELY = "without one of the buckets it has no value: it rests on too few samples"


class ByBucket(NamedTuple):
    """A number, its values without each of the buckets that hold samples, and the number of samples ``n``.

    ``telling`` is the number of buckets with samples that the number looks at.
    """

    value: float
    without: Tensor
    n: int
    telling: int


def bucket_interval(found: ByBucket, bounds: tuple[float, float], level: float) -> Interval:
    """Wilson's interval with the effective number of samples and t instead of z; symmetric without an upper bound."""
    value, without, n, telling = found
    if value != value:
        return undefined(value, level, n)
    if len(without) < 2:
        return no_interval(value, level, FEW, n)
    if not isfinite(value) or not bool(without.isfinite().all()):
        return no_interval(value, level, LONELY, n)
    variance, quantile = _variance(without), t_quantile(level, len(without) - 1)
    lowest, width = bounds[0], bounds[1] - bounds[0]
    if not isfinite(width):
        reach = quantile * sqrt(variance)
        return around(value, (max(value - reach, lowest), value + reach), level, "buckets", n)
    share = (value - lowest) / width
    effective = share * (1 - share) * width**2 / variance if variance > LEAST**2 else 0.0
    effective = effective or float(max(telling, 1))  # no bucket differs from others: each counts as one sample
    low, high = score_ends(share * effective, effective, quantile)
    return around(value, (lowest + width * low, lowest + width * high), level, "buckets", n)


def paired_difference(first: ByBucket, second: ByBucket, level: float, width: float) -> Difference:
    """The difference of two numbers of the same samples in the same buckets, second minus first.

    ``width`` is the width of the range of both numbers.
    """
    from scipy.special import stdtr

    difference, change = second.value - first.value, second.without - first.without
    if len(change) < 2 or not bool(change.isfinite().all()):
        return no_difference(difference, first.n, FEW if len(change) < 2 else LONELY)
    error, freedom = sqrt(_variance(change)), len(change) - 1
    if error < LEAST:
        return _unvaried(difference, first.n, max(min(first.telling, second.telling), 1), level, width)
    reach = t_quantile(level, freedom) * error
    p_value = float(2 * stdtr(freedom, -abs(difference) / error))
    return Difference(difference, difference - reach, difference + reach, p_value, first.n)


def _unvaried(difference: float, n: int, telling: int, level: float, width: float) -> Difference:
    """The interval of a difference that no bucket changes: each bucket counts as one sample, and all of them agree.

    They agree that there is no difference, or on its sign: the ends are Clopper and Pearson's, the p-value is that of
    the sign test.
    """
    if abs(difference) < LEAST:
        reach, p_value = width * (1 - ((1 - level) / 2) ** (1 / telling)), 1.0
    else:
        reach = 2 * abs(difference) * (1 - ((1 - level) / 2) ** (1 / telling))
        p_value = min(1.0, 2.0 ** (1 - telling))
    return Difference(difference, difference - reach, difference + reach, p_value, n)


def _variance(without: Tensor) -> float:
    """The jackknife variance."""
    number, values = len(without), without.double()
    return float(((values - values.mean()) ** 2).sum()) * (number - 1) / number


def t_quantile(level: float, freedom: int) -> float:
    """The number of standard errors to each side that enclose ``level`` of Student's t-distribution."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + level) / 2))
