"""Metrics of scores: what their states share, for each task.

``thresholds`` says how scores are kept: "fine", the default, in a histogram of fixed size, with bins that follow the
logit (areas are then exact to about 1e-4, with certain bounds: ``bounds()``); "bfloat16", in one bin per value of that
precision; a number, a list or a tensor of thresholds, as in torchmetrics; None keeps every score, as in torchmetrics,
and memory grows with the data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from lightning_evalkit.counts import ExactScores, ScoreCounter
from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.inputs import Binary, Inputs, Multiclass, Multilabel, scores_of
from lightning_evalkit.state import Tally

if TYPE_CHECKING:
    from lightning_evalkit.counts import ScoreCounts, Totals
    from lightning_evalkit.inputs import Declaration
    from lightning_evalkit.inputs.scores import Thresholds

Ignored = int | tuple[int, ...] | None


class ScoreMetric(Tally):
    """A result computed from the scores of both classes; a family overrides ``result``."""

    counter: ScoreCounter
    higher_is_better: bool | None = None

    def __init__(self, task: Declaration, **kwargs: Any) -> None:
        assert task.scores is not None  # given by the task's class below
        super().__init__((ExactScores if task.scores.kind == "exact" else ScoreCounter)(task), **kwargs)

    def reset(self) -> None:
        """Back to no samples."""
        super().reset()
        if isinstance(self.counter, ExactScores):
            self.counter.seen = 0

    def value_of(self, totals: Totals) -> Any:
        """The result of these totals."""
        return self.result(self.counter.tables(totals))

    def result(self, tables: list[ScoreCounts]) -> Any:
        """The result of all questions."""
        raise NotImplementedError

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Draw one value or several with torchmetrics' own plot."""
        return self._plot(val, ax)


class BinaryScores(ScoreMetric):
    """One yes-or-no question."""

    questions: ClassVar[str] = "binary"

    def __init__(
        self,
        thresholds: Thresholds = "fine",
        ignore_index: int | None = None,
        validate_args: bool = True,
        normalization: Literal["sigmoid"] | None = "sigmoid",
        *,
        inputs: Inputs = "auto",
        weighted: bool = False,
        sums: bool = False,
        calibration_bins: int = 15,
        **kwargs: Any,
    ) -> None:
        inputs = unguessed(inputs, normalization)
        scores = scores_of(thresholds, 1, sums=sums, calibration_bins=calibration_bins)
        super().__init__(Binary(inputs, ignore_index, weighted, scores=scores), **kwargs)
        self.thresholds, self.ignore_index, self.validate_args = thresholds, ignore_index, validate_args


class MulticlassScores(ScoreMetric):
    """Every class against the rest."""

    questions: ClassVar[str] = "multiclass"
    plot_legend_name = "Class"

    def __init__(
        self,
        num_classes: int,
        thresholds: Thresholds = "fine",
        ignore_index: Ignored = None,
        validate_args: bool = True,
        *,
        inputs: Inputs = "auto",
        weighted: bool = False,
        sums: bool = False,
        calibration_bins: int = 15,
        **kwargs: Any,
    ) -> None:
        scores = scores_of(thresholds, num_classes, sums=sums, calibration_bins=calibration_bins)
        task = Multiclass(inputs, ignore_index, weighted, num_classes=num_classes, scores=scores)
        super().__init__(task, **kwargs)
        self.num_classes, self.thresholds = num_classes, thresholds
        self.ignore_index, self.validate_args = ignore_index, validate_args


class MultilabelScores(ScoreMetric):
    """A yes-or-no question for each label."""

    questions: ClassVar[str] = "multilabel"
    plot_legend_name = "Label"

    def __init__(
        self,
        num_labels: int,
        thresholds: Thresholds = "fine",
        ignore_index: int | None = None,
        validate_args: bool = True,
        *,
        inputs: Inputs = "auto",
        weighted: bool = False,
        **kwargs: Any,
    ) -> None:
        scores = scores_of(thresholds, num_labels)
        super().__init__(Multilabel(inputs, ignore_index, weighted, num_labels=num_labels, scores=scores), **kwargs)
        self.num_labels, self.thresholds = num_labels, thresholds
        self.ignore_index, self.validate_args = ignore_index, validate_args


def unguessed(inputs: Inputs, normalization: str | None) -> Inputs:
    """What torchmetrics' ``normalization`` says about scores: None that they are probabilities already."""
    if normalization not in ("sigmoid", None):
        raise DeclarationError(f"expected normalization to be 'sigmoid' or None, got {normalization!r}.")
    if normalization is not None:
        return inputs
    if inputs == "logits":
        raise DeclarationError("inputs='logits' are normalized: leave normalization=None out.")
    return "probabilities"


def checked_average(average: str | None, allowed: tuple[str, ...]) -> str | None:
    """One of torchmetrics' averages for this family."""
    if average is not None and average not in allowed:
        raise DeclarationError(f"expected average to be one of {', '.join(allowed)} or None, got {average!r}.")
    return average


def checked_share(name: str, value: float, above: bool = False) -> float:
    """A bound between 0 and 1, or above 0."""
    wrong = isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1
    if wrong or (above and value == 0):
        raise DeclarationError(f"expected {name} to be a number in {'(' if above else '['}0, 1], got {value!r}.")
    return float(value)
