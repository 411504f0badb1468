"""Declares losses of samples and their weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from lightning_evalkit.errors import InputError
from lightning_evalkit.inputs.declaration import Declaration

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Losses(Declaration):
    """A loss per sample (or element), not yet reduced, and a weight for each, 1 if not given.

    The state keeps their sums, or with ``histogram`` their sums by size.
    """

    histogram: bool = False

    def arranged(self, losses: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        """Losses and weights of one shape on one device."""
        if not losses.is_floating_point():
            raise InputError(f"expected losses of a floating-point type, got {losses.dtype}.")
        if weights is None:
            return losses, torch.ones_like(losses)
        if weights.is_complex():
            raise InputError("complex numbers are no weights.")
        if weights.shape != losses.shape or weights.device != losses.device:
            raise InputError(
                f"expected a weight for every loss, shape {tuple(losses.shape)} on {losses.device}, got "
                f"{tuple(weights.shape)} on {weights.device}: use the loss function's reduction='none'."
            )
        return losses, weights
