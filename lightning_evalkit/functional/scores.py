"""Counting the scores of one batch for a function of curves.

By default every score is a threshold (``thresholds=None``): a batch is in memory anyway.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lightning_evalkit.counts import ScoreCounter, StoredScores
from lightning_evalkit.functional.counting import Ignored, counted
from lightning_evalkit.inputs import Binary, Inputs, Multiclass, Multilabel, binning_of
from lightning_evalkit.statistics.curve_options import (
    CLASS_AVERAGES,
    CURVE_AVERAGES,
    LABEL_AVERAGES,
    checked_curve_average,
)

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts import ScoreCounts, Totals
    from lightning_evalkit.inputs import Declaration
    from lightning_evalkit.inputs.binning import Thresholds

    Tables = list[ScoreCounts]


@dataclass(frozen=True)
class Averaged:
    """The scores of every class or label of a batch, and how their results are averaged."""

    tables: Tables
    average: str | None


def scored(
    task: Declaration, preds: Tensor, target: Tensor, validate_args: bool, sample_weight: Tensor | None
) -> tuple[ScoreCounter, Totals]:
    """Return the counter of scores and the totals of the batch."""
    exact = task.binning is not None and task.binning.kind == "exact"
    counter = (StoredScores if exact else ScoreCounter)(task)
    return counted(counter, preds, target, validate_args, sample_weight)


def tables_of(
    task: Declaration, preds: Tensor, target: Tensor, validate_args: bool, sample_weight: Tensor | None
) -> Tables:
    """Return the scores of the batch."""
    counter, totals = scored(task, preds, target, validate_args, sample_weight)
    return counter.tables(totals)


def binary_scores(
    preds: Tensor,
    target: Tensor,
    thresholds: Thresholds = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Tables:
    """Count the scores of a binary batch."""
    task = Binary(inputs, ignore_index, sample_weight is not None, binning=binning_of(thresholds))
    return tables_of(task, preds, target, validate_args, sample_weight)


def multiclass_scores(
    preds: Tensor,
    target: Tensor,
    num_classes: int,
    thresholds: Thresholds = None,
    ignore_index: Ignored = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Tables:
    """Count the scores of a multiclass batch."""
    scores, weighted = binning_of(thresholds, num_classes), sample_weight is not None
    task = Multiclass(inputs, ignore_index, weighted, num_classes=num_classes, binning=scores)
    return tables_of(task, preds, target, validate_args, sample_weight)


def multilabel_scores(
    preds: Tensor,
    target: Tensor,
    num_labels: int,
    thresholds: Thresholds = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Tables:
    """Count the scores of a multilabel batch."""
    scores, weighted = binning_of(thresholds, num_labels), sample_weight is not None
    task = Multilabel(inputs, ignore_index, weighted, num_labels=num_labels, binning=scores)
    return tables_of(task, preds, target, validate_args, sample_weight)


def multiclass_curves(
    preds: Tensor,
    target: Tensor,
    num_classes: int,
    thresholds: Thresholds = None,
    average: str | None = None,
    ignore_index: Ignored = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Averaged:
    """Count the scores of a multiclass batch for curves that may be averaged."""
    how, read = checked_curve_average(average, CURVE_AVERAGES), (thresholds, ignore_index, validate_args)
    tables = multiclass_scores(preds, target, num_classes, *read, inputs=inputs, sample_weight=sample_weight)
    return Averaged(tables, how)


def multiclass_areas(
    preds: Tensor,
    target: Tensor,
    num_classes: int,
    average: str | None = "macro",
    thresholds: Thresholds = None,
    ignore_index: Ignored = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Averaged:
    """Count the scores of a multiclass batch for areas averaged over the classes that have one."""
    how, read = checked_curve_average(average, CLASS_AVERAGES), (thresholds, ignore_index, validate_args)
    tables = multiclass_scores(preds, target, num_classes, *read, inputs=inputs, sample_weight=sample_weight)
    return Averaged(tables, how)


def multilabel_areas(
    preds: Tensor,
    target: Tensor,
    num_labels: int,
    average: str | None = "macro",
    thresholds: Thresholds = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Averaged:
    """Count the scores of a multilabel batch for areas averaged over the labels that have one."""
    how, read = checked_curve_average(average, LABEL_AVERAGES), (thresholds, ignore_index, validate_args)
    tables = multilabel_scores(preds, target, num_labels, *read, inputs=inputs, sample_weight=sample_weight)
    return Averaged(tables, how)
