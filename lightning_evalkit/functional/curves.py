"""Curves and areas under them as functions of one batch, with torchmetrics' names and arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from lightning_evalkit.functional.arguments import arguments_of
from lightning_evalkit.functional.scores import (
    Averaged,
    binary_scores,
    multiclass_areas,
    multiclass_curves,
    multiclass_scores,
    multilabel_areas,
    multilabel_scores,
)
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
from lightning_evalkit.statistics.curve_options import LOG_AVERAGES, checked_curve_average

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.functional.counting import Ignored
    from lightning_evalkit.functional.scores import Tables
    from lightning_evalkit.inputs import Inputs
    from lightning_evalkit.inputs.binning import Thresholds

    OneCurve = tuple[Tensor, Tensor, Tensor]
    Curves = OneCurve | tuple[list[Tensor], list[Tensor], list[Tensor]]


# ---- curves


@arguments_of(binary_scores)
def binary_roc(scores: Tables) -> OneCurve:
    """Compute the ROC curve: false-positive rates, true-positive rates, falling thresholds.

    >>> import torch
    >>> binary_roc(torch.tensor([0.9, 0.2, 0.7]), torch.tensor([1, 0, 0]), inputs="probabilities")[1]
    tensor([0., 1., 1., 1.])
    """
    return ROC.of_one(scores)


@arguments_of(multiclass_curves)
def multiclass_roc(scores: Averaged) -> Curves:
    """Compute the ROC curves of each class against the rest."""
    return ROC.of_all(scores.tables, scores.average)


@arguments_of(multilabel_scores)
def multilabel_roc(scores: Tables) -> Curves:
    """Compute the ROC curves of each label."""
    return ROC.of_all(scores)


@arguments_of(binary_scores)
def binary_precision_recall_curve(scores: Tables) -> OneCurve:
    """Compute the precision-recall curve: precisions, recalls, rising thresholds."""
    return PRECISION_RECALL.of_one(scores)


@arguments_of(multiclass_curves)
def multiclass_precision_recall_curve(scores: Averaged) -> Curves:
    """Compute the precision-recall curves of each class against the rest."""
    return CLASS_PRECISION_RECALL.of_all(scores.tables, scores.average)


@arguments_of(multilabel_scores)
def multilabel_precision_recall_curve(scores: Tables) -> Curves:
    """Compute the precision-recall curves of each label."""
    return PRECISION_RECALL.of_all(scores)


# ---- numbers


def binary_auroc(
    preds: Tensor,
    target: Tensor,
    max_fpr: float | None = None,
    thresholds: Thresholds = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Compute the area under the ROC curve, up to ``max_fpr`` and rescaled if that is given.

    >>> import torch
    >>> binary_auroc(torch.tensor([0.9, 0.2, 0.7]), torch.tensor([1, 0, 0]), inputs="probabilities")
    tensor(1.)
    """
    area, read = AUROC.up_to(max_fpr), (thresholds, ignore_index, validate_args)
    return area.of_one(binary_scores(preds, target, *read, inputs=inputs, sample_weight=sample_weight))


def binary_logauc(
    preds: Tensor,
    target: Tensor,
    fpr_range: tuple[float, float] = (0.001, 0.1),
    thresholds: Thresholds = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Compute the area under the ROC curve over the logarithm of the false-positive rate, within a range of that."""
    area, read = LOG_AUC.over(fpr_range), (thresholds, ignore_index, validate_args)
    return area.of_one(binary_scores(preds, target, *read, inputs=inputs, sample_weight=sample_weight))


def multiclass_logauc(
    preds: Tensor,
    target: Tensor,
    num_classes: int,
    fpr_range: tuple[float, float] = (0.001, 0.1),
    average: Literal["macro", "none"] | None = "macro",
    thresholds: Thresholds = None,
    ignore_index: Ignored = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Compute the areas over the logarithm of the false-positive rate of each class, or their average."""
    area, how = LOG_AUC.over(fpr_range), checked_curve_average(average, LOG_AVERAGES)
    read = (thresholds, ignore_index, validate_args)
    tables = multiclass_scores(preds, target, num_classes, *read, inputs=inputs, sample_weight=sample_weight)
    return area.of_all(tables, how)


def multilabel_logauc(
    preds: Tensor,
    target: Tensor,
    num_labels: int,
    fpr_range: tuple[float, float] = (0.001, 0.1),
    average: Literal["macro", "none"] | None = "macro",
    thresholds: Thresholds = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Compute the areas over the logarithm of the false-positive rate of each label, or their average."""
    area, how = LOG_AUC.over(fpr_range), checked_curve_average(average, LOG_AVERAGES)
    read = (thresholds, ignore_index, validate_args)
    tables = multilabel_scores(preds, target, num_labels, *read, inputs=inputs, sample_weight=sample_weight)
    return area.of_all(tables, how)


@arguments_of(multiclass_areas)
def multiclass_auroc(scores: Averaged) -> Tensor:
    """Compute the areas under the ROC curves of each class against the rest, or their average."""
    return AUROC.of_all(scores.tables, scores.average)


@arguments_of(multilabel_areas)
def multilabel_auroc(scores: Averaged) -> Tensor:
    """Compute the areas under the ROC curves of each label, or their average."""
    return AUROC.of_all(scores.tables, scores.average)


@arguments_of(binary_scores)
def binary_average_precision(scores: Tables) -> Tensor:
    """Compute the area under the precision-recall curve, in steps."""
    return AVERAGE_PRECISION.of_one(scores)


@arguments_of(multiclass_areas)
def multiclass_average_precision(scores: Averaged) -> Tensor:
    """Compute the average precisions of each class against the rest, or their average."""
    return CLASS_AVERAGE_PRECISION.of_all(scores.tables, scores.average)


@arguments_of(multilabel_areas)
def multilabel_average_precision(scores: Averaged) -> Tensor:
    """Compute the average precisions of each label, or their average."""
    return AVERAGE_PRECISION.of_all(scores.tables, scores.average)


@arguments_of(binary_scores)
def binary_eer(scores: Tables) -> Tensor:
    """Compute the equal error rate."""
    return EER.of_one(scores)


@arguments_of(multiclass_curves)
def multiclass_eer(scores: Averaged) -> Tensor:
    """Compute the equal error rates of each class against the rest, or that of the averaged curve."""
    return EER.of_all(scores.tables, scores.average)


@arguments_of(multilabel_scores)
def multilabel_eer(scores: Tables) -> Tensor:
    """Compute the equal error rates of each label."""
    return EER.of_all(scores)
