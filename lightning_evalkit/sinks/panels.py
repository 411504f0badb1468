"""Panels as plain values: lines, and names short enough for a legend."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

NAME, TITLE = 24, 60  # characters; longer names are shortened
TICKS = np.linspace(0, 1, 6)  # of the unit square


class Line(NamedTuple):
    """Points of a line, or of one line per column; ``number`` is a colour, ``sizes`` are shares of the samples."""

    x: ArrayLike
    y: ArrayLike
    label: str = ""
    kind: str = "solid"  # or another of the styles, or "bars", or a "band" between two places on the axis
    number: int | None = None
    sizes: ArrayLike | None = None
    ends: tuple[ArrayLike, ArrayLike] | None = None
    """The lower and upper ends of error bars."""
    right: bool = False
    """Whether ``y`` are values of the axis on the right."""


class RightAxis(NamedTuple):
    """A second y axis: its values at the heights 0 and 1, and the colour of the lines that it measures."""

    label: str
    low: float
    high: float
    number: int

    @property
    def ticks(self) -> list[str]:
        """Its values at the ticks."""
        return [f"{value:g}" for value in self.values(TICKS)]

    def values(self, heights: ArrayLike) -> NDArray[np.float64]:
        """The values at heights of the unit square."""
        return self.low + (self.high - self.low) * np.asarray(heights, dtype=float)

    def heights(self, values: ArrayLike) -> NDArray[np.float64]:
        """The heights of values in the unit square."""
        return (np.asarray(values, dtype=float) - self.low) / (self.high - self.low)


class Panel(NamedTuple):
    """Lines in the unit square, unless a scale of x is given; a note says why there are none."""

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    heading: str = ""
    note: str = ""
    scale: str = ""  # or "linear", "log"
    right: RightAxis | None = None

    @property
    def placed(self) -> list[Line]:
        """The lines with heights on the left axis."""
        right = self.right
        return [
            line if right is None or not line.right else line._replace(y=right.heights(line.y)) for line in self.lines
        ]


def shortened(text: str, most: int = NAME) -> str:
    """Shorten a name to one line and keep both its ends: names often differ only at the end."""
    text = " ".join(text.split())
    end = most // 3
    return text if len(text) <= most else f"{text[: most - end - 1]}…{text[-end:]}"
