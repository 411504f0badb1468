"""Intervals of AUROC, from the histogram of scores."""

from __future__ import annotations

from math import inf, log, sqrt
from typing import TYPE_CHECKING, NamedTuple

from lightning_evalkit.intervals.binomial import edge, logistic, normal_quantile
from lightning_evalkit.intervals.interval import Interval, around, checked_method, undefined
from lightning_evalkit.statistics.curves import auroc

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts import ScoreCounts


class Pairs(NamedTuple):
    """The share of pairs that are won, the numbers of positives and negatives, and DeLong's variance."""

    area: float
    positives: int
    negatives: int
    variance: float


def auroc_interval(scores: ScoreCounts, level: float, method: str) -> Interval:
    """The interval of the AUROC of one yes-or-no question.

    Its lower end is that of the smallest AUROC that scores in these bins may have, its upper end that of the largest.
    """
    method = checked_method(method, ("delong", "hanley-mcneil"), "auroc")
    bounded, pairs = auroc(scores), _pairs(scores)
    value, n = float(bounded.value), pairs.positives + pairs.negatives
    if value != value:
        return undefined(value, level, n)
    ends = delong if method == "delong" else hanley_mcneil
    low = ends(pairs._replace(area=float(bounded.low)), level)[0]
    high = ends(pairs._replace(area=float(bounded.high)), level)[1]
    return around(value, (low, high), level, method, n)


def delong(pairs: Pairs, level: float) -> tuple[float, float]:
    """DeLong's interval on the scale of log-odds, where it holds for good classifiers too.

    Half a pair is added, and the variance is at least 1 / (4 m n), that of half a pair, as scores without a wrong pair
    have a variance of 0. If that leaves nearly the whole range, the end towards ½ is that of ``hanley_mcneil``, with
    DeLong's variance if it is larger.
    """
    area, m, n, variance = pairs
    if area < 0.5:
        low, high = delong(pairs._replace(area=1 - area), level)
        return 1 - high, 1 - low
    inside = (area * m * n + 0.5) / (m * n + 1)
    error = sqrt(max(variance, 1 / (4 * m * n))) / (inside * (1 - inside))
    centre, reach = log(inside / (1 - inside)), normal_quantile(level) * error
    larger = max(1.0, variance / _exponential(inside, m, n))
    return max(logistic(centre - reach), hanley_mcneil(pairs, level, larger)[0]), logistic(centre + reach)


def hanley_mcneil(pairs: Pairs, level: float, larger: float = 1.0) -> tuple[float, float]:
    """All areas that are at most z of their own standard errors away from the observed one.

    The standard error of each area is that of exponential scores (Hanley and McNeil 1982, Newcombe 2006).
    """
    area, m, n, _ = pairs
    square = larger * normal_quantile(level) ** 2

    def near(other: float) -> bool:
        return (area - other) ** 2 <= square * _exponential(other, m, n)

    return edge(near, area, 0.0), edge(near, area, 1.0)


def _exponential(area: float, m: int, n: int) -> float:
    others = (m + n) / 2 - 1
    return area * (1 - area) / (m * n) * (1 + others * ((1 - area) / (2 - area) + area / (1 + area)))


def _pairs(scores: ScoreCounts) -> Pairs:
    """Pairs with DeLong's variance: of the share of negatives below a positive, and of positives above a negative."""
    yes, no = scores.yes[0].double(), scores.no[0].double()
    m, n = int(yes.sum()), int(no.sum())
    if not m or not n:
        return Pairs(float("nan"), m, n, inf)
    below = (no.cumsum(0) - no / 2) / n
    above = (m - yes.cumsum(0) + yes / 2) / m
    area = float((yes * below).sum()) / m
    return Pairs(area, m, n, _variance(yes, below, area, m) + _variance(no, above, area, n))


def _variance(weights: Tensor, values: Tensor, mean: float, number: int) -> float:
    return float((weights * (values - mean) ** 2).sum()) / max(number - 1, 1) / number
