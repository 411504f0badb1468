"""Metrics of curves, of numbers and of best points: their plots and bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torchmetrics.utilities.plot import plot_curve

from lightning_evalkit.metrics.scores import ScoreMetric

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from lightning_evalkit.statistics.curve_families import AreaFamily, CurveFamily, PointFamily
    from lightning_evalkit.statistics.curves import Bounded


class CurveMetric(ScoreMetric):
    """Two coordinates and their thresholds."""

    family: CurveFamily

    def plot(  # type: ignore[override]
        self, curve: Any = None, score: Any = None, ax: Any = None, labels: Sequence[str] | None = None
    ) -> Any:
        """Draw one curve, or one for each class or label, with torchmetrics' own plot.

        The legend has the ``labels`` and the ``score``, which is the area under each curve if it is True.
        """
        first, second, thresholds = self.compute() if curve is None else curve
        across, up = (second, first) if self.family.second_is_horizontal else (first, second)
        areas = (areas_under(across, up) if score else None) if isinstance(score, bool) else score
        legend = {"legend_name": self.plot_legend_name} if labels is None else {"labels": list(labels)}
        shown = (across, up, thresholds)
        return plot_curve(shown, areas, ax, self.family.axes, name=type(self).__name__, **legend)


def areas_under(across: Any, up: Any) -> Tensor:
    """The area under one curve, or under each of several."""
    if isinstance(across, list):
        return torch.stack([areas_under(*each) for each in zip(across, up, strict=True)])
    return torch.trapezoid(up, across).abs()  # recall falls along a curve


class NumberMetric(ScoreMetric):
    """One number between 0 and 1 for each curve, or their average."""

    plot_lower_bound, plot_upper_bound = 0.0, 1.0


class AreaMetric(NumberMetric):
    """An area under a curve."""

    family: AreaFamily

    def bounds(self) -> Bounded:
        """Low, value and high for each curve: the exact area of the scores certainly lies between.

        Classes' logits are ranked by their softmax: exactly in fine bins, else as computed in double precision. Logits
        that were guessed to be such are ranked by their probabilities, as computed.
        """
        self.compute()  # raises if samples were not as declared
        return self.family.bounds(self.counter.tables(self.global_totals))


class PointMetric(ScoreMetric):
    """The best value within a bound, and its threshold."""

    plot_lower_bound, plot_upper_bound = 0.0, 1.0
    family: PointFamily

    def within(self, bound: float) -> float:
        """Set the bound and return it, checked."""
        self.family = self.family.within(bound)
        return self.family.bound

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Draw one value or several, without thresholds, with torchmetrics' own plot."""
        return self._plot(self.compute()[0] if val is None else val, ax)
