"""Panels as plain values: lines, and names short enough for a legend."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

NAME, TITLE = 24, 60  # characters; longer names are shortened


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


class Panel(NamedTuple):
    """Lines in the unit square, unless a scale of x is given; a note says why there are none."""

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    heading: str = ""
    note: str = ""
    scale: str = ""  # or "linear", "log"


def shortened(text: str, most: int = NAME) -> str:
    """Shorten a name to one line and keep both its ends: names often differ only at the end."""
    text = " ".join(text.split())
    end = most // 3
    return text if len(text) <= most else f"{text[: most - end - 1]}…{text[-end:]}"
