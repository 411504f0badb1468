"""Curves and areas under them: torchmetrics' names, arguments and results.

A family defines the computation, a task reads the tensors; a metric combines one of each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lightning_evalkit.metrics.families import AreaMetric, CurveMetric, NumberMetric
from lightning_evalkit.metrics.scores import BinaryScores, MulticlassScores, MultilabelScores
from lightning_evalkit.statistics.curve_families import (
    AUROC,
    AVERAGE_PRECISION,
    CLASS_AVERAGE_PRECISION,
    CLASS_PRECISION_RECALL,
    EER,
    LOG_AUC,
    PRECISION_RECALL,
    ROC,
)
from lightning_evalkit.statistics.curve_options import (
    CLASS_AVERAGES,
    CURVE_AVERAGES,
    LABEL_AVERAGES,
    LOG_AVERAGES,
    checked_curve_average,
)

if TYPE_CHECKING:
    from lightning_evalkit.inputs.binning import Thresholds
    from lightning_evalkit.metrics.scores import Ignored


# ---- curves of each task


class BinaryROC(CurveMetric, BinaryScores, family=ROC):
    """The ROC curve."""


class BinaryPrecisionRecallCurve(CurveMetric, BinaryScores, family=PRECISION_RECALL):
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
        self.average = checked_curve_average(average, CURVE_AVERAGES)


class MulticlassROC(CurveMetric, MulticlassCurve, family=ROC):
    """The ROC curves of each class against the rest."""


class MulticlassPrecisionRecallCurve(CurveMetric, MulticlassCurve, family=CLASS_PRECISION_RECALL):
    """The precision-recall curves of each class against the rest."""


class MultilabelROC(CurveMetric, MultilabelScores, family=ROC):
    """The ROC curves of each label."""


class MultilabelPrecisionRecallCurve(CurveMetric, MultilabelScores, family=PRECISION_RECALL):
    """The precision-recall curves of each label."""


# ---- numbers of each task


class BinaryAUROC(AreaMetric, BinaryScores, family=AUROC):
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
        self.family = AUROC.up_to(max_fpr)
        self.max_fpr = self.family.max_fpr


class BinaryLogAUC(NumberMetric, BinaryScores, family=LOG_AUC):
    """The area under the ROC curve over the logarithm of the false-positive rate, within a range of that."""

    def __init__(
        self,
        fpr_range: tuple[float, float] = (0.001, 0.1),
        thresholds: Thresholds = "fine",
        ignore_index: int | None = None,
        validate_args: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(thresholds, ignore_index, validate_args, **kwargs)
        self.family = LOG_AUC.over(fpr_range)
        self.fpr_range = self.family.fpr_range


class BinaryAveragePrecision(AreaMetric, BinaryScores, family=AVERAGE_PRECISION):
    """The average precision."""


class BinaryEER(NumberMetric, BinaryScores, family=EER):
    """The equal error rate."""


class MulticlassNumber(MulticlassScores):
    """Takes torchmetrics' ``average`` of numbers, over the classes that have a value."""

    def __init__(
        self,
        num_classes: int,
        average: str | None = "macro",
        thresholds: Thresholds = "fine",
        ignore_index: Ignored = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, thresholds, ignore_index, validate_args, **kwargs)
        self.average = checked_curve_average(average, CLASS_AVERAGES)


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
        self.average = checked_curve_average(average, LABEL_AVERAGES)


class MulticlassAUROC(AreaMetric, MulticlassNumber, family=AUROC):
    """The areas under the ROC curves of each class against the rest."""


class MulticlassAveragePrecision(AreaMetric, MulticlassNumber, family=CLASS_AVERAGE_PRECISION):
    """The average precisions of each class against the rest."""


class MultilabelAUROC(AreaMetric, MultilabelNumber, family=AUROC):
    """The areas under the ROC curves of each label."""


class MultilabelAveragePrecision(AreaMetric, MultilabelNumber, family=AVERAGE_PRECISION):
    """The average precisions of each label."""


class MulticlassEER(NumberMetric, MulticlassCurve, family=EER):
    """The equal error rates of each class against the rest."""


class MultilabelEER(NumberMetric, MultilabelScores, family=EER):
    """The equal error rates of each label."""


class MulticlassLogAUC(NumberMetric, MulticlassScores, family=LOG_AUC):
    """The areas under the ROC curves of each class over the logarithm of the false-positive rate, or their average."""

    def __init__(
        self,
        num_classes: int,
        fpr_range: tuple[float, float] = (0.001, 0.1),
        average: str | None = None,
        thresholds: Thresholds = "fine",
        ignore_index: Ignored = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, thresholds, ignore_index, validate_args, **kwargs)
        self.family, self.average = LOG_AUC.over(fpr_range), checked_curve_average(average, LOG_AVERAGES)
        self.fpr_range = self.family.fpr_range


class MultilabelLogAUC(NumberMetric, MultilabelScores, family=LOG_AUC):
    """The areas under the ROC curves of each label over the logarithm of the false-positive rate, or their average."""

    def __init__(
        self,
        num_labels: int,
        fpr_range: tuple[float, float] = (0.001, 0.1),
        average: str | None = None,
        thresholds: Thresholds = "fine",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_labels, thresholds, ignore_index, validate_args, **kwargs)
        self.family, self.average = LOG_AUC.over(fpr_range), checked_curve_average(average, LOG_AVERAGES)
        self.fpr_range = self.family.fpr_range
