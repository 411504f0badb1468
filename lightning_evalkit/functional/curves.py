"""Curves and areas under them as functions of one batch, with torchmetrics' names and arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightning_evalkit.functional.arguments import arguments_of
from lightning_evalkit.functional.scores import (
    Averaged,
    binary_scores,
    multiclass_areas,
    multiclass_curves,
    multilabel_areas,
    multilabel_scores,
)
from lightning_evalkit.statistics.curve_families import AUROC, AVERAGE_PRECISION, EER, PRECISION_RECALL, ROC

if TYPE_CHECKING:
    from torch import Tensor

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
    return PRECISION_RECALL.of_all(scores.tables, scores.average)


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
    return AVERAGE_PRECISION.of_all(scores.tables, scores.average)


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
