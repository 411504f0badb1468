"""The multiclass metrics as functions of one batch."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING, Any

from lightning_evalkit.counts import Counts, MulticlassCounter, Totals
from lightning_evalkit.functional.arguments import arguments_of
from lightning_evalkit.functional.counting import Ignored, counted
from lightning_evalkit.inputs import Inputs, Multiclass, MultidimAverage, is_samplewise
from lightning_evalkit.inputs.numbers import checked_zero_division
from lightning_evalkit.statistics import (
    Average,
    ClassAverage,
    KappaWeights,
    Normalize,
    averaged_stat_scores,
    checked_average,
    checked_normalize,
    checked_weights,
    f_beta,
    find,
    multiclass_kappa,
    multiclass_matthews_of_torchmetrics,
    normalized,
    ratio,
    weighted_kappa,
    without_classes,
)

if TYPE_CHECKING:
    from torch import Tensor


def multiclass_counts(
    preds: Tensor,
    target: Tensor,
    num_classes: int | None,
    multidim_average: MultidimAverage,
    ignore_index: Ignored,
    validate_args: bool,
    inputs: Inputs,
    sample_weight: Tensor | None,
    **options: Any,
) -> tuple[MulticlassCounter, Totals]:
    """The counter and the totals of the batch."""
    samplewise = is_samplewise(multidim_average)
    task = Multiclass(inputs, ignore_index, sample_weight is not None, samplewise, num_classes, **options)
    return counted(MulticlassCounter(task), preds, target, validate_args, sample_weight)


@dataclass(frozen=True)
class MulticlassBatch:
    """The counts of a multiclass batch, and how a statistic is averaged over classes (see ``ClassAverage``)."""

    counts: Counts
    ignored: tuple[int, ...]
    average: Average
    several_hits: bool
    zero_division: float | None

    def value(self, name: str, undefined: float = 0.0, by_support: bool = False) -> Tensor:
        """Compute and average an entry of the statistics table."""
        zero_division = undefined if self.zero_division is None else checked_zero_division(self.zero_division)
        read = ClassAverage(find(name), self.average, zero_division, by_support and self.several_hits)
        return read(self.counts, self.ignored)


def multiclass_batch(
    preds: Tensor,
    target: Tensor,
    num_classes: int | None = None,
    average: Average | None = "macro",
    top_k: int = 1,
    multidim_average: MultidimAverage = "global",
    ignore_index: Ignored = None,
    validate_args: bool = True,
    zero_division: float | None = None,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> MulticlassBatch:
    """Count a multiclass batch."""
    how = checked_average(average, num_classes)
    declared = (ignore_index, validate_args, inputs, sample_weight)
    counter, totals = multiclass_counts(preds, target, num_classes, multidim_average, *declared, top_k=top_k)
    return MulticlassBatch(counter.counts(totals), counter.task.ignored, how, top_k > 1, zero_division)


@arguments_of(multiclass_batch)
def multiclass_accuracy(batch: MulticlassBatch) -> Tensor:
    """Compute the share of correct predictions (micro), or the recall of each class, averaged."""
    return batch.value("recall", by_support=True)


@arguments_of(multiclass_batch)
def multiclass_precision(batch: MulticlassBatch) -> Tensor:
    """Compute the share of true positives among predicted positives, one-vs-rest."""
    return batch.value("precision", by_support=True)


@arguments_of(multiclass_batch)
def multiclass_recall(batch: MulticlassBatch) -> Tensor:
    """Compute the share of true positives among positives, one-vs-rest."""
    return batch.value("recall", by_support=True)


@arguments_of(multiclass_batch)
def multiclass_specificity(batch: MulticlassBatch) -> Tensor:
    """Compute the share of true negatives among negatives, one-vs-rest."""
    return batch.value("specificity")


@arguments_of(multiclass_batch)
def multiclass_negative_predictive_value(batch: MulticlassBatch) -> Tensor:
    """Compute the share of true negatives among predicted negatives, one-vs-rest."""
    return batch.value("negative_predictive_value", by_support=True)


@arguments_of(multiclass_batch)
def multiclass_hamming_distance(batch: MulticlassBatch) -> Tensor:
    """Compute one minus torchmetrics' accuracy."""
    return batch.value("false_negative_rate", undefined=1.0)


@arguments_of(multiclass_batch)
def multiclass_f1_score(batch: MulticlassBatch) -> Tensor:
    """Compute the harmonic mean of precision and recall, one-vs-rest."""
    return batch.value("f1")


def multiclass_fbeta_score(
    preds: Tensor,
    target: Tensor,
    beta: float,
    num_classes: int,
    average: Average | None = "macro",
    top_k: int = 1,
    multidim_average: MultidimAverage = "global",
    ignore_index: Ignored = None,
    validate_args: bool = True,
    zero_division: float = 0.0,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Compute the weighted harmonic mean of precision and recall; recall weighs ``beta`` times as much."""
    how = checked_average(average, num_classes)
    declared = (ignore_index, validate_args, inputs, sample_weight)
    counter, totals = multiclass_counts(preds, target, num_classes, multidim_average, *declared, top_k=top_k)
    return ClassAverage(f_beta(beta), how, checked_zero_division(zero_division))(
        counter.counts(totals), counter.task.ignored
    )


def multiclass_stat_scores(
    preds: Tensor,
    target: Tensor,
    num_classes: int | None = None,
    average: Average | None = "macro",
    top_k: int = 1,
    multidim_average: MultidimAverage = "global",
    ignore_index: Ignored = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Compute the one-vs-rest counts: tp, fp, tn, fn, support."""
    how = checked_average(average, num_classes)
    declared = (ignore_index, validate_args, inputs, sample_weight)
    counter, totals = multiclass_counts(preds, target, num_classes, multidim_average, *declared, top_k=top_k)
    return averaged_stat_scores(counter.counts(totals), how)


def multiclass_jaccard_index(
    preds: Tensor,
    target: Tensor,
    num_classes: int,
    average: Average | None = "macro",
    ignore_index: Ignored = None,
    validate_args: bool = True,
    zero_division: float = 0.0,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Compute the share of true positives among samples that are of the class or predicted so."""
    declared = (ignore_index, validate_args, inputs, sample_weight)
    counter, totals = multiclass_counts(preds, target, num_classes, "global", *declared)
    counts, ignored = counter.counts(totals), counter.task.ignored
    read = ClassAverage(find("jaccard"), checked_average(average), checked_zero_division(zero_division), empty=nan)
    return read(without_classes(counts, ignored) if average == "micro" else counts, ignored)


def multiclass_matthews_corrcoef(
    preds: Tensor,
    target: Tensor,
    num_classes: int,
    ignore_index: Ignored = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Compute Matthews correlation of all classes, with torchmetrics' values where it is undefined."""
    declared = (ignore_index, validate_args, inputs, sample_weight)
    counter, totals = multiclass_counts(preds, target, num_classes, "global", *declared)
    return multiclass_matthews_of_torchmetrics(counter.counts(totals))


def multiclass_cohen_kappa(
    preds: Tensor,
    target: Tensor,
    num_classes: int,
    weights: KappaWeights | None = None,
    ignore_index: Ignored = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Compute the agreement beyond chance; ``weights`` weigh disagreements of ordered classes by their distance."""
    weighing = checked_weights(weights)
    matrix = weighing != "none"
    declared = (ignore_index, validate_args, inputs, sample_weight)
    counter, totals = multiclass_counts(preds, target, num_classes, "global", *declared, matrix=matrix)
    if weighing == "none":
        return multiclass_kappa(counter.counts(totals))
    return weighted_kappa(counter.matrix(totals), weighing).float()


def multiclass_confusion_matrix(
    preds: Tensor,
    target: Tensor,
    num_classes: int,
    normalize: Normalize | None = None,
    ignore_index: Ignored = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Compute the matrix: targets in rows and predictions in columns."""
    declared = (ignore_index, validate_args, inputs, sample_weight)
    counter, totals = multiclass_counts(preds, target, num_classes, "global", *declared, matrix=True)
    return normalized(counter.matrix(totals), checked_normalize(normalize))


def multiclass_exact_match(
    preds: Tensor,
    target: Tensor,
    num_classes: int,
    multidim_average: MultidimAverage = "global",
    ignore_index: Ignored = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Compute the share of samples whose elements, except ignored ones, are all predicted rightly."""
    declared = (ignore_index, validate_args, inputs, sample_weight)
    counter, totals = multiclass_counts(preds, target, num_classes, multidim_average, *declared, exact=True)
    return ratio(*counter.exact(totals)).value(0.0).float()
