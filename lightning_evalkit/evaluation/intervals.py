"""The interval of every entry of an evaluation, by the kind of its statistic."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, singledispatch
from typing import TYPE_CHECKING, Any

import torch

from lightning_evalkit.counts import Counts
from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.evaluation.bucket_intervals import SMOOTH, UNSMOOTH, by_buckets, few_in, unbucketed
from lightning_evalkit.evaluation.readouts import Averaged, FromScores, OneTable, SampleMean, TopK, WholeMatrix
from lightning_evalkit.evaluation.telling import telling
from lightning_evalkit.inputs import Binary, Multilabel
from lightning_evalkit.intervals import Interval, auroc_interval, matrix_interval, share_interval, table_interval
from lightning_evalkit.intervals.interval import METHODS, checked_level, no_interval
from lightning_evalkit.intervals.jackknife import ByBucket
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

WEIGHTED = "sums of weights do not give the number of samples: declare buckets=1024 and count by sample"
LABELS = "the labels of a sample depend on each other, and counts do not say how: declare buckets=1024"
SAMPLES = "the sum over samples does not say how much they differ: declare buckets=1024"
SCORES = "a histogram of scores does not say how much single samples contribute: declare buckets=1024"
AREAS = "classes or labels share their samples, and histograms do not say how their areas vary: declare buckets=1024"


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
        """Whether samples have equal weights and are independent, so that counts alone give intervals."""
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
        """Whether buckets can give an entry an interval; for largest values they cannot."""
        entry: Entry = self[name]  # type: ignore[index]  # of the collection
        return not unbucketed(entry.readout, self._source())

    def few_in(self, name: str) -> str:
        """The reason why an average over classes or labels has no interval by buckets; empty if it has one."""
        entry: Entry = self[name]  # type: ignore[index]  # of the collection
        return few_in(entry.readout, self._source())

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
            raise DeclarationError(
                "method='buckets' needs samples counted in buckets: declare buckets=1024 and update with sample=ids."
            )
        if method == "buckets" or (method == "auto" and buckets is not None and not source.is_of_independent):
            return by_buckets(readout, source, level)
        if source.evidence.task.weighted:
            return no_interval(source.value(readout), level, WEIGHTED)
        found = interval_of(readout, source, level, method)
        if not found.known and method == "auto" and buckets is not None:
            return by_buckets(readout, source, level)
        return found if found.known else replace(found, value=source.value(readout))

    def _source(self) -> Source:
        return self.tally.compute().once(Source, self.zero_division)


def _projected(readout: Readout, source: Source, level: float, method: str, prevalence: float) -> Interval:
    if not isinstance(source.evidence.task, Binary):
        raise DeclarationError("expected no prevalence: only a binary evaluation can be projected to another one.")
    if not isinstance(readout, OneTable) or source.evidence.task.weighted:
        reason = WEIGHTED if source.evidence.task.weighted else "scores are not projected to another prevalence"
        return no_interval(torch.nan, level, reason)
    return table_interval(source.counts.at(readout.place), readout.statistic, level, method, prevalence)


@singledispatch
def interval_of(readout: Any, source: Source, level: float, method: str) -> Interval:
    """The interval of a readout."""
    return no_interval(source.value(readout), level, f"no method gives an interval of {type(readout).__name__}")


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
    """The number as a function of the counts of all classes, undivided if it is one fraction."""
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
