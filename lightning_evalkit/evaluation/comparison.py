"""Two evaluations, or two tables, compared: which differences are more than chance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightning_evalkit.counts import Counts
from lightning_evalkit.errors import InputError
from lightning_evalkit.evaluation.base import Evaluation
from lightning_evalkit.intervals import intervals
from lightning_evalkit.intervals.comparison import Comparison, Difference, checked_margin, concluded, unpaired
from lightning_evalkit.intervals.interval import checked_level
from lightning_evalkit.statistics import find

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lightning_evalkit.intervals import Interval

TABLES = ("accuracy", "balanced_accuracy", "precision", "recall", "specificity", "f1", "mcc")
NOT_KNOWN = "counts do not say which samples they are of"


def compare(
    first: Evaluation | Counts,
    second: Evaluation | Counts,
    statistics: Sequence[str] | None = None,
    level: float = 0.95,
    margin: float = 0.0,
) -> dict[str, Comparison]:
    """How far the second is from the first, statistic by statistic: differences, intervals, verdicts on the second.

    A difference smaller than ``margin`` would not matter: the verdict is "tied" where that is certain. P-values are
    Holm's over all statistics that are compared. The differences of two models are known best if both were counted on
    the same samples; unless that is known, they are taken to be independent, and ``reason`` says why.

    >>> one, other = Counts(tp=40, fp=10, fn=10, tn=40), Counts(tp=49, fp=1, fn=1, tn=49)
    >>> print(compare(one, other, ["accuracy"])["accuracy"])
    +0.1800 [+0.0967, +0.2700], p = 2.29e-05: better
    """
    level, margin = checked_level(level), checked_margin(margin)
    names = [*(_names(first, second) if statistics is None else statistics)]
    pairs = {name: (_interval(first, name, level), _interval(second, name, level)) for name in names}
    better = {name: _direction(first, name) for name in names}
    differences = {name: _difference(*pair) for name, pair in pairs.items()}
    return concluded(differences, better, level, margin, paired=False, reason=NOT_KNOWN)


def _difference(first: Interval, second: Interval) -> Difference:
    if first.known and second.known:
        return unpaired(first, second)
    nothing = float("nan")
    return Difference(second.value - first.value, nothing, nothing, nothing, first.n + second.n)


def _names(first: Evaluation | Counts, second: Evaluation | Counts) -> Sequence[str]:
    if isinstance(first, Counts) or isinstance(second, Counts):
        return TABLES
    theirs = [*second.keys(keep_base=True)]
    return [name for name in first.keys(keep_base=True) if name in theirs]


def _interval(counted: Evaluation | Counts, name: str, level: float) -> Interval:
    if isinstance(counted, Counts):
        return intervals(counted, name, level=level)[name]
    if not isinstance(counted, Evaluation):
        raise InputError(f"expected two evaluations or two Counts, got {type(counted).__name__}.")
    return counted.interval(name, level)


def _direction(counted: Evaluation | Counts, name: str) -> bool | None:
    if isinstance(counted, Counts):
        return find(name).higher_is_better
    return counted[name].higher_is_better
