"""What an entry reads from the totals of its tally: a table, an average, a whole table, a mean over samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch

from lightning_evalkit.diagnosis import why_undefined
from lightning_evalkit.statistics import OVERALL, Average, ScoreStatistic, Statistic, averaged, find, mean, ratio
from lightning_evalkit.statistics.calibration import answers
from lightning_evalkit.statistics.thresholds import best_threshold

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts import Counts, Totals


class Readout(Protocol):
    """A number in the totals of a counter, and why it may have no value."""

    @property
    def statistic(self) -> Statistic | ScoreStatistic:
        """What is read, for its formula, bounds and direction."""

    def value(self, counter: Any, totals: Totals, zero_division: float) -> Tensor:
        """The number."""

    def reason(self, counter: Any, totals: Totals) -> str:
        """Why the number is 0/0."""


@dataclass(frozen=True)
class OneTable:
    """A statistic of one table: at a threshold, of one class against the rest, of one label."""

    statistic: Statistic
    place: int

    def value(self, counter: Any, totals: Totals, zero_division: float) -> Tensor:
        """The statistic."""
        return self.of(counter.counts(totals), zero_division)

    def of(self, counts: Counts, zero_division: float) -> Tensor:
        """The statistic of these counts instead."""
        return self.statistic(counts.at(self.place)).value(zero_division)

    def reason(self, counter: Any, totals: Totals) -> str:
        """Which margin is empty."""
        return why_undefined(counter.counts(totals).at(self.place).exact())


@dataclass(frozen=True)
class Averaged:
    """A statistic averaged over classes or labels: over those that have a value and are not ignored."""

    statistic: Statistic
    average: Average
    occurring: bool = False
    """Whether classes without a target are left out, as in balanced accuracy."""

    def value(self, counter: Any, totals: Totals, zero_division: float) -> Tensor:
        """The average."""
        counts = counter.counts(totals)
        included = self.included(counter, totals, zero_division)
        return averaged(self.statistic, counts, self.average, zero_division, included, empty=zero_division)

    def included(self, counter: Any, totals: Totals, zero_division: float = torch.nan) -> Tensor:
        """The classes or labels that take part."""
        counts = counter.counts(totals)
        mask = ~self.statistic(counts).value(zero_division).isnan()
        if self.occurring:
            mask = mask & (counts.support != 0)
        return _without_ignored(mask, counter)

    def reason(self, counter: Any, totals: Totals) -> str:
        """No class has a value."""
        return "no class or label has a value"


def _without_ignored(mask: Tensor, counter: Any) -> Tensor:
    """Classes that are never a target take no part."""
    for index in getattr(counter.task, "ignored", ()):
        if 0 <= index < getattr(counter.task, "num_classes", 0):
            mask.select(-1, index).fill_(False)
    return mask


@dataclass(frozen=True)
class WholeMatrix:
    """A statistic of a whole multiclass table."""

    statistic: Statistic

    def value(self, counter: Any, totals: Totals, zero_division: float) -> Tensor:
        """The statistic."""
        return OVERALL[self.statistic.name](counter.counts(totals)).value(zero_division)

    def reason(self, counter: Any, totals: Totals) -> str:
        """Which margin is empty."""
        counts = counter.counts(totals)
        if not bool(counts.support.sum()):
            return "no samples were counted"
        return "only one class occurs as target or as prediction"


@dataclass(frozen=True)
class TopK:
    """How often the target is among the k largest scores."""

    k: int

    @property
    def statistic(self) -> Statistic:
        """An accuracy."""
        return find("accuracy")

    def value(self, counter: Any, totals: Totals, zero_division: float) -> Tensor:
        """The share of samples."""
        return ratio(counter.hits(totals, self.k), counter.counts(totals).support.sum(-1)).value(zero_division)

    def reason(self, counter: Any, totals: Totals) -> str:
        """There is nothing."""
        return "no samples were counted"


@dataclass(frozen=True)
class SampleMean:
    """The mean over samples of a value of each sample; samples without a value count as ``zero_division``, if given."""

    name: str
    statistic: Statistic

    def value(self, counter: Any, totals: Totals, zero_division: float) -> Tensor:
        """The mean."""
        part, defined = counter.sample_sums(totals, self.name)
        everyone = counter.sample_sums(totals, "samples")[0]
        values = torch.stack((part / defined, torch.full_like(part, zero_division)), -1)
        undefined = everyone - defined if zero_division == zero_division else torch.zeros_like(part)
        return mean(values, torch.stack((defined, undefined), -1), zero_division)

    def reason(self, counter: Any, totals: Totals) -> str:
        """There is nothing."""
        return "no sample has a value"


@dataclass(frozen=True)
class FromScores:
    """A statistic of scores: of one question, or averaged over those that have a value and are not ignored."""

    statistic: ScoreStatistic
    average: Literal["macro", "weighted"] | None = None
    place: int = 0

    def value(self, counter: Any, totals: Totals, zero_division: float) -> Tensor:
        """The value, ``zero_division`` where it has none."""
        values = self._values(counter, totals)
        if self.average is None:
            value = values[0]
        else:
            support = counter.scores(totals).yes.sum(-1).double()
            weights = support.to(values) if self.average == "weighted" else torch.ones_like(values)
            value = mean(values, weights * _without_ignored(~values.isnan(), counter), torch.nan)
        return torch.where(value.isnan(), zero_division, value)

    def _values(self, counter: Any, totals: Totals) -> Tensor:
        """Of all questions, or of the one that is asked for."""
        if self.statistic.needs == "answers":
            place = None if self.average else self.place
            return self.statistic.compute(answers(counter.scores(totals), counter.calibration(totals), place))
        if self.statistic.needs == "calibration":
            sums = counter.calibration(totals)
            one = type(sums)(*(part[self.place : self.place + 1] for part in sums))
            return self.statistic.compute(sums if self.average else one)
        scores = counter.scores(totals)
        return self.statistic.compute(scores if self.average else scores.only(self.place))

    def is_told(self, counter: Any, totals: Totals) -> bool:
        """Whether it says what it stands for: a threshold may be a logit that no probability tells from others."""
        if not self.statistic.is_threshold:
            return True
        scores = counter.scores(totals)
        return all(
            cut.is_told for cut in best_threshold(scores if self.average else scores.only(self.place)).thresholds
        )

    def included(self, counter: Any, totals: Totals) -> Tensor:
        """The classes or labels that take part."""
        return _without_ignored(~self._values(counter, totals).isnan(), counter)

    def reason(self, counter: Any, totals: Totals) -> str:
        """Which classes are missing."""
        scores = counter.scores(totals)
        there = (scores.yes.sum(-1) > 0) & (scores.no.sum(-1) > 0)
        if not bool((scores.yes + scores.no).sum()):
            return "no samples were counted"
        asked = there if self.average else there[self.place]
        return "no threshold is defined" if bool(asked.any()) else "positive or negative targets are missing"
