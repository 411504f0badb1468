"""A picture of lines and texts, laid out for a resolution that suits a board's thumbnails."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lightning_evalkit.sinks.raster import Raster, box_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy as np
    from numpy.typing import NDArray

DPI, MARGIN = 110, 0.1  # pixels per inch; inches around an image
SHOWN, LEAST_DPI = 350, 75  # width in pixels of an image in TensorBoard, which drops pixels when it scales
MORE, LESS = 1.08, 0.985  # the first resolution that is tried, as a share of the proportional one, and the next
TICK, PAD, LABEL = 3.5, 3.5, 4.0  # points: a tick, and the gaps on both sides of its name

Corners = list[tuple[float, float]]


class Picture:
    """A picture laid out for a resolution, in pixels from the top left corner."""

    width: float
    height: float

    def __init__(self, dpi: float) -> None:
        self.dpi, self.margin = dpi, MARGIN * dpi

    def draw(self, raster: Raster) -> None:
        """Draw it."""
        raise NotImplementedError

    def pixels(self, points: float) -> float:
        """A length in pixels."""
        return points * self.dpi / 72

    def wide(self, texts: Iterable[str], size: float) -> int:
        """The width of the longest of some lines."""
        return max((box_of(text, size, self.dpi)[0] for text in texts), default=0)

    def high(self, size: float) -> int:
        """The height of a line."""
        return box_of("0", size, self.dpi)[1]


def fitted(picture_at: Callable[[float], Picture]) -> NDArray[np.uint8]:
    """Draw at a multiple of TensorBoard's display width, so that scaling drops no stroke."""
    picture = picture_at(DPI)
    width = SHOWN * math.ceil(picture.width / DPI * LEAST_DPI / SHOWN)
    if width == SHOWN >= picture.width:
        width = math.ceil(picture.width)
    else:
        dpi = MORE * picture.dpi * width / picture.width
        while (picture := picture_at(dpi)).width > width:  # not in proportion: letters grow in whole pixels
            dpi *= LESS
    raster = Raster(width, picture.height, picture.dpi)
    picture.draw(raster)
    return raster.pixels()


def rectangle(left: float, top: float, right: float, bottom: float) -> Corners:
    """Its corners, the first one twice."""
    return [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)]
