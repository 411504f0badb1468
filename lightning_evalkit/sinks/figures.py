"""Counts and curves into pictures: the one file that knows matplotlib. Figures are plain values, without pyplot."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lightning_evalkit.errors import InputError, required
from lightning_evalkit.sinks.files import replaced

with required("matplotlib"):
    from matplotlib import colormaps
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import PowerNorm, to_rgba
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from numpy.typing import ArrayLike, NDArray
    from torch import Tensor

    Numbers = NDArray[np.float64]

DPI, MARGIN, LINE = 120, 0.12, 0.135  # pixels per inch; inches around a figure and for a line of small letters
SMALL, MEDIUM, LARGE = 7.0, 8.5, 10.5  # letters, in points
NAME, TITLE = 24, 60  # characters; what is longer is shortened
MANY_CLASSES, MANY_LABELS = 15, 100  # with more, no numbers are written into the cells
COLUMNS = ("TP", "FP", "FN", "TN", "precision", "recall", "F1")
UNDEFINED = to_rgba("#ececec")
SIDE, POINT, LARGEST = 4.3, 12, 300  # inches of a panel; areas of the smallest point, and of one that holds everything
TICKS = np.linspace(0, 1, 6)
STYLES: dict[str, dict[str, Any]] = {
    "solid": {"linewidth": 1.8},
    "dashed": {"linewidth": 1.1, "linestyle": "--"},
    "dotted": {"linewidth": 1.1, "linestyle": ":"},
    "thin": {"linewidth": 0.6, "color": "silver"},
    "mean": {"linewidth": 2.6, "color": "black"},
    "mark": {"linestyle": "none", "marker": "o", "markersize": 7, "markeredgecolor": "black", "zorder": 3},
}


class Line(NamedTuple):
    """Points, of several lines if they have columns; ``number`` is a colour, ``sizes`` are shares of the samples."""

    x: ArrayLike
    y: ArrayLike
    label: str = ""
    kind: str = "solid"  # or another of the styles, or "bars"
    number: int | None = None
    sizes: ArrayLike | None = None


class Panel(NamedTuple):
    """Lines in the unit square, unless a scale of x is given; a note says why there are none."""

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    heading: str = ""
    note: str = ""
    scale: str = ""  # or "linear", "log"


def confusion_matrix(matrix: Tensor, names: Sequence[str], title: str = "") -> Figure:
    """Targets in rows, predictions in columns: every count, coloured by its share of the row."""
    counts = _numbers(matrix, (len(names), len(names)))
    shares = _ratio(counts, counts.sum(1, keepdims=True))
    few = len(names) <= MANY_CLASSES
    side = np.clip(8 / len(names), 0.66, 1.2) if few else np.clip(10 / len(names), 0.05, 0.4)
    # Confusions of one class among many are small shares: the square root sets them off from nothing.
    colours = _colours("Blues", shares if few else np.sqrt(shares))
    figure, axes = _painted(colours, side, side)
    if few:
        _write(axes, colours, np.vectorize(_cell)(counts, shares))
    else:
        _add_scale(figure, axes)
    _name(axes.yaxis, names, side)
    _name(axes.xaxis, names, side)
    if max(label.get_window_extent().width for label in axes.get_xticklabels()) > 0.9 * side * DPI:
        axes.tick_params(axis="x", labelrotation=90)
    axes.set_ylabel("target", fontsize=LARGE)
    axes.set_xlabel("predicted", fontsize=LARGE)
    return _framed(figure, _entitled(axes, title))


def label_counts(matrix: Tensor, names: Sequence[str], title: str = "") -> Figure:
    """One row for each 2×2 table (of a label, of a threshold): its counts, precision, recall and F1."""
    tn, fp, fn, tp = _numbers(matrix, (len(names), 2, 2)).reshape(-1, 4).T
    counts = np.stack((tp, fp, fn, tn), 1)
    shares = _ratio(counts, np.stack((tp + fn, fp + tn, tp + fn, fp + tn), 1))
    values = np.stack((_ratio(tp, tp + fp), _ratio(tp, tp + fn), _ratio(2 * tp, 2 * tp + fp + fn)), 1)
    few = len(names) <= MANY_LABELS
    width, height = 0.8, np.clip(6 / len(names), 0.2, 0.32) if few else np.clip(20 / len(names), 0.05, 0.2)
    colours = np.hstack((_colours("Blues", shares), _colours("Greens", values)))
    figure, axes = _painted(colours, width, height)
    if few:
        _write(axes, colours, np.hstack((np.vectorize(_count)(counts), np.vectorize(_percent)(values))))
    axes.axvline(3.5, color="white", linewidth=5)
    _name(axes.yaxis, names, height)
    _name(axes.xaxis, COLUMNS, width)
    axes.xaxis.tick_top()
    axes.set_xlabel("blue: share of all positives (TP, FN) or of all negatives (FP, TN)", fontsize=SMALL)
    return _framed(figure, _entitled(axes, title))


def accuracy_and_f1(
    shares: Sequence[float],
    kept: Mapping[str, Sequence[float]],
    measured: Mapping[str, Sequence[float]],
    crossing: float | None,
    best: Mapping[str, Sequence[float]],
    trained: Mapping[str, Sequence[float]],
) -> Figure:
    """Accuracy and F1 over the share of positives: of one classifier, and of classifiers trained at each share.

    Lines over ``shares`` are theory: recall and specificity ``kept``, and the ``best`` possible. Points are what was
    ``measured`` of the one and of the ``trained`` ones. Where the one's lines cross is marked.
    """
    left = _lines_and_points(shares, kept, measured, "recall and specificity kept")
    right = _lines_and_points(shares, best, trained, "best possible")
    if crossing is not None:
        left.append(Line((crossing, crossing), (0, 1), f"equal at s/(r + s) = {crossing:.3f}", "dotted"))
    axes = ("share of positives", "accuracy and F1 on test data")
    one, many = "One classifier, other mixtures of classes", "Trained anew at each share of positives"
    return panels([Panel(one, *axes, left), Panel(many, *axes, right)])


def panels(shown: Sequence[Panel], title: str = "") -> Figure:
    """Panels with their legends, two in a row."""
    figure = Figure(figsize=(SIDE, SIDE), dpi=DPI)
    FigureCanvasAgg(figure)  # by which texts are measured
    drawn = [_filled(figure.add_axes((0, 0, 1, 1), label=str(place)), panel) for place, panel in enumerate(shown)]
    if title:
        drawn[0].set_title(f"{shortened(title, TITLE)}\n{shown[0].title}", fontsize=LARGE, loc="left", parse_math=False)
    return _framed(figure, drawn, columns=min(len(drawn), 2))


def pixels(figure: Figure) -> NDArray[np.uint8]:
    """The drawn figure, of shape (height, width, 3)."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3]


def save(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a PNG, whole or not at all."""
    with replaced(Path(path)) as unfinished:
        figure.savefig(unfinished, format="png")


# ---- cells


def _numbers(matrix: Tensor, shape: tuple[int, ...]) -> Numbers:
    if tuple(matrix.shape) != shape or not shape[0]:
        raise InputError(f"expected counts of shape {shape} for {shape[0]} names, got {tuple(matrix.shape)}.")
    return matrix.detach().double().cpu().numpy()


def _ratio(part: Numbers, whole: Numbers) -> Numbers:
    """NaN where there is nothing to divide by."""
    whole = np.broadcast_to(whole, part.shape)
    return np.divide(part, whole, out=np.full_like(part, np.nan), where=whole > 0)


def _colours(name: str, shares: Numbers) -> Numbers:
    return np.where(np.isnan(shares)[..., None], UNDEFINED, colormaps[name](np.nan_to_num(shares)))


def _painted(colours: Numbers, width: float, height: float) -> tuple[Figure, Axes]:
    """Cells of so many inches in a figure that has no margins yet."""
    rows, columns = colours.shape[:2]
    figure = Figure(figsize=(columns * width, rows * height), dpi=DPI)
    FigureCanvasAgg(figure)  # by which texts are measured
    axes = figure.add_axes((0, 0, 1, 1))
    axes.imshow(colours, aspect="auto", interpolation="nearest")
    axes.spines[:].set_visible(False)
    if height > LINE:
        axes.vlines(np.arange(1, columns) - 0.5, -0.5, rows - 0.5, color="white", linewidth=1)
        axes.hlines(np.arange(1, rows) - 0.5, -0.5, columns - 0.5, color="white", linewidth=1)
    return figure, axes


def _write(axes: Axes, colours: Numbers, texts: NDArray[np.str_]) -> None:
    """A text into every cell, in letters that fit."""
    size = LARGE if max(texts.shape) <= 4 else MEDIUM if len(texts) <= 10 else SMALL
    bright = colours[..., :3] ** 2.2 @ (0.2126, 0.7152, 0.0722) > 0.18  # black and white contrast alike with 0.18
    for (row, column), text in np.ndenumerate(texts):
        colour = "black" if bright[row, column] else "white"
        axes.text(column, row, text, color=colour, size=size, ha="center", va="center", in_layout=False)


def _count(number: float) -> str:
    """Short enough for a cell; weighted counts are not whole."""
    if not number.is_integer():
        return f"{number:.4g}"
    return f"{int(number):,}" if number < 1e7 else f"{number:.2e}"


def _percent(share: float) -> str:
    return "–" if math.isnan(share) else f"{share:.1%}"


def _cell(count: float, share: float) -> str:
    return f"{_count(count)}\n{_percent(share)}"


# ---- around the cells


def _name(axis: Axis, names: Sequence[str], cell: float) -> None:
    """Names beside the cells, beside every so many where there is no room for all."""
    places = range(0, len(names), math.ceil(LINE / cell))
    size = MEDIUM if cell > 0.25 else SMALL
    # A name is text, not mathematics: it may have any number of dollar signs.
    axis.set_ticks(places, [shortened(names[place]) for place in places], fontsize=size, parse_math=False)


def shortened(text: str, most: int = NAME) -> str:
    """In one line, with both ends kept: names often differ only at the end."""
    text = " ".join(text.split())
    end = most // 3
    return text if len(text) <= most else f"{text[: most - end - 1]}…{text[-end:]}"


def _add_scale(figure: Figure, axes: Axes) -> None:
    scale = ScalarMappable(PowerNorm(0.5, 0, 1), "Blues")
    bar = figure.colorbar(scale, cax=axes.inset_axes((1.02, 0, 0.02, 1)), format=PercentFormatter(1.0))
    bar.set_label("share of the target's row", fontsize=MEDIUM)
    bar.ax.tick_params(labelsize=MEDIUM)


def _entitled(axes: Axes, title: str) -> list[Axes]:
    axes.set_title(shortened(title, TITLE), fontsize=LARGE, loc="left", parse_math=False, pad=10)
    return [axes]


def _framed(figure: Figure, drawn: Sequence[Axes], columns: int = 1) -> Figure:
    """Grow the figure by what stands around what was drawn in its size, so that nothing is cut off or shrinks."""
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


def _lines_and_points(
    shares: Sequence[float], lines: Mapping[str, Sequence[float]], points: Mapping[str, Sequence[float]], line: str
) -> list[Line]:
    drawn = []
    for number, (name, label) in enumerate({"accuracy": "accuracy", "f1": "F1"}.items()):
        drawn.append(Line(shares, lines[name], f"{label}, {line}", number=number))
        drawn.append(Line(points["prevalence"], points[name], f"{label}, measured", "mark", number))
    return drawn


def _filled(axes: Axes, panel: Panel) -> Axes:
    artists = [(_draw(axes, line), line.label) for line in panel.lines]
    handles, labels = zip(*(each for each in artists if each[1]), strict=True)
    # Names take any room, so they stand beside; they are text, not mathematics.
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.02)} if panel.heading else {"loc": "best"}
    numbers = [*map(str, range(len(labels)))]  # some versions leave out what begins with an underscore
    legend = axes.legend(handles, numbers, title=panel.heading, alignment="left", fontsize=MEDIUM, **place)
    for text, label in zip(legend.get_texts(), labels, strict=True):
        text.set(parse_math=False, text=label)
    box = {"facecolor": "white", "edgecolor": "none"}
    axes.text(
        0.5,
        0.5,
        panel.note,
        transform=axes.transAxes,
        ha="center",
        va="center",
        fontsize=LARGE,
        color="firebrick",
        bbox=box,
    )
    axes.set_title(panel.title, fontsize=LARGE, loc="left")
    axes.set(xlabel=panel.x_label, ylabel=panel.y_label)
    if panel.scale:
        axes.set(xscale=panel.scale)
    else:
        axes.set(xticks=TICKS, yticks=TICKS, xlim=(-0.01, 1.01), ylim=(-0.01, 1.02))
    axes.grid(alpha=0.3)
    return axes


def _draw(axes: Axes, line: Line) -> Any:
    x, y = np.asarray(line.x), np.asarray(line.y)
    if line.kind == "bars":
        return axes.bar(x, y, width=0.9 / len(x), color="lightsteelblue")
    style = {"color": "grey" if line.number is None else f"C{line.number}"} | STYLES[line.kind]
    if line.sizes is not None:
        axes.scatter(x, y, POINT + LARGEST * np.asarray(line.sizes), style["color"])
    return axes.plot(x, y, **style)[0]
