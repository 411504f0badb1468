"""The best point of a curve within a bound: torchmetrics' names, arguments and results.

The bound is the first argument, by torchmetrics' name for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lightning_evalkit.metrics.families import PointMetric
from lightning_evalkit.metrics.scores import BinaryScores, MulticlassScores, MultilabelScores
from lightning_evalkit.statistics.curve_families import (
    PRECISION_AT_RECALL,
    RECALL_AT_PRECISION,
    SENSITIVITY_AT_SPECIFICITY,
    SPECIFICITY_AT_SENSITIVITY,
)

if TYPE_CHECKING:
    from lightning_evalkit.inputs.binning import Thresholds
    from lightning_evalkit.metrics.scores import Ignored


class BinaryRecallAtFixedPrecision(PointMetric, BinaryScores, family=RECALL_AT_PRECISION):
    """The largest recall with at least ``min_precision``, and its threshold."""

    def __init__(
        self,
        min_precision: float,
        thresholds: Thresholds = "fine",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(thresholds, ignore_index, validate_args, **kwargs)
        self.min_precision = self.within(min_precision)


class MulticlassRecallAtFixedPrecision(PointMetric, MulticlassScores, family=RECALL_AT_PRECISION):
    """The largest recall of each class, one-vs-rest, with at least ``min_precision``, and its threshold."""

    def __init__(
        self,
        num_classes: int,
        min_precision: float,
        thresholds: Thresholds = "fine",
        ignore_index: Ignored = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, thresholds, ignore_index, validate_args, **kwargs)
        self.min_precision = self.within(min_precision)


class MultilabelRecallAtFixedPrecision(PointMetric, MultilabelScores, family=RECALL_AT_PRECISION):
    """The largest recall of each label with at least ``min_precision``, and its threshold."""

    def __init__(
        self,
        num_labels: int,
        min_precision: float,
        thresholds: Thresholds = "fine",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_labels, thresholds, ignore_index, validate_args, **kwargs)
        self.min_precision = self.within(min_precision)


class BinaryPrecisionAtFixedRecall(PointMetric, BinaryScores, family=PRECISION_AT_RECALL):
    """The largest precision with at least ``min_recall``, and its threshold."""

    def __init__(
        self,
        min_recall: float,
        thresholds: Thresholds = "fine",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(thresholds, ignore_index, validate_args, **kwargs)
        self.min_recall = self.within(min_recall)


class MulticlassPrecisionAtFixedRecall(PointMetric, MulticlassScores, family=PRECISION_AT_RECALL):
    """The largest precision of each class, one-vs-rest, with at least ``min_recall``, and its threshold."""

    def __init__(
        self,
        num_classes: int,
        min_recall: float,
        thresholds: Thresholds = "fine",
        ignore_index: Ignored = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, thresholds, ignore_index, validate_args, **kwargs)
        self.min_recall = self.within(min_recall)


class MultilabelPrecisionAtFixedRecall(PointMetric, MultilabelScores, family=PRECISION_AT_RECALL):
    """The largest precision of each label with at least ``min_recall``, and its threshold."""

    def __init__(
        self,
        num_labels: int,
        min_recall: float,
        thresholds: Thresholds = "fine",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_labels, thresholds, ignore_index, validate_args, **kwargs)
        self.min_recall = self.within(min_recall)


class BinarySensitivityAtSpecificity(PointMetric, BinaryScores, family=SENSITIVITY_AT_SPECIFICITY):
    """The largest sensitivity with at least ``min_specificity``, and its threshold."""

    def __init__(
        self,
        min_specificity: float,
        thresholds: Thresholds = "fine",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(thresholds, ignore_index, validate_args, **kwargs)
        self.min_specificity = self.within(min_specificity)


class MulticlassSensitivityAtSpecificity(PointMetric, MulticlassScores, family=SENSITIVITY_AT_SPECIFICITY):
    """The largest sensitivity of each class, one-vs-rest, with at least ``min_specificity``, and its threshold."""

    def __init__(
        self,
        num_classes: int,
        min_specificity: float,
        thresholds: Thresholds = "fine",
        ignore_index: Ignored = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, thresholds, ignore_index, validate_args, **kwargs)
        self.min_specificity = self.within(min_specificity)


class MultilabelSensitivityAtSpecificity(PointMetric, MultilabelScores, family=SENSITIVITY_AT_SPECIFICITY):
    """The largest sensitivity of each label with at least ``min_specificity``, and its threshold."""

    def __init__(
        self,
        num_labels: int,
        min_specificity: float,
        thresholds: Thresholds = "fine",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_labels, thresholds, ignore_index, validate_args, **kwargs)
        self.min_specificity = self.within(min_specificity)


class BinarySpecificityAtSensitivity(PointMetric, BinaryScores, family=SPECIFICITY_AT_SENSITIVITY):
    """The largest specificity with at least ``min_sensitivity``, and its threshold."""

    def __init__(
        self,
        min_sensitivity: float,
        thresholds: Thresholds = "fine",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(thresholds, ignore_index, validate_args, **kwargs)
        self.min_sensitivity = self.within(min_sensitivity)


class MulticlassSpecificityAtSensitivity(PointMetric, MulticlassScores, family=SPECIFICITY_AT_SENSITIVITY):
    """The largest specificity of each class, one-vs-rest, with at least ``min_sensitivity``, and its threshold."""

    def __init__(
        self,
        num_classes: int,
        min_sensitivity: float,
        thresholds: Thresholds = "fine",
        ignore_index: Ignored = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, thresholds, ignore_index, validate_args, **kwargs)
        self.min_sensitivity = self.within(min_sensitivity)


class MultilabelSpecificityAtSensitivity(PointMetric, MultilabelScores, family=SPECIFICITY_AT_SENSITIVITY):
    """The largest specificity of each label with at least ``min_sensitivity``, and its threshold."""

    def __init__(
        self,
        num_labels: int,
        min_sensitivity: float,
        thresholds: Thresholds = "fine",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_labels, thresholds, ignore_index, validate_args, **kwargs)
        self.min_sensitivity = self.within(min_sensitivity)
