"""Intervals of the difference of two numbers of one evaluation, which share their samples."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from lightning_evalkit.evaluation.bucket_intervals import few_in, unbucketed
from lightning_evalkit.evaluation.intervals import LABELS, SCORES, WEIGHTED, interval_of, of_classes
from lightning_evalkit.evaluation.readouts import Averaged, FromScores, OneTable, TopK, WholeMatrix
from lightning_evalkit.inputs import Multiclass
from lightning_evalkit.intervals.differences import is_same, matrix_difference, table_difference
from lightning_evalkit.intervals.interval import Interval, no_interval
from lightning_evalkit.intervals.jackknife import paired_difference
from lightning_evalkit.intervals.tables import share_interval
from lightning_evalkit.statistics import ratio

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from lightning_evalkit.counts import Counts
    from lightning_evalkit.evaluation.intervals import Source
    from lightning_evalkit.evaluation.readouts import Readout

TABLES = (OneTable, Averaged, WholeMatrix)
HITS = "counts do not say whether both get the same samples right: declare buckets=1024"


def difference_of(first: Readout, second: Readout, source: Source, level: float) -> Interval:
    """First minus second, with its interval or the reason why it has none."""
    found = _by_counts(first, second, source, level)
    if source.evidence.buckets is not None and not (found.known and source.is_of_independent):
        found = _by_buckets(first, second, source, level)
    if not found.known:
        return found
    (least, most), (lowest, highest) = first.statistic.bounds, second.statistic.bounds
    return replace(found, low=max(found.low, least - highest), high=min(found.high, most - lowest))


def _by_counts(first: Readout, second: Readout, source: Source, level: float) -> Interval:
    value = source.value(first) - source.value(second)
    if source.evidence.task.weighted:
        return no_interval(value, level, WEIGHTED)
    if isinstance(first, OneTable) and isinstance(second, OneTable) and first.place == second.place:
        return table_difference(source.counts.at(first.place), first.statistic, second.statistic, level)
    if not isinstance(source.evidence.task, Multiclass):
        scored = isinstance(first, FromScores) or isinstance(second, FromScores)
        return no_interval(value, level, SCORES if scored else LABELS)
    return _of_classes(first, second, source, level)


def _of_classes(first: Readout, second: Readout, source: Source, level: float) -> Interval:
    if isinstance(first, TABLES) and isinstance(second, TABLES):
        values = _number(first, source), _number(second, source)
        found = interval_of(first, source, level, "auto"), interval_of(second, source, level, "auto")
        return matrix_difference(values, found, source.whole, level)
    hits = [_hits(each, source) for each in (first, second)]
    if hits[0] is None or hits[1] is None:
        reason = SCORES if isinstance(first, FromScores) or isinstance(second, FromScores) else HITS
        return no_interval(source.value(first) - source.value(second), level, reason)
    return _nested(hits[0], hits[1], int(source.counts.support.sum()), level)


def _number(readout: OneTable | Averaged | WholeMatrix, source: Source) -> Callable[[Counts], Tensor]:
    """The number as a function of the counts of all classes, divided."""
    value_of = of_classes(readout, source)

    def divided(counts: Counts) -> Tensor:
        found = value_of(counts)
        return found if isinstance(found, torch.Tensor) else found.value(source.zero_division)

    return divided


def _hits(readout: Readout, source: Source) -> int | None:
    """The number of samples whose target is among the k largest scores, k = 1 for accuracy; None for other readouts."""
    if isinstance(readout, TopK):
        return int(source.evidence.hits[readout.k])
    if isinstance(readout, WholeMatrix) and readout.statistic.name == "accuracy":
        return int(source.counts.tp.sum())
    return None


def _nested(first: int, second: int, samples: int, level: float) -> Interval:
    """The difference of two top-k accuracies, itself a share of samples, as the hits of one include the other's."""
    found = share_interval(ratio(abs(first - second), samples), "the difference", level, "auto")
    if first >= second or not found.known:
        return found
    return replace(found, value=-found.value, low=-found.high, high=-found.low)


def _by_buckets(first: Readout, second: Readout, source: Source, level: float) -> Interval:
    reason = next(filter(None, (why(each, source) for why in (unbucketed, few_in) for each in (first, second))), "")
    if reason:
        return no_interval(source.value(first) - source.value(second), level, reason)
    one, other = (source.by_bucket(each) for each in (first, second))
    width = max(each.statistic.bounds[1] - each.statistic.bounds[0] for each in (first, second))
    value, low, high, _, n, untold = paired_difference(other, one, level, width)
    if untold:
        return no_interval(value, level, untold, n)
    if _are_same(first, second, source):
        return Interval(value, value, value, level, "identity", n)
    return Interval(value, low, high, level, "buckets", n)


def _are_same(first: Readout, second: Readout, source: Source) -> bool:
    """Whether the two are the same number for every table."""
    if not (isinstance(first, TABLES) and isinstance(second, TABLES)):
        return False
    if not isinstance(source.evidence.task, Multiclass):
        return False
    return is_same((_number(first, source), _number(second, source)), source.counts.tp.shape[-1])
