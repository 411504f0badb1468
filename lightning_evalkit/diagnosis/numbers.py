"""Facts about the numbers of an evaluation, which the rules on numbers judge."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isnan
from typing import TYPE_CHECKING, Literal, NamedTuple

from lightning_evalkit.statistics import find

if TYPE_CHECKING:
    from lightning_evalkit.counts import Counts
    from lightning_evalkit.intervals import Comparison, Interval
    from lightning_evalkit.intervals.calibrated import HalfF1, Sharpness

Task = Literal["binary", "multiclass", "multilabel"]


@dataclass(frozen=True)
class SeenScores:
    """Facts about the scores of one yes-or-no question, read from their histogram."""

    inputs: str
    lowest: float
    highest: float
    mean: float
    """The mean predicted probability."""
    variance: float
    """The variance of the number of positives: the sum of p (1 - p), or that of the squared errors if it is larger."""
    threshold: float
    f1: float
    best: HalfF1
    """The best F1 and its threshold."""
    gain: Interval | None = None
    """The gain in F1 over the declared threshold."""
    only_two: bool = False
    """Whether there are at most two different scores."""


class Candidates(NamedTuple):
    """The values of one statistic among which the best was chosen, such as one for each epoch."""

    values: tuple[float, ...]
    standard_error: float
    """The standard error of one value, by its interval."""
    higher_is_better: bool = True


@dataclass(frozen=True)
class SeenNumbers:
    """The counts and the reported numbers of one evaluation; ``tables`` are of each class or label, by name.

    A binary evaluation has one table, under the empty name.
    """

    task: Task
    tables: dict[str, Counts]
    values: dict[str, float] = field(default_factory=dict)
    weighted: bool = False
    exact_match: float | None = None
    prevalence: float | None = None
    """The share of positives where the model will be used, if that is known."""
    nothing_because: str = ""
    """Why nothing was counted, if the evaluation knows."""
    scores: dict[str, SeenScores] = field(default_factory=dict)
    """The facts of each label by its name; those of a binary evaluation have the empty name."""
    sharpness: dict[str, Sharpness] = field(default_factory=dict)
    """Whether probabilities are overconfident, by the names of ``scores``; all classes together have the empty name."""
    bound_width: float = 0.0
    train: dict[str, Counts] = field(default_factory=dict)
    """The tables of the training data, by the same names, where they were given."""
    comparisons: dict[str, Comparison] = field(default_factory=dict)
    """The comparison with another evaluation, by statistic."""
    candidates: dict[str, Candidates] = field(default_factory=dict)
    """Statistics whose best value was chosen on these samples."""

    @property
    def table(self) -> Counts | None:
        """The one table of a binary evaluation."""
        return self.tables.get("") if self.task == "binary" else None

    @property
    def total(self) -> int:
        """The number of samples."""
        return int(max((table.total for table in self.tables.values()), default=0))

    @property
    def exclusive(self) -> bool:
        """Whether every sample has one class, and all classes are here."""
        return self.task == "multiclass" and sum(table.positives for table in self.tables.values()) == self.total

    def undefined(self) -> list[str]:
        """The reported numbers that are 0/0."""
        return [name for name, value in self.values.items() if isnan(value)]


def seen_counts(counts: Counts, prevalence: float | None = None) -> SeenNumbers:
    """The facts of one table of counts, as from a paper, with the statistics that evaluations report by default."""
    exact = counts.exact()
    names = ("accuracy", "balanced_accuracy", "precision", "recall", "specificity", "f1", "mcc")
    values = {name: float(find(name)(exact).value()) for name in names}
    weighted = not all(isinstance(cell, int) for cell in exact.cells)
    return SeenNumbers("binary", {"": exact}, values, weighted, prevalence=prevalence)
