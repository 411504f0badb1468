"""Histograms of scores as NumPy arrays: with few bins that are filled, torch's operators take several times as long.

A histogram on an accelerator is read from there, and results go back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from torch import Tensor

Array = np.ndarray[Any, np.dtype[Any]]


def array_of(part: Tensor) -> Array:
    """The numbers of a tensor; on the CPU in its own memory."""
    array: Array = part.numpy(force=True)
    return array


def tensor_of(numbers: Array, like: Tensor) -> Tensor:
    """Numbers as a tensor on the device where another is."""
    return torch.from_numpy(np.asarray(numbers, order="C")).to(like.device)


def sized(part: Tensor) -> Array:
    """Counts or weights of each question in double precision.

    Weights are divided by a power of two near their sum: products of them do not overflow.
    """
    numbers = array_of(part)
    if numbers.dtype.kind != "f":
        return numbers.astype(np.float64)
    _, exponent = np.frexp(numbers.sum(-1, keepdims=True, dtype=np.float64))
    scaled: Array = np.ldexp(numbers, -exponent, dtype=np.float64)
    return scaled
