"""Multiclass metrics: torchmetrics' names, arguments and results.

All take, besides torchmetrics' arguments, ``inputs`` and ``weighted``; ``ignore_index`` may be several classes.
torchmetrics' multiclass "accuracy" of a class is its recall, and so it is here.
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
    """Base of all multiclass metrics: declares the tensors."""

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
        task_options: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        samplewise = is_samplewise(multidim_average)
        task = Multiclass(inputs, ignore_index, weighted, samplewise, num_classes, **(task_options or {}))
        super().__init__(MulticlassCounter(task), **kwargs)
        self.num_classes, self.multidim_average, self.ignore_index = num_classes, multidim_average, ignore_index
        self.validate_args = validate_args  # for compatibility: values are always checked, without waiting


class MulticlassStatScores(MulticlassMetric):
    """The one-vs-rest counts: tp, fp, tn, fn, support."""

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
        super().__init__(
            num_classes, multidim_average, ignore_index, validate_args, task_options={"top_k": top_k}, **kwargs
        )
        self.top_k, self.average = top_k, checked_average(average, num_classes)

    def result(self, counts: Counts) -> Tensor:
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
    """The share of correct predictions (micro), or the averaged recall of the classes."""

    by_support = True


class MulticlassPrecision(MulticlassStatistic, statistic="precision"):
    """The share of true positives among predicted positives, one-vs-rest."""

    by_support = True


class MulticlassRecall(MulticlassStatistic, statistic="recall"):
    """The share of true positives among positives, one-vs-rest."""

    by_support = True


class MulticlassSpecificity(MulticlassStatistic, statistic="specificity"):
    """The share of true negatives among negatives, one-vs-rest."""


class MulticlassNegativePredictiveValue(MulticlassStatistic, statistic="negative_predictive_value"):
    """The share of true negatives among predicted negatives, one-vs-rest."""

    by_support = True


class MulticlassHammingDistance(MulticlassStatistic, statistic="false_negative_rate", undefined=1.0):
    """One minus torchmetrics' accuracy."""


class MulticlassF1Score(MulticlassStatistic, statistic="f1"):
    """The harmonic mean of precision and recall, one-vs-rest."""


class MulticlassFBetaScore(MulticlassStatistic, statistic="f1"):
    """The weighted harmonic mean of precision and recall; recall weighs ``beta`` times as much."""

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
    """The share of true positives among samples that are of the class or predicted so."""

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
    """Matthews correlation of all classes, with torchmetrics' values where it is undefined."""

    higher_is_better = True
    plot_lower_bound, plot_upper_bound = -1.0, 1.0

    def result(self, counts: Counts) -> Tensor:
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
        options = {"matrix": self_weights != "none"}
        super().__init__(num_classes, "global", ignore_index, validate_args, task_options=options, **kwargs)
        self.weights = self_weights

    def value_of(self, totals: Totals) -> Tensor:
        """Kappa, from the margins alone if all disagreements weigh the same."""
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
        super().__init__(num_classes, "global", ignore_index, validate_args, task_options={"matrix": True}, **kwargs)
        self.normalize = checked_normalize(normalize)

    def value_of(self, totals: Totals) -> Tensor:
        """The C × C matrix."""
        return normalized(self.counter.matrix(totals).clone(), self.normalize)


class MulticlassExactMatch(MulticlassMetric):
    """The share of samples whose elements, except ignored ones, are all predicted rightly."""

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
        super().__init__(
            num_classes, multidim_average, ignore_index, validate_args, task_options={"exact": True}, **kwargs
        )

    def value_of(self, totals: Totals) -> Tensor:
        """The share, or 0 and 1 per sample."""
        return ratio(*self.counter.exact(totals)).value(0.0).float()
