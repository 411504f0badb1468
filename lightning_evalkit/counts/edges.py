"""The edges of bins to the last bit of double precision: a threshold there decides as the bins do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from lightning_evalkit.counts.numpy_path import Array

    ToBins = Callable[[Array], Array]


def edges_of(lowest: Array, binning: ToBins, least: float) -> tuple[Array, Array]:
    """The first score of every bin and the last before it, for bins in the order of scores.

    ``lowest`` holds the smallest single-precision scores that are not in a lower bin. ``least`` is the smallest
    possible score: no score is below its bin, so the last score before that bin is NaN.
    """
    wanted, high = np.arange(len(lowest)), np.nan_to_num(lowest, nan=np.inf, posinf=np.inf, neginf=-np.inf)
    with np.errstate(over="ignore"):  # the number after the largest, and those beyond single precision
        low = np.maximum(np.nextafter(high, np.float32(-np.inf)).astype(np.float64), least)
        high = high.astype(np.float64)
        begun = binning(low.copy()) < wanted
        cut = np.where(begun, _last_below(low, high, wanted, begun, binning), np.nan)
        first = np.where((binning(high.copy()) == wanted) | ~begun, high, np.nextafter(cut, np.inf))
    return first, cut


def _last_below(low: Array, high: Array, wanted: Array, begun: Array, binning: ToBins) -> Array:
    """Bisect between a number in a lower bin and one that is not."""
    below, above = ordered(low), ordered(high)
    active = np.nonzero(begun)[0]
    while active.size:
        middle = below[active] + ((above[active] - below[active]) >> 1)
        lower = binning(from_order(middle)) < wanted[active]
        below[active] = np.where(lower, middle, below[active])
        above[active] = np.where(lower, above[active], middle)
        active = active[above[active] - below[active] > 1]
    return from_order(below)


def ordered(values: Array) -> Array:
    """Integers in the order of these floats: their bits, inverted for negative numbers."""
    kind = np.dtype(f"i{values.itemsize}")
    bits: Array = (values + values.dtype.type(0)).view(kind)  # adding 0 turns -0 into 0
    return _turned(bits)


def from_order(places: Array) -> Array:
    """The floats at these positions of their order, as wide as the positions."""
    numbers: Array = _turned(places).view(np.dtype(f"f{places.itemsize}"))
    return numbers


def _turned(bits: Array) -> Array:
    turned: Array = bits ^ (bits >> (8 * bits.itemsize - 1) & np.iinfo(bits.dtype).max)
    return turned


def before(scores: Tensor) -> Tensor:
    """The number before each."""
    return torch.nextafter(scores, torch.full_like(scores, -torch.inf))


def as_probability(scores: Tensor, probable: bool) -> Tensor:
    """Probabilities, or those of logits, in double precision."""
    return scores.double().clamp(0, 1) if probable else scores.double().sigmoid()
