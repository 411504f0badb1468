"""Counts how often each number occurs, on any device without waiting for it, and deterministically."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from lightning_evalkit.counts.counts import real_dtype
from lightning_evalkit.counts.deferral import is_deferred


def histogram(numbers: Tensor, size: int) -> Tensor:
    """The occurrences of 0 ... size - 1 among numbers in this range.

    An accelerator sorts: ``bincount`` would wait for the device, and scattering adds in no fixed order.
    """
    numbers = numbers.flatten()
    if not is_deferred(numbers):
        return torch.from_numpy(np.bincount(numbers.numpy(), minlength=size))
    edges = torch.arange(size + 1, device=numbers.device, dtype=numbers.dtype)
    return torch.searchsorted(numbers.sort().values, edges).diff()


def weighted_histogram(numbers: Tensor, weight: Tensor, size: int) -> Tensor:
    """The sum of weights at each of 0 ... size - 1.

    ``index_add_`` adds in a fixed order under ``torch.use_deterministic_algorithms``.
    """
    sums = torch.zeros(size, dtype=real_dtype(weight.device), device=weight.device)
    return sums.index_add_(0, numbers.flatten(), weight.flatten().to(sums.dtype))
