"""Draws counts and curves as matplotlib's figures, which are plain values, without pyplot."""

from __future__ import annotations

import math
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lightning_evalkit.errors import required
from lightning_evalkit.sinks import panel_axes
from lightning_evalkit.sinks.files import replaced
from lightning_evalkit.sinks.grids import LARGE, LINE, MEDIUM, SHARE, SMALL, grid_of, label_grid, matrix_grid, named
from lightning_evalkit.sinks.panels import TITLE, Panel, shortened
from lightning_evalkit.sinks.picture import DPI, LEAST_DPI, MARGIN, SHOWN
from lightning_evalkit.sinks.png import png_of

with required("matplotlib"):
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import PowerNorm
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from numpy.typing import NDArray
    from torch import Tensor

    from lightning_evalkit.sinks.grids import Grid

SIDE = 3.0  # inches of a panel


class NotebookFigure(Figure):
    """A figure that a notebook shows, although pyplot, which otherwise cares for that, was never loaded."""

    def _repr_png_(self) -> bytes:
        """The figure as IPython asks for it; matplotlib's own formatter comes first where it is set up."""
        file = BytesIO()
        self.savefig(file, format="png")
        return file.getvalue()


class Canvas(FigureCanvasAgg):
    """Saves PNG files with a small palette; leaves other formats to matplotlib."""

    def print_png(self, filename_or_obj: Any, *, metadata: Any = None, pil_kwargs: Any = None, **_: Any) -> None:
        """Write a PNG; matplotlib writes those with transparency or with its own options."""
        self.draw()
        seen = np.asarray(self.buffer_rgba())
        if metadata or pil_kwargs or (seen[..., 3] < 255).any():
            super().print_png(filename_or_obj, metadata=metadata, pil_kwargs=pil_kwargs)
            return
        file = png_of(seen[..., :3], dpi=(self.figure.dpi, self.figure.dpi))
        if hasattr(filename_or_obj, "write"):
            filename_or_obj.write(file)
        else:
            Path(filename_or_obj).write_bytes(file)


def confusion_matrix(matrix: Tensor, names: Sequence[str], title: str = "") -> Figure:
    """Draw targets in rows and predictions in columns: every count, coloured by its share of the row."""
    return _grid_figure(grid_of(matrix, names), title)


def matrix_on(axes: Axes, matrix: Tensor, names: Sequence[str]) -> Axes:
    """Draw a confusion matrix on axes, in cells that fill them."""
    return _grid_on(axes, matrix_grid(matrix, names, float(min(axes.bbox.size)) / axes.figure.dpi / len(names)))


def label_counts(matrix: Tensor, names: Sequence[str], title: str = "", note: str = "") -> Figure:
    """Draw one row for each 2×2 table (of a label, class or threshold): its counts, precision, recall and F1."""
    return _grid_figure(grid_of(matrix, names).noted(note), title)


def label_counts_on(axes: Axes, matrix: Tensor, names: Sequence[str], title: str = "", note: str = "") -> Axes:
    """Draw the rows on axes, in cells that fill them."""
    grid = label_grid(matrix, names, float(axes.bbox.height) / axes.figure.dpi / len(names)).noted(note)
    return _entitled(_grid_on(axes, grid), title)


def panels(shown: Sequence[Panel], title: str = "") -> Figure:
    """Draw panels with their legends in one row."""
    figure, first = _canvas(SIDE, SIDE)
    others = [figure.add_axes((0, 0, 1, 1), label=str(place)) for place in range(1, len(shown))]
    drawn = [panel_axes.drawn(axes, panel) for axes, panel in zip([first, *others], shown, strict=True)]
    if title:
        drawn[0].set_title(f"{shortened(title, TITLE)}\n{shown[0].title}", fontsize=LARGE, loc="left", parse_math=False)
    return _framed(figure, drawn, columns=len(drawn))


def matrix_and_panels(
    matrix: Tensor, names: Sequence[str], shown: Sequence[Panel], title: str = "", note: str = ""
) -> Figure:
    """Draw a confusion matrix, or the counts of labels or classes with a title and a note, and panels in one row."""
    figure, first = _canvas(SIDE, SIDE)
    if matrix.ndim == 2:
        matrix_on(first, matrix, names)
    else:
        label_counts_on(first, matrix, names, title, note)
    others = [figure.add_axes((0, 0, 1, 1), label=str(place)) for place in range(len(shown))]
    drawn = [first, *(panel_axes.drawn(axes, panel) for axes, panel in zip(others, shown, strict=True))]
    return _framed(figure, drawn, columns=len(drawn))


def pixels(figure: Figure) -> NDArray[np.uint8]:
    """Render a figure to pixels of shape (height, width, 3)."""
    canvas = Canvas(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3]


def thumbnail(figure: Figure) -> NDArray[np.uint8]:
    """Render a figure at a multiple of TensorBoard's display width, so that scaling drops no stroke."""
    width, dpi = figure.get_figwidth(), figure.dpi
    times = math.ceil(width * LEAST_DPI / SHOWN)
    figure.set_dpi((SHOWN * times + 0.5) / width if times > 1 else min(DPI, (SHOWN + 0.5) / width))
    try:
        return pixels(figure)
    finally:
        figure.set_dpi(dpi)


def save(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a PNG, whole or not at all."""
    with replaced(Path(path)) as unfinished:
        figure.savefig(unfinished, format="png")


# ---- cells


def _grid_figure(grid: Grid, title: str) -> Figure:
    figure, axes = _canvas(len(grid.columns) * grid.width, len(grid.rows) * grid.height)
    return _framed(figure, [_entitled(_grid_on(axes, grid), title)])


def _grid_on(axes: Axes, grid: Grid) -> Axes:
    _paint(axes, grid)
    if grid.texts is not None:
        _write(axes, grid)
    if grid.scaled:
        _add_scale(axes)
    _name(axes.yaxis, grid.rows, grid.height)
    _name(axes.xaxis, grid.columns, grid.width)
    if grid.counts_labels:
        axes.axvline(3.5, color="white", linewidth=5)
        axes.xaxis.tick_top()
        is_narrow = axes.bbox.width / axes.figure.dpi < 0.75 * grid.width * len(grid.columns)
    else:
        widest = max(label.get_window_extent().width for label in axes.get_xticklabels())
        is_narrow = widest > 0.9 * grid.width * axes.figure.dpi
    if is_narrow:
        axes.tick_params(axis="x", labelrotation=90)
    axes.set_ylabel(grid.y_label, fontsize=LARGE)
    axes.set_xlabel(grid.x_label, fontsize=SMALL if grid.counts_labels else LARGE)
    return axes


def _canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """Make axes of this size in inches in a figure without margins."""
    figure = NotebookFigure(figsize=(width, height), dpi=DPI)
    Canvas(figure)  # to measure texts
    return figure, figure.add_axes((0, 0, 1, 1))


def _paint(axes: Axes, grid: Grid) -> None:
    """Paint the cells."""
    rows, columns = grid.colours.shape[:2]
    axes.imshow(grid.colours, aspect="auto", interpolation="nearest")
    axes.spines[:].set_visible(False)
    if grid.height > LINE:
        axes.vlines(np.arange(1, columns) - 0.5, -0.5, rows - 0.5, color="white", linewidth=1)
        axes.hlines(np.arange(1, rows) - 0.5, -0.5, columns - 0.5, color="white", linewidth=1)


def _write(axes: Axes, grid: Grid) -> None:
    """Write a text into every cell, in letters that fit."""
    bright = grid.bright
    for (row, column), text in np.ndenumerate(grid.texts):
        colour = "black" if bright[row, column] else "white"
        axes.text(column, row, text, color=colour, size=grid.letters, ha="center", va="center", in_layout=False)


# ---- around the cells


def _name(axis: Axis, names: Sequence[str], cell: float) -> None:
    """Write names next to the cells; only every n-th if there is no room for all."""
    places, shown, size = named(names, cell)
    # A name is text, not mathematics: it may have any number of dollar signs.
    axis.set_ticks(places, shown, fontsize=size, parse_math=False)


def _add_scale(axes: Axes) -> None:
    scale = ScalarMappable(PowerNorm(0.5, 0, 1), "Blues")
    inset = axes.inset_axes((1.02, 0, 0.02, 1))
    bar = axes.figure.colorbar(scale, cax=inset, format=PercentFormatter(1.0))
    bar.set_label(SHARE, fontsize=MEDIUM)
    bar.ax.tick_params(labelsize=MEDIUM)


def _entitled(axes: Axes, title: str) -> Axes:
    axes.set_title(shortened(title, TITLE), fontsize=LARGE, loc="left", parse_math=False, pad=10)
    return axes


def _framed(figure: Figure, drawn: Sequence[Axes], columns: int = 1) -> Figure:
    """Grow the figure by its labels and legends, so that nothing is cut off or shrinks."""
    size, rows = figure.get_size_inches(), math.ceil(len(drawn) / columns)
    boxes = [axes.get_tightbbox() for axes in drawn]
    low, high = (np.stack([getattr(box, end) for box in boxes]) / DPI for end in ("min", "max"))
    cell = high.max(0) - low.min(0) + 2 * MARGIN
    whole = cell * (columns, rows)
    figure.set_size_inches(whole)
    for place, axes in enumerate(drawn):
        row, column = divmod(place, columns)
        corner = cell * (column, rows - 1 - row) + MARGIN - low.min(0)
        axes.set_position((*corner / whole, *size / whole))
    return figure


# ---- panels
