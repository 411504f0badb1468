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

    from lightning_evalkit.inputs import Thresholded

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


ONE = {np.dtype(kind): np.array(1, kind) for kind in "bBhHiIlLqQefd"}
"""The number 1 of each type but bool: NumPy compares an array of its own type twice as fast as a Python number."""


def ones_among(values: Array) -> Array | None:
    """Which values are 1, if all others are 0, else None; NaN counts as nonzero."""
    one = ONE.get(values.dtype)
    if one is None:
        return values
    mask: Array = values == one
    if values.dtype == np.int64:
        return mask if not values.size or largest(values.view(np.uint64)) <= 1 else None
    return mask if np.count_nonzero(mask) == np.count_nonzero(values) else None


def zeros_and_ones(values: Array) -> Array | None:
    """The values if all are 0 or 1, as whole numbers or as a mask of the ones, else None."""
    if values.dtype == np.int64:
        return values if within(values, 2) else None
    return ones_among(values)


def any_of(values: Array, numbers: tuple[int, ...]) -> Array:
    """Which values are among these numbers, which their type can hold."""
    if len(numbers) == 1:
        equal: Array = values == numbers[0]
        return equal
    return np.isin(values, numbers) if numbers else np.zeros(values.shape, dtype=np.bool_)


def tensor_of(scores: Array, kind: torch.dtype) -> Tensor:
    """Scores in the precision in which they came, which may be one that NumPy lacks."""
    return torch.from_numpy(np.ascontiguousarray(scores)).to(kind)


def largest(values: Array) -> Any:
    """The largest value as a Python number, or NaN; of few values a search takes a quarter of a reduction's time."""
    return values.item(values.argmax())


def smallest(values: Array) -> Any:
    """The smallest value, likewise."""
    return values.item(values.argmin())


BITS = {2: (np.uint16, 0x3C00), 4: (np.uint32, 0x3F80_0000), 8: (np.uint64, 0x3FF0_0000_0000_0000)}
"""For real numbers of so many bytes: unsigned numbers with the same bits, and the one with those of 1."""


def within_unit(scores: Array) -> bool:
    """Whether every score is in [0, 1]; NaN is not."""
    if not scores.size:
        return True
    kind, one = BITS[scores.itemsize]
    # Read as unsigned numbers, scores in [0, 1] are in order and below all others: one pass, except for -0.0.
    if largest(scores.view(kind)) <= one:
        return True
    return bool(smallest(scores) >= 0 and largest(scores) <= 1)


def without_nan(scores: Array) -> bool:
    """Whether every score is a number."""
    return not scores.size or not math.isnan(largest(scores))


MANY_ROWS, FEW_COLUMNS = 2_048, 24


def arg_max(scores: Array) -> Array:
    """The place of the largest number in each row: the first of equal ones, and NaN is larger than any.

    Of many short rows, comparing columns with the maximum takes half the time of NumPy's search in each row.
    """
    rows, columns = scores.shape
    places: Array
    if rows < MANY_ROWS or columns > FEW_COLUMNS or scores.dtype == np.float16:
        places = scores.argmax(1)
        return places
    size = BLOCK // columns
    if rows > size:
        return np.concatenate([arg_max(scores[begin : begin + size]) for begin in range(0, rows, size)])
    by_column = np.ascontiguousarray(scores.T)
    best = by_column.max(0)
    ranks = (by_column == best).view(np.int8)
    ranks *= np.arange(columns, 0, -1, dtype=np.int8)[:, None]
    places = columns - ranks.max(0).astype(np.int64)
    if math.isnan(largest(best)):  # it equals nothing
        with_nan = np.isnan(best)
        places[with_nan] = scores[with_nan].argmax(1)
    return places


def is_endless(scores: Array) -> bool:
    """Whether the largest logit of a row is infinite, so that a softmax is no number."""
    if not scores.size or (largest(scores) < math.inf and smallest(scores) > -math.inf):
        return False
    return bool(np.isinf(scores.max(1)).any())


def within(values: Array, size: int) -> bool:
    """Whether every value is one of 0 ... size - 1."""
    if not values.size:
        return True
    if values.dtype == np.int64:  # read as unsigned, negative values are above every size
        return bool(largest(values.view(np.uint64)) < size)
    return bool(smallest(values) >= 0 and largest(values) < size)


def true_per_column(*masks: Array) -> Array:
    """How many are true in each column of each mask; by one matrix product, exact for at most 2**24 rows."""
    numbers = np.empty((len(masks), *masks[0].shape), np.float32)
    for place, mask in enumerate(masks):
        numbers[place] = mask
    counts: Array = _ones(masks[0].shape[0]) @ numbers
    return counts


def true_per_row(mask: Array) -> Array:
    """How many are true in each row; exact for at most 2**24 columns."""
    numbers = mask.astype(np.float32)
    counts: Array = numbers @ _ones(mask.shape[1])
    return counts


def rows_with_any(mask: Array) -> int:
    """How many rows have a true element; a row is read as one value of as many bytes."""
    return int(np.count_nonzero(np.ascontiguousarray(mask).view(_bytes(mask.shape[1]))))


@lru_cache(maxsize=16)
def _bytes(number: int) -> np.dtype[Any]:
    return np.dtype((np.void, number))


@lru_cache(maxsize=16)
def _ones(length: int) -> Array:
    return np.ones(length, np.float32)


class Cutting:
    """Cuts scores at the cuts of a declaration, which are numbers of the scores' type."""

    def __init__(self, task: Thresholded, by_column: bool = False) -> None:
        """Make a cutting of every score at all cuts, or of each column at its own."""
        self._task, self._by_column = task, by_column
        self._cuts: dict[tuple[str, torch.dtype], list[Array]] = {}

    def __call__(self, scores: Array, score_kind: str, kind: torch.dtype) -> list[Array]:
        """Which scores, given in this type, are above each cut."""
        if kind is torch.float16:
            scores = scores.astype(np.float32)  # once, as every comparison would
        cuts = self._cuts.get((score_kind, kind)) or self._prepared(scores, score_kind, kind)
        return list(map(scores.__gt__, cuts))

    def _prepared(self, scores: Array, score_kind: str, kind: torch.dtype) -> list[Array]:
        """The cuts as arrays, which are compared twice as fast as Python numbers."""
        cuts = self._task.cuts(score_kind, kind)
        arrays = [np.array(cut, scores.dtype) for cut in ([cuts] if self._by_column else cuts)]
        self._cuts[score_kind, kind] = arrays
        return arrays


@lru_cache(maxsize=16)
def row_begins(size: int, width: int) -> Array:
    """The places in memory at which the rows of a matrix begin; not to be changed."""
    return np.arange(0, size, width)
