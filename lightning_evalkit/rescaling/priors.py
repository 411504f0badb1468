"""Moves logits from one share of positives to another by adding a known constant."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import Module

from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.rescaling.classes import along_classes, as_logits

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    Prior = float | Sequence[float]


class PriorCorrection(Module):
    """Undoes the logit shift of weights or resampling, and projects to another share of positives.

    A weight w of positives in the loss (``pos_weight``), or w_c of classes (``class_weights``), moves the learnt logit
    by ln w. Training at one prevalence and deploying at another moves it by the difference of their logits:
    ``trained_at`` is the share of positives in the training data (after resampling, if any), ``deployed_at`` the share
    to predict for. For several classes both are lists that add up to 1, and classes are the second dimension of the
    logits, (N, C, ...).

    >>> correction = PriorCorrection(pos_weight=9.0)
    >>> correction(torch.zeros(1)).sigmoid()  # 1 / (1 + 9)
    tensor([0.1000])
    >>> PriorCorrection(trained_at=0.5, deployed_at=0.01)(torch.zeros(1)).sigmoid()
    tensor([0.0100])
    """

    shift: Tensor

    def __init__(
        self,
        pos_weight: float | None = None,
        class_weights: Sequence[float] | None = None,
        trained_at: Prior | None = None,
        deployed_at: Prior | None = None,
    ) -> None:
        super().__init__()
        class_weights, trained_at, deployed_at = map(_plain, (class_weights, trained_at, deployed_at))
        if (trained_at is None) is not (deployed_at is None):
            raise DeclarationError("expected trained_at and deployed_at together: from which share to which.")
        if all(given is None for given in (pos_weight, class_weights, trained_at)):
            raise DeclarationError(
                "expected what to correct: pos_weight, class_weights, or trained_at and deployed_at."
            )
        shifts = [_of_weights(pos_weight, class_weights), _of_priors(trained_at, deployed_at)]
        widths = {len(shift) for shift in shifts if shift}
        if len(widths) > 1:
            raise DeclarationError(
                f"expected weights and shares of as many classes, got {min(widths)} and {max(widths)}."
            )
        total = [sum(parts) for parts in zip(*(shift for shift in shifts if shift), strict=True)]
        self.register_buffer("shift", torch.tensor(total, dtype=torch.float32), persistent=False)

    def forward(self, logits: Tensor) -> Tensor:
        """Corrected logits, in their own precision."""
        logits = as_logits(logits, self.shift.device, "corrected")
        precise = logits.to(torch.promote_types(logits.dtype, self.shift.dtype))
        return (precise - along_classes(self.shift, logits)).to(logits.dtype)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> PriorCorrection:
        """Follow a move to another device, never a cast."""
        self.shift = self.shift.to(fn(self.shift).device)
        return self


def _plain(given: Any) -> Any:
    """Numbers or lists of them, of tensors, arrays and columns too."""
    return given.tolist() if hasattr(given, "tolist") else given


def _of_weights(pos_weight: float | None, class_weights: Sequence[float] | None) -> list[float]:
    if pos_weight is not None and class_weights is not None:
        raise DeclarationError("expected pos_weight or class_weights, got both.")
    if class_weights is not None and len(class_weights) < 2:
        raise DeclarationError(f"expected class_weights of two classes or more, got {class_weights}.")
    weights = [pos_weight] if pos_weight is not None else list(class_weights or ())
    if any(isinstance(weight, bool) or not 0 < weight < float("inf") for weight in weights):
        raise DeclarationError(f"expected weights above 0 and finite, got {weights}.")
    return [log(weight) for weight in weights]


def _of_priors(trained_at: Prior | None, deployed_at: Prior | None) -> list[float]:
    if trained_at is None or deployed_at is None:
        return []
    before, after = _logs("trained_at", trained_at), _logs("deployed_at", deployed_at)
    if len(before) != len(after):
        raise DeclarationError(
            "expected trained_at and deployed_at of one kind: two numbers, or two lists of one length."
        )
    return [was - will for was, will in zip(before, after, strict=True)]


def _logs(name: str, prior: Prior) -> list[float]:
    """The logit of a share, or the logarithms of several."""
    shares = list(prior) if isinstance(prior, Sequence) else [prior]
    if any(isinstance(share, bool) or not 0 < share < 1 for share in shares):
        raise DeclarationError(f"expected {name} between 0 and 1, got {prior!r}.")
    if isinstance(prior, Sequence):
        if len(shares) < 2 or abs(sum(shares) - 1) > 1e-3:
            raise DeclarationError(f"expected the shares of {name} to add up to 1, got {prior!r}.")
        return [log(share) for share in shares]
    return [log(shares[0] / (1 - shares[0]))]
