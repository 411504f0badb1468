"""The binary metrics as functions of one batch."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING, Any

from lightning_evalkit.counts import BinaryCounter, Counts
from lightning_evalkit.functional.counting import counted
from lightning_evalkit.inputs import Binary, Inputs, MultidimAverage, is_samplewise
from lightning_evalkit.statistics import (
    KappaWeights,
    Normalize,
    Statistic,
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
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Counts:
    """The counts of the batch."""
    samplewise = is_samplewise(multidim_average)
    task = Binary(inputs, ignore_index, sample_weight is not None, samplewise, thresholds=(threshold,))
    counter, totals = counted(BinaryCounter(task), preds, target, validate_args, sample_weight)
    return counter.counts(totals).at(0)


@dataclass(frozen=True)
class BinaryFunction:
    """A statistic of a binary batch; ``zero_division`` is the value of 0/0, by default ``undefined``."""

    statistic: Statistic
    undefined: float = 0.0

    def __call__(
        self,
        preds: Tensor,
        target: Tensor,
        threshold: float = 0.5,
        multidim_average: MultidimAverage = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        zero_division: float | None = None,
        **declared: Any,
    ) -> Tensor:
        """Count the batch and divide.

        >>> import torch
        >>> binary_recall(torch.tensor([0.9, 0.2, 0.7]), torch.tensor([1, 1, 0]), inputs="probabilities")
        tensor(0.5000)
        """
        counts = binary_counts(preds, target, threshold, multidim_average, ignore_index, validate_args, **declared)
        return self.statistic(counts).value(self.undefined if zero_division is None else zero_division).float()


binary_accuracy = BinaryFunction(find("accuracy"))
binary_precision = BinaryFunction(find("precision"))
binary_recall = BinaryFunction(find("recall"))
binary_specificity = BinaryFunction(find("specificity"))
binary_negative_predictive_value = BinaryFunction(find("negative_predictive_value"))
binary_hamming_distance = BinaryFunction(find("hamming_distance"), undefined=1.0)
binary_f1_score = BinaryFunction(find("f1"))
binary_balanced_accuracy = BinaryFunction(find("balanced_accuracy"), undefined=nan)
binary_informedness = BinaryFunction(find("informedness"), undefined=nan)
binary_markedness = BinaryFunction(find("markedness"), undefined=nan)
binary_geometric_mean = BinaryFunction(find("geometric_mean"), undefined=nan)
binary_fowlkes_mallows = BinaryFunction(find("fowlkes_mallows"), undefined=nan)


def binary_fbeta_score(
    preds: Tensor,
    target: Tensor,
    beta: float,
    threshold: float = 0.5,
    multidim_average: MultidimAverage = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
    zero_division: float = 0.0,
    **declared: Any,
) -> Tensor:
    """The harmonic mean in which recall weighs ``beta`` times as much as precision."""
    arguments = (threshold, multidim_average, ignore_index, validate_args, zero_division)
    return BinaryFunction(f_beta(beta))(preds, target, *arguments, **declared)


def binary_stat_scores(
    preds: Tensor,
    target: Tensor,
    threshold: float = 0.5,
    multidim_average: MultidimAverage = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
    **declared: Any,
) -> Tensor:
    """The counts themselves: tp, fp, tn, fn, support."""
    return stat_scores(
        binary_counts(preds, target, threshold, multidim_average, ignore_index, validate_args, **declared)
    )


def binary_jaccard_index(
    preds: Tensor,
    target: Tensor,
    threshold: float = 0.5,
    ignore_index: int | None = None,
    validate_args: bool = True,
    zero_division: float = 0.0,
    **declared: Any,
) -> Tensor:
    """True positives of all that are positive or predicted so."""
    counts = binary_counts(preds, target, threshold, "global", ignore_index, validate_args, **declared)
    return find("jaccard")(counts).value(zero_division).float()


def binary_matthews_corrcoef(
    preds: Tensor,
    target: Tensor,
    threshold: float = 0.5,
    ignore_index: int | None = None,
    validate_args: bool = True,
    **declared: Any,
) -> Tensor:
    """Matthews correlation, with torchmetrics' values where the definition has none."""
    return matthews_of_torchmetrics(
        binary_counts(preds, target, threshold, "global", ignore_index, validate_args, **declared)
    )


def binary_cohen_kappa(
    preds: Tensor,
    target: Tensor,
    threshold: float = 0.5,
    weights: KappaWeights | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    **declared: Any,
) -> Tensor:
    """Agreement beyond chance; with two classes linear and quadratic ``weights`` change nothing."""
    checked_weights(weights)
    counts = binary_counts(preds, target, threshold, "global", ignore_index, validate_args, **declared)
    return find("kappa")(counts).value().float()


def binary_confusion_matrix(
    preds: Tensor,
    target: Tensor,
    threshold: float = 0.5,
    normalize: Normalize | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    **declared: Any,
) -> Tensor:
    """Targets in rows and predictions in columns, negative first."""
    counts = binary_counts(preds, target, threshold, "global", ignore_index, validate_args, **declared)
    return confusion_matrix(counts, checked_normalize(normalize))
