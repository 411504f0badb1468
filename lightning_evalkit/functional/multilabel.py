"""The multilabel metrics as functions of one batch."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING, Any

from lightning_evalkit.counts import MultilabelCounter, Totals
from lightning_evalkit.functional.counting import counted
from lightning_evalkit.inputs import Inputs, MultidimAverage, Multilabel, is_samplewise
from lightning_evalkit.statistics import (
    Average,
    LabelAverage,
    Normalize,
    Statistic,
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
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
    exact: bool = False,
) -> tuple[MultilabelCounter, Totals]:
    """The counter and the totals of the batch."""
    samplewise, weighted = is_samplewise(multidim_average), sample_weight is not None
    cuts = (threshold,) if isinstance(threshold, (int, float)) else tuple(threshold)
    rows = ("samples", "exact_match") if exact else ()
    task = Multilabel(inputs, ignore_index, weighted, samplewise, cuts, num_labels, rows)
    return counted(MultilabelCounter(task), preds, target, validate_args, sample_weight)


@dataclass(frozen=True)
class MultilabelFunction:
    """A statistic of a multilabel batch, averaged over labels."""

    statistic: Statistic
    undefined: float = 0.0

    def __call__(
        self,
        preds: Tensor,
        target: Tensor,
        num_labels: int,
        threshold: float | Sequence[float] = 0.5,
        average: Average | None = "macro",
        multidim_average: MultidimAverage = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        zero_division: float | None = None,
        **declared: Any,
    ) -> Tensor:
        """Count the batch, divide, average."""
        counter, totals = multilabel_counts(
            preds, target, num_labels, threshold, multidim_average, ignore_index, validate_args, **declared
        )
        value = self.undefined if zero_division is None else zero_division
        return LabelAverage(self.statistic, checked_average(average), value)(counter.counts(totals))


multilabel_accuracy = MultilabelFunction(find("accuracy"))
multilabel_precision = MultilabelFunction(find("precision"))
multilabel_recall = MultilabelFunction(find("recall"))
multilabel_specificity = MultilabelFunction(find("specificity"))
multilabel_negative_predictive_value = MultilabelFunction(find("negative_predictive_value"))
multilabel_hamming_distance = MultilabelFunction(find("hamming_distance"), undefined=1.0)
multilabel_f1_score = MultilabelFunction(find("f1"))


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
    **declared: Any,
) -> Tensor:
    """The harmonic mean in which recall weighs ``beta`` times as much as precision."""
    arguments = (threshold, average, multidim_average, ignore_index, validate_args, zero_division)
    return MultilabelFunction(f_beta(beta))(preds, target, num_labels, *arguments, **declared)


def multilabel_stat_scores(
    preds: Tensor,
    target: Tensor,
    num_labels: int,
    threshold: float | Sequence[float] = 0.5,
    average: Average | None = "macro",
    multidim_average: MultidimAverage = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
    **declared: Any,
) -> Tensor:
    """The counts themselves: tp, fp, tn, fn, support of each label."""
    counter, totals = multilabel_counts(
        preds, target, num_labels, threshold, multidim_average, ignore_index, validate_args, **declared
    )
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
    **declared: Any,
) -> Tensor:
    """True positives of all that are positive or predicted so, of each label."""
    counter, totals = multilabel_counts(
        preds, target, num_labels, threshold, "global", ignore_index, validate_args, **declared
    )
    read = LabelAverage(find("jaccard"), checked_average(average), zero_division, empty=nan)
    return read(counter.counts(totals))


def multilabel_matthews_corrcoef(
    preds: Tensor,
    target: Tensor,
    num_labels: int,
    threshold: float | Sequence[float] = 0.5,
    ignore_index: int | None = None,
    validate_args: bool = True,
    **declared: Any,
) -> Tensor:
    """Matthews correlation of all labels in one table, with torchmetrics' values where the definition has none."""
    counter, totals = multilabel_counts(
        preds, target, num_labels, threshold, "global", ignore_index, validate_args, **declared
    )
    return matthews_of_torchmetrics(counter.counts(totals).summed())


def multilabel_confusion_matrix(
    preds: Tensor,
    target: Tensor,
    num_labels: int,
    threshold: float | Sequence[float] = 0.5,
    normalize: Normalize | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    **declared: Any,
) -> Tensor:
    """A two-by-two matrix for each label."""
    counter, totals = multilabel_counts(
        preds, target, num_labels, threshold, "global", ignore_index, validate_args, **declared
    )
    return confusion_matrix(counter.counts(totals), checked_normalize(normalize))


def multilabel_exact_match(
    preds: Tensor,
    target: Tensor,
    num_labels: int,
    threshold: float | Sequence[float] = 0.5,
    multidim_average: MultidimAverage = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
    **declared: Any,
) -> Tensor:
    """Samples of which every label that is not ignored is predicted rightly, of all samples."""
    counter, totals = multilabel_counts(
        preds, target, num_labels, threshold, multidim_average, ignore_index, validate_args, exact=True, **declared
    )
    return exact_match_of_torchmetrics(*counter.rows(totals, "exact_match"), *counter.rows(totals, "samples"))
