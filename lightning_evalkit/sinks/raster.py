"""Draws lines, areas and texts as pixels: matplotlib's renderer and colours, and Pillow's letters, without a figure.

A figure of matplotlib takes ten times as long: it measures every text several times, and renders it a letter at a time.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from lightning_evalkit.errors import required

with required("matplotlib"):
    from matplotlib import colormaps, rcParams
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.colors import to_rgba
    from matplotlib.font_manager import FontProperties, findfont, get_font
    from matplotlib.path import Path
    from matplotlib.transforms import Bbox, IdentityTransform

with required("PIL"):
    from PIL import Image

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray
    from PIL import ImageFont

    from lightning_evalkit.sinks.cells import Numbers

UNDEFINED = to_rgba("#ececec")
PLACES = {"left": 0.0, "center": 0.5, "right": 1.0, "top": 0.0, "bottom": 1.0}
KEPT = 1024  # texts in memory, a kilobyte each
HERE = IdentityTransform()


def colours_of(name: str, shares: Numbers) -> Numbers:
    """Colours of shares in a map of matplotlib; grey where they are undefined."""
    return np.where(np.isnan(shares)[..., None], UNDEFINED, colormaps[name](np.nan_to_num(shares)))


class Raster:
    """A white image; lengths are in pixels, from the top left corner, and widths of lines and letters in points."""

    def __init__(self, width: float, height: float, dpi: float) -> None:
        self.width, self.height, self.dpi = math.ceil(width), math.ceil(height), dpi
        self._renderer = RendererAgg(self.width, self.height, dpi)
        self._seen = np.asarray(self._renderer.buffer_rgba())
        self._seen[:] = 255
        self._texts: list[tuple[Image.Image, Any, tuple[int, int]]] = []

    def stroke(
        self,
        lines: Sequence[ArrayLike],
        colour: Any,
        width: float,
        dashes: Sequence[float] = (),
        clip: tuple[float, float, float, float] | None = None,
        straight: bool = False,
    ) -> None:
        """Draw lines of points (x, y); ``dashes`` are lengths in widths of the line."""
        self._draw(lines, clip, width, colour, dashes=dashes, straight=straight)

    def fill(
        self,
        shapes: Sequence[ArrayLike],
        colour: Any,
        edge: float = 0.0,
        edge_colour: Any = None,
        clip: tuple[float, float, float, float] | None = None,
    ) -> None:
        """Fill shapes given by their corners (x, y), and draw their edges."""
        self._draw(shapes, clip, edge, edge_colour or colour, face=_rgba(colour))

    def cells(self, colours: Numbers, left: float, top: float, width: float, height: float) -> None:
        """Fill a rectangle with a table of colours."""
        rows, columns = (
            np.arange(round(side)) * number // round(side)
            for side, number in zip((height, width), colours.shape, strict=False)
        )
        area = np.round(colours * 255).astype(np.uint8)[rows][:, columns]
        top, left = round(top), round(left)
        self._seen[top : top + len(rows), left : left + len(columns)] = area

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: float,
        across: str = "left",
        down: str = "top",
        colour: Any = "black",
        upright: bool = False,
    ) -> None:
        """Write a line with its box at a place; ``upright`` turns it by 90 degrees."""
        mask = mask_of(text, size, self.dpi)
        mask = mask.transpose(Image.Transpose.ROTATE_90) if upright else mask
        corner = round(x - PLACES[across] * mask.width), round(y - PLACES[down] * mask.height)
        self._texts.append((mask, _bytes(colour), corner))

    def pixels(self) -> NDArray[np.uint8]:
        """The pixels, of shape (height, width, 3), texts above everything else."""
        image = Image.fromarray(np.ascontiguousarray(self._seen[..., :3]))
        for mask, colour, corner in self._texts:
            image.paste(colour, (*corner, corner[0] + mask.width, corner[1] + mask.height), mask)
        return np.asarray(image)

    def _draw(
        self,
        shapes: Sequence[ArrayLike],
        clip: tuple[float, float, float, float] | None,
        width: float,
        colour: Any,
        face: Any = None,
        dashes: Sequence[float] = (),
        straight: bool = False,
    ) -> None:
        """Draw all shapes as one path; the renderer counts y from below."""
        parts = [np.asarray(shape, dtype=float) for shape in shapes]
        if not parts:
            return
        corners = np.concatenate(parts)
        corners = np.stack((corners[:, 0], self.height - corners[:, 1]), 1)
        codes = np.full(len(corners), Path.LINETO, dtype=Path.code_type)
        codes[np.cumsum([0, *map(len, parts[:-1])])] = Path.MOVETO
        pen = self._renderer.new_gc()
        pen.set_foreground(_rgba(colour), isRGBA=True)
        pen.set_linewidth(width)
        if dashes:
            pen.set_dashes(0, [length * width for length in dashes])
        if straight:
            pen.set_snap(True)
        if clip:
            left, top, right, bottom = clip
            pen.set_clip_rectangle(Bbox([[left, self.height - bottom], [right, self.height - top]]))
        self._renderer.draw_path(pen, Path(corners, codes), HERE, face)


def _rgba(colour: Any) -> tuple[float, float, float, float]:
    """A colour, or a pair of it and its opacity, which older versions refuse for "C0"."""
    return to_rgba(*colour) if isinstance(colour, tuple) else to_rgba(colour)


def _bytes(colour: Any) -> tuple[int, ...]:
    return tuple(round(255 * part) for part in to_rgba(colour)[:3])


# ---- letters


def box_of(text: str, size: float, dpi: float) -> tuple[int, int]:
    """Width and height of a line in pixels."""
    return _box(text, *_face(size, dpi))


def mask_of(text: str, size: float, dpi: float) -> Image.Image:
    """A line as the opacity of its pixels, in the font that matplotlib is set to."""
    return _mask(text, *_face(size, dpi))


def _face(size: float, dpi: float) -> tuple[int, tuple[str, ...], tuple[str, ...]]:
    """The height of letters in whole pixels, and the names of the fonts."""
    return round(size * dpi / 72), tuple(rcParams["font.family"]), tuple(rcParams["font.sans-serif"])


@lru_cache(KEPT)
def _box(text: str, pixels: int, *fonts: tuple[str, ...]) -> tuple[int, int]:
    font, known = _font(pixels, *fonts)
    if not known.issuperset(map(ord, text)):
        return _mask(text, pixels, *fonts).size
    return max(math.ceil(font.getlength(text)), 1), sum(font.getmetrics())


@lru_cache(KEPT)
def _mask(text: str, pixels: int, *fonts: tuple[str, ...]) -> Image.Image:
    font, known = _font(pixels, *fonts)
    if not known.issuperset(map(ord, text)):
        return _fallback(text, pixels)
    from PIL import ImageDraw  # loads FreeType, which a run without figures does not need

    mask = Image.new("L", _box(text, pixels, *fonts))
    ImageDraw.Draw(mask).text((0, font.getmetrics()[0]), text, 255, font, "ls")
    return mask


def _fallback(text: str, pixels: int) -> Image.Image:
    """Letters that the first font lacks: matplotlib looks for them in others, and warns if none has them."""
    letters, dpi = FontProperties(size=pixels), 72.0
    measured = RendererAgg(1, 1, dpi).get_text_width_height_descent(text, letters, False)
    width, height, descent = (math.ceil(length) for length in measured)
    scratch = RendererAgg(width + 2, height + 2, dpi)
    scratch.draw_text(scratch.new_gc(), 1, height + 1 - descent, text, letters, 0)
    return Image.fromarray(np.ascontiguousarray(np.asarray(scratch.buffer_rgba())[..., 3]))


@lru_cache(64)
def _font(pixels: int, *fonts: tuple[str, ...]) -> tuple[ImageFont.FreeTypeFont, frozenset[int]]:
    """The font in one size, and the letters it has."""
    from PIL import ImageFont

    path = findfont(FontProperties())
    return ImageFont.truetype(path, pixels, layout_engine=ImageFont.Layout.BASIC), _letters(path)


@lru_cache(4)
def _letters(path: str) -> frozenset[int]:
    return frozenset(get_font(path).get_charmap())
