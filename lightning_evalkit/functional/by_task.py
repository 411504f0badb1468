"""The functions of the three tasks under one name, with torchmetrics' arguments.

``accuracy(preds, target, task="binary")`` is ``binary_accuracy``; arguments that it lacks are ignored, as there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightning_evalkit.functional import binary, calibration, curves, multiclass, multilabel, points, sample_means
from lightning_evalkit.functional.tasks import by_task
from lightning_evalkit.statistics.arguments import AVERAGED, COUNTED, HINGED, LAST, NUMBERS, SCORED

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.functional.curves import Curves
    from lightning_evalkit.functional.points import Point

# ---- counts


@by_task(binary.binary_accuracy, multiclass.multiclass_accuracy, multilabel.multilabel_accuracy, arguments=AVERAGED)
def accuracy(result: Tensor) -> Tensor:
    """Compute the share of correct predictions.

    >>> import torch
    >>> accuracy(torch.tensor([0, 1, 2, 1]), torch.tensor([0, 1, 2, 2]), task="multiclass", num_classes=3)
    tensor(0.7500)
    """
    return result


@by_task(
    binary.binary_precision,
    multiclass.multiclass_precision,
    multilabel.multilabel_precision,
    arguments=(*AVERAGED, "zero_division"),
)
def precision(result: Tensor) -> Tensor:
    """Compute the share of true positives among predicted positives."""
    return result


@by_task(
    binary.binary_recall,
    multiclass.multiclass_recall,
    multilabel.multilabel_recall,
    arguments=(*AVERAGED, "zero_division"),
)
def recall(result: Tensor) -> Tensor:
    """Compute the share of true positives among positives."""
    return result


@by_task(
    binary.binary_specificity, multiclass.multiclass_specificity, multilabel.multilabel_specificity, arguments=AVERAGED
)
def specificity(result: Tensor) -> Tensor:
    """Compute the share of true negatives among negatives."""
    return result


@by_task(
    binary.binary_negative_predictive_value,
    multiclass.multiclass_negative_predictive_value,
    multilabel.multilabel_negative_predictive_value,
    arguments=(*AVERAGED, "zero_division"),
)
def negative_predictive_value(result: Tensor) -> Tensor:
    """Compute the share of true negatives among predicted negatives."""
    return result


@by_task(
    binary.binary_hamming_distance,
    multiclass.multiclass_hamming_distance,
    multilabel.multilabel_hamming_distance,
    arguments=AVERAGED,
)
def hamming_distance(result: Tensor) -> Tensor:
    """Compute the share of wrong predictions."""
    return result


@by_task(
    binary.binary_stat_scores, multiclass.multiclass_stat_scores, multilabel.multilabel_stat_scores, arguments=AVERAGED
)
def stat_scores(result: Tensor) -> Tensor:
    """Compute the counts themselves: tp, fp, tn, fn, support."""
    return result


@by_task(
    binary.binary_f1_score,
    multiclass.multiclass_f1_score,
    multilabel.multilabel_f1_score,
    arguments=(*AVERAGED, "zero_division"),
)
def f1_score(result: Tensor) -> Tensor:
    """Compute the harmonic mean of precision and recall."""
    return result


@by_task(
    binary.binary_fbeta_score,
    multiclass.multiclass_fbeta_score,
    multilabel.multilabel_fbeta_score,
    arguments=("beta", *AVERAGED, "zero_division"),
)
def fbeta_score(result: Tensor) -> Tensor:
    """Compute the weighted harmonic mean of precision and recall; recall weighs ``beta`` times as much."""
    return result


@by_task(
    binary.binary_jaccard_index,
    multiclass.multiclass_jaccard_index,
    multilabel.multilabel_jaccard_index,
    arguments=(*COUNTED, "average", *LAST, "zero_division"),
    average="macro",
)
def jaccard_index(result: Tensor) -> Tensor:
    """Compute the share of true positives among samples that are positive or predicted positive."""
    return result


@by_task(
    binary.binary_matthews_corrcoef,
    multiclass.multiclass_matthews_corrcoef,
    multilabel.multilabel_matthews_corrcoef,
    arguments=(*COUNTED, *LAST),
)
def matthews_corrcoef(result: Tensor) -> Tensor:
    """Compute the Matthews correlation."""
    return result


@by_task(
    binary.binary_confusion_matrix,
    multiclass.multiclass_confusion_matrix,
    multilabel.multilabel_confusion_matrix,
    arguments=(*COUNTED, "normalize", *LAST),
)
def confusion_matrix(result: Tensor) -> Tensor:
    """Compute the confusion matrix: targets in rows and predictions in columns."""
    return result


@by_task(
    binary.binary_cohen_kappa,
    multiclass.multiclass_cohen_kappa,
    None,
    arguments=("threshold", "num_classes", "weights", *LAST),
)
def cohen_kappa(result: Tensor) -> Tensor:
    """Compute the agreement beyond chance."""
    return result


@by_task(
    None,
    multiclass.multiclass_exact_match,
    multilabel.multilabel_exact_match,
    arguments=(*NUMBERS, "threshold", "multidim_average", *LAST),
)
def exact_match(result: Tensor) -> Tensor:
    """Compute the share of samples that are predicted rightly in every element or label."""
    return result


# ---- scores


@by_task(
    curves.binary_roc, curves.multiclass_roc, curves.multilabel_roc, arguments=(*SCORED, "average", *LAST), average=None
)
def roc(result: Curves) -> Curves:
    """Compute the ROC curve: false-positive rates, true-positive rates, falling thresholds."""
    return result


@by_task(
    curves.binary_precision_recall_curve,
    curves.multiclass_precision_recall_curve,
    curves.multilabel_precision_recall_curve,
    arguments=(*SCORED, "average", *LAST),
    average=None,
)
def precision_recall_curve(result: Curves) -> Curves:
    """Compute the precision-recall curve: precisions, recalls, rising thresholds."""
    return result


@by_task(
    curves.binary_auroc,
    curves.multiclass_auroc,
    curves.multilabel_auroc,
    arguments=(*SCORED, "average", "max_fpr", *LAST),
    average="macro",
)
def auroc(result: Tensor) -> Tensor:
    """Compute the area under the ROC curve."""
    return result


@by_task(
    curves.binary_logauc,
    curves.multiclass_logauc,
    curves.multilabel_logauc,
    arguments=(*SCORED, "fpr_range", "average", *LAST),
    average=None,
)
def logauc(result: Tensor) -> Tensor:
    """Compute the area under the ROC curve over the logarithm of the false-positive rate."""
    return result


@by_task(
    curves.binary_average_precision,
    curves.multiclass_average_precision,
    curves.multilabel_average_precision,
    arguments=(*SCORED, "average", *LAST),
    average="macro",
)
def average_precision(result: Tensor) -> Tensor:
    """Compute the area under the precision-recall curve, in steps."""
    return result


@by_task(
    curves.binary_eer, curves.multiclass_eer, curves.multilabel_eer, arguments=(*SCORED, "average", *LAST), average=None
)
def eer(result: Tensor) -> Tensor:
    """Compute the equal error rate."""
    return result


@by_task(
    points.binary_recall_at_fixed_precision,
    points.multiclass_recall_at_fixed_precision,
    points.multilabel_recall_at_fixed_precision,
    arguments=("min_precision", *SCORED, *LAST),
)
def recall_at_fixed_precision(result: Point) -> Point:
    """Find the largest recall with at least ``min_precision``, and its threshold."""
    return result


@by_task(
    points.binary_precision_at_fixed_recall,
    points.multiclass_precision_at_fixed_recall,
    points.multilabel_precision_at_fixed_recall,
    arguments=("min_recall", *SCORED, *LAST),
)
def precision_at_fixed_recall(result: Point) -> Point:
    """Find the largest precision with at least ``min_recall``, and its threshold."""
    return result


@by_task(
    points.binary_sensitivity_at_specificity,
    points.multiclass_sensitivity_at_specificity,
    points.multilabel_sensitivity_at_specificity,
    arguments=("min_specificity", *SCORED, *LAST),
)
def sensitivity_at_specificity(result: Point) -> Point:
    """Find the largest sensitivity with at least ``min_specificity``, and its threshold."""
    return result


@by_task(
    points.binary_specificity_at_sensitivity,
    points.multiclass_specificity_at_sensitivity,
    points.multilabel_specificity_at_sensitivity,
    arguments=("min_sensitivity", *SCORED, *LAST),
)
def specificity_at_sensitivity(result: Point) -> Point:
    """Find the largest specificity with at least ``min_sensitivity``, and its threshold."""
    return result


# ---- probabilities


@by_task(
    calibration.binary_calibration_error,
    calibration.multiclass_calibration_error,
    None,
    arguments=("n_bins", "norm", "num_classes", *LAST),
)
def calibration_error(result: Tensor) -> Tensor:
    """Compute the gaps between confidence and hits over bins."""
    return result


@by_task(sample_means.binary_hinge_loss, sample_means.multiclass_hinge_loss, None, arguments=HINGED)
def hinge_loss(result: Tensor) -> Tensor:
    """Compute the mean of max(0, 1 - margin)."""
    return result
