"""The metrics as functions of one batch, with torchmetrics' names and arguments.

Each is one line: a family gives the arguments, the statistics table what is computed. All also take ``inputs`` and
``sample_weight``. On an accelerator ``validate_args=True`` waits for the device once, to raise for bad values.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING, Any

from lightning_evalkit.counts import BinaryCounter, Counts
from lightning_evalkit.errors import InputError
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
    from collections.abc import Callable

    from torch import Tensor


def _counts(
    task: Binary, preds: Tensor, target: Tensor, validate_args: bool, sample_weight: Tensor | None = None
) -> Counts:
    counter = BinaryCounter(task)
    totals = counter.count(preds, target, sample_weight)
    if validate_args and not preds.is_cpu and (invalid := counter.ledger(totals).invalid):
        raise InputError(f"{invalid} samples are not what was declared ({task}): move them to the CPU to see which.")
    return counter.counts(totals).at(0)


@dataclass(frozen=True)
class BinaryFunction:
    """A result of the counts of a batch; ``zero_division`` is the value of 0/0, by default ``undefined``."""

    read: Callable[[Counts, float], Tensor]
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
        *,
        inputs: Inputs = "auto",
        sample_weight: Tensor | None = None,
    ) -> Tensor:
        """Count the batch and read the result.

        >>> import torch
        >>> binary_recall(torch.tensor([0.9, 0.2, 0.7]), torch.tensor([1, 1, 0]), inputs="probabilities")
        tensor(0.5000)
        """
        samplewise, weighted = is_samplewise(multidim_average), sample_weight is not None
        task = Binary(inputs, ignore_index, weighted, samplewise, thresholds=(threshold,))
        counts = _counts(task, preds, target, validate_args, sample_weight)
        return self.read(counts, self.undefined if zero_division is None else zero_division)


@dataclass(frozen=True)
class BinaryTableFunction:
    """The same without ``multidim_average``: torchmetrics computes these from a table over all samples."""

    function: BinaryFunction

    def __call__(
        self,
        preds: Tensor,
        target: Tensor,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        validate_args: bool = True,
        zero_division: float | None = None,
        *,
        inputs: Inputs = "auto",
        sample_weight: Tensor | None = None,
    ) -> Tensor:
        """Count the batch and read the result."""
        extra = (validate_args, zero_division)
        return self.function(
            preds, target, threshold, "global", ignore_index, *extra, inputs=inputs, sample_weight=sample_weight
        )


def _of(name: str, undefined: float = 0.0) -> BinaryFunction:
    return BinaryFunction(_reading(find(name)), undefined)


def _reading(statistic: Statistic) -> Callable[[Counts, float], Tensor]:
    return lambda counts, zero_division: statistic(counts).value(zero_division).float()


binary_stat_scores = BinaryFunction(lambda counts, _: stat_scores(counts))
binary_accuracy = _of("accuracy")
binary_precision = _of("precision")
binary_recall = _of("recall")
binary_specificity = _of("specificity")
binary_negative_predictive_value = _of("negative_predictive_value")
binary_hamming_distance = _of("hamming_distance", undefined=1.0)
binary_f1_score = _of("f1")
binary_balanced_accuracy = _of("balanced_accuracy", undefined=nan)
binary_informedness = _of("informedness", undefined=nan)
binary_markedness = _of("markedness", undefined=nan)
binary_geometric_mean = _of("geometric_mean", undefined=nan)
binary_fowlkes_mallows = _of("fowlkes_mallows", undefined=nan)
binary_jaccard_index = BinaryTableFunction(_of("jaccard"))
binary_matthews_corrcoef = BinaryTableFunction(BinaryFunction(lambda counts, _: matthews_of_torchmetrics(counts)))


def binary_fbeta_score(preds: Tensor, target: Tensor, beta: float, *args: Any, **kwargs: Any) -> Tensor:
    """F-beta of a batch; the other arguments are those of ``binary_f1_score``."""
    return BinaryFunction(_reading(f_beta(beta)))(preds, target, *args, **kwargs)


def binary_cohen_kappa(
    preds: Tensor,
    target: Tensor,
    threshold: float = 0.5,
    weights: KappaWeights | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    **kwargs: Any,
) -> Tensor:
    """Agreement beyond chance; with two classes linear and quadratic ``weights`` change nothing."""
    checked_weights(weights)
    kappa = _of("kappa", undefined=nan)
    return kappa(preds, target, threshold, "global", ignore_index, validate_args, **kwargs)


def binary_confusion_matrix(
    preds: Tensor,
    target: Tensor,
    threshold: float = 0.5,
    normalize: Normalize | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    **kwargs: Any,
) -> Tensor:
    """Targets in rows and predictions in columns, negative first."""
    matrix = BinaryFunction(lambda counts, _: confusion_matrix(counts, checked_normalize(normalize)))
    return matrix(preds, target, threshold, "global", ignore_index, validate_args, **kwargs)
