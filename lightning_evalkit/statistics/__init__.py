"""Counts into undivided fractions, and fractions into numbers."""

from lightning_evalkit.statistics.definitions import f_beta
from lightning_evalkit.statistics.quantity import Quantity, ratio, root
from lightning_evalkit.statistics.results import (
    KappaWeights,
    Normalize,
    checked_normalize,
    checked_weights,
    confusion_matrix,
    matthews_of_torchmetrics,
    stat_scores,
)
from lightning_evalkit.statistics.table import STATISTICS, Statistic, find, statistic

__all__ = [
    "STATISTICS",
    "KappaWeights",
    "Normalize",
    "Quantity",
    "Statistic",
    "checked_normalize",
    "checked_weights",
    "confusion_matrix",
    "f_beta",
    "find",
    "matthews_of_torchmetrics",
    "ratio",
    "root",
    "stat_scores",
    "statistic",
]
