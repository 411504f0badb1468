"""Multiclass scores, labels and targets: one of C classes per element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lightning_evalkit.errors import DeclarationError, InputError
from lightning_evalkit.inputs.complaints import multiclass_complaint
from lightning_evalkit.inputs.declaration import Declaration, checked_number
from lightning_evalkit.inputs.numbers import checked_flag

if TYPE_CHECKING:
    from torch import Tensor

LARGEST_MATRIX = 4_096


@dataclass(frozen=True)
class Multiclass(Declaration):
    """One of C classes per element, predicted by a label or by scores of which the largest counts.

    With ``top_k`` above 1 a prediction is right if the target is among the k largest scores, as in torchmetrics.
    Besides the counts per class, a state may keep how often the target is among the ``hits`` largest scores, the whole
    confusion ``matrix``, and whether all elements of a sample are right (``exact``). Without a number of classes it
    distinguishes only right and wrong.
    """

    num_classes: int | None = 2
    top_k: int = 1
    hits: tuple[int, ...] = ()
    matrix: bool = False
    exact: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_classes is not None:
            checked_number("num_classes", self.num_classes, least=2)
        elif self.binning is not None:
            raise DeclarationError("expected num_classes for curves, each of which is of one class, got None.")
        checked_flag("confusion_matrix", self.matrix)
        for k in (self.top_k, *self.hits):
            checked_number("top_k", k, least=1)
            if k > (self.num_classes or 1):
                raise DeclarationError(f"expected top_k of at most num_classes={self.num_classes}, got {k}.")
        if self.inputs == "labels" and (self.top_k > 1 or self.hits):
            raise DeclarationError("expected scores for top_k above 1, got inputs='labels': labels have no order.")
        if self.matrix and (self.num_classes or 2) > LARGEST_MATRIX:
            size = (self.num_classes or 2) ** 2 * 8 / 2**30
            raise DeclarationError(
                f"expected at most {LARGEST_MATRIX} classes for a confusion matrix, got {self.num_classes} "
                f"({size:.1f} GiB per copy): statistics without a matrix have no such limit."
            )

    @property
    def classes(self) -> int:
        """The number of distinguished classes."""
        return self.num_classes or 1

    def names_of_values(self, argument: str) -> tuple[str, ...] | None:
        """Classes may be called by name, as labels and as targets."""
        return (self.names or tuple(map(str, range(self.classes)))) if self.names_classes(argument) else None

    def complaint(self, preds: Tensor, target: Tensor, weight: Tensor | None) -> str:
        """The error message about the values of a batch."""
        return multiclass_complaint(self, preds, target, weight)

    def arranged(
        self, preds: Tensor, target: Tensor, sample_weight: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Scores (N, C, ...) or labels (N, ...), and targets (N, ...), checked but not flattened."""
        if self._scored(preds, target):
            shape = preds.shape
            if len(shape) < 2 or shape[0] != target.shape[0] or (len(shape) > 2 and shape[2:] != target.shape[1:]):
                raise InputError(self._unequal(preds, target))
            if self.num_classes is not None and shape[1] != self.num_classes:
                hint = " (two scores per sample are two classes: declare num_classes=2)" if shape[1] == 2 else ""
                raise InputError(f"expected scores of shape (N, {self.num_classes}, ...), got {tuple(shape)}{hint}.")
        if self.samplewise and target.ndim < 2:
            raise InputError(
                f"expected targets with at least 2 dimensions, (N, ...), to count samplewise, "
                f"got {tuple(target.shape)}."
            )
        if target.is_floating_point():
            raise InputError(
                f"expected targets to be class numbers (integers), got {target.dtype}: call target.long()."
            )
        if self.exact:
            self.refuse_weights_of_elements(sample_weight, len(target), "exact match counts")
        return preds, target, self.arranged_weight(target, sample_weight, preds)

    def _scored(self, preds: Tensor, target: Tensor) -> bool:
        real = preds.is_floating_point()
        scores = real and preds.ndim == target.ndim + 1
        labels = not real and preds.shape == target.shape
        if (labels and self.inputs in ("labels", "auto")) or (scores and self.inputs != "labels"):
            if labels and (self.top_k > 1 or self.hits):
                raise InputError("expected scores, (N, C, ...), for top_k above 1, got labels: labels have no order.")
            return scores
        raise InputError(self._unequal(preds, target))

    def _unequal(self, preds: Tensor, target: Tensor) -> str:
        shapes = f"got {preds.dtype} {tuple(preds.shape)} and target {tuple(target.shape)}"
        scores, labels = f"scores (N, {self.num_classes or 'C'}, ...)", "integer labels (N, ...)"
        expected = {"labels": labels, "auto": f"{scores} or {labels}"}.get(self.inputs, scores)
        hint = ""
        if target.ndim == preds.ndim and target.shape[-1:] == (1,):
            hint = ": call target.squeeze(-1)"
        elif self.inputs != "labels" and preds.shape == target.shape and preds.shape[1:2] == (self.num_classes,):
            hint = ": call target.argmax(1) if it is one-hot"
        elif preds.shape == target.shape and preds.is_floating_point():
            hint = ": one score per element is a binary problem, or call preds.long() if they are labels"
        return f"expected {expected} for targets (N, ...), {shapes}{hint}."
