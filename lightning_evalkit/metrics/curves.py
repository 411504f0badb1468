"""Curves, areas under them, and their best points: torchmetrics' names, arguments and results.

A family says what is computed, a task how tensors are read; a metric is one of each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lightning_evalkit.metrics.scores import (
    BinaryScores,
    MulticlassScores,
    MultilabelScores,
    ScoreMetric,
    checked_average,
    checked_share,
)
from lightning_evalkit.statistics import curve_results as results
from lightning_evalkit.statistics import curves

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts import ScoreCounts, Totals
    from lightning_evalkit.inputs.scores import Thresholds
    from lightning_evalkit.metrics.scores import Ignored
    from lightning_evalkit.statistics.curves import Bounded

    Tables = list[ScoreCounts]


# ---- families


class Curve(ScoreMetric):
    """Two coordinates and thresholds: of one question, of each, or averaged."""

    average: str | None = None

    def points(self, table: ScoreCounts) -> tuple[Any, Any, Any]:
        """The curve of every question of a table."""
        raise NotImplementedError

    def result(self, tables: Tables) -> tuple[Any, Any, Any]:
        """As torchmetrics gives them."""
        if isinstance(self, BinaryScores):
            first, second, thresholds = self.points(tables[0])
            return first[0], second[0], thresholds
        return results.all_curves(tables, self.points, self.average)


class Roc(Curve):
    """False-positive rate, true-positive rate, falling thresholds."""

    def points(self, table: ScoreCounts) -> tuple[Any, Any, Any]:
        """The ROC curve."""
        return results.roc(table)


class PrecisionRecall(Curve):
    """Precision, recall, rising thresholds."""

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


def _joined_bounds(found: list[Bounded]) -> Bounded:
    from torch import cat

    return type(found[0])(*(cat(parts) for parts in zip(*found, strict=True)))


class BestPoint(ScoreMetric):
    """The largest value of one coordinate where the other reaches a bound, and its threshold."""

    higher_is_better = True
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


# ---- curves of each task


class BinaryROC(Roc, BinaryScores):
    """The ROC curve."""


class BinaryPrecisionRecallCurve(PrecisionRecall, BinaryScores):
    """The precision-recall curve."""


class MulticlassCurve(MulticlassScores):
    """Takes torchmetrics' ``average`` of curves."""

    def __init__(
        self,
        num_classes: int,
        thresholds: Thresholds = "fine",
        average: str | None = None,
        ignore_index: Ignored = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, thresholds, ignore_index, validate_args, **kwargs)
        self.average = checked_average(average, ("micro", "macro"))


class MulticlassROC(Roc, MulticlassCurve):
    """The ROC curves of each class against the rest."""


class MulticlassPrecisionRecallCurve(PrecisionRecall, MulticlassCurve):
    """The precision-recall curves of each class against the rest."""


class MultilabelROC(Roc, MultilabelScores):
    """The ROC curves of each label."""


class MultilabelPrecisionRecallCurve(PrecisionRecall, MultilabelScores):
    """The precision-recall curves of each label."""


# ---- numbers of each task


class BinaryAUROC(Auroc, BinaryScores):
    """The area under the ROC curve, up to ``max_fpr`` and rescaled if that is given."""

    def __init__(
        self,
        max_fpr: float | None = None,
        thresholds: Thresholds = "fine",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(thresholds, ignore_index, validate_args, **kwargs)
        self.max_fpr = None if max_fpr is None else checked_share("max_fpr", max_fpr)


class BinaryAveragePrecision(AveragePrecision, BinaryScores):
    """The average precision."""


class BinaryEER(Eer, BinaryScores):
    """The equal error rate."""


class MulticlassNumber(MulticlassScores):
    """Takes torchmetrics' ``average`` of numbers, over the classes that have a value."""

    default: str | None = "macro"

    def __init__(
        self,
        num_classes: int,
        average: str | None = "default",
        thresholds: Thresholds = "fine",
        ignore_index: Ignored = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, thresholds, ignore_index, validate_args, **kwargs)
        chosen = self.default if average == "default" else average
        self.average = checked_average(chosen, ("macro", "weighted", "none"))


class MultilabelNumber(MultilabelScores):
    """Takes torchmetrics' ``average`` of numbers, over the labels that have a value."""

    def __init__(
        self,
        num_labels: int,
        average: str | None = "macro",
        thresholds: Thresholds = "fine",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_labels, thresholds, ignore_index, validate_args, **kwargs)
        self.average = checked_average(average, ("micro", "macro", "weighted", "none"))


class MulticlassAUROC(Auroc, MulticlassNumber):
    """The areas under the ROC curves of each class against the rest."""


class MulticlassAveragePrecision(AveragePrecision, MulticlassNumber):
    """The average precisions of each class against the rest."""


class MultilabelAUROC(Auroc, MultilabelNumber):
    """The areas under the ROC curves of each label."""


class MultilabelAveragePrecision(AveragePrecision, MultilabelNumber):
    """The average precisions of each label."""


class MulticlassEER(Eer, MulticlassCurve):
    """The equal error rates of each class against the rest."""


class MultilabelEER(Eer, MultilabelScores):
    """The equal error rates of each label."""
