"""What is computed of scores, whatever the task: curves, areas, the best point within a bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torchmetrics.utilities.plot import plot_curve

from lightning_evalkit.metrics.scores import BinaryScores, ScoreMetric
from lightning_evalkit.statistics import curve_results as results
from lightning_evalkit.statistics import curves

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts import ScoreCounts, Totals
    from lightning_evalkit.statistics.curves import Bounded

    Tables = list[ScoreCounts]


class Curve(ScoreMetric):
    """Two coordinates and thresholds: of one question, of each, or averaged."""

    average: str | None = None
    axes: tuple[str, str]

    def points(self, table: ScoreCounts) -> tuple[Any, Any, Any]:
        """The curve of every question of a table."""
        raise NotImplementedError

    def result(self, tables: Tables) -> tuple[Any, Any, Any]:
        """As torchmetrics gives them."""
        if isinstance(self, BinaryScores):
            first, second, thresholds = self.points(tables[0])
            return first[0], second[0], thresholds
        return results.all_curves(tables, self.points, self.average)

    def drawn(self, first: Any, second: Any, thresholds: Any) -> tuple[Any, Any, Any]:
        """What is drawn to the right, and upwards."""
        return first, second, thresholds

    def plot(self, curve: Any = None, score: Any = None, ax: Any = None) -> Any:  # type: ignore[override]
        """Draw one curve or one for each question with torchmetrics' own plot; a ``score`` stands beside it."""
        shown = self.drawn(*(self.compute() if curve is None else curve))
        return plot_curve(shown, score, ax, self.axes, self.plot_legend_name, type(self).__name__)


class Roc(Curve):
    """False-positive rate, true-positive rate, falling thresholds."""

    axes = ("False positive rate", "True positive rate")

    def points(self, table: ScoreCounts) -> tuple[Any, Any, Any]:
        """The ROC curve."""
        return results.roc(table)


class PrecisionRecall(Curve):
    """Precision, recall, rising thresholds."""

    axes = ("Recall", "Precision")

    def drawn(self, first: Any, second: Any, thresholds: Any) -> tuple[Any, Any, Any]:
        """Recall to the right."""
        return second, first, thresholds

    def points(self, table: ScoreCounts) -> tuple[Any, Any, Any]:
        """The precision-recall curve."""
        return results.precision_recall(table)


class Number(ScoreMetric):
    """One number of every question, averaged over those that have a value."""

    average: str | None = None
    plot_lower_bound, plot_upper_bound = 0.0, 1.0

    def values(self, tables: Tables) -> Tensor:
        """The number of each question."""
        raise NotImplementedError

    def result(self, tables: Tables) -> Tensor:
        """As torchmetrics gives it."""
        if self.average == "micro":
            tables = results.micro(tables)
        values = self.values(tables)
        if isinstance(self, BinaryScores) or self.average == "micro":
            return values[0].float()
        return results.averaged_over_questions(values, tables, self.average)


class Auroc(Number):
    """The area under the ROC curve."""

    higher_is_better = True
    max_fpr: float | None = None

    def values(self, tables: Tables) -> Tensor:
        """The areas."""
        return results.areas(tables, self.max_fpr)

    def bounds(self) -> Bounded:
        """Low, value and high for every question: the area of the scores themselves lies between for certain."""
        return _joined_bounds([curves.auroc(table, self.max_fpr) for table in self.counter.tables(self._totals())])

    def _totals(self) -> Totals:
        self.compute()  # which says if something was not what was declared
        return self.joined


class AveragePrecision(Number):
    """The area under the precision-recall curve, in steps."""

    higher_is_better = True

    def values(self, tables: Tables) -> Tensor:
        """The areas."""
        return results.average_precisions(tables)

    def bounds(self) -> Bounded:
        """Low, value and high for every question: the value of the scores themselves lies between for certain."""
        self.compute()
        return _joined_bounds([curves.average_precision(table) for table in self.counter.tables(self.joined)])


class Eer(Number):
    """The equal error rate."""

    higher_is_better = False

    def values(self, tables: Tables) -> Tensor:
        """The rates."""
        return results.equal_error_rates(tables)

    def result(self, tables: Tables) -> Tensor:
        """Of the averaged curve, if one is asked for."""
        return results.averaged_equal_error_rate(tables, self.average) if self.average else super().result(tables)


def _joined_bounds(found: list[Bounded]) -> Bounded:
    return type(found[0])(*(torch.cat(parts) for parts in zip(*found, strict=True)))


class BestPoint(ScoreMetric):
    """The largest value of one coordinate where the other reaches a bound, and its threshold."""

    higher_is_better = True
    plot_lower_bound, plot_upper_bound = 0.0, 1.0
    bound: float

    def pair(self, table: ScoreCounts) -> tuple[Any, Any, Any]:
        """What is wanted, what is bounded, thresholds."""
        raise NotImplementedError

    def best(self, wanted: Tensor, bounded: Tensor, thresholds: Tensor) -> tuple[Tensor, Tensor]:
        """The point."""
        return results.at_least(wanted, bounded, thresholds, self.bound)

    def result(self, tables: Tables) -> tuple[Tensor, Tensor]:
        """Value and threshold, of one question or of each."""
        values, thresholds = results.best_pairs(tables, self.pair, self.best)
        return (values[0], thresholds[0]) if isinstance(self, BinaryScores) else (values, thresholds)

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Draw one value or several, without thresholds, with torchmetrics' own plot."""
        return self._plot(self.compute()[0] if val is None else val, ax)


class RecallAtPrecision(BestPoint):
    """The largest recall with at least so much precision."""

    def pair(self, table: ScoreCounts) -> tuple[Any, Any, Any]:
        """Recall, precision."""
        precision, recall, thresholds = results.precision_recall(table)
        return recall, precision, thresholds


class PrecisionAtRecall(BestPoint):
    """The largest precision with at least so much recall."""

    def pair(self, table: ScoreCounts) -> tuple[Any, Any, Any]:
        """Precision, recall."""
        return results.precision_recall(table)


class SensitivityAtSpecificityPoint(BestPoint):
    """The largest sensitivity with at least so much specificity."""

    def pair(self, table: ScoreCounts) -> tuple[Any, Any, Any]:
        """Sensitivity, specificity."""
        fpr, tpr, thresholds = results.roc(table)
        return tpr, 1 - fpr, thresholds

    def best(self, wanted: Tensor, bounded: Tensor, thresholds: Tensor) -> tuple[Tensor, Tensor]:
        """The first point along the ROC curve."""
        return results.first_at_least(wanted, bounded, thresholds, self.bound)


class SpecificityAtSensitivityPoint(SensitivityAtSpecificityPoint):
    """The largest specificity with at least so much sensitivity."""

    def pair(self, table: ScoreCounts) -> tuple[Any, Any, Any]:
        """Specificity, sensitivity."""
        fpr, tpr, thresholds = results.roc(table)
        return 1 - fpr, tpr, thresholds
