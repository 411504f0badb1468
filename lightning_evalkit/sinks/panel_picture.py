"""Draws a panel: title, axes of the unit square, curves, and the legend below."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lightning_evalkit.sinks.grids import LARGE, MEDIUM
from lightning_evalkit.sinks.panels import TICKS, TITLE, shortened
from lightning_evalkit.sinks.picture import LABEL, PAD, TICK, Picture, rectangle
from lightning_evalkit.sinks.raster import box_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lightning_evalkit.sinks.panels import Line, Panel
    from lightning_evalkit.sinks.raster import Raster

SIDE, POINT, LARGEST = 3.0, 8, 150  # inches of a panel; areas of the smallest point, and of one that holds everything
LOWEST, RIGHTMOST, HIGHEST = -0.01, 1.01, 1.02  # the ends of the axes
HANDLE, GAP, ROW = 2.0, 0.8, 1.5  # of a legend, in sizes of its letters: a handle, the gap after it, a row
DASHES = {"dashed": (3.7, 1.6), "dotted": (1.0, 1.65)}
WIDTHS = {"solid": 1.8, "dashed": 1.1, "dotted": 1.1, "thin": 0.6, "mean": 2.6}
COLOURS = {"thin": "silver", "mean": "black", "band": "silver", "bars": "lightsteelblue"}
BAND = 0.5  # its opacity
MARK, EDGE = 7.0, 1.5  # points: the diameter of a mark, the edge of a point
CIRCLE = np.stack([turned(np.linspace(0, 2 * np.pi, 25)) for turned in (np.cos, np.sin)], 1) / 2


class PanelPicture(Picture):
    """A panel: title, axes with their labels, legend."""

    def __init__(self, shown: Panel, title: str, dpi: float) -> None:
        super().__init__(dpi)
        self.shown, self.lines, self.side = shown, shown.placed, SIDE * dpi
        self.titles = [*([shortened(title, TITLE)] if title else []), shown.title]
        self.entries = [line for line in self.lines if line.label]
        self.names = [f"{tick:.1f}" for tick in TICKS]
        self.right = (
            self.side + self.pixels(TICK + PAD + LABEL) + self.wide(shown.right.ticks if shown.right else (), MEDIUM)
        )
        letters, line = self.high(MEDIUM), self.high(LARGE)
        name, legend = self.wide(self.names, MEDIUM), self.wide((line.label for line in self.entries), MEDIUM)
        self.left = self.margin + line + self.pixels(LABEL + PAD + TICK) + name
        self.top = self.margin + len(self.titles) * line + self.pixels(LABEL)
        self.labelled = self.top + self.side + self.pixels(TICK + PAD + LABEL) + letters
        self.legend = self.labelled + line + self.pixels(TICK)
        row, rows = ROW * self.pixels(MEDIUM), len(self.entries) + bool(shown.heading)
        self.height = self.legend + rows * row + self.margin
        self.width = (
            self.left
            + self.margin
            + max(
                self.right + self.high(LARGE) if shown.right else self.side + name / 2,
                (self.side + self.wide([shown.x_label], LARGE)) / 2,
                self.wide(self.titles, LARGE),
                self.pixels(MEDIUM) * (HANDLE + GAP) + legend,
                self.wide([shown.heading], MEDIUM),
            )
        )

    def draw(self, raster: Raster) -> None:
        for line in self.lines:
            self._areas(raster, line)
        ends = (LOWEST, RIGHTMOST), (LOWEST, HIGHEST)
        grid = [((tick, tick), ends[1]) for tick in TICKS] + [(ends[0], (tick, tick)) for tick in TICKS]
        raster.stroke([self._at(*each) for each in grid], ("#b0b0b0", 0.3), 0.8, straight=True)
        for line in self.lines:
            self._line(raster, line)
        self._frame(raster)
        for line in self.lines:
            if line.kind == "mark":
                points = self._at(np.asarray(line.x), np.asarray(line.y))
                raster.fill([self._disc(point, MARK) for point in points], _colour(line), 1.0, "black", self._clip)
        self._write(raster)
        self._legend(raster)

    @property
    def _clip(self) -> tuple[float, float, float, float]:
        return self.left, self.top, self.left + self.side, self.top + self.side

    def _at(self, x: object, y: object) -> NDArray[np.float64]:
        """The pixels of points of the unit square."""
        across = (np.asarray(x, dtype=float) - LOWEST) / (RIGHTMOST - LOWEST)
        down = (HIGHEST - np.asarray(y, dtype=float)) / (HIGHEST - LOWEST)
        return np.stack((self.left + self.side * across, self.top + self.side * down), -1)

    def _disc(self, centre: NDArray[np.float64], diameter: float) -> NDArray[np.float64]:
        return centre + self.pixels(diameter) * CIRCLE

    def _areas(self, raster: Raster, line: Line) -> None:
        """Fill what lies below the lines: bands, bars and points."""
        x, y = np.asarray(line.x, dtype=float), np.asarray(line.y, dtype=float)
        if line.kind == "band":
            raster.fill([rectangle(*self._at((x[0], x[-1]), (LOWEST, HIGHEST)).ravel())], (COLOURS["band"], BAND))
        elif line.kind == "bars":
            half = 0.45 / len(x)
            sides = zip(self._at(x - half, 0 * y), self._at(x + half, y), strict=True)
            raster.fill([rectangle(*low, *high) for low, high in sides], COLOURS["bars"], clip=self._clip)
        elif line.sizes is not None:
            widths = np.sqrt(POINT + LARGEST * np.asarray(line.sizes, dtype=float)) + EDGE
            points = zip(self._at(x, y), widths, strict=True)
            raster.fill([self._disc(point, width) for point, width in points], _colour(line), clip=self._clip)

    def _line(self, raster: Raster, line: Line) -> None:
        if line.kind not in WIDTHS:
            return
        x, y = np.asarray(line.x, dtype=float), np.asarray(line.y, dtype=float)
        if line.ends is not None:
            bars = [self._at((place, place), ends) for place, *ends in zip(x, *map(np.asarray, line.ends), strict=True)]
            raster.stroke(bars, (_colour(line), 0.7), 1.2, clip=self._clip)
        curves = [self._at(x, each) for each in (y.T if y.ndim == 2 else [y])]
        raster.stroke(curves, _colour(line), WIDTHS[line.kind], DASHES.get(line.kind, ()), self._clip)

    def _frame(self, raster: Raster) -> None:
        left, top, right, bottom = self._clip
        raster.stroke([rectangle(left, top, right, bottom)], "black", 0.8, straight=True)
        tick, name = self.pixels(TICK), self.pixels(TICK + PAD)
        across, down = self._at(TICKS, LOWEST + 0 * TICKS)[:, 0], self._at(LOWEST + 0 * TICKS, TICKS)[:, 1]
        ticks = [[(x, bottom), (x, bottom + tick)] for x in across] + [[(left - tick, y), (left, y)] for y in down]
        raster.stroke(ticks, "black", 0.8, straight=True)
        for x, y, text in zip(across, down, self.names, strict=True):
            raster.text(x, bottom + name, text, MEDIUM, "center")
            raster.text(left - name, y, text, MEDIUM, "right", "center")
        if self.shown.right is not None:
            colour = f"C{self.shown.right.number}"
            raster.stroke([[(right, y), (right + tick, y)] for y in down], colour, 0.8, straight=True)
            for y, text in zip(down, self.shown.right.ticks, strict=True):
                raster.text(right + name, y, text, MEDIUM, "left", "center", colour)
            middle = (top + bottom) / 2
            raster.text(
                left + self.right, middle, self.shown.right.label, LARGE, "left", "center", colour, upright=True
            )

    def _write(self, raster: Raster) -> None:
        """Write the title, the axes' labels and the note."""
        for place, text in enumerate(self.titles):
            raster.text(self.left, self.margin + place * self.high(LARGE), text, LARGE)
        raster.text(self.left + self.side / 2, self.labelled, self.shown.x_label, LARGE, "center")
        middle = self.top + self.side / 2
        raster.text(self.margin, middle, self.shown.y_label, LARGE, "left", "center", upright=True)
        if self.shown.note:
            x, (width, height) = self.left + self.side / 2, box_of(self.shown.note, LARGE, self.dpi)
            half = width / 2 + self.pixels(PAD), height / 2 + self.pixels(PAD)
            raster.fill([rectangle(x - half[0], middle - half[1], x + half[0], middle + half[1])], "white")
            raster.text(x, middle, self.shown.note, LARGE, "center", "center", "firebrick")

    def _legend(self, raster: Raster) -> None:
        """Write the legend below the axes, away from the curves."""
        size, y = self.pixels(MEDIUM), self.legend
        if self.shown.heading:
            raster.text(self.left, y, self.shown.heading, MEDIUM)
            y += ROW * size
        for line in self.entries:
            middle, right = y + self.high(MEDIUM) / 2, self.left + HANDLE * size
            if line.kind in WIDTHS:
                handle = [(self.left, middle), (right, middle)]
                raster.stroke([handle], _colour(line), WIDTHS[line.kind], DASHES.get(line.kind, ()))
            elif line.kind == "mark":
                centre = np.asarray((self.left + HANDLE * size / 2, middle))
                raster.fill([self._disc(centre, MARK)], _colour(line), 1.0, "black")
            else:
                handle = rectangle(self.left, middle - 0.35 * size, right, middle + 0.35 * size)
                raster.fill([handle], (COLOURS[line.kind], BAND if line.kind == "band" else 1.0))
            raster.text(right + GAP * size, middle, line.label, MEDIUM, "left", "center")
            y += ROW * size


def _colour(line: Line) -> str:
    return COLOURS.get(line.kind) or ("grey" if line.number is None else f"C{line.number}")
