"""Draws evaluations with matplotlib: every function takes an evaluation and, if you have them, axes to draw on."""

from lightning_evalkit.evaluation.plots import (
    plot_confusion_matrix,
    plot_precision_recall,
    plot_reliability,
    plot_roc,
    plot_thresholds,
)

__all__ = ["plot_confusion_matrix", "plot_precision_recall", "plot_reliability", "plot_roc", "plot_thresholds"]
