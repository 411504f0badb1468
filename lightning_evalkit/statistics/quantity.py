"""Undivided fractions: what a statistic returns, and the one place that decides what 0/0 is.

A statistic says "tp of tp + fp" and stops. Value, interval, undefinedness and explanation each read part and whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf, nan, sqrt
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from lightning_evalkit.counts import real_dtype
from lightning_evalkit.counts.counts import ARRAYS
from lightning_evalkit.counts.wide import Wide

NUMBERS = (int, Fraction)
"""Python's exact numbers."""


class Term(NamedTuple):
    """part / whole, or its root (with the sign of the part)."""

    part: Any
    whole: Any
    root: bool = False

    def divided(self, zero_division: float) -> Any:
        """The quotient as a real tensor or array. Nothing of nothing is ``zero_division``; something is infinite."""
        quotient = self._quotient()
        if zero_division != zero_division:
            return quotient  # NaN already
        library = torch if isinstance(quotient, Tensor) else np
        return library.where(self._is_nothing(), zero_division, quotient)

    def undefined(self) -> Tensor:
        """Where this is 0/0."""
        return torch.as_tensor(self._is_nothing())

    def _quotient(self) -> Any:
        if isinstance(self.part, Wide):
            return self.part.root_over(self.whole) if self.root else self.part.over(self.whole)
        if isinstance(self.part, ARRAYS):  # first, as asking for fractions takes as long as dividing a few numbers
            quotient, library = self.part / self.whole, cast("Any", np)
        elif isinstance(self.part, NUMBERS) and isinstance(self.whole, NUMBERS):
            return torch.tensor(self._of_exact(), dtype=torch.float64)
        else:
            quotient, library = _real(self.part) / _real(self.whole), torch
        return library.sign(quotient) * library.sqrt(abs(quotient)) if self.root else quotient

    def _of_exact(self) -> float:
        """Divided before it is rounded: the parts may be of any size."""
        if not self.whole:
            return inf if self.part > 0 else -inf if self.part < 0 else nan
        quotient = Fraction(self.part) / Fraction(self.whole)
        return _root(quotient) if self.root else _float(quotient)

    def _is_nothing(self) -> Any:
        if isinstance(self.part, Wide):
            return self.part.is_zero() & self.whole.is_zero()
        empty, nothing = (_flag(number == 0) for number in (self.part, self.whole))
        return empty & nothing


@dataclass(frozen=True)
class Quantity:
    """(terms + constant) / divisor, made by ``ratio`` and ``root`` and by +, - and / with whole numbers."""

    terms: tuple[Term, ...]
    constant: int = 0
    divisor: int = 1

    def value(self, zero_division: float = float("nan")) -> Tensor:
        """The number, with 0/0 of each term decided by ``zero_division``; on the CPU also of NumPy's arrays.

        >>> ratio(3, 4).value()
        tensor(0.7500, dtype=torch.float64)
        """
        first = self.terms[0].part
        if not isinstance(first.mantissa if isinstance(first, Wide) else first, ARRAYS):
            total: Tensor = self._sum(zero_division)
            return total
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            return torch.from_numpy(np.asarray(self._sum(zero_division)))

    def _sum(self, zero_division: float) -> Any:
        total = self.terms[0].divided(zero_division)
        for term in self.terms[1:]:
            total = total + term.divided(zero_division)
        total = total + self.constant if self.constant else total
        return total / self.divisor if self.divisor != 1 else total

    def undefined(self) -> Tensor:
        """Where any term is 0/0, so that the whole has no value of its own."""
        return torch.stack(torch.broadcast_tensors(*(term.undefined() for term in self.terms))).any(0)

    def exact(self) -> Fraction | None:
        """The exact value from Python integers; None where it is undefined, infinite or a root."""
        if any(term.root or term.whole == 0 for term in self.terms):
            return None
        terms = (Fraction(term.part) / Fraction(term.whole) for term in self.terms)
        return sum(terms, start=Fraction(self.constant)) / self.divisor

    def __add__(self, other: Quantity) -> Quantity:
        if self.divisor != other.divisor:
            raise ValueError(f"expected quantities over one divisor, got {self.divisor} and {other.divisor}.")
        return Quantity(self.terms + other.terms, self.constant + other.constant, self.divisor)

    def __sub__(self, number: int) -> Quantity:
        return replace(self, constant=self.constant - number * self.divisor)

    def __truediv__(self, number: int) -> Quantity:
        return replace(self, divisor=self.divisor * number)


def ratio(part: Any, whole: Any) -> Quantity:
    """Part of whole, undivided."""
    return Quantity((Term(part, whole),))


def root(part: Any, whole: Any) -> Quantity:
    """The square root of part / whole, with the sign of the part, undivided."""
    return Quantity((Term(part, whole, root=True),))


def _real(number: Any) -> Any:
    if isinstance(number, ARRAYS):
        return number
    if not isinstance(number, Tensor):
        return torch.tensor(_float(number), dtype=torch.float64)
    return number if number.is_floating_point() else number.to(real_dtype(number.device))


def _flag(found: Any) -> Any:
    return torch.tensor(found) if isinstance(found, bool) else found


def _float(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:  # an integer or fraction that no float holds
        return inf if number > 0 else -inf


def _root(number: Fraction) -> float:
    """The root of a number of any size, with its sign."""
    half = (abs(number.numerator).bit_length() - number.denominator.bit_length()) // 2
    near_one = abs(number) / Fraction(4) ** half
    found = _float(Fraction(sqrt(near_one)) * Fraction(2) ** half)
    return found if number >= 0 else -found
