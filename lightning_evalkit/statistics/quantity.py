"""Undivided fractions: what a statistic returns, and the one place that decides what 0/0 is.

A statistic says "tp of tp + fp" and stops. Value, interval, undefinedness and explanation each read part and whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lightning_evalkit.counts import real_dtype
from lightning_evalkit.counts.counts import ARRAYS


class Term(NamedTuple):
    """part / whole, or its root (with the sign of the part)."""

    part: Any
    whole: Any
    root: bool = False

    def divided(self, zero_division: float) -> Any:
        """The quotient as a real tensor or array. Nothing of nothing is ``zero_division``; something is infinite."""
        part, whole = _real(self.part), _real(self.whole)
        quotient, library = part / whole, torch if isinstance(part, Tensor) else np
        if self.root:
            quotient = library.sign(quotient) * library.sqrt(abs(quotient))
        if zero_division != zero_division:
            return quotient  # NaN already
        return library.where((part == 0) & (whole == 0), zero_division, quotient)

    def undefined(self) -> Tensor:
        """Where this is 0/0."""
        nothing: Tensor = (_real(self.part) == 0) & (_real(self.whole) == 0)
        return nothing


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
        if not isinstance(self.terms[0].part, ARRAYS):
            total: Tensor = self._sum(zero_division)
            return total
        with np.errstate(divide="ignore", invalid="ignore"):
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


def _float(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:  # an integer or fraction that no float holds
        return inf if number > 0 else -inf
