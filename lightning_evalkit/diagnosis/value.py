"""The value of one statistic of one table, exact if it is a fraction, or the reason why it has none."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lightning_evalkit.counts import Counts
    from lightning_evalkit.statistics import Statistic


class Value:
    """The value of a statistic: as an exact fraction where possible, and as a number in any case."""

    def __init__(self, statistic: Statistic, counts: Counts, zero_division: float) -> None:
        quantity = statistic(counts)
        self.statistic, self.counts, self.zero_division = statistic, counts, zero_division
        self.exact = quantity.exact()
        self.number = float(quantity.value(zero_division)) if self.exact is None else float(self.exact)
        self.defined = not bool(quantity.undefined())
        self.reported = self.defined or self.number == self.number

    def __str__(self) -> str:
        return f"{self.number:.6g}" if self.reported else "undefined"

    def at(self, counts: Counts) -> Value:
        """The same statistic of other counts."""
        return Value(self.statistic, counts, self.zero_division)

    def minus(self, other: Value) -> float:
        """The gap; 0.0 exactly when both are equal (roots are compared as numbers)."""
        if self.exact is not None and other.exact is not None:
            return float(self.exact - other.exact)
        gap = 0.0 if self.number == other.number else self.number - other.number
        return 0.0 if abs(gap) < 1e-12 else gap

    def plain(self) -> float | None:
        """The number for JSON, which has neither NaN nor infinity."""
        return self.number if isfinite(self.number) else None

    def why_undefined(self) -> list[str]:
        """A sentence that says why the value is 0/0, if it is."""
        if self.defined:
            return []
        formula = self.statistic.formula.removesuffix(".")
        stands = f"; zero_division = {self.zero_division:g} stands for it" if self.reported else ""
        return [f"{self.statistic.name} is 0/0 here ({formula}): {why_undefined(self.counts)}{stands}."]


def why_undefined(counts: Counts) -> str:
    """Say which margins of the table are empty."""
    margins = {
        "no samples were counted": counts.total,
        "there are no positive targets": counts.positives,
        "there are no negative targets": counts.negatives,
        "nothing was predicted positive": counts.predicted_positives,
        "nothing was predicted negative": counts.predicted_negatives,
    }
    empty = [words for words, number in margins.items() if number == 0]
    return empty[0] if counts.total == 0 else " and ".join(empty) or "its numerator and its denominator are 0"


def in_words(number: Any) -> str:
    """A count as a sentence writes it; weights may have a fraction."""
    return f"{number:,}" if isinstance(number, int) else f"{float(number):g}"


def numbered(number: float, noun: str) -> str:
    """A number of things, in the plural unless there is one.

    >>> numbered(1, "sample"), numbered(2000, "sample"), numbered(0.5, "sample")
    ('1 sample', '2,000 samples', '0.5 samples')
    """
    written = f"{number:,}" if isinstance(number, int) else f"{number:,g}"
    return f"{written} {noun}{'' if number == 1 else 's'}"


def plain_cells(counts: Counts) -> dict[str, Any]:
    """The four counts by their names, for JSON."""
    cells = zip(("tp", "fp", "fn", "tn"), counts.cells, strict=True)
    return {name: cell if isinstance(cell, int) else float(cell) for name, cell in cells}
