"""Intervals of statistics of one table of true and false positives and negatives."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from lightning_evalkit.errors import InputError
from lightning_evalkit.intervals import resampling
from lightning_evalkit.intervals.binomial import BINOMIAL
from lightning_evalkit.intervals.interval import Interval, around, checked_level, checked_method, undefined
from lightning_evalkit.intervals.projection import at_prevalence
from lightning_evalkit.intervals.shares import PLAIN, Share, share_of
from lightning_evalkit.statistics import find

if TYPE_CHECKING:
    from lightning_evalkit.counts import Counts
    from lightning_evalkit.statistics import Quantity, Statistic

RESAMPLED = {"dirichlet": resampling.dirichlet, "bootstrap": resampling.bootstrap, "bca": resampling.bca}
DEFAULT = ("accuracy", "balanced_accuracy", "precision", "recall", "specificity", "f1", "mcc")


def intervals(
    counts: Counts, *statistics: str, level: float = 0.95, method: str = "auto", prevalence: float | None = None
) -> dict[str, Interval]:
    """The intervals of statistics of one table, by name; at another ``prevalence`` if one is given.

    Without names, these are the statistics that a BinaryEvaluation reports by default.

    >>> from lightning_evalkit import Counts
    >>> print(intervals(Counts(tp=40, fp=10, fn=10, tn=40), "recall")["recall"])
    0.8000 [0.6696, 0.8876]
    """
    return {name: table_interval(counts, find(name), level, method, prevalence) for name in statistics or DEFAULT}


def table_interval(
    counts: Counts, statistic: Statistic, level: float = 0.95, method: str = "auto", prevalence: float | None = None
) -> Interval:
    """The interval of one statistic of one table, by the method that fits the statistic."""
    level, counts = checked_level(level), whole_numbers(counts)
    if prevalence is not None:
        return _projected(counts, statistic, level, method, prevalence)
    share, quantity = share_of(statistic), statistic(counts)
    methods = (*(BINOMIAL if share else ()), *RESAMPLED)
    method = checked_method(method, methods, statistic.name)
    value = float(quantity.value())
    if value != value:
        return undefined(value, level)
    if share is not None and method in BINOMIAL:
        return image_interval(share, quantity, level, method)
    ends = RESAMPLED[method](_cells(counts), _values(statistic), level)
    return around(value, ends, level, method, counts.total)


def share_interval(quantity: Quantity, name: str, level: float, method: str) -> Interval:
    """The interval of k of n samples, given undivided."""
    method = checked_method(method, tuple(BINOMIAL), name)
    return image_interval(PLAIN, quantity, level, method)


def image_interval(share: Share, quantity: Quantity, level: float, method: str) -> Interval:
    """The interval of a function of a share: the image of the interval of the share."""
    (k, n), value = share.samples(quantity), float(quantity.value())
    if not n:
        return undefined(value, level)
    low, high = BINOMIAL[method](k, n, level)
    return around(value, (share.image(low), share.image(high)), level, method, n)


def _projected(counts: Counts, statistic: Statistic, level: float, method: str, prevalence: float) -> Interval:
    method = checked_method(method, ("dirichlet",), f"{statistic.name} at another prevalence", PROJECTED)
    value = float(statistic(at_prevalence(counts, Fraction(prevalence))).value())
    if value != value:
        return undefined(value, level)
    ends = resampling.projected(_cells(counts), _values(statistic), level, prevalence)
    return around(value, ends, level, method, counts.total)


PROJECTED = "which combines recall and specificity, each with its own uncertainty"


def whole_numbers(counts: Counts) -> Counts:
    """The counts of one table as Python integers; weights are refused, as they do not give the number of samples.

    >>> from lightning_evalkit import Counts
    >>> whole_numbers(Counts(tp=1.0, fp=0, fn=2, tn=0))
    Counts(tp=1, fp=0, fn=2, tn=0)
    """
    exact = counts.exact()
    if any(Fraction(cell).denominator != 1 for cell in exact.cells):
        raise InputError(
            f"expected whole numbers of samples, got {counts}: sums of weights do not give the number of samples."
        )
    return type(counts)(*map(int, exact.cells))


def _cells(counts: Counts) -> Any:
    return np.array(counts.cells, dtype=np.int64)


def _values(statistic: Statistic) -> resampling.Values:
    return lambda drawn: statistic.value(drawn).numpy()
