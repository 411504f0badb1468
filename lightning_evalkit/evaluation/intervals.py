"""How sure the numbers of an evaluation are: the interval of every entry, by the kind of its statistic."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, singledispatch
from typing import TYPE_CHECKING, Any

import torch

from lightning_evalkit.counts import Counts
from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.evaluation.readouts import Averaged, FromScores, OneTable, SampleMean, TopK, WholeMatrix
from lightning_evalkit.inputs import Binary, Multilabel
from lightning_evalkit.intervals import Interval, auroc_interval, matrix_interval, share_interval, table_interval
from lightning_evalkit.intervals.interval import METHODS, checked_level, no_interval
from lightning_evalkit.intervals.matrices import Whole
from lightning_evalkit.statistics import OVERALL, averaged, ratio

if TYPE_CHECKING:
    from lightning_evalkit.counts import Totals
    from lightning_evalkit.evaluation.entry import Entry
    from lightning_evalkit.evaluation.readouts import Readout
    from lightning_evalkit.state import Tally

WEIGHTED = "sums of weights do not say how many samples they are of: declare buckets=1024 and count by sample"
LABELS = "the labels of a sample depend on each other, and counts do not say how: declare buckets=1024"
SAMPLES = "the sum over samples does not say how much they differ: declare buckets=1024"
SCORES = "a histogram of scores does not say how much single samples contribute: declare buckets=1024"
AREAS = "the classes or labels have the same samples, and histograms do not say how their areas vary together"


@dataclass(frozen=True)
class Source:
    """The totals over all ranks, on the CPU, with the counter that reads them."""

    counter: Any
    totals: Totals
    zero_division: float

    @cached_property
    def counts(self) -> Counts:
        """One table for each threshold, class or label."""
        counts: Counts = self.counter.counts(self.totals)
        return Counts(*(cell.cpu() for cell in counts.cells))

    @cached_property
    def whole(self) -> Whole:
        """All classes, with the confusion matrix where it was kept."""
        matrix = self.counter.matrix(self.totals).cpu() if self.counter.task.matrix else None
        return Whole(self.counts, matrix)

    def value(self, readout: Readout) -> float:
        """What ``compute`` reports, in double precision."""
        return float(readout.value(self.counter, self.totals, self.zero_division))


class Intervals:
    """Intervals of the entries of an evaluation."""

    zero_division: float

    @property
    def tally(self) -> Tally:
        """The state that the entries are read from."""
        raise NotImplementedError

    def _entries(self) -> list[tuple[str, Entry]]:
        raise NotImplementedError

    def intervals(
        self, level: float = 0.95, method: str = "auto", prevalence: float | None = None
    ) -> dict[str, Interval]:
        """Every entry with its interval, or with the reason why it has none.

        The method is that of the kind of the statistic: Wilson for shares of samples and for F1, Dirichlet for other
        statistics of one table, smoothed counts for averages over classes, DeLong for AUROC. A ``method`` by name is
        used where it holds; other entries say why it does not. With a ``prevalence``, statistics are as
        ``at_prevalence`` gives them. Samples are taken to be drawn independently of each other.
        """
        return {name: self._described(entry, level, method, prevalence) for name, entry in self._entries()}

    def interval(
        self, name: str, level: float = 0.95, method: str = "auto", prevalence: float | None = None
    ) -> Interval:
        """One entry with its interval; a method that does not hold for it is refused."""
        entry: Entry = self[name]  # type: ignore[index]  # of the collection
        return self._interval(entry, level, method, prevalence)

    def _described(self, entry: Entry, level: float, method: str, prevalence: float | None) -> Interval:
        try:
            return self._interval(entry, level, method, prevalence)
        except DeclarationError as refused:
            if method not in METHODS:
                raise
            return no_interval(self._source().value(entry.readout), level, str(refused))

    def _interval(self, entry: Entry, level: float, method: str, prevalence: float | None) -> Interval:
        level, source = checked_level(level), self._source()
        if prevalence is not None:
            return _projected(entry, source, level, method, prevalence)
        if source.counter.task.weighted:
            return no_interval(source.value(entry.readout), level, WEIGHTED)
        found = interval_of(entry.readout, source, level, method)
        return found if found.known else replace(found, value=source.value(entry.readout))

    def _source(self) -> Source:
        totals = self.tally.compute()
        held: tuple[Any, Source] | None = self.__dict__.get("_read")
        if held is None or held[0] is not totals:
            self.__dict__["_read"] = held = totals, Source(self.tally.counter, totals, self.zero_division)
        return held[1]


def _projected(entry: Entry, source: Source, level: float, method: str, prevalence: float) -> Interval:
    if not isinstance(source.counter.task, Binary):
        raise DeclarationError("expected no prevalence: only a problem of two classes has one.")
    if not isinstance(entry.readout, OneTable) or source.counter.task.weighted:
        reason = WEIGHTED if source.counter.task.weighted else "scores are not projected to another prevalence"
        return no_interval(torch.nan, level, reason)
    return table_interval(source.counts.at(entry.readout.place), entry.readout.statistic, level, method, prevalence)


@singledispatch
def interval_of(readout: Any, source: Source, level: float, method: str) -> Interval:
    """The interval of what is read."""
    return no_interval(source.value(readout), level, f"there is no interval of {type(readout).__name__}")


@interval_of.register
def _(readout: OneTable, source: Source, level: float, method: str) -> Interval:
    return table_interval(source.counts.at(readout.place), readout.statistic, level, method)


@interval_of.register
def _(readout: Averaged, source: Source, level: float, method: str) -> Interval:
    if isinstance(source.counter.task, Multilabel):
        return no_interval(source.value(readout), level, LABELS)
    statistic, average = readout.statistic, readout.average
    if average == "micro":
        return matrix_interval(statistic, lambda c: statistic(c.summed()), source.whole, level, method)
    included = readout.included(source.counter, source.totals).cpu()
    value = lambda c: averaged(statistic, c, average, torch.nan, included)  # noqa: E731
    return matrix_interval(statistic, value, source.whole, level, method)


@interval_of.register
def _(readout: WholeMatrix, source: Source, level: float, method: str) -> Interval:
    return matrix_interval(readout.statistic, OVERALL[readout.statistic.name], source.whole, level, method)


@interval_of.register
def _(readout: TopK, source: Source, level: float, method: str) -> Interval:
    hits, samples = source.counter.hits(source.totals, readout.k), source.counts.support.sum(-1)
    return share_interval(ratio(int(hits), int(samples)), f"top_{readout.k}_accuracy", level, method)


@interval_of.register
def _(readout: SampleMean, source: Source, level: float, method: str) -> Interval:
    if readout.name.endswith("/samples"):  # a number for each sample, not yes or no
        return no_interval(source.value(readout), level, SAMPLES)
    part, whole = source.counter.sample_sums(source.totals, readout.name)
    return share_interval(ratio(int(part), int(whole)), readout.name, level, method)


@interval_of.register
def _(readout: FromScores, source: Source, level: float, method: str) -> Interval:
    if readout.statistic.needs != "scores" or readout.statistic.name not in ("auroc", "gini"):
        return no_interval(source.value(readout), level, SCORES)
    if readout.average is not None:
        return no_interval(source.value(readout), level, AREAS)
    found = auroc_interval(source.counter.scores(source.totals).only(readout.place), level, method)
    if readout.statistic.name == "auroc" or not found.known:
        return found
    return replace(found, value=2 * found.value - 1, low=2 * found.low - 1, high=2 * found.high - 1)
