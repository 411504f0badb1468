"""Draws a panel on matplotlib's axes: lines, a second axis, and a legend that lies on no curve where there is room."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lightning_evalkit.errors import required
from lightning_evalkit.sinks.grids import LARGE, MEDIUM
from lightning_evalkit.sinks.panels import TICKS, Line, Panel, RightAxis

with required("matplotlib"):
    from matplotlib.layout_engine import PlaceHolderLayoutEngine
    from matplotlib.transforms import ScaledTranslation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

POINT, LARGEST = 8, 150  # areas of the smallest point, and of one that holds everything
NOTE: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": LARGE, "color": "firebrick"}
BELOW = 0.28 + LARGE / 72  # inches from the axes to their legend, past the label of x
STYLES: dict[str, dict[str, Any]] = {
    "solid": {"linewidth": 1.8},
    "dashed": {"linewidth": 1.1, "linestyle": "--"},
    "dotted": {"linewidth": 1.1, "linestyle": ":"},
    "thin": {"linewidth": 0.6, "color": "silver"},
    "mean": {"linewidth": 2.6, "color": "black"},
    "mark": {"linestyle": "none", "marker": "o", "markersize": 7, "markeredgecolor": "black", "zorder": 3},
}


def panel_on(axes: Axes, panel: Panel) -> Axes:
    """Draw a panel on axes of any figure, with its legend below them, or inside if nothing makes room there."""
    return drawn(axes, panel, is_below=_has_room(axes))


def _has_room(axes: Axes) -> bool:
    """Whether the figure's layout makes room below the axes; a figure without a layout gets the constrained one."""
    if axes.get_subplotspec() is None:  # placed by hand: no layout moves them
        return False
    figure = axes.figure.figure  # the whole one, not a subfigure
    if figure.get_layout_engine() is None:
        if any(shown.colorbar for each in figure.axes for shown in (*each.images, *each.collections)):
            return False  # a colour bar cannot move from one layout to another
        figure.set_layout_engine("constrained")
    return not isinstance(figure.get_layout_engine(), PlaceHolderLayoutEngine)


def drawn(axes: Axes, panel: Panel, is_below: bool = True) -> Axes:
    """Draw a panel, with its legend below the axes or inside."""
    artists = [(_draw(axes, line), line.label) for line in panel.placed]
    axes.set_title(panel.title, fontsize=LARGE, loc="left")
    axes.set_xlabel(panel.x_label, fontsize=LARGE)
    axes.set_ylabel(panel.y_label, fontsize=LARGE)
    if panel.scale:
        axes.set(xscale=panel.scale)
    else:
        axes.set(xticks=TICKS, yticks=TICKS, xlim=(-0.01, 1.01), ylim=(-0.01, 1.02))
    axes.tick_params(labelsize=MEDIUM)
    axes.grid(alpha=0.3)
    axes.text(0.5, 0.5, panel.note, transform=axes.transAxes, bbox={"facecolor": "white", "edgecolor": "none"}, **NOTE)
    if panel.right is not None:
        _add_right(axes, panel.right)
    _legend(axes, [each for each in artists if each[1]], panel.heading, is_below)
    return axes


def _add_right(axes: Axes, right: RightAxis) -> None:
    """Add an axis on the right, in the colour of the lines that it measures."""
    colour = f"C{right.number}"
    added = axes.secondary_yaxis("right", functions=(right.values, right.heights))
    added.set_yticks(right.values(TICKS), right.ticks)
    added.tick_params(labelsize=MEDIUM, colors=colour)
    added.set_ylabel(right.label, fontsize=LARGE, color=colour)


def _legend(axes: Axes, artists: Sequence[tuple[Any, str]], heading: str, is_below: bool) -> None:
    """Put the legend below the axes, away from the curves; names are text, not mathematics."""
    handles, labels = [artist for artist, _ in artists], [label for _, label in artists]
    numbers = [*map(str, range(len(labels)))]  # some versions drop names that begin with an underscore
    place: dict[str, Any] = {"loc": "best", "framealpha": 0.6}
    if is_below:
        corner = axes.transAxes + ScaledTranslation(0, -BELOW, axes.figure.dpi_scale_trans)
        place = {"loc": "upper left", "bbox_to_anchor": (-0.02, 0), "bbox_transform": corner, "borderaxespad": 0.0}
    legend = axes.legend(
        handles,
        numbers,
        title=heading,
        alignment="left",
        fontsize=MEDIUM,
        title_fontsize=MEDIUM,
        frameon=not is_below,
        **place,
    )
    for text, label in zip(legend.get_texts(), labels, strict=True):
        text.set(parse_math=False, text=label)


def _draw(axes: Axes, line: Line) -> Any:
    x, y = np.asarray(line.x), np.asarray(line.y)
    if line.kind == "band":
        return axes.axvspan(x[0], x[-1], color="silver", alpha=0.5, linewidth=0)
    if line.kind == "bars":
        return axes.bar(x, y, width=0.9 / len(x), color="lightsteelblue")
    style = {"color": "grey" if line.number is None else f"C{line.number}"} | STYLES[line.kind]
    if line.sizes is not None:
        axes.scatter(x, y, POINT + LARGEST * np.asarray(line.sizes), style["color"])
    if line.ends is not None:
        low, high = (np.asarray(end) for end in line.ends)
        axes.vlines(x, low, high, color=style["color"], linewidth=1.2, alpha=0.7)
    return axes.plot(x, y, **style)[0]
