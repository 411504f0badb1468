"""Finds bins by a search among their beginnings: one operator on an accelerator, however a bin is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from lightning_evalkit.counts.counts import wide_dtype

if TYPE_CHECKING:
    from torch import Tensor


class Searched:
    """Holds the first score of every bin but the lowest, and copies these to a device once."""

    def __init__(self) -> None:
        self.moved: dict[tuple[torch.device, torch.dtype], Tensor] = {}

    def begins(self, kind: torch.dtype) -> Tensor:
        """The smallest score of single or double precision in each bin, from the second up, on the CPU."""
        raise NotImplementedError

    def searched(self, scores: Tensor) -> Tensor:
        """The bin of each score: how many bins begin at it or below; NaN is in the last."""
        kind = wide_dtype(scores.dtype)
        place = scores.device, kind
        if place not in self.moved:
            self.moved[place] = self.begins(kind).to(scores.device)
        return torch.searchsorted(self.moved[place], scores.to(kind).contiguous(), right=True)

    def __getstate__(self) -> dict[str, Any]:
        """Drop the cached copies on devices."""
        return {**self.__dict__, "moved": {place: each for place, each in self.moved.items() if each.is_cpu}}
