"""Comparison of two numbers: their difference, its interval and p-value, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from math import erfc, hypot, inf, nan, sqrt
from operator import index
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

from lightning_evalkit.errors import DeclarationError, InputError
from lightning_evalkit.intervals.binomial import normal_quantile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lightning_evalkit.intervals.interval import Interval

POWER = 0.8
"""The probability that a difference as large as ``minimum_detectable`` is found."""


@dataclass(frozen=True)
class Comparison:
    """The second number minus the first, with its interval, and the verdict on the second.

    ``verdict`` is "tied" if the whole interval lies within the practical margin; otherwise "better" or "worse" if the
    ``p_value`` is small enough ("higher" or "lower" if neither direction is better), else "undecided".
    ``minimum_detectable`` is the difference that this many samples would find in 80 % of cases. ``paired`` says whether
    both numbers are known to come from the same samples; if not, ``reason`` says why. ``no_interval`` says why the ends
    and the p-value are NaN, if they are.
    """

    difference: float
    low: float
    high: float
    p_value: float
    paired: bool
    n: int
    verdict: str
    minimum_detectable: float
    reason: str = ""
    no_interval: str = ""

    def __str__(self) -> str:
        return f"{self.difference:+.4f} [{self.low:+.4f}, {self.high:+.4f}], p = {self.p_value:.3g}: {self.verdict}"


class Difference(NamedTuple):
    """A difference, the ends of its interval and its p-value; ``untold`` is the reason for having none."""

    value: float
    low: float
    high: float
    p_value: float
    n: int
    untold: str = ""


def no_difference(value: float, n: int, reason: str) -> Difference:
    """A difference without an interval."""
    return Difference(value, nan, nan, nan, n, reason)


def unpaired(first: Interval, second: Interval) -> Difference:
    """The difference of two independent numbers from the intervals of both (Newcombe's square-and-add).

    The distance of each end from the difference is the root of the sum of squares of the distances of the two ends that
    it depends on. The p-value follows from the number of standard errors between the difference and 0.
    """
    value = second.value - first.value
    low = value - hypot(second.value - second.low, first.high - first.value)
    high = value + hypot(second.high - second.value, first.value - first.low)
    return Difference(value, low, high, p_value(value, low, high, first.level), first.n + second.n)


def p_value(value: float, low: float, high: float, level: float) -> float:
    """The probability of a value at least as far from 0 by chance; below 1 - level exactly if 0 is outside."""
    reach = value - low if value > 0 else high - value
    if value == 0 or reach == inf:
        return 1.0
    return erfc(abs(value) / reach * normal_quantile(level) / sqrt(2)) if reach > 0 else 0.0


def concluded(
    differences: Mapping[str, Difference],
    better: Mapping[str, bool | None],
    level: float,
    margin: float,
    paired: bool,
    reason: str,
) -> dict[str, Comparison]:
    """Verdicts on several statistics at once, with p-values adjusted for their number (Holm)."""
    adjusted = dict(zip(differences, holm([each.p_value for each in differences.values()]), strict=True))
    enough = NormalDist().inv_cdf(POWER) / normal_quantile(level) + 1
    return {
        name: Comparison(
            each.value,
            each.low,
            each.high,
            adjusted[name],
            paired,
            each.n,
            _verdict(each._replace(p_value=adjusted[name]), better[name], level, margin),
            enough * (each.high - each.low) / 2,
            reason,
            each.untold,
        )
        for name, each in differences.items()
    }


def _verdict(found: Difference, higher_is_better: bool | None, level: float, margin: float) -> str:
    if -margin <= found.low and found.high <= margin:
        return "tied"
    if not found.p_value <= 1 - level:
        return "undecided"
    if higher_is_better is None:
        return "higher" if found.value > 0 else "lower"
    return "better" if (found.value > 0) == higher_is_better else "worse"


def holm(p_values: list[float]) -> list[float]:
    """Adjust the p-values of several tests so that all hold together (Holm 1979); NaN stays and does not count.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    known = sorted((value, place) for place, value in enumerate(p_values) if value == value)
    adjusted, most = [nan] * len(p_values), 0.0
    for rank, (value, place) in enumerate(known):
        most = max(most, min(1.0, (len(known) - rank) * value))
        adjusted[place] = most
    return adjusted


class McNemar(NamedTuple):
    """The numbers of samples that only one of two models gets right, and the p-values of so uneven a division."""

    only_first: int
    only_second: int
    exact: float
    mid_p: float


def mcnemar(only_first: int, only_second: int) -> McNemar:
    """McNemar's test of two models on the same samples; samples that both get right, or both wrong, do not count.

    The p-value ``exact`` is never too small; ``mid_p`` counts the observed division half and is closer to its level.

    >>> mcnemar(3, 13)
    McNemar(only_first=3, only_second=13, exact=0.021270751953125, mid_p=0.012725830078125)
    """
    from scipy.special import betainc

    one, other = (_whole(number) for number in (only_first, only_second))
    fewer, more = min(one, other), max(one, other)
    if not more:
        return McNemar(0, 0, 1.0, 1.0)
    # At most k of n fair coins: the incomplete beta function of n - k and k + 1, which holds beyond 2^31 too.
    upto = float(betainc(more, fewer + 1, 0.5))
    before = float(betainc(more + 1, fewer, 0.5)) if fewer else 0.0
    return McNemar(one, other, min(1.0, 2 * upto), min(1.0, upto + before))


def _whole(number: object) -> int:
    try:
        found = index(number)  # type: ignore[arg-type]  # anything that is a whole number
    except TypeError:
        found = -1
    if found < 0:
        raise InputError(f"expected a whole number of samples, got {number!r}.")
    return found


def checked_margin(margin: float) -> float:
    """Return the margin, a difference too small to matter."""
    if not 0 <= margin < inf:
        raise DeclarationError(f"expected margin to be 0 or a difference too small to matter, got {margin!r}.")
    return margin
