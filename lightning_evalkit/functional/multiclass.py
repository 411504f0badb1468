"""The multiclass metrics as functions of one batch."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING, Any

from lightning_evalkit.counts import MulticlassCounter, Totals
from lightning_evalkit.functional.counting import counted
from lightning_evalkit.inputs import Inputs, Multiclass, MultidimAverage, is_samplewise
from lightning_evalkit.statistics import (
    Average,
    ClassAverage,
    KappaWeights,
    Normalize,
    Statistic,
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

Ignored = int | tuple[int, ...] | None


def multiclass_counts(
    preds: Tensor,
    target: Tensor,
    num_classes: int | None,
    multidim_average: MultidimAverage,
    ignore_index: Ignored,
    validate_args: bool,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
    **kept: Any,
) -> tuple[MulticlassCounter, Totals]:
    """The counter and the totals of the batch."""
    samplewise = is_samplewise(multidim_average)
    task = Multiclass(inputs, ignore_index, sample_weight is not None, samplewise, num_classes, **kept)
    return counted(MulticlassCounter(task), preds, target, validate_args, sample_weight)


@dataclass(frozen=True)
class MulticlassFunction:
    """A statistic of a multiclass batch, averaged over classes; see ``ClassAverage`` for ``by_support``."""

    statistic: Statistic
    undefined: float = 0.0
    by_support: bool = False

    def __call__(
        self,
        preds: Tensor,
        target: Tensor,
        num_classes: int | None = None,
        average: Average | None = "macro",
        top_k: int = 1,
        multidim_average: MultidimAverage = "global",
        ignore_index: Ignored = None,
        validate_args: bool = True,
        zero_division: float | None = None,
        **declared: Any,
    ) -> Tensor:
        """Count the batch, divide, average."""
        how, value = checked_average(average, num_classes), self.undefined if zero_division is None else zero_division
        counter, totals = multiclass_counts(
            preds, target, num_classes, multidim_average, ignore_index, validate_args, top_k=top_k, **declared
        )
        read = ClassAverage(self.statistic, how, value, self.by_support and top_k > 1)
        return read(counter.counts(totals), counter.task.ignored)


multiclass_accuracy = MulticlassFunction(find("recall"), by_support=True)
multiclass_precision = MulticlassFunction(find("precision"), by_support=True)
multiclass_recall = MulticlassFunction(find("recall"), by_support=True)
multiclass_specificity = MulticlassFunction(find("specificity"))
multiclass_negative_predictive_value = MulticlassFunction(find("negative_predictive_value"), by_support=True)
multiclass_hamming_distance = MulticlassFunction(find("false_negative_rate"), undefined=1.0)
multiclass_f1_score = MulticlassFunction(find("f1"))


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
    **declared: Any,
) -> Tensor:
    """The harmonic mean in which recall weighs ``beta`` times as much as precision."""
    arguments = (average, top_k, multidim_average, ignore_index, validate_args, zero_division)
    return MulticlassFunction(f_beta(beta))(preds, target, num_classes, *arguments, **declared)


def multiclass_stat_scores(
    preds: Tensor,
    target: Tensor,
    num_classes: int | None = None,
    average: Average | None = "macro",
    top_k: int = 1,
    multidim_average: MultidimAverage = "global",
    ignore_index: Ignored = None,
    validate_args: bool = True,
    **declared: Any,
) -> Tensor:
    """The counts themselves: tp, fp, tn, fn, support of one class against the rest."""
    how = checked_average(average, num_classes)
    counter, totals = multiclass_counts(
        preds, target, num_classes, multidim_average, ignore_index, validate_args, top_k=top_k, **declared
    )
    return averaged_stat_scores(counter.counts(totals), how)


def multiclass_jaccard_index(
    preds: Tensor,
    target: Tensor,
    num_classes: int,
    average: Average | None = "macro",
    ignore_index: Ignored = None,
    validate_args: bool = True,
    zero_division: float = 0.0,
    **declared: Any,
) -> Tensor:
    """True positives of all that are or are predicted of the class."""
    counter, totals = multiclass_counts(preds, target, num_classes, "global", ignore_index, validate_args, **declared)
    counts, ignored = counter.counts(totals), counter.task.ignored
    read = ClassAverage(find("jaccard"), checked_average(average), zero_division, empty=nan)
    return read(without_classes(counts, ignored) if average == "micro" else counts, ignored)


def multiclass_matthews_corrcoef(
    preds: Tensor,
    target: Tensor,
    num_classes: int,
    ignore_index: Ignored = None,
    validate_args: bool = True,
    **declared: Any,
) -> Tensor:
    """Matthews correlation of all classes, with torchmetrics' values where the definition has none."""
    counter, totals = multiclass_counts(preds, target, num_classes, "global", ignore_index, validate_args, **declared)
    return multiclass_matthews_of_torchmetrics(counter.counts(totals))


def multiclass_cohen_kappa(
    preds: Tensor,
    target: Tensor,
    num_classes: int,
    weights: KappaWeights | None = None,
    ignore_index: Ignored = None,
    validate_args: bool = True,
    **declared: Any,
) -> Tensor:
    """Agreement beyond chance, in which disagreements between ordered classes may weigh by their distance."""
    weighing = checked_weights(weights)
    matrix = weighing != "none"
    counter, totals = multiclass_counts(
        preds, target, num_classes, "global", ignore_index, validate_args, matrix=matrix, **declared
    )
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
    **declared: Any,
) -> Tensor:
    """Targets in rows and predictions in columns."""
    counter, totals = multiclass_counts(
        preds, target, num_classes, "global", ignore_index, validate_args, matrix=True, **declared
    )
    return normalized(counter.matrix(totals), checked_normalize(normalize))


def multiclass_exact_match(
    preds: Tensor,
    target: Tensor,
    num_classes: int,
    multidim_average: MultidimAverage = "global",
    ignore_index: Ignored = None,
    validate_args: bool = True,
    **declared: Any,
) -> Tensor:
    """Samples of which every element that is not ignored is predicted rightly, of all samples."""
    counter, totals = multiclass_counts(
        preds, target, num_classes, multidim_average, ignore_index, validate_args, exact=True, **declared
    )
    return ratio(*counter.exact(totals)).value(0.0).float()
