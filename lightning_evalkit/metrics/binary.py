"""Binary metrics: torchmetrics' names, arguments and results, and a few names it does not have.

All take, besides torchmetrics' arguments, ``inputs`` (the kind of the scores; by default guessed for each batch, as
torchmetrics does) and ``weighted`` (``update`` then takes ``sample_weight``).
"""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING, Any

from lightning_evalkit.counts import BinaryCounter, Counts
from lightning_evalkit.inputs import Binary, Inputs, MultidimAverage, is_samplewise
from lightning_evalkit.inputs.numbers import checked_zero_division
from lightning_evalkit.metrics.base import CountMetric, FromTable, MatrixPlot
from lightning_evalkit.statistics import (
    KappaWeights,
    Normalize,
    checked_normalize,
    checked_weights,
    confusion_matrix,
    f_beta,
    matthews_of_torchmetrics,
    stat_scores,
)

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts import Totals


class BinaryMetric(CountMetric):
    """Base of all binary metrics: declares the tensors."""

    def __init__(
        self,
        threshold: float = 0.5,
        multidim_average: MultidimAverage = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        *,
        inputs: Inputs = "auto",
        weighted: bool = False,
        **kwargs: Any,
    ) -> None:
        samplewise = is_samplewise(multidim_average)
        task = Binary(inputs, ignore_index, weighted, samplewise, thresholds=(threshold,))
        super().__init__(BinaryCounter(task), **kwargs)
        self.threshold, self.multidim_average, self.ignore_index = threshold, multidim_average, ignore_index
        self.validate_args = validate_args  # for compatibility: values are always checked, without waiting

    def value_of(self, totals: Totals) -> Tensor:
        """The result at the one threshold."""
        return self.result(self.counter.counts(totals).at(0))


class BinaryStatScores(BinaryMetric):
    """The counts themselves: tp, fp, tn, fn, support."""

    def result(self, counts: Counts) -> Tensor:
        return stat_scores(counts)


class BinaryStatistic(FromTable, BinaryMetric):
    """A binary metric that is an entry of the statistics table."""

    def __init__(
        self,
        threshold: float = 0.5,
        multidim_average: MultidimAverage = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        zero_division: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(threshold, multidim_average, ignore_index, validate_args, **kwargs)
        self.zero_division = self.undefined if zero_division is None else checked_zero_division(zero_division)

    def result(self, counts: Counts) -> Tensor:
        return self.statistic.value(counts, self.zero_division).float()


class BinaryAccuracy(BinaryStatistic, statistic="accuracy"):
    """The share of correct predictions."""


class BinaryPrecision(BinaryStatistic, statistic="precision"):
    """The share of true positives among predicted positives."""


class BinaryRecall(BinaryStatistic, statistic="recall"):
    """The share of true positives among positives."""


class BinarySpecificity(BinaryStatistic, statistic="specificity"):
    """The share of true negatives among negatives."""


class BinaryNegativePredictiveValue(BinaryStatistic, statistic="negative_predictive_value"):
    """The share of true negatives among predicted negatives."""


class BinaryHammingDistance(BinaryStatistic, statistic="hamming_distance", undefined=1.0):
    """The share of wrong predictions; 1 without samples, as in torchmetrics."""


class BinaryF1Score(BinaryStatistic, statistic="f1"):
    """The harmonic mean of precision and recall."""


class BinaryFBetaScore(BinaryStatistic, statistic="f1"):
    """The weighted harmonic mean of precision and recall; recall weighs ``beta`` times as much."""

    def __init__(
        self,
        beta: float,
        threshold: float = 0.5,
        multidim_average: MultidimAverage = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        zero_division: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(threshold, multidim_average, ignore_index, validate_args, zero_division, **kwargs)
        self.beta, self.statistic = beta, f_beta(beta)


class BinaryBalancedAccuracy(BinaryStatistic, statistic="balanced_accuracy", undefined=nan):
    """The mean of recall and specificity."""


class BinaryInformedness(BinaryStatistic, statistic="informedness", undefined=nan):
    """Recall and specificity beyond guessing (Youden's J)."""


class BinaryMarkedness(BinaryStatistic, statistic="markedness", undefined=nan):
    """Precision and negative predictive value beyond guessing."""


class BinaryGeometricMean(BinaryStatistic, statistic="geometric_mean", undefined=nan):
    """The geometric mean of recall and specificity."""


class BinaryFowlkesMallows(BinaryStatistic, statistic="fowlkes_mallows", undefined=nan):
    """The geometric mean of precision and recall."""


class BinaryJaccardIndex(BinaryStatistic, statistic="jaccard"):
    """The share of true positives among samples that are positive or predicted positive."""

    def __init__(
        self,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        validate_args: bool = True,
        zero_division: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(threshold, "global", ignore_index, validate_args, zero_division, **kwargs)


class BinaryMatthewsCorrCoef(BinaryStatistic, statistic="mcc"):
    """Matthews correlation, with torchmetrics' values where it is undefined."""

    def __init__(
        self, threshold: float = 0.5, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Any
    ) -> None:
        super().__init__(threshold, "global", ignore_index, validate_args, **kwargs)

    def result(self, counts: Counts) -> Tensor:
        return matthews_of_torchmetrics(counts)


class BinaryCohenKappa(BinaryStatistic, statistic="kappa", undefined=nan):
    """Agreement beyond chance; with two classes, linear and quadratic ``weights`` change nothing."""

    def __init__(
        self,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        weights: KappaWeights | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(threshold, "global", ignore_index, validate_args, **kwargs)
        self.weights = checked_weights(weights)


class BinaryConfusionMatrix(MatrixPlot, BinaryMetric):
    """Targets in rows and predictions in columns, negative first."""

    def __init__(
        self,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        normalize: Normalize | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(threshold, "global", ignore_index, validate_args, **kwargs)
        self.normalize = checked_normalize(normalize)

    def result(self, counts: Counts) -> Tensor:
        return confusion_matrix(counts, self.normalize)
