"""Reads tensors on the CPU through NumPy, which is several times faster there than torch's operators.

Checks are part of reading: a number that is needed anyway reveals values that are not as declared.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from torch import Tensor

Array = np.ndarray[Any, np.dtype[Any]]

BLOCK = 65_536
"""The samples of a block: their masks fit the processor's cache and the allocator's pool."""


def array_of(values: Tensor) -> Array:
    """The tensor's memory as an array; precisions that NumPy lacks are widened, which is exact."""
    if values.requires_grad:
        values = values.detach()
    if values.dtype is torch.bfloat16:
        values = values.float()
    array: Array = values.numpy()
    return array


def ones_among(values: Array) -> Array | None:
    """Which values are 1, if all others are 0, else None; NaN counts as nonzero."""
    mask: Array = values if values.dtype == np.bool_ else values == 1
    return mask if np.count_nonzero(mask) == np.count_nonzero(values) else None


def any_of(values: Array, numbers: tuple[int, ...]) -> Array:
    """Which values are among these numbers, which their type can hold."""
    if len(numbers) == 1:
        equal: Array = values == numbers[0]
        return equal
    return np.isin(values, numbers) if numbers else np.zeros(values.shape, dtype=np.bool_)


def within_unit(scores: Array) -> bool:
    """Whether every score is in [0, 1]; NaN is not."""
    return not scores.size or bool(
        np.minimum.reduce(scores, axis=None) >= 0 and np.maximum.reduce(scores, axis=None) <= 1
    )


def without_nan(scores: Array) -> bool:
    """Whether every score is a number."""
    return not scores.size or not math.isnan(np.maximum.reduce(scores, axis=None))


def within(values: Array, size: int) -> bool:
    """Whether every value is one of 0 ... size - 1."""
    if not values.size:
        return True
    if values.dtype == np.int64:  # read as unsigned, negative values are above every size
        return int(np.maximum.reduce(values.view(np.uint64), axis=None)) < size
    return int(np.minimum.reduce(values, axis=None)) >= 0 and int(np.maximum.reduce(values, axis=None)) < size


def true_per_column(mask: Array) -> Array:
    """How many are true in each column; by a matrix product, exact for at most 2**24 rows."""
    numbers = mask.astype(np.float32)
    counts: Array = _ones(len(mask)) @ numbers
    return counts


def true_per_row(mask: Array) -> Array:
    """How many are true in each row; exact for at most 2**24 columns."""
    numbers = mask.astype(np.float32)
    counts: Array = numbers @ _ones(mask.shape[1])
    return counts


@lru_cache(maxsize=16)
def _ones(length: int) -> Array:
    return np.ones(length, np.float32)


def above_cuts(scores: Array, cuts: tuple[float, ...]) -> list[Array]:
    """Which scores are above each cut; cuts are numbers of the scores' original type."""
    if scores.dtype == np.float16:
        scores = scores.astype(np.float32)  # once, as every comparison would
    return [scores > cut for cut in cuts]
