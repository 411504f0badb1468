"""Histograms of scores as NumPy arrays: NumPy is several times as fast as torch where few bins are filled.

A histogram on an accelerator is copied to the CPU, and results are copied back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from torch import Tensor

Array = np.ndarray[Any, np.dtype[Any]]


def array_of(part: Tensor) -> Array:
    """The numbers of a tensor as an array, which shares the memory of a tensor on the CPU."""
    array: Array = part.numpy(force=True)
    return array


def tensor_of(numbers: Array, like: Tensor) -> Tensor:
    """The numbers as a tensor on the device of another one."""
    tensor = torch.from_numpy(np.asarray(numbers, order="C"))
    return tensor if like.is_cpu else tensor.to(like.device)


def sized(part: Tensor) -> Array:
    """The counts or weights of each question in double precision.

    Weights are divided by a power of two near their sum, so that their products do not overflow.
    """
    numbers = array_of(part)
    if numbers.dtype.kind != "f":
        return numbers.astype(np.float64)
    _, exponent = np.frexp(numbers.sum(-1, keepdims=True, dtype=np.float64))
    scaled: Array = np.ldexp(numbers, -exponent, dtype=np.float64)
    return scaled
