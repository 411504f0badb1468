"""Means over samples of a loss or a rank, as functions of one batch, with torchmetrics' names and arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lightning_evalkit.counts import SampleValueCounter
from lightning_evalkit.functional.arguments import arguments_of
from lightning_evalkit.functional.counting import Ignored, counted
from lightning_evalkit.inputs import Binary, Inputs, Multiclass, Multilabel
from lightning_evalkit.statistics.arguments import MulticlassMode, hinge_of

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.inputs import Declaration


@dataclass(frozen=True)
class SampleBatch:
    """A batch of samples, each with its own value."""

    task: Declaration
    preds: Tensor
    target: Tensor
    validate_args: bool
    sample_weight: Tensor | None

    def mean(self, value: str) -> Tensor:
        """Compute the mean of a value over the samples."""
        counter = SampleValueCounter(self.task, value)
        return counter.mean(counted(counter, self.preds, self.target, self.validate_args, self.sample_weight)[1])


def binary_hinge_loss(
    preds: Tensor,
    target: Tensor,
    squared: bool = False,
    ignore_index: int | None = None,
    validate_args: bool = False,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Compute the mean of max(0, 1 - margin), where the margin is p for a yes and -p for a no; or of its square."""
    task = Binary(inputs, ignore_index, sample_weight is not None)
    return SampleBatch(task, preds, target, validate_args, sample_weight).mean(hinge_of(squared))


def multiclass_hinge_loss(
    preds: Tensor,
    target: Tensor,
    num_classes: int,
    squared: bool = False,
    multiclass_mode: MulticlassMode = "crammer-singer",
    ignore_index: Ignored = None,
    validate_args: bool = False,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Compute the mean of max(0, 1 - margin) over the likeliest other class, or of each class against the rest."""
    task = Multiclass(inputs, ignore_index, sample_weight is not None, num_classes=num_classes)
    return SampleBatch(task, preds, target, validate_args, sample_weight).mean(hinge_of(squared, multiclass_mode))


def label_batch(
    preds: Tensor,
    target: Tensor,
    num_labels: int,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> SampleBatch:
    """Declare a batch of samples whose labels are ranked."""
    task = Multilabel(inputs, ignore_index, sample_weight is not None, num_labels=num_labels)
    return SampleBatch(task, preds, target, validate_args, sample_weight)


@arguments_of(label_batch)
def multilabel_coverage_error(batch: SampleBatch) -> Tensor:
    """Compute the mean number of labels, from the highest score down, that include all true ones."""
    return batch.mean("coverage error")


@arguments_of(label_batch)
def multilabel_ranking_average_precision(batch: SampleBatch) -> Tensor:
    """Compute the mean over true labels of the share of true ones among the labels ranked as high."""
    return batch.mean("ranking average precision")


@arguments_of(label_batch)
def multilabel_ranking_loss(batch: SampleBatch) -> Tensor:
    """Compute the share of pairs of a true and a false label in the wrong order."""
    return batch.mean("ranking loss")
