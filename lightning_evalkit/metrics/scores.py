"""Metrics of scores: how each task declares its tensors.

``thresholds`` decides how scores are stored. "fine", the default, uses a histogram of fixed size with bins that follow
the logit (areas are then exact to about 1e-4, with certain bounds: ``bounds()``); "bfloat16" has one bin per value of
that precision; a number, a list or a tensor of thresholds works as in torchmetrics. None stores every score, as in
torchmetrics, and memory grows with the data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from lightning_evalkit.counts import ScoreCounter, StoredScores
from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.inputs import Binary, Inputs, Multiclass, Multilabel, binning_of
from lightning_evalkit.state import Tally

if TYPE_CHECKING:
    from lightning_evalkit.counts import Totals
    from lightning_evalkit.inputs import Declaration
    from lightning_evalkit.inputs.binning import Thresholds
    from lightning_evalkit.statistics.curve_families import Family

Ignored = int | tuple[int, ...] | None


class ScoreMetric(Tally):
    """A result computed from scores: ``class BinaryROC(..., family=ROC)`` names it."""

    counter: ScoreCounter
    without_counts = "a curve has no counts without a threshold: ask for them at one."
    family: Family
    average: str | None = None
    higher_is_better: bool | None = None

    def __init_subclass__(cls, family: Family | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if family is not None:
            cls.family, cls.higher_is_better = family, family.higher_is_better

    def __init__(self, task: Declaration, **kwargs: Any) -> None:
        assert task.binning is not None  # set by the task's class below
        super().__init__((StoredScores if task.binning.kind == "exact" else ScoreCounter)(task), **kwargs)

    def reset(self) -> None:
        super().reset()
        if isinstance(self.counter, StoredScores):
            self.counter.seen = 0

    def value_of(self, totals: Totals) -> Any:
        """Compute the result of these totals: by default the averaged or separate results of all classes or labels."""
        return self.family.of_all(self.counter.tables(totals), self.average)

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Draw one value or several with torchmetrics' own plot."""
        return self._plot(val, ax)


class BinaryScores(ScoreMetric):
    """Scores of a binary problem."""

    def __init__(
        self,
        thresholds: Thresholds = "fine",
        ignore_index: int | None = None,
        validate_args: bool = True,
        normalization: Literal["sigmoid"] | None = "sigmoid",
        *,
        inputs: Inputs = "auto",
        weighted: bool = False,
        **kwargs: Any,
    ) -> None:
        inputs = unguessed(inputs, normalization)
        super().__init__(Binary(inputs, ignore_index, weighted, binning=binning_of(thresholds)), **kwargs)
        self.thresholds, self.normalization = thresholds, normalization
        self.ignore_index, self.validate_args = ignore_index, validate_args

    def value_of(self, totals: Totals) -> Any:
        return self.family.of_one(self.counter.tables(totals))


class MulticlassScores(ScoreMetric):
    """Scores of every class against the rest."""

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
        **kwargs: Any,
    ) -> None:
        binning = binning_of(thresholds, num_classes)
        task = Multiclass(inputs, ignore_index, weighted, num_classes=num_classes, binning=binning)
        super().__init__(task, **kwargs)
        self.num_classes, self.thresholds = num_classes, thresholds
        self.ignore_index, self.validate_args = ignore_index, validate_args


class MultilabelScores(ScoreMetric):
    """Scores of every label."""

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
        binning = binning_of(thresholds, num_labels)
        super().__init__(Multilabel(inputs, ignore_index, weighted, num_labels=num_labels, binning=binning), **kwargs)
        self.num_labels, self.thresholds = num_labels, thresholds
        self.ignore_index, self.validate_args = ignore_index, validate_args


def unguessed(inputs: Inputs, normalization: str | None) -> Inputs:
    """Translate torchmetrics' ``normalization`` to ``inputs``: None means that scores are probabilities already."""
    if normalization not in ("sigmoid", None):
        raise DeclarationError(f"expected normalization to be 'sigmoid' or None, got {normalization!r}.")
    if normalization is not None:
        return inputs
    if inputs == "logits":
        raise DeclarationError("inputs='logits' are normalized: leave normalization=None out.")
    return "probabilities"
