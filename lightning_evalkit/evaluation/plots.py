"""Draws the confusion matrix and the curves of an evaluation, on given axes or on a new figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.evaluation import curve_panels
from lightning_evalkit.evaluation.score_snapshot import score_snapshot
from lightning_evalkit.inputs.threshold import names_of

UNKEPT = {"title": "Counts, each class against the rest", "note": "the whole matrix needs confusion_matrix=True"}
"""What is said of classes whose confusion matrix was not kept."""

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from lightning_evalkit.evaluation.score_snapshot import ScoreSnapshot
    from lightning_evalkit.sinks.panels import Panel


def plot_confusion_matrix(evaluation: Any, ax: Any = None, title: str = "") -> Any:
    """Draw targets in rows and predictions in columns, or a row of counts for each label or threshold.

    ``ax`` are matplotlib's axes to draw on, which are returned. Without them it returns a new figure with a ``title``.
    """
    from lightning_evalkit.sinks import figures

    matrix, names = evaluation.confusion_matrix.cpu(), matrix_labels(evaluation)
    if ax is None:
        return (figures.confusion_matrix if matrix.ndim == 2 else figures.label_counts)(matrix, names, title)
    return (figures.matrix_on if matrix.ndim == 2 else figures.label_counts_on)(ax, matrix, names)


def plot_roc(evaluation: Any, ax: Any = None) -> Any:
    """Draw the true-positive over the false-positive rate, with AUROC; needs ``curves=True``."""
    return _drawn(evaluation, ax, curve_panels.roc)


def plot_precision_recall(evaluation: Any, ax: Any = None) -> Any:
    """Draw precision over recall, with average precision; needs ``curves=True``."""
    return _drawn(evaluation, ax, curve_panels.precision_recall)


def plot_thresholds(evaluation: Any, ax: Any = None, costs: Mapping[str, float] | None = None) -> Any:
    """Draw F1, precision and recall over the threshold, with the best and the declared one; needs ``curves=True``.

    ``costs`` of errors, such as {"fp": 1, "fn": 20}, add the mean cost and its minimum, on an axis on the right.
    """
    return _drawn(evaluation, ax, lambda kept: curve_panels.thresholds(kept, costs))


def plot_reliability(evaluation: Any, ax: Any = None) -> Any:
    """Draw observed frequencies over predicted probabilities, with 95 % intervals; needs ``curves=True``."""
    return _drawn(evaluation, ax, curve_panels.reliability)


def figure_of(evaluation: Any) -> Any:
    """Draw the confusion matrix, or each class against the rest if it was not kept, and with ``curves`` all curves."""
    from lightning_evalkit.sinks import figures

    kept, names, said = score_snapshot(evaluation), matrix_labels(evaluation), {}
    try:
        matrix = evaluation.confusion_matrix.cpu()
    except DeclarationError:  # it was not kept
        matrix, said = _against_the_rest(evaluation), UNKEPT
    if kept is not None:
        return figures.matrix_and_panels(matrix, names, curve_panels.panels(kept), **said)
    return figures.confusion_matrix(matrix, names) if matrix.ndim == 2 else figures.label_counts(matrix, names, **said)


def _against_the_rest(evaluation: Any) -> Tensor:
    """A 2×2 table for each class, negatives first."""
    tp, fp, fn, tn = evaluation.counts.cells
    tables = torch.stack((torch.stack((tn, fp), -1), torch.stack((fn, tp), -1)), -2)
    return tables.cpu()


def counts_image(evaluation: Any, title: str = "") -> NDArray[np.uint8]:
    """Draw the confusion matrix, or the counts of labels or thresholds, as the pixels of a thumbnail."""
    from lightning_evalkit.sinks import thumbnails

    return thumbnails.counts(evaluation.confusion_matrix.cpu(), matrix_labels(evaluation), title)


def matrix_labels(evaluation: Any) -> Sequence[str]:
    """The names of the confusion matrix's rows: classes, labels, or several thresholds."""
    names: Sequence[str] | None = getattr(evaluation, "class_names", getattr(evaluation, "label_names", None))
    return names or [f"threshold {cut}" for cut in names_of(thresholds_listed(evaluation))] or ("negative", "positive")


def thresholds_listed(evaluation: Any) -> Sequence[float]:
    """The thresholds of a binary evaluation that declares a list."""
    cuts = getattr(evaluation, "threshold", 0.5)
    return () if isinstance(cuts, (int, float)) or hasattr(evaluation, "label_names") else cuts


def _drawn(evaluation: Any, ax: Any, panel_of: Callable[[ScoreSnapshot], Panel]) -> Any:
    from lightning_evalkit.sinks import figures, panel_axes

    evaluation._refuse_without_scores()
    kept = score_snapshot(evaluation)
    assert kept is not None  # refused above
    panel = panel_of(kept)
    return figures.panels([panel]) if ax is None else panel_axes.panel_on(ax, panel)
