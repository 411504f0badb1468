"""Readouts of the evidence: one table, an average, the whole matrix, a mean over samples, or the scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch

from lightning_evalkit.diagnosis import why_undefined
from lightning_evalkit.statistics import OVERALL, Average, ScoreStatistic, Statistic, find, mean, ratio
from lightning_evalkit.statistics.averages import supports
from lightning_evalkit.statistics.calibration import answers
from lightning_evalkit.statistics.thresholds import best_threshold

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from lightning_evalkit.counts import Calibration, Counts, Evidence, ScoreCounts
    from lightning_evalkit.inputs import Declaration
    from lightning_evalkit.statistics.calibration import Grouped
    from lightning_evalkit.statistics.thresholds import Choice


class Readout(Protocol):
    """A number in the evidence, and why it may have no value."""

    @property
    def statistic(self) -> Statistic | ScoreStatistic:
        """The statistic, for its formula, bounds and direction."""

    def value(self, evidence: Evidence, zero_division: float) -> Tensor:
        """The number."""

    def reason(self, evidence: Evidence) -> str:
        """The reason why the number is 0/0."""


# ---- computed once for all classes or labels


def _counts(evidence: Evidence) -> Counts:
    return evidence.counts.in_reach()


def _of_tables(evidence: Evidence, statistic: Statistic, zero_division: float) -> Tensor:
    """A statistic of every table."""
    return statistic.definition(evidence.once(_counts)).value(zero_division)


def _scores(evidence: Evidence) -> ScoreCounts:
    assert evidence.scores is not None  # declared with curves
    return evidence.scores


def _filled(evidence: Evidence) -> ScoreCounts:
    return _scores(evidence).filled()


def _calibration(evidence: Evidence) -> Calibration:
    assert evidence.calibration is not None  # declared with curves
    return evidence.calibration


def _answers(evidence: Evidence) -> Grouped:
    return answers(_scores(evidence), _calibration(evidence))


def _best_f1(evidence: Evidence) -> Choice:
    return best_threshold(evidence.once(_filled), "f1")


NEEDED: dict[str, Callable[[Evidence], Any]] = {
    "scores": _scores,
    "filled": _filled,
    "calibration": _calibration,
    "answers": _answers,
    "best_f1": _best_f1,
}
"""The part of the evidence that each kind of score statistic needs."""


def _of_scores(evidence: Evidence, statistic: ScoreStatistic) -> Tensor:
    """A statistic of the scores of every class or label."""
    return statistic.compute(evidence.once(NEEDED[statistic.needs]))


def _without_ignored(mask: Tensor, task: Declaration) -> Tensor:
    """Leave out classes that are never a target."""
    for index in task.ignored:
        if 0 <= index < (getattr(task, "num_classes", None) or 0):
            mask.select(-1, index).fill_(False)
    return mask


# ---- the readouts


@dataclass(frozen=True)
class OneTable:
    """A statistic of one table: at a threshold, of one class against the rest, of one label."""

    statistic: Statistic
    place: int

    def value(self, evidence: Evidence, zero_division: float) -> Tensor:
        """The statistic."""
        return evidence.once(_of_tables, self.statistic, zero_division).select(-1, self.place)

    def of(self, counts: Counts, zero_division: float) -> Tensor:
        """The statistic of other counts."""
        return self.statistic(counts.at(self.place)).value(zero_division)

    def reason(self, evidence: Evidence) -> str:
        """Which margin is empty."""
        return why_undefined(evidence.counts.at(self.place).exact())


@dataclass(frozen=True)
class Averaged:
    """A statistic averaged over the classes or labels that have a value and are not ignored."""

    statistic: Statistic
    average: Average
    occurring: bool = False
    """Whether classes without a target are left out, as in balanced accuracy."""

    def value(self, evidence: Evidence, zero_division: float) -> Tensor:
        """The average."""
        if self.average == "micro":
            return self.statistic(evidence.once(_counts).summed()).value(zero_division)
        values = evidence.once(_of_tables, self.statistic, zero_division)
        weights = self.included(evidence, zero_division).to(values.dtype)
        if self.average == "weighted":
            weights = weights * supports(evidence.counts)
        return mean(values, weights, zero_division)

    def included(self, evidence: Evidence, zero_division: float = torch.nan) -> Tensor:
        """The classes or labels that take part."""
        mask = ~evidence.once(_of_tables, self.statistic, zero_division).isnan()
        if self.occurring:
            mask = mask & (evidence.counts.support != 0)
        return _without_ignored(mask, evidence.task)

    def reason(self, evidence: Evidence) -> str:
        """The reason: no class has a value."""
        return "no class or label has a value"


@dataclass(frozen=True)
class WholeMatrix:
    """A statistic of a whole multiclass table."""

    statistic: Statistic

    def value(self, evidence: Evidence, zero_division: float) -> Tensor:
        """The statistic."""
        return OVERALL[self.statistic.name](evidence.once(_counts)).value(zero_division)

    def reason(self, evidence: Evidence) -> str:
        """Which margin is empty."""
        if not bool(evidence.counts.support.sum()):
            return "no samples were counted"
        return "only one class occurs as target or as prediction"


@dataclass(frozen=True)
class TopK:
    """The share of samples whose target is among the k largest scores."""

    k: int

    @property
    def statistic(self) -> Statistic:
        """An accuracy."""
        return find("accuracy")

    def value(self, evidence: Evidence, zero_division: float) -> Tensor:
        """The share of samples."""
        return ratio(evidence.hits[self.k], evidence.counts.support.sum(-1)).value(zero_division)

    def reason(self, evidence: Evidence) -> str:
        """The reason: there are no samples."""
        return "no samples were counted"


@dataclass(frozen=True)
class SampleMean:
    """The mean over samples of a value per sample; samples without one count as ``zero_division``, if given."""

    name: str
    statistic: Statistic

    def value(self, evidence: Evidence, zero_division: float) -> Tensor:
        """The mean."""
        part, defined = evidence.sample_sums[self.name]
        everyone = evidence.sample_sums["samples"][0]
        values = torch.stack((part / defined, torch.full_like(part, zero_division)), -1)
        undefined = everyone - defined if zero_division == zero_division else torch.zeros_like(part)
        return mean(values, torch.stack((defined, undefined), -1), zero_division)

    def reason(self, evidence: Evidence) -> str:
        """The reason: no sample has a value."""
        return "no sample has a value"


@dataclass(frozen=True)
class FromScores:
    """A statistic of scores: of one curve, or averaged over the curves that have a value and are not ignored."""

    statistic: ScoreStatistic
    average: Literal["macro", "weighted"] | None = None
    place: int = 0

    def value(self, evidence: Evidence, zero_division: float) -> Tensor:
        """The value, or ``zero_division`` if it is undefined."""
        values = evidence.once(_of_scores, self.statistic)
        if self.average is None:
            value = values[self.place]
        else:
            support = _scores(evidence).yes.sum(-1).double()
            weights = support.to(values) if self.average == "weighted" else torch.ones_like(values)
            value = mean(values, weights * self.included(evidence), torch.nan)
        return value if zero_division != zero_division else torch.where(value.isnan(), zero_division, value)

    def of_rows(self, evidence: Evidence, zero_division: float) -> Tensor:
        """The values of many rows, whose curves follow each other in the scores."""
        number = evidence.counts.tp.shape[0]
        if not number:
            return torch.empty(0, dtype=torch.float64)
        values = evidence.once(_of_scores, self.statistic).view(number, -1)
        if self.average is None:
            value = values.select(-1, self.place)
        else:
            weights = _without_ignored(~values.isnan(), evidence.task).to(values)
            if self.average == "weighted":
                weights = weights * _scores(evidence).yes.sum(-1).view(number, -1)
            value = mean(values, weights, torch.nan)
        return value if zero_division != zero_division else torch.where(value.isnan(), zero_division, value)

    def is_told(self, evidence: Evidence) -> bool:
        """Whether the number is unambiguous: a threshold may be a logit that no probability distinguishes."""
        if not self.statistic.is_threshold:
            return True
        chosen = evidence.once(_best_f1).thresholds
        return all(cut.is_told for cut in (chosen if self.average else [chosen[self.place]]))

    def included(self, evidence: Evidence) -> Tensor:
        """The classes or labels that take part."""
        return _without_ignored(~evidence.once(_of_scores, self.statistic).isnan(), evidence.task)

    def reason(self, evidence: Evidence) -> str:
        """Which classes are missing."""
        scores = _scores(evidence)
        there = (scores.yes.sum(-1) > 0) & (scores.no.sum(-1) > 0)
        if not bool((scores.yes + scores.no).sum()):
            return "no samples were counted"
        asked = there if self.average else there[self.place]
        return "no threshold is defined" if bool(asked.any()) else "positive or negative targets are missing"
