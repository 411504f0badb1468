"""The metrics as functions of one batch, with torchmetrics' names and arguments.

Most are one line: a family gives the arguments, the statistics table the computation. All also take ``inputs`` and
``sample_weight``. On an accelerator ``validate_args=True`` waits for the device once, to raise for bad values.
"""

import sys
from typing import Any

import torchmetrics

from lightning_evalkit.functional.binary import binary_accuracy as binary_accuracy
from lightning_evalkit.functional.binary import binary_balanced_accuracy as binary_balanced_accuracy
from lightning_evalkit.functional.binary import binary_cohen_kappa as binary_cohen_kappa
from lightning_evalkit.functional.binary import binary_confusion_matrix as binary_confusion_matrix
from lightning_evalkit.functional.binary import binary_f1_score as binary_f1_score
from lightning_evalkit.functional.binary import binary_fbeta_score as binary_fbeta_score
from lightning_evalkit.functional.binary import binary_fowlkes_mallows as binary_fowlkes_mallows
from lightning_evalkit.functional.binary import binary_geometric_mean as binary_geometric_mean
from lightning_evalkit.functional.binary import binary_hamming_distance as binary_hamming_distance
from lightning_evalkit.functional.binary import binary_informedness as binary_informedness
from lightning_evalkit.functional.binary import binary_jaccard_index as binary_jaccard_index
from lightning_evalkit.functional.binary import binary_markedness as binary_markedness
from lightning_evalkit.functional.binary import binary_matthews_corrcoef as binary_matthews_corrcoef
from lightning_evalkit.functional.binary import binary_negative_predictive_value as binary_negative_predictive_value
from lightning_evalkit.functional.binary import binary_precision as binary_precision
from lightning_evalkit.functional.binary import binary_recall as binary_recall
from lightning_evalkit.functional.binary import binary_specificity as binary_specificity
from lightning_evalkit.functional.binary import binary_stat_scores as binary_stat_scores
from lightning_evalkit.functional.by_task import accuracy as accuracy
from lightning_evalkit.functional.by_task import auroc as auroc
from lightning_evalkit.functional.by_task import average_precision as average_precision
from lightning_evalkit.functional.by_task import calibration_error as calibration_error
from lightning_evalkit.functional.by_task import cohen_kappa as cohen_kappa
from lightning_evalkit.functional.by_task import confusion_matrix as confusion_matrix
from lightning_evalkit.functional.by_task import eer as eer
from lightning_evalkit.functional.by_task import exact_match as exact_match
from lightning_evalkit.functional.by_task import f1_score as f1_score
from lightning_evalkit.functional.by_task import fbeta_score as fbeta_score
from lightning_evalkit.functional.by_task import hamming_distance as hamming_distance
from lightning_evalkit.functional.by_task import hinge_loss as hinge_loss
from lightning_evalkit.functional.by_task import jaccard_index as jaccard_index
from lightning_evalkit.functional.by_task import logauc as logauc
from lightning_evalkit.functional.by_task import matthews_corrcoef as matthews_corrcoef
from lightning_evalkit.functional.by_task import negative_predictive_value as negative_predictive_value
from lightning_evalkit.functional.by_task import precision as precision
from lightning_evalkit.functional.by_task import precision_at_fixed_recall as precision_at_fixed_recall
from lightning_evalkit.functional.by_task import precision_recall_curve as precision_recall_curve
from lightning_evalkit.functional.by_task import recall as recall
from lightning_evalkit.functional.by_task import recall_at_fixed_precision as recall_at_fixed_precision
from lightning_evalkit.functional.by_task import roc as roc
from lightning_evalkit.functional.by_task import sensitivity_at_specificity as sensitivity_at_specificity
from lightning_evalkit.functional.by_task import specificity as specificity
from lightning_evalkit.functional.by_task import specificity_at_sensitivity as specificity_at_sensitivity
from lightning_evalkit.functional.by_task import stat_scores as stat_scores
from lightning_evalkit.functional.calibration import binary_calibration_error as binary_calibration_error
from lightning_evalkit.functional.calibration import multiclass_calibration_error as multiclass_calibration_error
from lightning_evalkit.functional.curves import binary_auroc as binary_auroc
from lightning_evalkit.functional.curves import binary_average_precision as binary_average_precision
from lightning_evalkit.functional.curves import binary_eer as binary_eer
from lightning_evalkit.functional.curves import binary_logauc as binary_logauc
from lightning_evalkit.functional.curves import binary_precision_recall_curve as binary_precision_recall_curve
from lightning_evalkit.functional.curves import binary_roc as binary_roc
from lightning_evalkit.functional.curves import multiclass_auroc as multiclass_auroc
from lightning_evalkit.functional.curves import multiclass_average_precision as multiclass_average_precision
from lightning_evalkit.functional.curves import multiclass_eer as multiclass_eer
from lightning_evalkit.functional.curves import multiclass_logauc as multiclass_logauc
from lightning_evalkit.functional.curves import multiclass_precision_recall_curve as multiclass_precision_recall_curve
from lightning_evalkit.functional.curves import multiclass_roc as multiclass_roc
from lightning_evalkit.functional.curves import multilabel_auroc as multilabel_auroc
from lightning_evalkit.functional.curves import multilabel_average_precision as multilabel_average_precision
from lightning_evalkit.functional.curves import multilabel_eer as multilabel_eer
from lightning_evalkit.functional.curves import multilabel_logauc as multilabel_logauc
from lightning_evalkit.functional.curves import multilabel_precision_recall_curve as multilabel_precision_recall_curve
from lightning_evalkit.functional.curves import multilabel_roc as multilabel_roc
from lightning_evalkit.functional.fairness import binary_fairness as binary_fairness
from lightning_evalkit.functional.fairness import binary_groups_stat_rates as binary_groups_stat_rates
from lightning_evalkit.functional.fairness import demographic_parity as demographic_parity
from lightning_evalkit.functional.fairness import equal_opportunity as equal_opportunity
from lightning_evalkit.functional.multiclass import multiclass_accuracy as multiclass_accuracy
from lightning_evalkit.functional.multiclass import multiclass_cohen_kappa as multiclass_cohen_kappa
from lightning_evalkit.functional.multiclass import multiclass_confusion_matrix as multiclass_confusion_matrix
from lightning_evalkit.functional.multiclass import multiclass_exact_match as multiclass_exact_match
from lightning_evalkit.functional.multiclass import multiclass_f1_score as multiclass_f1_score
from lightning_evalkit.functional.multiclass import multiclass_fbeta_score as multiclass_fbeta_score
from lightning_evalkit.functional.multiclass import multiclass_hamming_distance as multiclass_hamming_distance
from lightning_evalkit.functional.multiclass import multiclass_jaccard_index as multiclass_jaccard_index
from lightning_evalkit.functional.multiclass import multiclass_matthews_corrcoef as multiclass_matthews_corrcoef
from lightning_evalkit.functional.multiclass import (
    multiclass_negative_predictive_value as multiclass_negative_predictive_value,
)
from lightning_evalkit.functional.multiclass import multiclass_precision as multiclass_precision
from lightning_evalkit.functional.multiclass import multiclass_recall as multiclass_recall
from lightning_evalkit.functional.multiclass import multiclass_specificity as multiclass_specificity
from lightning_evalkit.functional.multiclass import multiclass_stat_scores as multiclass_stat_scores
from lightning_evalkit.functional.multilabel import multilabel_accuracy as multilabel_accuracy
from lightning_evalkit.functional.multilabel import multilabel_confusion_matrix as multilabel_confusion_matrix
from lightning_evalkit.functional.multilabel import multilabel_exact_match as multilabel_exact_match
from lightning_evalkit.functional.multilabel import multilabel_f1_score as multilabel_f1_score
from lightning_evalkit.functional.multilabel import multilabel_fbeta_score as multilabel_fbeta_score
from lightning_evalkit.functional.multilabel import multilabel_hamming_distance as multilabel_hamming_distance
from lightning_evalkit.functional.multilabel import multilabel_jaccard_index as multilabel_jaccard_index
from lightning_evalkit.functional.multilabel import multilabel_matthews_corrcoef as multilabel_matthews_corrcoef
from lightning_evalkit.functional.multilabel import (
    multilabel_negative_predictive_value as multilabel_negative_predictive_value,
)
from lightning_evalkit.functional.multilabel import multilabel_precision as multilabel_precision
from lightning_evalkit.functional.multilabel import multilabel_recall as multilabel_recall
from lightning_evalkit.functional.multilabel import multilabel_specificity as multilabel_specificity
from lightning_evalkit.functional.multilabel import multilabel_stat_scores as multilabel_stat_scores
from lightning_evalkit.functional.points import binary_precision_at_fixed_recall as binary_precision_at_fixed_recall
from lightning_evalkit.functional.points import binary_recall_at_fixed_precision as binary_recall_at_fixed_precision
from lightning_evalkit.functional.points import binary_sensitivity_at_specificity as binary_sensitivity_at_specificity
from lightning_evalkit.functional.points import binary_specificity_at_sensitivity as binary_specificity_at_sensitivity
from lightning_evalkit.functional.points import (
    multiclass_precision_at_fixed_recall as multiclass_precision_at_fixed_recall,
)
from lightning_evalkit.functional.points import (
    multiclass_recall_at_fixed_precision as multiclass_recall_at_fixed_precision,
)
from lightning_evalkit.functional.points import (
    multiclass_sensitivity_at_specificity as multiclass_sensitivity_at_specificity,
)
from lightning_evalkit.functional.points import (
    multiclass_specificity_at_sensitivity as multiclass_specificity_at_sensitivity,
)
from lightning_evalkit.functional.points import (
    multilabel_precision_at_fixed_recall as multilabel_precision_at_fixed_recall,
)
from lightning_evalkit.functional.points import (
    multilabel_recall_at_fixed_precision as multilabel_recall_at_fixed_precision,
)
from lightning_evalkit.functional.points import (
    multilabel_sensitivity_at_specificity as multilabel_sensitivity_at_specificity,
)
from lightning_evalkit.functional.points import (
    multilabel_specificity_at_sensitivity as multilabel_specificity_at_sensitivity,
)
from lightning_evalkit.functional.sample_means import binary_hinge_loss as binary_hinge_loss
from lightning_evalkit.functional.sample_means import multiclass_hinge_loss as multiclass_hinge_loss
from lightning_evalkit.functional.sample_means import multilabel_coverage_error as multilabel_coverage_error
from lightning_evalkit.functional.sample_means import (
    multilabel_ranking_average_precision as multilabel_ranking_average_precision,
)
from lightning_evalkit.functional.sample_means import multilabel_ranking_loss as multilabel_ranking_loss

# The names imported above, without the modules they come from.
__all__ = [name for name, value in globals().items() if getattr(value, "__module__", "").startswith(f"{__name__}.")]


def __getattr__(name: str) -> Any:
    """Return this module under the name that it has in torchmetrics, or a function that is not about classification."""
    if name == "classification":
        return sys.modules[__name__]
    if name in torchmetrics.functional.__all__ or f"torchmetrics.functional.{name}" in sys.modules:
        return getattr(torchmetrics.functional, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
