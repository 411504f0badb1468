"""Multilabel metrics: torchmetrics' names, arguments and results.

All take, besides torchmetrics' arguments, ``inputs``, ``weighted``, and as ``threshold`` one number or one per label.
"""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING, Any, ClassVar

from lightning_evalkit.counts import Counts, MultilabelCounter
from lightning_evalkit.inputs import Inputs, MultidimAverage, Multilabel, is_samplewise
from lightning_evalkit.inputs.numbers import checked_zero_division
from lightning_evalkit.inputs.threshold import thresholds_of
from lightning_evalkit.metrics.base import CountMetric, FromTable, MatrixPlot
from lightning_evalkit.statistics import (
    Average,
    LabelAverage,
    Normalize,
    averaged_stat_scores,
    checked_average,
    checked_normalize,
    confusion_matrix,
    exact_match_of_torchmetrics,
    f_beta,
    matthews_of_torchmetrics,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from lightning_evalkit.counts import Totals


class MultilabelMetric(CountMetric):
    """Base of all multilabel metrics: declares the tensors."""

    plot_legend_name = "Label"
    counter: MultilabelCounter

    def __init__(
        self,
        num_labels: int,
        threshold: float | Sequence[float] = 0.5,
        multidim_average: MultidimAverage = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        *,
        inputs: Inputs = "auto",
        weighted: bool = False,
        exact: bool = False,
        **kwargs: Any,
    ) -> None:
        samplewise = is_samplewise(multidim_average)
        cuts = thresholds_of(threshold)
        rows = ("samples", "exact_match") if exact else ()
        task = Multilabel(inputs, ignore_index, weighted, samplewise, cuts, num_labels, rows)
        super().__init__(MultilabelCounter(task), **kwargs)
        self.num_labels, self.threshold, self.multidim_average = num_labels, threshold, multidim_average
        self.ignore_index = ignore_index
        self.validate_args = validate_args  # for compatibility: values are always checked, without waiting


class MultilabelStatScores(MultilabelMetric):
    """The counts themselves: tp, fp, tn, fn, support of each label."""

    def __init__(
        self,
        num_labels: int,
        threshold: float | Sequence[float] = 0.5,
        average: Average | None = "macro",
        multidim_average: MultidimAverage = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_labels, threshold, multidim_average, ignore_index, validate_args, **kwargs)
        self.average = checked_average(average)

    def result(self, counts: Counts) -> Tensor:
        return averaged_stat_scores(counts, self.average)


class MultilabelStatistic(FromTable, MultilabelStatScores):
    """A multilabel metric that averages an entry of the statistics table over labels."""

    empty: ClassVar[float] = 0.0

    def __init__(
        self,
        num_labels: int,
        threshold: float | Sequence[float] = 0.5,
        average: Average | None = "macro",
        multidim_average: MultidimAverage = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        zero_division: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_labels, threshold, average, multidim_average, ignore_index, validate_args, **kwargs)
        self.zero_division = self.undefined if zero_division is None else checked_zero_division(zero_division)

    def result(self, counts: Counts) -> Tensor:
        """The average, or one value per label."""
        return LabelAverage(self.statistic, self.average, self.zero_division, self.empty)(counts)


class MultilabelAccuracy(MultilabelStatistic, statistic="accuracy"):
    """The share of correct predictions, of each label."""


class MultilabelPrecision(MultilabelStatistic, statistic="precision"):
    """The share of true positives among predicted positives, of each label."""


class MultilabelRecall(MultilabelStatistic, statistic="recall"):
    """The share of true positives among positives, of each label."""


class MultilabelSpecificity(MultilabelStatistic, statistic="specificity"):
    """The share of true negatives among negatives, of each label."""


class MultilabelNegativePredictiveValue(MultilabelStatistic, statistic="negative_predictive_value"):
    """The share of true negatives among predicted negatives, of each label."""


class MultilabelHammingDistance(MultilabelStatistic, statistic="hamming_distance", undefined=1.0):
    """The share of wrong predictions, of each label."""


class MultilabelF1Score(MultilabelStatistic, statistic="f1"):
    """The harmonic mean of precision and recall, of each label."""


class MultilabelFBetaScore(MultilabelStatistic, statistic="f1"):
    """The weighted harmonic mean of precision and recall; recall weighs ``beta`` times as much."""

    def __init__(
        self,
        beta: float,
        num_labels: int,
        threshold: float | Sequence[float] = 0.5,
        average: Average | None = "macro",
        multidim_average: MultidimAverage = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        zero_division: float = 0.0,
        **kwargs: Any,
    ) -> None:
        arguments = (multidim_average, ignore_index, validate_args, zero_division)
        super().__init__(num_labels, threshold, average, *arguments, **kwargs)
        self.beta, self.statistic = beta, f_beta(beta)


class MultilabelJaccardIndex(MultilabelStatistic, statistic="jaccard"):
    """The share of true positives among samples that are positive or predicted positive, of each label."""

    empty = nan

    def __init__(
        self,
        num_labels: int,
        threshold: float | Sequence[float] = 0.5,
        average: Average | None = "macro",
        ignore_index: int | None = None,
        validate_args: bool = True,
        zero_division: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_labels, threshold, average, "global", ignore_index, validate_args, zero_division, **kwargs)


class MultilabelMatthewsCorrCoef(MultilabelMetric):
    """Matthews correlation of all labels in one table, with torchmetrics' values where it is undefined."""

    higher_is_better = True
    plot_lower_bound, plot_upper_bound = -1.0, 1.0

    def __init__(
        self,
        num_labels: int,
        threshold: float | Sequence[float] = 0.5,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_labels, threshold, "global", ignore_index, validate_args, **kwargs)

    def result(self, counts: Counts) -> Tensor:
        return matthews_of_torchmetrics(counts.summed())


class MultilabelConfusionMatrix(MatrixPlot, MultilabelMetric):
    """A two-by-two matrix for each label."""

    def __init__(
        self,
        num_labels: int,
        threshold: float | Sequence[float] = 0.5,
        ignore_index: int | None = None,
        normalize: Normalize | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_labels, threshold, "global", ignore_index, validate_args, **kwargs)
        self.normalize = checked_normalize(normalize)

    def result(self, counts: Counts) -> Tensor:
        return confusion_matrix(counts, self.normalize)


class MultilabelExactMatch(MultilabelMetric):
    """The share of samples whose labels, except ignored ones, are all predicted rightly."""

    higher_is_better = True
    plot_lower_bound, plot_upper_bound = 0.0, 1.0

    def __init__(
        self,
        num_labels: int,
        threshold: float | Sequence[float] = 0.5,
        multidim_average: MultidimAverage = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_labels, threshold, multidim_average, ignore_index, validate_args, exact=True, **kwargs)

    def value_of(self, totals: Totals) -> Tensor:
        """The share of samples, or of the elements of each sample."""
        return exact_match_of_torchmetrics(
            *self.counter.sample_sums(totals, "exact_match"), *self.counter.sample_sums(totals, "samples")
        )
