"""Numbers with an exponent of their own: products of weights of any size neither overflow nor vanish."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

NOTHING = -1_000_000
"""The exponent of 0: below that of any product of numbers."""
MODERATE = 2.0**-200, 2.0**200
"""Between these, products of four sums stay within the range of double precision."""


class Wide:
    """mantissa · 2^exponent for each element of an array or tensor; mantissas are near 1, and exponents are unbounded.

    >>> tiny = Wide.of(np.array([1e-300, 3e-300]))
    >>> (tiny * tiny).over(tiny * tiny.sum(-1)).tolist()
    [0.25, 0.75]
    """

    def __init__(self, mantissa: Any, exponent: Any) -> None:
        self.mantissa = mantissa
        self.exponent = exponent

    @classmethod
    def of(cls, numbers: Any, exponent: Any = 0) -> Wide:
        """Numbers times 2^exponent."""
        if isinstance(numbers, Tensor):
            most = _most(numbers)
            power = numbers.abs().log2().floor().clamp(-most, most)
            wide = cls(_shifted(numbers, -power), torch.where(numbers == 0, NOTHING, power + exponent))
        else:
            mantissa, power = np.frexp(numbers)
            wide = cls(mantissa, np.where(mantissa == 0, NOTHING, power + exponent))
        return wide

    def __add__(self, other: Wide) -> Wide:
        library: Any = torch if isinstance(self.mantissa, Tensor) else np
        exponent = library.maximum(self.exponent, other.exponent)
        return Wide.of(self._at(exponent) + other._at(exponent), exponent)

    def __neg__(self) -> Wide:
        return Wide(-self.mantissa, self.exponent)

    def __sub__(self, other: Wide) -> Wide:
        return self + -other

    def __mul__(self, other: Wide | float) -> Wide:
        if isinstance(other, Wide):
            return Wide(self.mantissa * other.mantissa, self.exponent + other.exponent)
        return Wide(self.mantissa * other, self.exponent)

    __rmul__ = __mul__

    def __abs__(self) -> Wide:
        return Wide(abs(self.mantissa), self.exponent)

    def sum(self, axis: int) -> Wide:
        """The sum over one dimension."""
        largest = self._largest(axis)
        return Wide.of(self._at(largest).sum(axis), largest.squeeze(axis))

    def in_proportion(self, power: int = 0) -> Any:
        """Plain numbers of the same proportions over the last dimension: the largest of them is near 2^power."""
        return self._at(self._largest(-1) - power)

    def is_zero(self) -> Any:
        """Which elements are 0."""
        return self.mantissa == 0

    def over(self, other: Wide) -> Any:
        """The quotient as plain numbers."""
        return _shifted(self.mantissa / other.mantissa, self.exponent - other.exponent)

    def root_over(self, other: Wide) -> Any:
        """The root of the quotient, with its sign, as plain numbers."""
        library: Any = torch if isinstance(self.mantissa, Tensor) else np
        quotient, power = self.mantissa / other.mantissa, self.exponent - other.exponent
        half = power // 2
        return _shifted(library.sign(quotient) * library.sqrt(abs(_shifted(quotient, power - 2 * half))), half)

    def _largest(self, axis: int) -> Any:
        if isinstance(self.exponent, Tensor):
            return self.exponent.amax(axis, keepdim=True)
        return self.exponent.max(axis, keepdims=True)

    def _at(self, exponent: Any) -> Any:
        """The numbers over 2^exponent."""
        return _shifted(self.mantissa, self.exponent - exponent)


def is_moderate(cells: tuple[Any, ...]) -> bool:
    """Whether no product of sums of these arrays can overflow or vanish."""
    least, most = MODERATE
    return all(bool(((cell == 0) | ((cell >= least) & (cell <= most))).all()) for cell in cells)


def _most(numbers: Tensor) -> int:
    """A power of two beyond the range of this precision: every larger one gives 0 or infinity too."""
    return 300 if numbers.dtype == torch.float32 else 2_200


def _shifted(numbers: Any, power: Any) -> Any:
    """Numbers times 2^power."""
    if not isinstance(numbers, Tensor):
        return np.ldexp(numbers, np.clip(power, -2_200, 2_200).astype(np.intc))
    most = _most(numbers)
    power = power.clamp(-most, most)
    third = (power / 3).trunc()  # no single factor overflows or vanishes
    return numbers * torch.exp2(third) * torch.exp2(third) * torch.exp2(power - 2 * third)
