"""Means over samples of a loss or a rank per sample: torchmetrics' names, arguments and results.

Margins are of probabilities, as in torchmetrics: logits pass a sigmoid or a softmax first. Ranks are those of the
scores as they come. The state is a few sums, which cross ranks once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lightning_evalkit.counts import SampleValueCounter
from lightning_evalkit.inputs import Binary, Inputs, Multiclass, Multilabel
from lightning_evalkit.state import Tally
from lightning_evalkit.statistics.arguments import MulticlassMode, hinge_of

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts import Totals
    from lightning_evalkit.inputs import Declaration
    from lightning_evalkit.metrics.scores import Ignored


class SampleMean(Tally):
    """A mean over samples."""

    counter: SampleValueCounter
    higher_is_better = False
    plot_lower_bound, plot_upper_bound = 0.0, 1.0

    def __init__(self, task: Declaration, value: str, validate_args: bool, **kwargs: Any) -> None:
        super().__init__(SampleValueCounter(task, value), **kwargs)
        self.ignore_index, self.validate_args = task.ignore_index, validate_args

    def value_of(self, totals: Totals) -> Tensor:
        return self.counter.mean(totals)

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Draw one value or several with torchmetrics' own plot."""
        return self._plot(val, ax)


class BinaryHingeLoss(SampleMean):
    """The mean of max(0, 1 - margin), where the margin is p for a yes and -p for a no; or of its square."""

    def __init__(
        self,
        squared: bool = False,
        ignore_index: int | None = None,
        validate_args: bool = True,
        *,
        inputs: Inputs = "auto",
        weighted: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(Binary(inputs, ignore_index, weighted), hinge_of(squared), validate_args, **kwargs)
        self.squared = squared


class MulticlassHingeLoss(SampleMean):
    """The mean of max(0, 1 - margin) over the likeliest other class ("crammer-singer"), or of each class."""

    plot_legend_name = "Class"

    def __init__(
        self,
        num_classes: int,
        squared: bool = False,
        multiclass_mode: MulticlassMode = "crammer-singer",
        ignore_index: Ignored = None,
        validate_args: bool = True,
        *,
        inputs: Inputs = "auto",
        weighted: bool = False,
        **kwargs: Any,
    ) -> None:
        task = Multiclass(inputs, ignore_index, weighted, num_classes=num_classes)
        super().__init__(task, hinge_of(squared, multiclass_mode), validate_args, **kwargs)
        self.num_classes, self.squared, self.multiclass_mode = num_classes, squared, multiclass_mode


class LabelRanking(SampleMean):
    """A mean over samples of how their labels are ranked: ``class Loss(LabelRanking, value="ranking loss")``."""

    plot_legend_name = "Label"
    value: str

    def __init_subclass__(cls, value: str, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.value = value

    def __init__(
        self,
        num_labels: int,
        ignore_index: int | None = None,
        validate_args: bool = True,
        *,
        inputs: Inputs = "auto",
        weighted: bool = False,
        **kwargs: Any,
    ) -> None:
        task = Multilabel(inputs, ignore_index, weighted, num_labels=num_labels)
        super().__init__(task, self.value, validate_args, **kwargs)
        self.num_labels = num_labels


class MultilabelCoverageError(LabelRanking, value="coverage error"):
    """The mean number of labels, from the highest score down, that include all true ones."""


class MultilabelRankingAveragePrecision(LabelRanking, value="ranking average precision"):
    """The mean over true labels of the share of true ones among the labels ranked as high."""

    higher_is_better = True


class MultilabelRankingLoss(LabelRanking, value="ranking loss"):
    """The share of pairs of a true and a false label in the wrong order."""
