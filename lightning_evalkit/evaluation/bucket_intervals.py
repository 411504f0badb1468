"""The interval of an entry from buckets of samples: for which entries there is one, and how sure it can be."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lightning_evalkit.evaluation.readouts import Averaged, FromScores, OneTable
from lightning_evalkit.evaluation.telling import of_each_class, of_each_term
from lightning_evalkit.inputs import Multilabel
from lightning_evalkit.intervals.averages import from_classes, from_terms, looked_at, too_few, units
from lightning_evalkit.intervals.interval import Interval, no_interval
from lightning_evalkit.intervals.jackknife import bucket_interval

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.evaluation.intervals import Source
    from lightning_evalkit.evaluation.readouts import Readout

SMOOTH = ("auroc", "average_precision", "gini", "eer", "brier", "log_loss", "calibration_error")
"""Score statistics whose variance buckets can estimate; others are maxima, or need fine bins."""
UNSMOOTH = "neither counts nor buckets estimate the variance of a largest value, or of one that needs fine bins"
TOO_MANY = "histograms of so many classes or labels are not kept by bucket: declare fewer buckets"


def by_buckets(readout: Readout, source: Source, level: float) -> Interval:
    """The interval of a readout from what changes when each bucket is left out, or the reason for none."""
    reason = unbucketed(readout, source)
    if reason:
        return no_interval(source.value(readout), level, reason)
    if isinstance(readout, Averaged) and readout.average == "macro":
        return _mean_by_buckets(readout, source, level)
    found = bucket_interval(source.by_bucket(readout), readout.statistic.bounds, level)
    return _no_surer_than_terms(found, readout, source) if found.known and isinstance(readout, OneTable) else found


def _no_surer_than_terms(found: Interval, readout: OneTable, source: Source) -> Interval:
    """Widen to Wilson's intervals of the terms: buckets show no variance of a recall without a miss."""
    buckets = source.evidence.buckets
    assert buckets is not None  # declared
    held = of_each_term(readout, buckets.without_each, source.evidence)
    if held is None:
        return found
    quantity = readout.statistic.in_tensors(source.counts.at(readout.place))
    low, high = from_terms(quantity, units(held.cpu(), buckets.number).tolist(), found.value, found.level)
    lowest, highest = readout.statistic.bounds
    return replace(found, low=max(min(found.low, low), lowest), high=min(max(found.high, high), highest))


def _mean_by_buckets(readout: Averaged, source: Source, level: float) -> Interval:
    """The interval of a mean, widened to the classes' intervals: buckets show no variance of a class without errors."""
    buckets = source.evidence.buckets
    assert buckets is not None  # declared
    included = readout.included(source.evidence, source.zero_division).cpu()
    held = of_each_class(readout.statistic, buckets.without_each, source.evidence).cpu()
    few = _too_few_buckets(source, held[included])
    if few:
        return no_interval(source.value(readout), level, few)
    found = bucket_interval(source.by_bucket(readout), readout.statistic.bounds, level)
    if not found.known:
        return found
    each = None if source.is_of_independent else units(held, buckets.number)
    low, high = from_classes(readout.statistic, source.counts, included, found.value, level, each)
    return replace(found, low=min(found.low, low), high=max(found.high, high))


def _too_few_buckets(source: Source, held: Tensor) -> str:
    if isinstance(source.evidence.task, Multilabel):
        return too_few(held, "labels", "buckets with positives")
    return too_few(held, "classes", "buckets with samples")


def few_in(readout: Readout, source: Source) -> str:
    """The reason why a mean over classes or labels has no interval, if too many of them have few samples."""
    if not isinstance(readout, Averaged) or readout.average != "macro":
        return ""
    included, buckets = readout.included(source.evidence, source.zero_division).cpu(), source.evidence.buckets
    if source.is_of_independent and not isinstance(source.evidence.task, Multilabel):
        few = too_few(looked_at(readout.statistic, source.counts)[included], "classes", "samples")
        if not few or buckets is None:
            return few
    assert buckets is not None  # declared
    held = of_each_class(readout.statistic, buckets.without_each, source.evidence).cpu()
    return _too_few_buckets(source, held[included])


def unbucketed(readout: Readout, source: Source) -> str:
    """The reason why buckets give no interval; empty if they do."""
    if not isinstance(readout, FromScores):
        return ""
    if readout.statistic.name not in SMOOTH:
        return UNSMOOTH
    assert source.evidence.buckets is not None  # declared
    missing = readout.statistic.needs != "calibration" and source.evidence.buckets.without_each.scores is None
    return TOO_MANY if missing else ""
