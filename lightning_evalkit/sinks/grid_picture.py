"""Draws a grid: title, cells with their names and labels, and the scale of colours if the cells hold no texts."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from lightning_evalkit.sinks.grids import LARGE, LINE, MEDIUM, SHARE, SMALL, named
from lightning_evalkit.sinks.panels import TITLE, shortened
from lightning_evalkit.sinks.picture import LABEL, PAD, TICK, Picture
from lightning_evalkit.sinks.raster import colours_of

if TYPE_CHECKING:
    from lightning_evalkit.sinks.grids import Grid
    from lightning_evalkit.sinks.raster import Raster

BAR = (1.02, 1.04)  # the sides of the scale, in widths of the cells
SPACING = 1.2  # of lines


class GridPicture(Picture):
    """A grid: title, cells with their names and labels, and the scale of colours if the cells hold no texts."""

    def __init__(self, grid: Grid, title: str, dpi: float) -> None:
        super().__init__(dpi)
        self.grid, self.title = grid, shortened(title, TITLE)
        self.across, self.down = len(grid.columns) * grid.width * dpi, len(grid.rows) * grid.height * dpi
        rows, columns = named(grid.rows, grid.height), named(grid.columns, grid.width)
        self.rows, self.columns = rows, columns
        self.upright = self.wide(columns.names, columns.size) > 0.9 * grid.width * dpi and not grid.counts_labels
        self.label = SMALL if grid.counts_labels else LARGE
        names = self.wide(columns.names, columns.size) if self.upright else self.high(columns.size)
        above = names + self.pixels(TICK + PAD) if grid.counts_labels else 0
        below = 0 if grid.counts_labels else names + self.pixels(TICK + PAD)
        beside = self.high(LARGE) + self.pixels(LABEL) if grid.y_label else 0
        self.left = self.margin + beside + self.wide(rows.names, rows.size) + self.pixels(TICK + PAD)
        self.top = self.margin + above + ((self.high(LARGE) + self.pixels(2 * PAD)) if self.title else 0)
        self.labelled = self.top + self.down + below + self.pixels(LABEL)
        self.height = self.labelled + self.high(self.label) + self.margin
        scale = 0.0
        if grid.scaled:
            names = self.wide(["100%"], MEDIUM) + self.high(MEDIUM)
            scale = 1.04 * self.across + self.pixels(TICK + PAD + LABEL) + names
        label = self.across / 2 + self.wide([grid.x_label], self.label) / 2
        self.width = self.left + max(self.across, self.wide([self.title], LARGE), label, scale) + self.margin

    def draw(self, raster: Raster) -> None:
        grid, right, bottom = self.grid, self.left + self.across, self.top + self.down
        raster.cells(grid.colours, self.left, self.top, self.across, self.down)
        x, y = self._edges(len(grid.columns), grid.width, self.left), self._edges(len(grid.rows), grid.height, self.top)
        above, below = self.top - 1, bottom + 1  # cells begin and end at whole pixels
        if grid.height > LINE:
            gaps = [[(each, above), (each, below)] for each in x[1:-1]]
            gaps += [[(self.left, each), (right, each)] for each in y[1:-1]]
            raster.stroke(gaps, "white", 1.0, straight=True)
        if grid.counts_labels:
            raster.stroke([[(x[4], above), (x[4], below)]], "white", 5.0, straight=True)
        x, y = ([sum(pair) / 2 for pair in pairwise(edges)] for edges in (x, y))
        self._texts(raster, x, y)
        self._names(raster, x, y)
        if self.title:
            raster.text(self.left, self.margin, self.title, LARGE)
        raster.text((self.left + right) / 2, self.labelled, grid.x_label, self.label, "center")
        if grid.y_label:
            raster.text(self.margin, (self.top + bottom) / 2, grid.y_label, LARGE, "left", "center", upright=True)
        if grid.scaled:
            self._scale(raster)

    def _edges(self, number: int, cell: float, first: float) -> list[float]:
        return [first + place * cell * self.dpi for place in range(number + 1)]

    def _texts(self, raster: Raster, x: list[float], y: list[float]) -> None:
        """Write a text into every cell, in letters that fit."""
        if self.grid.texts is None:
            return
        size, bright = self.grid.letters, self.grid.bright
        for (row, column), text in np.ndenumerate(self.grid.texts):
            colour, lines = "black" if bright[row, column] else "white", text.split("\n")
            for place, line in enumerate(lines):
                above = (place - (len(lines) - 1) / 2) * SPACING * self.pixels(size)
                raster.text(x[column], y[row] + above, line, size, "center", "center", colour)

    def _names(self, raster: Raster, x: list[float], y: list[float]) -> None:
        """Write names next to the cells, with ticks."""
        tick, gap, bottom = self.pixels(TICK), self.pixels(TICK + PAD), self.top + self.down
        ticks = [[(self.left - tick, y[place]), (self.left, y[place])] for place in self.rows.places]
        for place, name in zip(self.rows.places, self.rows.names, strict=True):
            raster.text(self.left - gap, y[place], name, self.rows.size, "right", "center")
        edge, outwards, down = (self.top, -1, "bottom") if self.grid.counts_labels else (bottom, 1, "top")
        ticks += [[(x[place], edge), (x[place], edge + outwards * tick)] for place in self.columns.places]
        for place, name in zip(self.columns.places, self.columns.names, strict=True):
            end = edge + outwards * gap
            raster.text(x[place], end, name, self.columns.size, "center", down, upright=self.upright)
        raster.stroke(ticks, "black", 0.8, straight=True)

    def _scale(self, raster: Raster) -> None:
        """Draw the colours from 0 to 100 %; places are square roots, as colours are."""
        left, right = (self.left + end * self.across for end in BAR)
        raster.cells(colours_of("Blues", np.linspace(1, 0, 256)[:, None]), left, self.top, right - left, self.down)
        tick, gap = self.pixels(TICK), self.pixels(TICK + PAD)
        for share in np.linspace(0, 1, 6):
            y = self.top + (1 - np.sqrt(share)) * self.down
            raster.stroke([[(right, y), (right + tick, y)]], "black", 0.8, straight=True)
            raster.text(right + gap, y, f"{share:.0%}", MEDIUM, "left", "center")
        beyond = right + gap + self.wide(["100%"], MEDIUM) + self.pixels(LABEL)
        raster.text(beyond, self.top + self.down / 2, SHARE, MEDIUM, "left", "center", upright=True)
