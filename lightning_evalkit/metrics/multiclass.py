"""Multiclass metrics: torchmetrics' names, arguments and results.

All take, besides torchmetrics' arguments, ``inputs`` and ``weighted``; ``ignore_index`` may be several classes.
torchmetrics' multiclass "accuracy" of a class is its recall, so that is what its names compute here too.
"""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING, Any, ClassVar

from lightning_evalkit.counts import Counts, MulticlassCounter
from lightning_evalkit.inputs import Inputs, Multiclass, MultidimAverage, is_samplewise
from lightning_evalkit.inputs.numbers import checked_zero_division
from lightning_evalkit.metrics.base import CountMetric, FromTable, MatrixPlot
from lightning_evalkit.statistics import (
    Average,
    ClassAverage,
    KappaWeights,
    Normalize,
    averaged_stat_scores,
    checked_average,
    checked_normalize,
    checked_weights,
    f_beta,
    multiclass_kappa,
    multiclass_matthews_of_torchmetrics,
    normalized,
    ratio,
    weighted_kappa,
    without_classes,
)

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts import Totals

Ignored = int | tuple[int, ...] | None


class MulticlassMetric(CountMetric):
    """What all multiclass metrics share: how tensors are declared."""

    plot_legend_name = "Class"
    counter: MulticlassCounter

    def __init__(
        self,
        num_classes: int | None,
        multidim_average: MultidimAverage = "global",
        ignore_index: Ignored = None,
        validate_args: bool = True,
        *,
        inputs: Inputs = "auto",
        weighted: bool = False,
        kept: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        samplewise = is_samplewise(multidim_average)
        task = Multiclass(inputs, ignore_index, weighted, samplewise, num_classes, **(kept or {}))
        super().__init__(MulticlassCounter(task), **kwargs)
        self.num_classes, self.multidim_average, self.ignore_index = num_classes, multidim_average, ignore_index
        self.validate_args = validate_args  # kept for compatibility: values are always checked, which costs no waiting


class MulticlassStatScores(MulticlassMetric):
    """The counts themselves: tp, fp, tn, fn, support of one class against the rest."""

    def __init__(
        self,
        num_classes: int | None = None,
        top_k: int = 1,
        average: Average | None = "macro",
        multidim_average: MultidimAverage = "global",
        ignore_index: Ignored = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, multidim_average, ignore_index, validate_args, kept={"top_k": top_k}, **kwargs)
        self.top_k, self.average = top_k, checked_average(average, num_classes)

    def result(self, counts: Counts) -> Tensor:
        """Rows of five."""
        return averaged_stat_scores(counts, self.average)


class MulticlassStatistic(FromTable, MulticlassStatScores):
    """A multiclass metric that averages an entry of the statistics table over classes."""

    by_support: ClassVar[bool] = False

    def __init__(
        self,
        num_classes: int | None = None,
        top_k: int = 1,
        average: Average | None = "macro",
        multidim_average: MultidimAverage = "global",
        ignore_index: Ignored = None,
        validate_args: bool = True,
        zero_division: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, top_k, average, multidim_average, ignore_index, validate_args, **kwargs)
        self.zero_division = self.undefined if zero_division is None else checked_zero_division(zero_division)

    def result(self, counts: Counts) -> Tensor:
        """The average, or one value per class."""
        by_support = self.by_support and self.top_k > 1
        read = ClassAverage(self.statistic, self.average, self.zero_division, by_support)
        return read(counts, self.counter.task.ignored)


class MulticlassAccuracy(MulticlassStatistic, statistic="recall"):
    """Correct predictions of all (micro), or the recall of each class, averaged."""

    by_support = True


class MulticlassPrecision(MulticlassStatistic, statistic="precision"):
    """True positives of all predicted positive, of one class against the rest."""

    by_support = True


class MulticlassRecall(MulticlassStatistic, statistic="recall"):
    """True positives of all positives, of one class against the rest."""

    by_support = True


class MulticlassSpecificity(MulticlassStatistic, statistic="specificity"):
    """True negatives of all negatives, of one class against the rest."""


class MulticlassNegativePredictiveValue(MulticlassStatistic, statistic="negative_predictive_value"):
    """True negatives of all predicted negative, of one class against the rest."""

    by_support = True


class MulticlassHammingDistance(MulticlassStatistic, statistic="false_negative_rate", undefined=1.0):
    """One minus torchmetrics' accuracy."""


class MulticlassF1Score(MulticlassStatistic, statistic="f1"):
    """The harmonic mean of precision and recall, of one class against the rest."""


class MulticlassFBetaScore(MulticlassStatistic, statistic="f1"):
    """The harmonic mean in which recall weighs ``beta`` times as much as precision."""

    def __init__(
        self,
        beta: float,
        num_classes: int,
        top_k: int = 1,
        average: Average | None = "macro",
        multidim_average: MultidimAverage = "global",
        ignore_index: Ignored = None,
        validate_args: bool = True,
        zero_division: float = 0.0,
        **kwargs: Any,
    ) -> None:
        arguments = (multidim_average, ignore_index, validate_args, zero_division)
        super().__init__(num_classes, top_k, average, *arguments, **kwargs)
        self.beta, self.statistic = beta, f_beta(beta)


class MulticlassJaccardIndex(MulticlassStatistic, statistic="jaccard"):
    """True positives of all that are or are predicted of the class."""

    def __init__(
        self,
        num_classes: int,
        average: Average | None = "macro",
        ignore_index: Ignored = None,
        validate_args: bool = True,
        zero_division: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, 1, average, "global", ignore_index, validate_args, zero_division, **kwargs)

    def result(self, counts: Counts) -> Tensor:
        """The average; ignored classes are in no union."""
        read = ClassAverage(self.statistic, self.average, self.zero_division, empty=nan)
        ignored = self.counter.task.ignored
        return read(without_classes(counts, ignored) if self.average == "micro" else counts, ignored)


class MulticlassMatthewsCorrCoef(MulticlassMetric):
    """Matthews correlation of all classes, with torchmetrics' values where the definition has none."""

    higher_is_better = True
    plot_lower_bound, plot_upper_bound = -1.0, 1.0

    def result(self, counts: Counts) -> Tensor:
        """The correlation."""
        return multiclass_matthews_of_torchmetrics(counts)

    def __init__(
        self, num_classes: int, ignore_index: Ignored = None, validate_args: bool = True, **kwargs: Any
    ) -> None:
        super().__init__(num_classes, "global", ignore_index, validate_args, **kwargs)


class MulticlassCohenKappa(MulticlassMetric):
    """Agreement beyond chance; ``weights`` for ordered classes keep a confusion matrix."""

    higher_is_better = True
    plot_lower_bound, plot_upper_bound = -1.0, 1.0

    def __init__(
        self,
        num_classes: int,
        ignore_index: Ignored = None,
        weights: KappaWeights | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        self_weights = checked_weights(weights)
        kept = {"matrix": self_weights != "none"}
        super().__init__(num_classes, "global", ignore_index, validate_args, kept=kept, **kwargs)
        self.weights = self_weights

    def value_of(self, totals: Totals) -> Tensor:
        """Kappa, from the margins alone where disagreements weigh alike."""
        if self.weights == "none":
            return multiclass_kappa(self.counter.counts(totals))
        return weighted_kappa(self.counter.matrix(totals), self.weights).float()


class MulticlassConfusionMatrix(MatrixPlot, MulticlassMetric):
    """Targets in rows and predictions in columns."""

    def __init__(
        self,
        num_classes: int,
        ignore_index: Ignored = None,
        normalize: Normalize | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, "global", ignore_index, validate_args, kept={"matrix": True}, **kwargs)
        self.normalize = checked_normalize(normalize)

    def value_of(self, totals: Totals) -> Tensor:
        """The C × C matrix."""
        return normalized(self.counter.matrix(totals).clone(), self.normalize)


class MulticlassExactMatch(MulticlassMetric):
    """Samples of which every element that is not ignored is predicted rightly, of all samples."""

    higher_is_better = True
    plot_lower_bound, plot_upper_bound = 0.0, 1.0

    def __init__(
        self,
        num_classes: int,
        multidim_average: MultidimAverage = "global",
        ignore_index: Ignored = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, multidim_average, ignore_index, validate_args, kept={"exact": True}, **kwargs)

    def value_of(self, totals: Totals) -> Tensor:
        """The share, or 0 and 1 per sample."""
        return ratio(*self.counter.exact(totals)).value(0.0).float()
