"""The contents of a matrix's cells: counts, their shares, and texts short enough for a cell."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lightning_evalkit.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

Numbers = NDArray[np.float64]
FEW_CLASSES, MANY_CLASSES = 4, 15
"""Up to few, cells hold counts and shares; up to many, counts, which can be read in TensorBoard; with more, nothing."""
PIXEL = 0.0135
"""Inches of a pixel of the coarsest image: a smaller cell would be left out."""
EMPTY, DIGIT = 0.16, 0.07
"""Inches of a cell beyond its count, and of a digit."""


def side_of(matrix: Tensor, number: int) -> float:
    """Inches of the cells of a confusion matrix of so many classes."""
    if number > MANY_CLASSES:
        return float(np.clip(10 / number, PIXEL, 0.4))
    longest = max((len(count_text(count)) for count in matrix.double().flatten().tolist()), default=0)
    return 1.2 if number <= FEW_CLASSES else EMPTY + DIGIT * max(longest, 3)


def numbers_of(matrix: Tensor, shape: tuple[int, ...]) -> Numbers:
    """Counts of this shape."""
    if tuple(matrix.shape) != shape or not shape[0]:
        raise InputError(f"expected counts of shape {shape} for {shape[0]} names, got {tuple(matrix.shape)}.")
    return matrix.detach().double().cpu().numpy()


def ratio_of(part: Numbers, whole: Numbers) -> Numbers:
    """Divide; NaN if the divisor is 0."""
    whole = np.broadcast_to(whole, part.shape)
    return np.divide(part, whole, out=np.full_like(part, np.nan), where=whole > 0)


def count_text(number: float) -> str:
    """A count, short enough for a cell; weighted counts are not whole."""
    if not number.is_integer():
        return f"{number:.4g}"
    return f"{int(number):,}" if number < 1e7 else f"{number:.2e}"


def percent_text(share: float) -> str:
    """A share as a percentage, or a dash if it is undefined."""
    return "–" if math.isnan(share) else f"{share:.1%}"


def cell_text(count: float, share: float) -> str:
    """A count above its share of the row."""
    return f"{count_text(count)}\n{percent_text(share)}"
