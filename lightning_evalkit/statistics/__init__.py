"""Turns counts into undivided fractions, and those into numbers; turns histograms of scores into curves and areas."""

from lightning_evalkit.statistics.averages import Average, averaged, checked_average, mean
from lightning_evalkit.statistics.calibration import BrierParts
from lightning_evalkit.statistics.definitions import f_beta
from lightning_evalkit.statistics.overall import OVERALL, weighted_kappa
from lightning_evalkit.statistics.quantity import Quantity, ratio, root
from lightning_evalkit.statistics.results import (
    ClassAverage,
    KappaWeights,
    LabelAverage,
    Normalize,
    averaged_stat_scores,
    checked_normalize,
    checked_weights,
    confusion_matrix,
    exact_match_of_torchmetrics,
    matthews_of_torchmetrics,
    multiclass_kappa,
    multiclass_matthews_of_torchmetrics,
    normalized,
    stat_scores,
    without_classes,
)
from lightning_evalkit.statistics.score_statistics import SCORE_STATISTICS, ScoreStatistic
from lightning_evalkit.statistics.table import STATISTICS, Statistic, exists, find, statistic

__all__ = [
    "OVERALL",
    "SCORE_STATISTICS",
    "STATISTICS",
    "Average",
    "BrierParts",
    "ClassAverage",
    "KappaWeights",
    "LabelAverage",
    "Normalize",
    "Quantity",
    "ScoreStatistic",
    "Statistic",
    "averaged",
    "averaged_stat_scores",
    "checked_average",
    "checked_normalize",
    "checked_weights",
    "confusion_matrix",
    "exact_match_of_torchmetrics",
    "exists",
    "f_beta",
    "find",
    "matthews_of_torchmetrics",
    "mean",
    "multiclass_kappa",
    "multiclass_matthews_of_torchmetrics",
    "normalized",
    "ratio",
    "root",
    "stat_scores",
    "statistic",
    "weighted_kappa",
    "without_classes",
]
