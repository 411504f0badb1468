"""The interval of every entry of an evaluation, by the kind of its statistic."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, singledispatch
from typing import TYPE_CHECKING, Any

import torch

from lightning_evalkit.counts import Counts
from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.evaluation.readouts import Averaged, FromScores, OneTable, SampleMean, TopK, WholeMatrix
from lightning_evalkit.evaluation.telling import of_each_class, of_each_term, telling
from lightning_evalkit.inputs import Binary, Multilabel
from lightning_evalkit.intervals import Interval, auroc_interval, matrix_interval, share_interval, table_interval
from lightning_evalkit.intervals.averages import from_classes, from_terms, too_few, units
from lightning_evalkit.intervals.interval import METHODS, checked_level, no_interval
from lightning_evalkit.intervals.jackknife import ByBucket, bucket_interval
from lightning_evalkit.intervals.matrices import Whole
from lightning_evalkit.statistics import OVERALL, averaged, ratio

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from lightning_evalkit.counts import Evidence
    from lightning_evalkit.evaluation.entry import Entry
    from lightning_evalkit.evaluation.readouts import Readout
    from lightning_evalkit.state import EvidenceTally
    from lightning_evalkit.statistics import Quantity

WEIGHTED = "sums of weights do not say how many samples they are of: declare buckets=1024 and count by sample"
LABELS = "the labels of a sample depend on each other, and counts do not say how: declare buckets=1024"
SAMPLES = "the sum over samples does not say how much they differ: declare buckets=1024"
SCORES = "a histogram of scores does not say how much single samples contribute: declare buckets=1024"
SMOOTH = ("auroc", "average_precision", "gini", "eer", "brier", "log_loss", "calibration_error")
"""Score statistics whose spread buckets can estimate; others are maxima, or need fine bins."""
UNSMOOTH = "it is a largest value or needs fine bins, of which buckets do not tell the spread"
TOO_MANY = "histograms of so many classes or labels are not kept by bucket: declare fewer buckets"
AREAS = "the classes or labels have the same samples, and histograms do not say how their areas vary together"


@dataclass(frozen=True)
class Source:
    """The evidence of all ranks, its counts on the CPU."""

    evidence: Evidence
    zero_division: float

    @cached_property
    def counts(self) -> Counts:
        """One table for each threshold, class or label."""
        return Counts(*(cell.cpu() for cell in self.evidence.counts.cells))

    @cached_property
    def whole(self) -> Whole:
        """All classes, with the confusion matrix if it is kept."""
        matrix = self.evidence.matrix
        return Whole(self.counts, None if matrix is None else matrix.cpu())

    @property
    def is_of_independent(self) -> bool:
        """Whether samples count alike and do not depend on each other, so that their numbers say how sure they are."""
        buckets = self.evidence.buckets
        return not self.evidence.task.weighted and not (buckets is not None and buckets.clustered)

    def value(self, readout: Readout) -> float:
        """The value that ``compute`` reports, in double precision."""
        return float(readout.value(self.evidence, self.zero_division))

    def by_bucket(self, readout: Readout) -> ByBucket:
        """The number, and its value without each bucket of samples."""
        assert self.evidence.buckets is not None  # declared
        without = self.evidence.buckets.without_each
        if isinstance(readout, FromScores):
            values = readout.of_rows(without, self.zero_division)
        else:
            values = readout.value(without, self.zero_division)
        number = telling(readout, without, self.evidence)
        return ByBucket(self.value(readout), values.cpu(), self.evidence.buckets.samples, number)


class Intervals:
    """Intervals of the entries of an evaluation."""

    zero_division: float

    @property
    def tally(self) -> EvidenceTally:
        """The state that the entries are read from."""
        raise NotImplementedError

    def _entries(self) -> list[tuple[str, Entry]]:
        raise NotImplementedError

    def intervals(
        self, level: float = 0.95, method: str = "auto", prevalence: float | None = None
    ) -> dict[str, Interval]:
        """Return every entry with its interval, or with the reason why it has none.

        The kind of the statistic decides the method: Wilson for shares of samples and for F1, Dirichlet for other
        statistics of one table, smoothed counts for averages over classes, DeLong for AUROC. Buckets, if declared,
        serve the statistics without such a method, and weights and clusters. A named ``method`` is used for the entries
        it is valid for; the others say why it is not. ``prevalence`` projects the statistics as ``at_prevalence`` does.
        Samples are assumed to be independent, unless they were counted by cluster.
        """
        level = checked_level(level)
        return {name: self._described(entry.readout, level, method, prevalence) for name, entry in self._entries()}

    def interval(
        self, name: str, level: float = 0.95, method: str = "auto", prevalence: float | None = None
    ) -> Interval:
        """Return one entry with its interval; refuse a method that is not valid for it."""
        entry: Entry = self[name]  # type: ignore[index]  # of the collection
        return self._interval(entry.readout, level, method, prevalence)

    def interval_ends(self, level: float = 0.95) -> dict[str, Tensor]:
        """Return both ends of every available interval as numbers to log: "val/f1/low" and "val/f1/high"."""
        known = {name: found for name, found in self.intervals(level).items() if found.known}
        return {
            f"{name}/{end}": torch.tensor(getattr(found, end), dtype=torch.float32, device=self.tally.device)
            for name, found in known.items()
            for end in ("low", "high")
        }

    def by_bucket(self, name: str) -> ByBucket:
        """An entry, and its values without each bucket of samples, if buckets are declared."""
        entry: Entry = self[name]  # type: ignore[index]  # of the collection
        return self._source().by_bucket(entry.readout)

    def is_told_by_buckets(self, name: str) -> bool:
        """Whether buckets say how sure an entry is; of largest values they do not."""
        entry: Entry = self[name]  # type: ignore[index]  # of the collection
        return not unbucketed(entry.readout, self._source())

    def _described(self, readout: Readout, level: float, method: str, prevalence: float | None) -> Interval:
        try:
            return self._interval(readout, level, method, prevalence)
        except DeclarationError as refused:
            if method not in METHODS:
                raise
            return no_interval(self._source().value(readout), level, str(refused))

    def _interval(
        self, readout: Readout, level: float = 0.95, method: str = "auto", prevalence: float | None = None
    ) -> Interval:
        level, source = checked_level(level), self._source()
        if prevalence is not None:
            return _projected(readout, source, level, method, prevalence)
        buckets = source.evidence.buckets
        if method == "buckets" and buckets is None:
            raise DeclarationError("method='buckets' needs them: declare buckets=1024 and count by the ids of samples.")
        if method == "buckets" or (method == "auto" and buckets is not None and not source.is_of_independent):
            return _by_buckets(readout, source, level)
        if source.evidence.task.weighted:
            return no_interval(source.value(readout), level, WEIGHTED)
        found = interval_of(readout, source, level, method)
        if not found.known and method == "auto" and buckets is not None:
            return _by_buckets(readout, source, level)
        return found if found.known else replace(found, value=source.value(readout))

    def _source(self) -> Source:
        return self.tally.compute().once(Source, self.zero_division)


def _projected(readout: Readout, source: Source, level: float, method: str, prevalence: float) -> Interval:
    if not isinstance(source.evidence.task, Binary):
        raise DeclarationError("expected no prevalence: only a problem of two classes has one.")
    if not isinstance(readout, OneTable) or source.evidence.task.weighted:
        reason = WEIGHTED if source.evidence.task.weighted else "scores are not projected to another prevalence"
        return no_interval(torch.nan, level, reason)
    return table_interval(source.counts.at(readout.place), readout.statistic, level, method, prevalence)


def _by_buckets(readout: Readout, source: Source, level: float) -> Interval:
    reason = unbucketed(readout, source)
    if reason:
        return no_interval(source.value(readout), level, reason)
    if isinstance(readout, Averaged) and readout.average == "macro":
        return _mean_by_buckets(readout, source, level)
    found = bucket_interval(source.by_bucket(readout), readout.statistic.bounds, level)
    return _no_surer_than_terms(found, readout, source) if found.known and isinstance(readout, OneTable) else found


def _no_surer_than_terms(found: Interval, readout: OneTable, source: Source) -> Interval:
    """Of a recall without a miss no bucket tells how sure it is, nor of its mean with a specificity."""
    buckets = source.evidence.buckets
    assert buckets is not None  # declared
    held = of_each_term(readout, buckets.without_each, source.evidence)
    if held is None:
        return found
    quantity = readout.statistic(source.counts.at(readout.place))
    low, high = from_terms(quantity, units(held.cpu(), buckets.number).tolist(), found.value, found.level)
    lowest, highest = readout.statistic.bounds
    return replace(found, low=max(min(found.low, low), lowest), high=min(max(found.high, high), highest))


def _mean_by_buckets(readout: Averaged, source: Source, level: float) -> Interval:
    """Of a class without errors no bucket tells how sure it is: the mean is no surer than the classes' intervals."""
    buckets = source.evidence.buckets
    assert buckets is not None  # declared
    included = readout.included(source.evidence, source.zero_division).cpu()
    held = of_each_class(readout.statistic, buckets.without_each, source.evidence).cpu()
    kind = "labels" if isinstance(source.evidence.task, Multilabel) else "classes"
    few = too_few(held[included], kind, "buckets with samples" if kind == "classes" else "buckets with positives")
    if few:
        return no_interval(source.value(readout), level, few)
    found = bucket_interval(source.by_bucket(readout), readout.statistic.bounds, level)
    if not found.known:
        return found
    each = None if source.is_of_independent else units(held, buckets.number)
    low, high = from_classes(readout.statistic, source.counts, included, found.value, level, each)
    return replace(found, low=min(found.low, low), high=max(found.high, high))


def unbucketed(readout: Readout, source: Source) -> str:
    """The reason why buckets give no interval; empty if they do."""
    if not isinstance(readout, FromScores):
        return ""
    if readout.statistic.name not in SMOOTH:
        return UNSMOOTH
    assert source.evidence.buckets is not None  # declared
    missing = readout.statistic.needs != "calibration" and source.evidence.buckets.without_each.scores is None
    return TOO_MANY if missing else ""


@singledispatch
def interval_of(readout: Any, source: Source, level: float, method: str) -> Interval:
    """The interval of a readout."""
    return no_interval(source.value(readout), level, f"there is no interval of {type(readout).__name__}")


@interval_of.register
def _(readout: OneTable, source: Source, level: float, method: str) -> Interval:
    return table_interval(source.counts.at(readout.place), readout.statistic, level, method)


@interval_of.register
def _(readout: Averaged, source: Source, level: float, method: str) -> Interval:
    if isinstance(source.evidence.task, Multilabel):
        return no_interval(source.value(readout), level, LABELS)
    alike = readout.included(source.evidence, source.zero_division).cpu() if readout.average == "macro" else None
    return matrix_interval(readout.statistic, of_classes(readout, source), source.whole, level, method, alike)


@interval_of.register
def _(readout: WholeMatrix, source: Source, level: float, method: str) -> Interval:
    return matrix_interval(readout.statistic, of_classes(readout, source), source.whole, level, method)


def of_classes(
    readout: OneTable | Averaged | WholeMatrix, source: Source
) -> Callable[[Counts], Quantity] | Callable[[Counts], Tensor]:
    """The number as a function of the counts of all classes: undivided if it is one fraction."""
    statistic = readout.statistic
    if isinstance(readout, OneTable):
        place = readout.place
        return lambda counts: statistic(counts.at(place))
    if isinstance(readout, WholeMatrix):
        return OVERALL[statistic.name]
    average, zero_division = readout.average, source.zero_division
    if average == "micro":
        return lambda counts: statistic(counts.summed())
    included = readout.included(source.evidence, zero_division).cpu()
    return lambda counts: averaged(statistic, counts, average, zero_division, included)


@interval_of.register
def _(readout: TopK, source: Source, level: float, method: str) -> Interval:
    hits, samples = source.evidence.hits[readout.k], source.counts.support.sum(-1)
    return share_interval(ratio(int(hits), int(samples)), f"top_{readout.k}_accuracy", level, method)


@interval_of.register
def _(readout: SampleMean, source: Source, level: float, method: str) -> Interval:
    if readout.name.endswith("/samples"):  # a number for each sample, not yes or no
        return no_interval(source.value(readout), level, SAMPLES)
    part, whole = source.evidence.sample_sums[readout.name]
    return share_interval(ratio(int(part), int(whole)), readout.name, level, method)


@interval_of.register
def _(readout: FromScores, source: Source, level: float, method: str) -> Interval:
    scores = source.evidence.scores
    if scores is None or readout.statistic.name not in ("auroc", "gini"):
        return no_interval(source.value(readout), level, SCORES if readout.statistic.name in SMOOTH else UNSMOOTH)
    if readout.average is not None:
        return no_interval(source.value(readout), level, AREAS)
    found = auroc_interval(scores.only(readout.place), level, method)
    if readout.statistic.name == "auroc" or not found.known:
        return found
    return replace(found, value=2 * found.value - 1, low=2 * found.low - 1, high=2 * found.high - 1)
