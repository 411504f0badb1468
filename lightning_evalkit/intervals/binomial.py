"""Intervals of a share: k of n samples."""

from __future__ import annotations

from functools import cache
from math import exp, inf, log, log1p, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

STEPS = 200
"""The number of halvings after which two neighbouring floats are left."""


@cache
def normal_quantile(level: float) -> float:
    """The number of standard errors to each side that enclose ``level`` of a normal distribution."""
    return NormalDist().inv_cdf((1 + level) / 2)


def wilson(k: float, n: float, level: float) -> tuple[float, float]:
    """All shares p from which k / n is at most z standard errors sqrt(p (1 - p) / n) away (Wilson 1927).

    >>> [round(end, 4) for end in wilson(80, 100, 0.95)]
    [0.7112, 0.8666]
    """
    return score_ends(k, n, normal_quantile(level))


def score_ends(k: float, n: float, quantile: float) -> tuple[float, float]:
    """The ends of Wilson's interval for any number of standard errors."""
    square = quantile**2
    centre, spread = k + square / 2, sqrt(square * (k * (n - k) / n + square / 4))
    low, high = (centre - spread) / (n + square), (centre + spread) / (n + square)
    return 0.0 if k == 0 else max(low, 0.0), 1.0 if k == n else min(high, 1.0)


def clopper_pearson(k: float, n: float, level: float) -> tuple[float, float]:
    """All shares that neither one-sided exact test rejects: covers the truth at least as often as ``level`` says."""
    return _beta_quantiles((k, n - k + 1), (k + 1, n - k), k, n, level)


def jeffreys(k: float, n: float, level: float) -> tuple[float, float]:
    """The equal-tailed interval of Beta(k + ½, n - k + ½); it starts at 0 if k = 0 and ends at 1 if k = n."""
    both = (k + 0.5, n - k + 0.5)
    return _beta_quantiles(both, both, k, n, level)


def _beta_quantiles(
    lower: tuple[float, float], upper: tuple[float, float], k: float, n: float, level: float
) -> tuple[float, float]:
    from scipy.special import betaincinv

    tail = (1 - level) / 2
    low = 0.0 if k == 0 else float(betaincinv(*lower, tail))
    return low, 1.0 if k == n else float(betaincinv(*upper, 1 - tail))


def anytime(k: float, n: float, level: float) -> tuple[float, float]:
    """All shares against which a bet has won less than 1 / (1 - level) times its stake: holds at every look.

    The bet is the likelihood ratio under a uniform prior, B(k + 1, n - k + 1) / (p^k (1 - p)^(n - k)): against the true
    p it rarely wins that much, however often one looks (Ville). The interval always includes Wilson's, which holds for
    one look.
    """
    from scipy.special import betaln

    least = float(betaln(k + 1, n - k + 1)) + log(1 - level)

    def kept(share: float) -> bool:
        return _times_log(k, share) + (n - k and (n - k) * (log1p(-share) if share < 1 else -inf)) > least

    low, high = wilson(k, n, level)
    peak = k / n
    return min(low, edge(kept, peak, 0.0)), max(high, edge(kept, peak, 1.0))


def _times_log(times: float, share: float) -> float:
    return 0.0 if times == 0 else times * log(share) if share > 0 else -inf


def edge(kept: Callable[[float], bool], inside: float, outside: float) -> float:
    """Find the end of the range in which a condition holds, by bisection."""
    if kept(outside):
        return outside
    for _ in range(STEPS):
        middle = (inside + outside) / 2
        if middle in (inside, outside):
            break
        inside, outside = (middle, outside) if kept(middle) else (inside, middle)
    return outside


def logistic(number: float) -> float:
    """1 / (1 + e^-x), without overflow."""
    return 1 / (1 + exp(-number)) if number >= 0 else exp(number) / (1 + exp(number))


BINOMIAL: dict[str, Callable[[float, float, float], tuple[float, float]]] = {
    "wilson": wilson,
    "clopper-pearson": clopper_pearson,
    "jeffreys": jeffreys,
    "anytime": anytime,
}
"""Functions of k, n and level; the first one is the default."""
