"""Curves and areas under them: torchmetrics' names, arguments and results.

A family says what is computed, a task how tensors are read; a metric is one of each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lightning_evalkit.metrics.families import Auroc, AveragePrecision, Eer, PrecisionRecall, Roc
from lightning_evalkit.metrics.scores import (
    BinaryScores,
    MulticlassScores,
    MultilabelScores,
    checked_average,
    checked_share,
)

if TYPE_CHECKING:
    from lightning_evalkit.inputs.scores import Thresholds
    from lightning_evalkit.metrics.scores import Ignored


# ---- curves of each task


class BinaryROC(Roc, BinaryScores):
    """The ROC curve."""


class BinaryPrecisionRecallCurve(PrecisionRecall, BinaryScores):
    """The precision-recall curve."""


class MulticlassCurve(MulticlassScores):
    """Takes torchmetrics' ``average`` of curves."""

    def __init__(
        self,
        num_classes: int,
        thresholds: Thresholds = "fine",
        average: str | None = None,
        ignore_index: Ignored = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, thresholds, ignore_index, validate_args, **kwargs)
        self.average = checked_average(average, ("micro", "macro"))


class MulticlassROC(Roc, MulticlassCurve):
    """The ROC curves of each class against the rest."""


class MulticlassPrecisionRecallCurve(PrecisionRecall, MulticlassCurve):
    """The precision-recall curves of each class against the rest."""


class MultilabelROC(Roc, MultilabelScores):
    """The ROC curves of each label."""


class MultilabelPrecisionRecallCurve(PrecisionRecall, MultilabelScores):
    """The precision-recall curves of each label."""


# ---- numbers of each task


class BinaryAUROC(Auroc, BinaryScores):
    """The area under the ROC curve, up to ``max_fpr`` and rescaled if that is given."""

    def __init__(
        self,
        max_fpr: float | None = None,
        thresholds: Thresholds = "fine",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(thresholds, ignore_index, validate_args, **kwargs)
        self.max_fpr = None if max_fpr is None else checked_share("max_fpr", max_fpr, above=True)


class BinaryAveragePrecision(AveragePrecision, BinaryScores):
    """The average precision."""


class BinaryEER(Eer, BinaryScores):
    """The equal error rate."""


class MulticlassNumber(MulticlassScores):
    """Takes torchmetrics' ``average`` of numbers, over the classes that have a value."""

    default: str | None = "macro"

    def __init__(
        self,
        num_classes: int,
        average: str | None = "default",
        thresholds: Thresholds = "fine",
        ignore_index: Ignored = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, thresholds, ignore_index, validate_args, **kwargs)
        chosen = self.default if average == "default" else average
        self.average = checked_average(chosen, ("macro", "weighted", "none"))


class MultilabelNumber(MultilabelScores):
    """Takes torchmetrics' ``average`` of numbers, over the labels that have a value."""

    def __init__(
        self,
        num_labels: int,
        average: str | None = "macro",
        thresholds: Thresholds = "fine",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_labels, thresholds, ignore_index, validate_args, **kwargs)
        self.average = checked_average(average, ("micro", "macro", "weighted", "none"))


class MulticlassAUROC(Auroc, MulticlassNumber):
    """The areas under the ROC curves of each class against the rest."""


class MulticlassAveragePrecision(AveragePrecision, MulticlassNumber):
    """The average precisions of each class against the rest."""


class MultilabelAUROC(Auroc, MultilabelNumber):
    """The areas under the ROC curves of each label."""


class MultilabelAveragePrecision(AveragePrecision, MultilabelNumber):
    """The average precisions of each label."""


class MulticlassEER(Eer, MulticlassCurve):
    """The equal error rates of each class against the rest."""


class MultilabelEER(Eer, MultilabelScores):
    """The equal error rates of each label; an ``average`` is accepted and of no meaning, as in torchmetrics' facade."""

    def __init__(
        self,
        num_labels: int,
        thresholds: Thresholds = "fine",
        ignore_index: int | None = None,
        validate_args: bool = True,
        average: None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_labels, thresholds, ignore_index, validate_args, **kwargs)
