"""The multilabel metrics as functions of one batch."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING

from lightning_evalkit.counts import Counts, MultilabelCounter, Totals
from lightning_evalkit.functional.arguments import arguments_of
from lightning_evalkit.functional.counting import counted
from lightning_evalkit.inputs import Inputs, MultidimAverage, Multilabel, is_samplewise
from lightning_evalkit.inputs.numbers import checked_zero_division
from lightning_evalkit.inputs.threshold import thresholds_of
from lightning_evalkit.statistics import (
    Average,
    LabelAverage,
    Normalize,
    averaged_stat_scores,
    checked_average,
    checked_normalize,
    confusion_matrix,
    exact_match_of_torchmetrics,
    f_beta,
    find,
    matthews_of_torchmetrics,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


def multilabel_counts(
    preds: Tensor,
    target: Tensor,
    num_labels: int,
    threshold: float | Sequence[float],
    multidim_average: MultidimAverage,
    ignore_index: int | None,
    validate_args: bool,
    inputs: Inputs,
    sample_weight: Tensor | None,
    exact: bool = False,
) -> tuple[MultilabelCounter, Totals]:
    """The counter and the totals of the batch."""
    samplewise, weighted = is_samplewise(multidim_average), sample_weight is not None
    cuts = thresholds_of(threshold)
    rows = ("samples", "exact_match") if exact else ()
    task = Multilabel(inputs, ignore_index, weighted, samplewise, cuts, num_labels, rows)
    return counted(MultilabelCounter(task), preds, target, validate_args, sample_weight)


@dataclass(frozen=True)
class MultilabelBatch:
    """The counts of a multilabel batch, and how a statistic is averaged over labels."""

    counts: Counts
    average: Average
    zero_division: float | None

    def value(self, name: str, undefined: float = 0.0) -> Tensor:
        """Compute and average an entry of the statistics table."""
        zero_division = undefined if self.zero_division is None else checked_zero_division(self.zero_division)
        return LabelAverage(find(name), self.average, zero_division)(self.counts)


def multilabel_batch(
    preds: Tensor,
    target: Tensor,
    num_labels: int,
    threshold: float | Sequence[float] = 0.5,
    average: Average | None = "macro",
    multidim_average: MultidimAverage = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
    zero_division: float | None = None,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> MultilabelBatch:
    """Count a multilabel batch."""
    declared = (ignore_index, validate_args, inputs, sample_weight)
    counter, totals = multilabel_counts(preds, target, num_labels, threshold, multidim_average, *declared)
    return MultilabelBatch(counter.counts(totals), checked_average(average), zero_division)


@arguments_of(multilabel_batch)
def multilabel_accuracy(batch: MultilabelBatch) -> Tensor:
    """Compute the share of correct predictions, of each label."""
    return batch.value("accuracy")


@arguments_of(multilabel_batch)
def multilabel_precision(batch: MultilabelBatch) -> Tensor:
    """Compute the share of true positives among predicted positives, of each label."""
    return batch.value("precision")


@arguments_of(multilabel_batch)
def multilabel_recall(batch: MultilabelBatch) -> Tensor:
    """Compute the share of true positives among positives, of each label."""
    return batch.value("recall")


@arguments_of(multilabel_batch)
def multilabel_specificity(batch: MultilabelBatch) -> Tensor:
    """Compute the share of true negatives among negatives, of each label."""
    return batch.value("specificity")


@arguments_of(multilabel_batch)
def multilabel_negative_predictive_value(batch: MultilabelBatch) -> Tensor:
    """Compute the share of true negatives among predicted negatives, of each label."""
    return batch.value("negative_predictive_value")


@arguments_of(multilabel_batch)
def multilabel_hamming_distance(batch: MultilabelBatch) -> Tensor:
    """Compute the share of wrong predictions, of each label."""
    return batch.value("hamming_distance", undefined=1.0)


@arguments_of(multilabel_batch)
def multilabel_f1_score(batch: MultilabelBatch) -> Tensor:
    """Compute the harmonic mean of precision and recall, of each label."""
    return batch.value("f1")


def multilabel_fbeta_score(
    preds: Tensor,
    target: Tensor,
    beta: float,
    num_labels: int,
    threshold: float | Sequence[float] = 0.5,
    average: Average | None = "macro",
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
    counter, totals = multilabel_counts(preds, target, num_labels, threshold, multidim_average, *declared)
    return LabelAverage(f_beta(beta), checked_average(average), checked_zero_division(zero_division))(
        counter.counts(totals)
    )


def multilabel_stat_scores(
    preds: Tensor,
    target: Tensor,
    num_labels: int,
    threshold: float | Sequence[float] = 0.5,
    average: Average | None = "macro",
    multidim_average: MultidimAverage = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Compute the counts of each label: tp, fp, tn, fn, support."""
    declared = (ignore_index, validate_args, inputs, sample_weight)
    counter, totals = multilabel_counts(preds, target, num_labels, threshold, multidim_average, *declared)
    return averaged_stat_scores(counter.counts(totals), checked_average(average))


def multilabel_jaccard_index(
    preds: Tensor,
    target: Tensor,
    num_labels: int,
    threshold: float | Sequence[float] = 0.5,
    average: Average | None = "macro",
    ignore_index: int | None = None,
    validate_args: bool = True,
    zero_division: float = 0.0,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Compute the share of true positives among samples that are positive or predicted positive, of each label."""
    declared = (ignore_index, validate_args, inputs, sample_weight)
    counter, totals = multilabel_counts(preds, target, num_labels, threshold, "global", *declared)
    read = LabelAverage(find("jaccard"), checked_average(average), checked_zero_division(zero_division), empty=nan)
    return read(counter.counts(totals))


def multilabel_matthews_corrcoef(
    preds: Tensor,
    target: Tensor,
    num_labels: int,
    threshold: float | Sequence[float] = 0.5,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Compute Matthews correlation of all labels in one table, with torchmetrics' values where it is undefined."""
    declared = (ignore_index, validate_args, inputs, sample_weight)
    counter, totals = multilabel_counts(preds, target, num_labels, threshold, "global", *declared)
    return matthews_of_torchmetrics(counter.counts(totals).summed())


def multilabel_confusion_matrix(
    preds: Tensor,
    target: Tensor,
    num_labels: int,
    threshold: float | Sequence[float] = 0.5,
    normalize: Normalize | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Compute a two-by-two matrix for each label."""
    declared = (ignore_index, validate_args, inputs, sample_weight)
    counter, totals = multilabel_counts(preds, target, num_labels, threshold, "global", *declared)
    return confusion_matrix(counter.counts(totals), checked_normalize(normalize))


def multilabel_exact_match(
    preds: Tensor,
    target: Tensor,
    num_labels: int,
    threshold: float | Sequence[float] = 0.5,
    multidim_average: MultidimAverage = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Compute the share of samples whose labels, except ignored ones, are all predicted rightly."""
    declared = (ignore_index, validate_args, inputs, sample_weight)
    counter, totals = multilabel_counts(preds, target, num_labels, threshold, multidim_average, *declared, exact=True)
    return exact_match_of_torchmetrics(
        *counter.sample_sums(totals, "exact_match"), *counter.sample_sums(totals, "samples")
    )
