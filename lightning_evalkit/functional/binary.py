"""The binary metrics as functions of one batch."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING

from lightning_evalkit.counts import BinaryCounter, Counts
from lightning_evalkit.functional.arguments import arguments_of
from lightning_evalkit.functional.counting import counted
from lightning_evalkit.inputs import Binary, Inputs, MultidimAverage, is_samplewise
from lightning_evalkit.inputs.numbers import checked_zero_division
from lightning_evalkit.statistics import (
    KappaWeights,
    Normalize,
    checked_normalize,
    checked_weights,
    confusion_matrix,
    f_beta,
    find,
    matthews_of_torchmetrics,
    stat_scores,
)

if TYPE_CHECKING:
    from torch import Tensor


def binary_counts(
    preds: Tensor,
    target: Tensor,
    threshold: float,
    multidim_average: MultidimAverage,
    ignore_index: int | None,
    validate_args: bool,
    inputs: Inputs,
    sample_weight: Tensor | None,
) -> Counts:
    """The counts of the batch."""
    samplewise = is_samplewise(multidim_average)
    task = Binary(inputs, ignore_index, sample_weight is not None, samplewise, thresholds=(threshold,))
    counter, totals = counted(BinaryCounter(task), preds, target, validate_args, sample_weight)
    return counter.counts(totals).at(0)


@dataclass(frozen=True)
class BinaryBatch:
    """The counts of a binary batch; ``zero_division`` is the value of 0/0, None that of torchmetrics."""

    counts: Counts
    zero_division: float | None

    def value(self, name: str, undefined: float = 0.0) -> Tensor:
        """Compute an entry of the statistics table."""
        zero_division = undefined if self.zero_division is None else checked_zero_division(self.zero_division)
        return find(name).value(self.counts, zero_division).float()


def binary_batch(
    preds: Tensor,
    target: Tensor,
    threshold: float = 0.5,
    multidim_average: MultidimAverage = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
    zero_division: float | None = None,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> BinaryBatch:
    """Count a binary batch."""
    declared = (ignore_index, validate_args, inputs, sample_weight)
    return BinaryBatch(binary_counts(preds, target, threshold, multidim_average, *declared), zero_division)


@arguments_of(binary_batch)
def binary_accuracy(batch: BinaryBatch) -> Tensor:
    """Compute the share of correct predictions."""
    return batch.value("accuracy")


@arguments_of(binary_batch)
def binary_precision(batch: BinaryBatch) -> Tensor:
    """Compute the share of true positives among predicted positives."""
    return batch.value("precision")


@arguments_of(binary_batch)
def binary_recall(batch: BinaryBatch) -> Tensor:
    """Compute the share of true positives among positives.

    >>> import torch
    >>> binary_recall(torch.tensor([0.9, 0.2, 0.7]), torch.tensor([1, 1, 0]), inputs="probabilities")
    tensor(0.5000)
    """
    return batch.value("recall")


@arguments_of(binary_batch)
def binary_specificity(batch: BinaryBatch) -> Tensor:
    """Compute the share of true negatives among negatives."""
    return batch.value("specificity")


@arguments_of(binary_batch)
def binary_negative_predictive_value(batch: BinaryBatch) -> Tensor:
    """Compute the share of true negatives among predicted negatives."""
    return batch.value("negative_predictive_value")


@arguments_of(binary_batch)
def binary_hamming_distance(batch: BinaryBatch) -> Tensor:
    """Compute the share of wrong predictions."""
    return batch.value("hamming_distance", undefined=1.0)


@arguments_of(binary_batch)
def binary_f1_score(batch: BinaryBatch) -> Tensor:
    """Compute the harmonic mean of precision and recall."""
    return batch.value("f1")


@arguments_of(binary_batch)
def binary_balanced_accuracy(batch: BinaryBatch) -> Tensor:
    """Compute the mean of recall and specificity."""
    return batch.value("balanced_accuracy", undefined=nan)


@arguments_of(binary_batch)
def binary_informedness(batch: BinaryBatch) -> Tensor:
    """Compute recall + specificity - 1."""
    return batch.value("informedness", undefined=nan)


@arguments_of(binary_batch)
def binary_markedness(batch: BinaryBatch) -> Tensor:
    """Compute precision + negative predictive value - 1."""
    return batch.value("markedness", undefined=nan)


@arguments_of(binary_batch)
def binary_geometric_mean(batch: BinaryBatch) -> Tensor:
    """Compute the geometric mean of recall and specificity."""
    return batch.value("geometric_mean", undefined=nan)


@arguments_of(binary_batch)
def binary_fowlkes_mallows(batch: BinaryBatch) -> Tensor:
    """Compute the geometric mean of precision and recall."""
    return batch.value("fowlkes_mallows", undefined=nan)


def binary_fbeta_score(
    preds: Tensor,
    target: Tensor,
    beta: float,
    threshold: float = 0.5,
    multidim_average: MultidimAverage = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
    zero_division: float = 0.0,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Compute the weighted harmonic mean of precision and recall; recall weighs ``beta`` times as much."""
    declared = (ignore_index, validate_args, inputs, sample_weight)
    return (
        f_beta(beta)(binary_counts(preds, target, threshold, multidim_average, *declared))
        .value(checked_zero_division(zero_division))
        .float()
    )


def binary_stat_scores(
    preds: Tensor,
    target: Tensor,
    threshold: float = 0.5,
    multidim_average: MultidimAverage = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Compute the counts themselves: tp, fp, tn, fn, support."""
    declared = (ignore_index, validate_args, inputs, sample_weight)
    return stat_scores(binary_counts(preds, target, threshold, multidim_average, *declared))


def binary_jaccard_index(
    preds: Tensor,
    target: Tensor,
    threshold: float = 0.5,
    ignore_index: int | None = None,
    validate_args: bool = True,
    zero_division: float = 0.0,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Compute the share of true positives among samples that are positive or predicted positive."""
    counts = binary_counts(preds, target, threshold, "global", ignore_index, validate_args, inputs, sample_weight)
    return find("jaccard").value(counts, checked_zero_division(zero_division)).float()


def binary_matthews_corrcoef(
    preds: Tensor,
    target: Tensor,
    threshold: float = 0.5,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Compute Matthews correlation, with torchmetrics' values where it is undefined."""
    declared = (ignore_index, validate_args, inputs, sample_weight)
    return matthews_of_torchmetrics(binary_counts(preds, target, threshold, "global", *declared))


def binary_cohen_kappa(
    preds: Tensor,
    target: Tensor,
    threshold: float = 0.5,
    weights: KappaWeights | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Compute the agreement beyond chance; with two classes, linear and quadratic ``weights`` change nothing."""
    checked_weights(weights)
    counts = binary_counts(preds, target, threshold, "global", ignore_index, validate_args, inputs, sample_weight)
    return find("kappa").value(counts).float()


def binary_confusion_matrix(
    preds: Tensor,
    target: Tensor,
    threshold: float = 0.5,
    normalize: Normalize | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Compute the matrix: targets in rows and predictions in columns, negative first."""
    counts = binary_counts(preds, target, threshold, "global", ignore_index, validate_args, inputs, sample_weight)
    return confusion_matrix(counts, checked_normalize(normalize))
