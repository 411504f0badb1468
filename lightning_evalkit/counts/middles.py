"""The logits that bins of scores stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from lightning_evalkit.counts.bins import HALF, PER_OCTAVE, SOFT, BFloat16Bins, FineBins

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts.bins import Bins


def logits_of(bins: Bins, alone: Tensor, part: float = 0.5) -> Tensor:
    """The logit at this part of the way through each bin, from its lowest (0) to its highest score (1).

    Bins that are ``alone`` hold one value, which may be infinite. Logits are not derived from probabilities, because
    different logits have equal probabilities next to 1.
    """
    if isinstance(bins, FineBins):
        return torch.where(alone.cpu(), _certain(bins.number), _within(bins, part))
    assert isinstance(bins, BFloat16Bins)  # an evaluation has no others
    return _values(bins, alone.cpu(), part)


def _certain(number: int) -> Tensor:
    return torch.full((number,), torch.inf, dtype=torch.float64).copysign(torch.arange(number) - number / 2)


def _within(bins: FineBins, part: float) -> Tensor:
    """The logit at a share of the way through fine bins, which are even in 1 - 4 / (4 + size), signed."""
    soft = (torch.arange(bins.number, dtype=torch.float64) - 1 + part) / bins.scale - 1
    size = SOFT / (1 - soft.abs()).clamp(min=0) - SOFT
    if bins.probable:  # the size is that of the bits of the rarer side's probability
        bits = (HALF - size / PER_OCTAVE).clamp(1, HALF).round().int()
        rare = bits.view(torch.float32).double()
        size = torch.log1p(-rare) - rare.log()
    return size.copysign(soft)


def _values(bins: BFloat16Bins, alone: Tensor, part: float) -> Tensor:
    """The value of a bin, or a logit between it and the largest that shares its first bits."""
    first = bins._values()
    far = (first.view(torch.int32) | 0xFFFF).view(torch.float32)
    low, high = (torch.where(first.signbit(), *ends).double() for ends in ((far, first), (first, far)))
    single = alone | first.isinf()
    values = torch.where(single, first.double(), low + part * (high - low))
    if not bins.probable:
        return values
    values = values.clamp(0, 1)
    return torch.log(values) - torch.log1p(-values)
