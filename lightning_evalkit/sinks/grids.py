"""Confusion matrices and counts of labels as coloured cells with texts: plain values, drawn as figures or pixels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lightning_evalkit.sinks import cells
from lightning_evalkit.sinks.cells import Numbers, cell_text, count_text, numbers_of, percent_text, ratio_of
from lightning_evalkit.sinks.panels import shortened
from lightning_evalkit.sinks.raster import colours_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from torch import Tensor

SMALL, MEDIUM, LARGE = 7.0, 8.5, 10.5  # letters, in points
LINE = 0.135  # inches of a line of small letters
MANY_LABELS, WIDTH = 100, 0.64  # more labels than this have no numbers in their cells; inches of a column of counts
ROOMY, TIGHT = 0.6, 0.2  # inches of a cell that has room for a count above its share, and for a count
COLUMNS = ("TP", "FP", "FN", "TN", "precision", "recall", "F1")
SHARE = "share of the target's row"
SHARES = "blue: share of all positives (TP, FN) or of all negatives (FP, TN)"


class Grid(NamedTuple):
    """Cells of this width and height in inches: their colours, their texts if there is room, and the names around."""

    width: float
    height: float
    colours: Numbers
    texts: NDArray[np.str_] | None
    rows: Sequence[str]
    columns: Sequence[str]
    x_label: str
    y_label: str = ""

    def noted(self, note: str) -> Grid:
        """The grid with a note below its label."""
        return self._replace(x_label=f"{self.x_label}\n{note}") if note else self

    @property
    def letters(self) -> float:
        """The size of the texts, which fits the cells."""
        number = max(self.colours.shape[:2])
        return LARGE if number <= 4 else MEDIUM if len(self.rows) <= 10 else SMALL

    @property
    def bright(self) -> NDArray[np.bool_]:
        """Which cells have black texts; black and white contrast alike with a luminance of 0.18."""
        return np.asarray(self.colours[..., :3] ** 2.2 @ (0.2126, 0.7152, 0.0722) > 0.18)

    @property
    def scaled(self) -> bool:
        """Whether colours need a scale: a confusion matrix without texts."""
        return self.texts is None and not self.counts_labels

    @property
    def counts_labels(self) -> bool:
        """Whether rows are tables of counts, with the columns named above, and not a confusion matrix."""
        return not self.y_label


def grid_of(matrix: Tensor, names: Sequence[str]) -> Grid:
    """A confusion matrix, or one row for each 2×2 table, with cells as large as their texts need."""
    number = max(len(names), 1)
    if matrix.ndim == 2:
        return matrix_grid(matrix, names, cells.side_of(matrix, number))
    height = np.clip(6 / number, 0.2, 0.32) if number <= MANY_LABELS else np.clip(20 / number, cells.PIXEL, 0.2)
    return label_grid(matrix, names, float(height))


def matrix_grid(matrix: Tensor, names: Sequence[str], side: float) -> Grid:
    """Targets in rows and predictions in columns: every count, coloured by its share of the row."""
    counts = numbers_of(matrix, (len(names), len(names)))
    shares = ratio_of(counts, counts.sum(1, keepdims=True))
    few = len(names) <= cells.MANY_CLASSES and side > TIGHT
    # Confusions among many classes are small shares: the square root makes them visible.
    colours = colours_of("Blues", shares if few else np.sqrt(shares))
    text = cell_text if side > ROOMY else lambda count, _: count_text(count)
    texts = np.vectorize(text)(counts, shares) if few else None
    return Grid(side, side, colours, texts, names, names, "predicted", "target")


def label_grid(matrix: Tensor, names: Sequence[str], height: float) -> Grid:
    """One row for each 2×2 table (of a label or a threshold): its counts, precision, recall and F1."""
    tn, fp, fn, tp = numbers_of(matrix, (len(names), 2, 2)).reshape(-1, 4).T
    counts = np.stack((tp, fp, fn, tn), 1)
    shares = ratio_of(counts, np.stack((tp + fn, fp + tn, tp + fn, fp + tn), 1))
    values = np.stack((ratio_of(tp, tp + fp), ratio_of(tp, tp + fn), ratio_of(2 * tp, 2 * tp + fp + fn)), 1)
    colours = np.hstack((colours_of("Blues", shares), colours_of("Greens", values)))
    texts = None
    if len(names) <= MANY_LABELS:
        texts = np.hstack((np.vectorize(count_text)(counts), np.vectorize(percent_text)(values)))
    return Grid(WIDTH, height, colours, texts, names, COLUMNS, SHARES)


class Named(NamedTuple):
    """The cells that are named, their names, and the size of the letters."""

    places: range
    names: list[str]
    size: float


def named(names: Sequence[str], cell: float) -> Named:
    """Name cells of this side in inches; every n-th if there is no room for all."""
    places = range(0, len(names), math.ceil(LINE / cell))
    return Named(places, [shortened(names[place]) for place in places], MEDIUM if cell > 0.25 else SMALL)
