"""Compares two evaluations or two tables, and says which differences are more than chance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightning_evalkit.counts import Counts
from lightning_evalkit.errors import InputError
from lightning_evalkit.evaluation.base import Evaluation
from lightning_evalkit.intervals import intervals
from lightning_evalkit.intervals.comparison import (
    Comparison,
    Difference,
    checked_margin,
    concluded,
    no_difference,
    unpaired,
)
from lightning_evalkit.intervals.interval import checked_level
from lightning_evalkit.intervals.jackknife import paired_difference
from lightning_evalkit.intervals.tables import DEFAULT
from lightning_evalkit.statistics import find

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lightning_evalkit.intervals import Interval

NOT_KNOWN = "counts do not say which samples they come from"
NO_BUCKETS = "the samples were not counted by their ids: declare buckets=1024, and update with sample=ids"
OTHER_SAMPLES = "their fingerprints differ: they counted different samples or targets, or some of them more often"


def compare(
    first: Evaluation | Counts,
    second: Evaluation | Counts,
    statistics: Sequence[str] | str | None = None,
    level: float = 0.95,
    margin: float = 0.0,
    paired: bool | None = None,
) -> dict[str, Comparison]:
    """Compare the second with the first, statistic by statistic: differences, intervals, and verdicts on the second.

    The verdict is "tied" if the difference is certainly smaller than ``margin``. P-values are adjusted by Holm's method
    over all compared statistics. The comparison is paired, which is far more exact, if both evaluations counted the
    same samples in buckets; otherwise it assumes independent samples, and ``reason`` says why. ``paired=True`` refuses
    evaluations that cannot be paired, ``paired=False`` never pairs.

    >>> one, other = Counts(tp=40, fp=10, fn=10, tn=40), Counts(tp=49, fp=1, fn=1, tn=49)
    >>> print(compare(one, other, ["accuracy"])["accuracy"])
    +0.1800 [+0.0967, +0.2700], p = 2.29e-05: better
    """
    level, margin = checked_level(level), checked_margin(margin)
    asked = [statistics] if isinstance(statistics, str) else statistics
    names = [*(_names(first, second) if asked is None else asked)]
    reason = "paired=False was asked for" if paired is False else _unpairable(first, second)
    if paired and reason:
        raise InputError(f"expected two evaluations that can be paired: {reason}.")
    differences = {name: _difference(first, second, name, level, not reason) for name in names}
    better = {name: _direction(first, name) for name in names}
    return concluded(differences, better, level, margin, not reason, reason)


def _unpairable(first: Evaluation | Counts, second: Evaluation | Counts) -> str:
    """The reason why the two cannot be paired; empty if they can."""
    if not isinstance(first, Evaluation) or not isinstance(second, Evaluation):
        return NOT_KNOWN
    one, other = (each.tally.compute().buckets for each in (first, second))
    if one is None or other is None:
        return NO_BUCKETS
    if one.number != other.number:
        return f"they have different numbers of buckets, {one.number} and {other.number}"
    return "" if one.fingerprint == other.fingerprint else OTHER_SAMPLES


def _difference(
    first: Evaluation | Counts, second: Evaluation | Counts, name: str, level: float, paired: bool
) -> Difference:
    if paired and isinstance(first, Evaluation) and isinstance(second, Evaluation) and first.is_told_by_buckets(name):
        low, high = first[name].readout.statistic.bounds
        found = paired_difference(first.by_bucket(name), second.by_bucket(name), level, high - low)
        few = first.few_in(name) or second.few_in(name)
        return no_difference(found.value, found.n, few) if few else found
    one, other = _interval(first, name, level), _interval(second, name, level)
    if one.known and other.known and not paired:
        return unpaired(one, other)
    return no_difference(other.value - one.value, one.n + other.n, one.reason or other.reason)


def _names(first: Evaluation | Counts, second: Evaluation | Counts) -> Sequence[str]:
    if isinstance(first, Counts) or isinstance(second, Counts):
        return DEFAULT
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
