"""The number of samples that an interval of a given width needs."""

from __future__ import annotations

from math import ceil, isfinite
from typing import TYPE_CHECKING, NamedTuple

import torch

from lightning_evalkit.counts import Counts
from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.intervals.binomial import STEPS, wilson
from lightning_evalkit.intervals.interval import checked_level
from lightning_evalkit.intervals.matrices import influence
from lightning_evalkit.intervals.shares import share_of
from lightning_evalkit.statistics import find

if TYPE_CHECKING:
    from collections.abc import Callable

    from lightning_evalkit.statistics import Statistic

MOST = 10**15


class Required(NamedTuple):
    """The number of samples that are needed, and how many of them are positive."""

    samples: int
    positives: int


def required(statistic: str, half_width: float, at: float, prevalence: float = 0.5, level: float = 0.95) -> Required:
    """The number of samples until the interval of a statistic near ``at`` is at most twice ``half_width`` wide.

    Positives and negatives are assumed to be equally hard: recall and specificity are equal, and such that the
    statistic is ``at``. A statistic that looks only at positives, such as recall, needs ``positives`` of them, whatever
    the number of negatives.

    >>> required("recall", half_width=0.02, at=0.9, prevalence=0.05)
    Required(samples=17360, positives=868)
    """
    if not isinstance(statistic, str):
        raise DeclarationError(f"expected the name of a statistic, got {statistic!r}.")
    found, level = find(statistic), checked_level(level)
    if not 0 < prevalence < 1:
        raise DeclarationError(f"expected prevalence to be between 0 and 1, got {prevalence!r}.")
    if not 0 < half_width < 1:
        raise DeclarationError(f"expected half_width to be between 0 and 1, got {half_width!r}.")
    samples = _samples(found, half_width, level, _expected(found, at, prevalence))
    return Required(samples, round(samples * prevalence))


def _samples(statistic: Statistic, half_width: float, level: float, cells: Counts) -> int:
    value, share = float(statistic(cells).value()), share_of(statistic)
    if share is not None:
        part, whole = (float(each) for each in (statistic(cells).terms[0].part, statistic(cells).terms[0].whole))
        inside, outside = part / float(share.inside), (whole - part) / float(share.outside)
        looked = inside + outside  # the share of samples that the statistic looks at

        def wide(n: int) -> bool:
            low, high = wilson(inside / looked * n, n, level)
            return share.image(high) - share.image(low) > 2 * half_width

        return ceil(_least(wide) / looked - 1e-9)
    low, high = statistic.bounds
    if not isfinite(high - low):
        raise DeclarationError(f"expected a statistic within bounds, got {statistic.name}, which has no largest value.")
    near = (value - low) / (high - low)
    effective = _least(lambda n: _width(near, n, level) * (high - low) > 2 * half_width)
    return ceil(effective * _variance(statistic, cells) / (near * (1 - near) * (high - low) ** 2))


def _width(share: float, n: int, level: float) -> float:
    low, high = wilson(share * n, n, level)
    return high - low


def _variance(statistic: Statistic, cells: Counts) -> float:
    """The variance of one sample's contribution to the statistic."""
    _, slopes = influence(lambda c: statistic(c).value(), cells)
    mean = sum(cell * slope for cell, slope in zip(cells.cells, slopes, strict=True))
    return float(sum(cell * (slope - mean) ** 2 for cell, slope in zip(cells.cells, slopes, strict=True)))


def _least(wide: Callable[[int], bool]) -> int:
    """The smallest number of samples whose interval is not too wide, by doubling and bisection."""
    high = 1
    while wide(high):
        high *= 2
        if high > MOST:
            raise DeclarationError(f"expected a half_width that {MOST:,} samples reach, got one too small.")
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if wide(middle) else (low, middle)
    return high


def _expected(statistic: Statistic, at: float, prevalence: float) -> Counts:
    """The shares of the four cells at which the statistic has this value, recall and specificity being equal."""

    def cells(rate: float) -> Counts:
        parts = (prevalence * rate, (1 - prevalence) * (1 - rate), prevalence * (1 - rate), (1 - prevalence) * rate)
        return Counts(*(torch.tensor(part, dtype=torch.float64) for part in parts))

    def value(rate: float) -> float:
        return float(statistic(cells(rate)).value(0.0))

    ends = (0.0, 1.0) if value(0.0) <= value(1.0) else (1.0, 0.0)
    worst, best = ends
    if not value(worst) < at < value(best):
        raise DeclarationError(
            f"expected at to be a {statistic.name} between {value(worst):g} and {value(best):g}, as classifiers reach "
            f"it at a prevalence of {prevalence:g}, got {at!r}."
        )
    for _ in range(STEPS):
        middle = (worst + best) / 2
        worst, best = (middle, best) if value(middle) < at else (worst, middle)
    return cells(best)
