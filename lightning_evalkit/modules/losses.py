"""Turns logits and targets into a loss and a weight per sample; their sums decide how they are reduced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import torch
from torch.nn import Module
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from lightning_evalkit.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

LossName = Literal["cross_entropy", "focal"]


class Losses(NamedTuple):
    """A loss and a weight for every sample of a batch."""

    values: Tensor
    weights: Tensor

    def mean(self) -> Tensor:
        """Sum of weighted losses / sum of weights; 0 if all weights of the batch are 0."""
        total = self.weights.sum()
        weighted = torch.where(self.weights == 0, 0.0, self.values) * self.weights
        return weighted.sum() / torch.where(total > 0, total, 1)


class Loss(Module):
    """Base of both losses: weights of positives or classes, and the focal factor (1 - p)^gamma.

    p = exp(-cross-entropy) is the predicted probability of the true class, so samples that are right already count
    less.
    """

    weight: Tensor | None

    def __init__(self, weight: float | Sequence[float] | None, loss: LossName, focal_gamma: float) -> None:
        super().__init__()
        weights = [] if weight is None else [weight] if isinstance(weight, (int, float)) else list(weight)
        if any(not 0 < each < float("inf") for each in weights):
            raise DeclarationError(f"expected weights of a loss above 0 and finite, got {weight}.")
        if loss not in ("cross_entropy", "focal") or not focal_gamma >= 0:
            raise DeclarationError(
                f"expected loss 'cross_entropy' or 'focal' and a focal_gamma of at least 0, "
                f"got {loss!r} and {focal_gamma}."
            )
        tensor = None if weight is None else torch.tensor(weight, dtype=torch.float32)
        self.register_buffer("weight", tensor, persistent=False)
        self.gamma = focal_gamma if loss == "focal" else 0.0

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Loss:
        """Follow a move to another device, never a cast: 9.9 is 9.875 in bfloat16."""
        if self.weight is not None:
            self.weight = self.weight.to(fn(self.weight).device)
        return self

    def focused(self, values: Tensor) -> Tensor:
        """Cross-entropies times their focal factor."""
        if self.gamma == 0:
            return values
        wrong = -torch.expm1(-values)  # the root of an exact 0 has no derivative
        return values * wrong.clamp(min=torch.finfo(values.dtype).tiny) ** self.gamma


class YesNoLoss(Loss):
    """Binary cross-entropy of (N,) or (N, labels) logits, its mean over labels; ``weight`` is that of positives.

    As with torch's ``pos_weight``, the weighted losses are divided by the number of samples, not by the weights.
    """

    def forward(self, logits: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> Losses:
        """The losses of a batch, in single precision at least."""
        logits, truth = _single(logits), target.to(torch.promote_types(logits.dtype, torch.float32))
        values = self.focused(binary_cross_entropy_with_logits(logits, truth, reduction="none"))
        if self.weight is not None:
            values = values * (1 + truth * (self.weight - 1))
        values = values if values.ndim == 1 else values.mean(1)
        return Losses(values, torch.ones_like(values) if sample_weight is None else sample_weight.to(values.dtype))


class OneOfManyLoss(Loss):
    """Cross-entropy of (N, classes) logits; a sample has the weight of its class, as in torch."""

    def forward(self, logits: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> Losses:
        """The losses of a batch, in single precision at least."""
        target = target.long()
        values = self.focused(cross_entropy(_single(logits), target, reduction="none"))
        weights = torch.ones_like(values) if self.weight is None else self.weight.to(values.dtype)[target]
        return Losses(values, weights if sample_weight is None else weights * sample_weight)


def _single(logits: Tensor) -> Tensor:
    return logits.to(torch.promote_types(logits.dtype, torch.float32))
