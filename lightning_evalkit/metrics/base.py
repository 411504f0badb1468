"""The seam between state and statistics: a metric is a tally whose counts are read as a result."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar

from torchmetrics.utilities.plot import plot_confusion_matrix

from lightning_evalkit.state import Tally
from lightning_evalkit.statistics import Statistic, find

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from lightning_evalkit.counts import CountCounter, Counts, Totals


class CountMetric(Tally):
    """A result computed from counts; a task's base declares the tensors, a final class defines the result."""

    counter: CountCounter

    @property
    def counts(self) -> Counts:
        return self.counter.counts(self.global_totals)

    def value_of(self, totals: Totals) -> Tensor:
        """The result of these totals."""
        return self.result(self.counter.counts(totals))

    def result(self, counts: Counts) -> Tensor:
        """The result of these counts."""
        raise NotImplementedError

    def plot(self, val: Any = None, ax: Any = None, **_: Any) -> Any:
        """Draw one value or several with torchmetrics' own plot."""
        return self._plot(val, ax)


class FromTable:
    """Takes a metric's bounds and direction from the statistics table: ``class Recall(..., statistic="recall")``.

    ``undefined`` is the value of 0/0 unless ``zero_division`` is given: torchmetrics' own for its names, else NaN.
    """

    statistic: Statistic
    undefined: ClassVar[float] = 0.0
    higher_is_better: ClassVar[bool | None]
    plot_lower_bound: ClassVar[float | None]
    plot_upper_bound: ClassVar[float | None]

    def __init_subclass__(cls, statistic: str | None = None, undefined: float | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if undefined is not None:
            cls.undefined = undefined
        if statistic is not None:
            cls.statistic = find(statistic)
            cls.higher_is_better = cls.statistic.higher_is_better
            low, high = cls.statistic.bounds
            cls.plot_lower_bound, cls.plot_upper_bound = low, high if isfinite(high) else None


class MatrixPlot:
    """Draws a confusion matrix with torchmetrics' own plot (``add_text``, ``labels``, ``cmap``)."""

    compute: Callable[[], Tensor]

    def plot(self, val: Any = None, ax: Any = None, **options: Any) -> Any:
        """A figure and its axes."""
        return plot_confusion_matrix(self.compute() if val is None else val, ax=ax, **options)
