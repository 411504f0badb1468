"""Binary scores and targets: their declared meaning, and the shapes in which they may come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from lightning_evalkit.errors import DeclarationError, InputError
from lightning_evalkit.inputs.thresholded import Thresholded
from lightning_evalkit.ranks import warn_on_rank_zero

if TYPE_CHECKING:
    from torch import Tensor


YES_NO = ("no", "yes")
SURE = 8
"""So many rows with one 1 each are hardly by chance."""


@dataclass(frozen=True)
class Binary(Thresholded):
    """One yes-or-no question per element; several thresholds are several answers to the same question.

    >>> Binary(inputs="logits", thresholds=(0.5, 0.9)).cuts("logits")
    (0.0, 2.1972245773362196)
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.thresholds)) < len(self.thresholds):
            raise DeclarationError(f"expected different thresholds, got {list(self.thresholds)}.")

    def names_of_values(self, argument: str) -> tuple[str, ...] | None:
        """Both classes may be called by name, as labels and as targets."""
        return (self.names or YES_NO) if self.names_classes(argument) else None

    def refuse_unequal_shapes(self, preds: Tensor, target: Tensor) -> None:
        """Two scores for each sample are another problem, or one score too many."""
        if preds.ndim == target.ndim + 1 and preds.shape == (*target.shape[:1], 2, *target.shape[1:]):
            yes = "preds[:, 1]" if self.inputs in ("probabilities", "labels") else "logits[:, 1] - logits[:, 0]"
            raise InputError(
                f"expected one score for each sample, got {tuple(preds.shape)} for targets {tuple(target.shape)}: "
                f"pass {yes}, the score of the positive class. As two classes, MulticlassEvaluation(num_classes=2), "
                "micro-averaged precision, recall and F1 are all the accuracy; f1 of the positive class is f1/1 there."
            )
        super().refuse_unequal_shapes(preds, target)

    def _warn_of_two_scores(self) -> None:
        one = "preds[:, 1]" if self.inputs in ("probabilities", "labels") else "logits[:, 1] - logits[:, 0]"
        warn_on_rank_zero(
            "Every row of the targets, of shape (N, 2), has one 1, like one-hot targets of two classes: if they are, "
            "every sample counts twice, once as a yes and once as a no, and the numbers are those of neither class. "
            f"Pass {one} and target[:, 1]. Two separate questions belong to MultilabelEvaluation(num_labels=2)."
        )

    def arranged(
        self, preds: Tensor, target: Tensor, sample_weight: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """The tensors flattened to (N,), or to (N, X) where each sample is counted by itself."""
        if preds.shape != target.shape:
            self.refuse_unequal_shapes(preds, target)
        weight = self.arranged_weight(target, sample_weight, preds)
        if preds.ndim == 1 and not self.samplewise:
            return preds, target, weight
        if self.samplewise:
            if preds.ndim < 2:
                raise InputError(
                    f"expected at least 2 dimensions, (N, ...), to count samplewise, got shape {tuple(preds.shape)}."
                )
            preds, target = preds.flatten(1), target.flatten(1)
            return preds, target, None if weight is None else weight.flatten(1)
        if preds.ndim == 2 and preds.shape[1] == 2 and _is_one_hot(target):
            self._warn_of_two_scores()
        return preds.flatten(), target.flatten(), None if weight is None else weight.flatten()


def _is_one_hot(target: Tensor) -> bool:
    """Whether rows of two have one 1 each, where reading values is free."""
    if len(target) < SURE or not target.is_cpu or torch.compiler.is_compiling() or type(target) is not torch.Tensor:
        return False
    first, second = target.unbind(1)
    return bool((first != second).all()) and bool(((target == 0) | (target == 1)).all())
