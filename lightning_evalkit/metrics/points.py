"""The best point of a curve within a bound: torchmetrics' names, arguments and results.

The bound is the first argument, by torchmetrics' name for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lightning_evalkit.metrics.families import (
    PrecisionAtRecall,
    RecallAtPrecision,
    SensitivityAtSpecificityPoint,
    SpecificityAtSensitivityPoint,
)
from lightning_evalkit.metrics.scores import BinaryScores, MulticlassScores, MultilabelScores, checked_share

if TYPE_CHECKING:
    from lightning_evalkit.inputs.scores import Thresholds
    from lightning_evalkit.metrics.scores import Ignored


class BinaryRecallAtFixedPrecision(RecallAtPrecision, BinaryScores):
    """The largest recall with at least so much precision, and its threshold."""

    def __init__(
        self,
        min_precision: float,
        thresholds: Thresholds = "fine",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(thresholds, ignore_index, validate_args, **kwargs)
        self.min_precision = self.bound = checked_share("min_precision", min_precision)


class MulticlassRecallAtFixedPrecision(RecallAtPrecision, MulticlassScores):
    """The largest recall with at least so much precision, for each class against the rest, and its threshold."""

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
        self.min_precision = self.bound = checked_share("min_precision", min_precision)


class MultilabelRecallAtFixedPrecision(RecallAtPrecision, MultilabelScores):
    """The largest recall with at least so much precision, for each label, and its threshold."""

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
        self.min_precision = self.bound = checked_share("min_precision", min_precision)


class BinaryPrecisionAtFixedRecall(PrecisionAtRecall, BinaryScores):
    """The largest precision with at least so much recall, and its threshold."""

    def __init__(
        self,
        min_recall: float,
        thresholds: Thresholds = "fine",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(thresholds, ignore_index, validate_args, **kwargs)
        self.min_recall = self.bound = checked_share("min_recall", min_recall)


class MulticlassPrecisionAtFixedRecall(PrecisionAtRecall, MulticlassScores):
    """The largest precision with at least so much recall, for each class against the rest, and its threshold."""

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
        self.min_recall = self.bound = checked_share("min_recall", min_recall)


class MultilabelPrecisionAtFixedRecall(PrecisionAtRecall, MultilabelScores):
    """The largest precision with at least so much recall, for each label, and its threshold."""

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
        self.min_recall = self.bound = checked_share("min_recall", min_recall)


class BinarySensitivityAtSpecificity(SensitivityAtSpecificityPoint, BinaryScores):
    """The largest sensitivity with at least so much specificity, and its threshold."""

    def __init__(
        self,
        min_specificity: float,
        thresholds: Thresholds = "fine",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(thresholds, ignore_index, validate_args, **kwargs)
        self.min_specificity = self.bound = checked_share("min_specificity", min_specificity)


class MulticlassSensitivityAtSpecificity(SensitivityAtSpecificityPoint, MulticlassScores):
    """The largest sensitivity with at least so much specificity, for each class against the rest, and its threshold."""

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
        self.min_specificity = self.bound = checked_share("min_specificity", min_specificity)


class MultilabelSensitivityAtSpecificity(SensitivityAtSpecificityPoint, MultilabelScores):
    """The largest sensitivity with at least so much specificity, for each label, and its threshold."""

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
        self.min_specificity = self.bound = checked_share("min_specificity", min_specificity)


class BinarySpecificityAtSensitivity(SpecificityAtSensitivityPoint, BinaryScores):
    """The largest specificity with at least so much sensitivity, and its threshold."""

    def __init__(
        self,
        min_sensitivity: float,
        thresholds: Thresholds = "fine",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(thresholds, ignore_index, validate_args, **kwargs)
        self.min_sensitivity = self.bound = checked_share("min_sensitivity", min_sensitivity)


class MulticlassSpecificityAtSensitivity(SpecificityAtSensitivityPoint, MulticlassScores):
    """The largest specificity with at least so much sensitivity, for each class against the rest, and its threshold."""

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
        self.min_sensitivity = self.bound = checked_share("min_sensitivity", min_sensitivity)


class MultilabelSpecificityAtSensitivity(SpecificityAtSensitivityPoint, MultilabelScores):
    """The largest specificity with at least so much sensitivity, for each label, and its threshold."""

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
        self.min_sensitivity = self.bound = checked_share("min_sensitivity", min_sensitivity)
