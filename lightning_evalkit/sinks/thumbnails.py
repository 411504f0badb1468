"""Draws panels and counts as images for a board: they look as those of ``figures``, in a tenth of its time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightning_evalkit.sinks.grid_picture import GridPicture
from lightning_evalkit.sinks.grids import grid_of
from lightning_evalkit.sinks.panel_picture import PanelPicture
from lightning_evalkit.sinks.picture import fitted

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from lightning_evalkit.sinks.panels import Panel


def panel(shown: Panel, title: str = "") -> NDArray[np.uint8]:
    """Draw a panel with its legend below it; matplotlib draws those that leave the choice of ticks to it."""
    if shown.scale:
        from lightning_evalkit.sinks import figures

        return figures.thumbnail(figures.panels([shown], title))
    return fitted(lambda dpi: PanelPicture(shown, title, dpi))


def counts(matrix: Tensor, names: Sequence[str], title: str = "") -> NDArray[np.uint8]:
    """Draw a confusion matrix, or one row of counts for each 2×2 table."""
    grid = grid_of(matrix, names)
    return fitted(lambda dpi: GridPicture(grid, title, dpi))
