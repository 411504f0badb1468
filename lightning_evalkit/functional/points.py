"""The best point of a curve within a bound, as functions of one batch, with torchmetrics' names and arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightning_evalkit.functional.scores import binary_scores, multiclass_scores, multilabel_scores
from lightning_evalkit.statistics.curve_families import (
    PRECISION_AT_RECALL,
    RECALL_AT_PRECISION,
    SENSITIVITY_AT_SPECIFICITY,
    SPECIFICITY_AT_SENSITIVITY,
)

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.functional.counting import Ignored
    from lightning_evalkit.inputs import Inputs
    from lightning_evalkit.inputs.binning import Thresholds

    Point = tuple[Tensor, Tensor]


def binary_recall_at_fixed_precision(
    preds: Tensor,
    target: Tensor,
    min_precision: float,
    thresholds: Thresholds = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Point:
    """Find the largest recall with at least ``min_precision``, and its threshold."""
    best, read = RECALL_AT_PRECISION.within(min_precision), (thresholds, ignore_index, validate_args)
    return best.of_one(binary_scores(preds, target, *read, inputs=inputs, sample_weight=sample_weight))


def multiclass_recall_at_fixed_precision(
    preds: Tensor,
    target: Tensor,
    num_classes: int,
    min_precision: float,
    thresholds: Thresholds = None,
    ignore_index: Ignored = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Point:
    """Find each class's largest recall with at least ``min_precision``, and its threshold."""
    best, read = RECALL_AT_PRECISION.within(min_precision), (thresholds, ignore_index, validate_args)
    return best.of_all(multiclass_scores(preds, target, num_classes, *read, inputs=inputs, sample_weight=sample_weight))


def multilabel_recall_at_fixed_precision(
    preds: Tensor,
    target: Tensor,
    num_labels: int,
    min_precision: float,
    thresholds: Thresholds = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Point:
    """Find each label's largest recall with at least ``min_precision``, and its threshold."""
    best, read = RECALL_AT_PRECISION.within(min_precision), (thresholds, ignore_index, validate_args)
    return best.of_all(multilabel_scores(preds, target, num_labels, *read, inputs=inputs, sample_weight=sample_weight))


def binary_precision_at_fixed_recall(
    preds: Tensor,
    target: Tensor,
    min_recall: float,
    thresholds: Thresholds = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Point:
    """Find the largest precision with at least ``min_recall``, and its threshold."""
    best, read = PRECISION_AT_RECALL.within(min_recall), (thresholds, ignore_index, validate_args)
    return best.of_one(binary_scores(preds, target, *read, inputs=inputs, sample_weight=sample_weight))


def multiclass_precision_at_fixed_recall(
    preds: Tensor,
    target: Tensor,
    num_classes: int,
    min_recall: float,
    thresholds: Thresholds = None,
    ignore_index: Ignored = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Point:
    """Find each class's largest precision with at least ``min_recall``, and its threshold."""
    best, read = PRECISION_AT_RECALL.within(min_recall), (thresholds, ignore_index, validate_args)
    return best.of_all(multiclass_scores(preds, target, num_classes, *read, inputs=inputs, sample_weight=sample_weight))


def multilabel_precision_at_fixed_recall(
    preds: Tensor,
    target: Tensor,
    num_labels: int,
    min_recall: float,
    thresholds: Thresholds = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Point:
    """Find each label's largest precision with at least ``min_recall``, and its threshold."""
    best, read = PRECISION_AT_RECALL.within(min_recall), (thresholds, ignore_index, validate_args)
    return best.of_all(multilabel_scores(preds, target, num_labels, *read, inputs=inputs, sample_weight=sample_weight))


def binary_sensitivity_at_specificity(
    preds: Tensor,
    target: Tensor,
    min_specificity: float,
    thresholds: Thresholds = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Point:
    """Find the largest sensitivity with at least ``min_specificity``, and its threshold."""
    best, read = SENSITIVITY_AT_SPECIFICITY.within(min_specificity), (thresholds, ignore_index, validate_args)
    return best.of_one(binary_scores(preds, target, *read, inputs=inputs, sample_weight=sample_weight))


def multiclass_sensitivity_at_specificity(
    preds: Tensor,
    target: Tensor,
    num_classes: int,
    min_specificity: float,
    thresholds: Thresholds = None,
    ignore_index: Ignored = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Point:
    """Find each class's largest sensitivity with at least ``min_specificity``, and its threshold."""
    best, read = SENSITIVITY_AT_SPECIFICITY.within(min_specificity), (thresholds, ignore_index, validate_args)
    return best.of_all(multiclass_scores(preds, target, num_classes, *read, inputs=inputs, sample_weight=sample_weight))


def multilabel_sensitivity_at_specificity(
    preds: Tensor,
    target: Tensor,
    num_labels: int,
    min_specificity: float,
    thresholds: Thresholds = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Point:
    """Find each label's largest sensitivity with at least ``min_specificity``, and its threshold."""
    best, read = SENSITIVITY_AT_SPECIFICITY.within(min_specificity), (thresholds, ignore_index, validate_args)
    return best.of_all(multilabel_scores(preds, target, num_labels, *read, inputs=inputs, sample_weight=sample_weight))


def binary_specificity_at_sensitivity(
    preds: Tensor,
    target: Tensor,
    min_sensitivity: float,
    thresholds: Thresholds = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Point:
    """Find the largest specificity with at least ``min_sensitivity``, and its threshold."""
    best, read = SPECIFICITY_AT_SENSITIVITY.within(min_sensitivity), (thresholds, ignore_index, validate_args)
    return best.of_one(binary_scores(preds, target, *read, inputs=inputs, sample_weight=sample_weight))


def multiclass_specificity_at_sensitivity(
    preds: Tensor,
    target: Tensor,
    num_classes: int,
    min_sensitivity: float,
    thresholds: Thresholds = None,
    ignore_index: Ignored = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Point:
    """Find each class's largest specificity with at least ``min_sensitivity``, and its threshold."""
    best, read = SPECIFICITY_AT_SENSITIVITY.within(min_sensitivity), (thresholds, ignore_index, validate_args)
    return best.of_all(multiclass_scores(preds, target, num_classes, *read, inputs=inputs, sample_weight=sample_weight))


def multilabel_specificity_at_sensitivity(
    preds: Tensor,
    target: Tensor,
    num_labels: int,
    min_sensitivity: float,
    thresholds: Thresholds = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Point:
    """Find each label's largest specificity with at least ``min_sensitivity``, and its threshold."""
    best, read = SPECIFICITY_AT_SENSITIVITY.within(min_sensitivity), (thresholds, ignore_index, validate_args)
    return best.of_all(multilabel_scores(preds, target, num_labels, *read, inputs=inputs, sample_weight=sample_weight))
