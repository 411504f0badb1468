"""Finds out from its definition whether a statistic is a share of samples.

A definition is undivided: a part of a whole. It is a share, or a function of one, if both count samples: each of the X
samples in the part has weight a, each of the Y others in the whole has weight b. Then a X / (a X + b Y) grows with the
binomial share X / (X + Y), and the interval of the statistic is the image of the interval of that share. Precision has
a = b = 1; F1 = 2 tp / (2 tp + fp + fn) has a = 2, b = 1, so it is a function of Jaccard's tp / (tp + fp + fn).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from lightning_evalkit.counts import Counts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lightning_evalkit.statistics import Quantity, Statistic

Numbers = tuple[int, ...]
CELLS: tuple[Numbers, ...] = ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1))
"""One sample in each cell: tp, fp, fn, tn."""
GENERIC: tuple[Numbers, ...] = ((3, 5, 7, 11), (13, 2, 19, 4), (6, 29, 1, 8))
"""Tables that reveal a definition that is not a sum over samples."""


@dataclass(frozen=True)
class Share:
    """The weight of a sample in the part, and that of a sample only in the whole."""

    inside: Fraction
    outside: Fraction

    def samples(self, quantity: Quantity) -> tuple[int, int]:
        """k and n of the share: the samples of the part, and all that the statistic looks at."""
        term = quantity.terms[0]
        part, whole = Fraction(_number(term.part)), Fraction(_number(term.whole))
        inside, outside = part / self.inside, (whole - part) / self.outside
        return int(inside), int(inside + outside)

    def image(self, share: float) -> float:
        """The statistic at a share."""
        part = float(self.inside) * share
        return part / (part + float(self.outside) * (1 - share))


PLAIN = Share(Fraction(1), Fraction(1))
"""A plain share: every sample has weight 1."""


def share_of(statistic: Statistic) -> Share | None:
    """A statistic of one table as a share; None if it is not a share.

    >>> from lightning_evalkit.statistics import find
    >>> share_of(find("f1"))
    Share(inside=Fraction(2, 1), outside=Fraction(1, 1))
    >>> share_of(find("mcc")) is None
    True
    """
    return _share_of(statistic.definition)


@lru_cache(maxsize=256)
def _share_of(definition: Callable[[Counts], Quantity]) -> Share | None:
    return share_in(lambda cells: definition(Counts(*cells)), CELLS, GENERIC)


def share_in(
    quantity_of: Callable[[Any], Quantity], single: Sequence[Any], generic: Sequence[tuple[Any, ...]]
) -> Share | None:
    """A quantity as a share, tried on tables with one sample of each kind and on some with many."""
    weights = [_weights(quantity_of(cells)) for cells in single]
    if any(weight is None for weight in weights):
        return None
    parts, wholes = zip(*(weight for weight in weights if weight is not None), strict=True)
    for numbers in generic:
        if _weights(quantity_of(numbers)) != (_summed(parts, numbers), _summed(wholes, numbers)):
            return None
    inside = {whole for part, whole in zip(parts, wholes, strict=True) if part == whole != 0}
    outside = {whole for part, whole in zip(parts, wholes, strict=True) if part == 0 != whole}
    either = all(part in (0, whole) for part, whole in zip(parts, wholes, strict=True))
    if not either or len(inside) != 1 or len(outside) != 1 or min(inside | outside) < 0:
        return None
    return Share(inside.pop(), outside.pop())


def _weights(quantity: Quantity) -> tuple[Fraction, Fraction] | None:
    """Part and whole, if the quantity is one plain fraction."""
    if len(quantity.terms) != 1 or quantity.terms[0].root or quantity.constant or quantity.divisor != 1:
        return None
    return Fraction(_number(quantity.terms[0].part)), Fraction(_number(quantity.terms[0].whole))


def _number(cell: Any) -> Any:
    return cell.item() if hasattr(cell, "item") else cell


def _summed(weights: Sequence[Fraction], numbers: tuple[Any, ...]) -> Fraction:
    return sum((weight * number for weight, number in zip(weights, numbers, strict=True)), start=Fraction(0))
