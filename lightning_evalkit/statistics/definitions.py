"""Every statistic of a two-by-two table, as undivided fractions of its cells."""

from __future__ import annotations

from fractions import Fraction
from math import inf
from typing import TYPE_CHECKING

from torch import Tensor

from lightning_evalkit.counts.counts import ARRAYS
from lightning_evalkit.counts.wide import Wide
from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.inputs.numbers import as_number
from lightning_evalkit.statistics.quantity import Quantity, ratio, root
from lightning_evalkit.statistics.table import STATISTICS, Statistic, statistic

if TYPE_CHECKING:
    from lightning_evalkit.counts import Counts

SIGNED = (-1.0, 1.0)
UNBOUNDED = (0.0, inf)
LARGEST_BETA = 1e50
"""Its square times any count or weight has no overflow."""


@statistic("accuracy", symbol="ACC", proportion=True, also=("acc", "micro_accuracy"))
def accuracy(c: Counts) -> Quantity:
    """Correct predictions of all: (tp + tn) / (tp + tn + fp + fn)."""
    return ratio(c.tp + c.tn, c.total)


@statistic("precision", symbol="PPV", proportion=True, ignores=("fn", "tn"), also=("positive_predictive_value", "ppv"))
def precision(c: Counts) -> Quantity:
    """True positives of all predicted positive: tp / (tp + fp)."""
    return ratio(c.tp, c.predicted_positives)


@statistic(
    "recall", symbol="TPR", proportion=True, ignores=("fp", "tn"), also=("sensitivity", "true_positive_rate", "tpr")
)
def recall(c: Counts) -> Quantity:
    """True positives of all positives: tp / (tp + fn)."""
    return ratio(c.tp, c.positives)


@statistic(
    "specificity", symbol="TNR", proportion=True, ignores=("tp", "fn"), also=("true_negative_rate", "selectivity")
)
def specificity(c: Counts) -> Quantity:
    """True negatives of all negatives: tn / (tn + fp)."""
    return ratio(c.tn, c.negatives)


@statistic("negative_predictive_value", symbol="NPV", proportion=True, ignores=("tp", "fp"), also=("npv",))
def negative_predictive_value(c: Counts) -> Quantity:
    """True negatives of all predicted negative: tn / (tn + fn)."""
    return ratio(c.tn, c.predicted_negatives)


@statistic(
    "false_positive_rate",
    symbol="FPR",
    proportion=True,
    higher_is_better=False,
    ignores=("tp", "fn"),
    also=("fall_out", "fpr"),
)
def false_positive_rate(c: Counts) -> Quantity:
    """False positives of all negatives: fp / (fp + tn)."""
    return ratio(c.fp, c.negatives)


@statistic(
    "false_negative_rate",
    symbol="FNR",
    proportion=True,
    higher_is_better=False,
    ignores=("fp", "tn"),
    also=("miss_rate", "fnr"),
)
def false_negative_rate(c: Counts) -> Quantity:
    """False negatives of all positives: fn / (fn + tp)."""
    return ratio(c.fn, c.positives)


@statistic(
    "false_discovery_rate", symbol="FDR", proportion=True, higher_is_better=False, ignores=("fn", "tn"), also=("fdr",)
)
def false_discovery_rate(c: Counts) -> Quantity:
    """False positives of all predicted positive: fp / (fp + tp)."""
    return ratio(c.fp, c.predicted_positives)


@statistic(
    "false_omission_rate", symbol="FOR", proportion=True, higher_is_better=False, ignores=("tp", "fp"), also=("for",)
)
def false_omission_rate(c: Counts) -> Quantity:
    """False negatives of all predicted negative: fn / (fn + tn)."""
    return ratio(c.fn, c.predicted_negatives)


def f_beta(beta: float) -> Statistic:
    """F-beta for any beta > 0: recall counts beta times as much as precision.

    >>> f_beta(2.0).formula
    'Recall weighs 2 times precision: (1 + b²) tp / ((1 + b²) tp + b² fn + fp), b = 2.'
    """
    given = as_number(beta)
    if given is None or not 0 < given < inf:
        raise DeclarationError(f"expected beta to be a finite number above 0, got {beta!r}.")
    if not 1 / LARGEST_BETA <= given <= LARGEST_BETA:
        raise DeclarationError(
            f"expected beta from {1 / LARGEST_BETA:g} to {LARGEST_BETA:g}, got {beta!r}: beyond it F is precision or "
            "recall alone."
        )
    number = int(given) if float(given).is_integer() else float(given)
    name, square = f"f{number}", Fraction(str(number)) ** 2
    if name in STATISTICS:
        return STATISTICS[name]
    formula = f"Recall weighs {number} times precision: (1 + b²) tp / ((1 + b²) tp + b² fn + fp), b = {number}."
    if number == 1:
        formula = "The harmonic mean of precision and recall: 2 tp / (2 tp + fp + fn)."

    real = float(square)  # here, as torch 2.7 does not compile it

    def definition(c: Counts) -> Quantity:  # b² as a fraction, multiplied out: Python's numbers stay exact
        inexact = isinstance(c.tp, (*ARRAYS, Wide, Tensor))
        misses, alarms = (real, 1.0) if inexact else (square.numerator, square.denominator)
        part = (misses + alarms) * c.tp
        return ratio(part, part + misses * c.fn + alarms * c.fp)

    return Statistic(name, definition, symbol=f"F{number}", formula=formula, ignores=("tn",))


STATISTICS.add("f1", f_beta(1), also=("f1_score", "f1score", "dice", "f_score", "f_measure", "fbeta"))
STATISTICS.add("f2", f_beta(2))
STATISTICS.add("f0.5", f_beta(0.5), also=("f05",))


@statistic("jaccard", symbol="J", ignores=("tn",), also=("iou", "jaccard_index", "critical_success_index"))
def jaccard(c: Counts) -> Quantity:
    """True positives of all that are positive or predicted so: tp / (tp + fp + fn)."""
    return ratio(c.tp, c.tp + c.fp + c.fn)


@statistic("balanced_accuracy", symbol="BA")
def balanced_accuracy(c: Counts) -> Quantity:
    """The mean of recall and specificity: (tp / (tp + fn) + tn / (tn + fp)) / 2."""
    return (recall.definition(c) + specificity.definition(c)) / 2


@statistic("informedness", symbol="J", bounds=SIGNED, also=("youden", "youdens_j", "youden_j"))
def informedness(c: Counts) -> Quantity:
    """Recall and specificity beyond guessing (Youden's J): tp / (tp + fn) + tn / (tn + fp) - 1."""
    return recall.definition(c) + specificity.definition(c) - 1


@statistic("markedness", symbol="MK", bounds=SIGNED, also=("delta_p",))
def markedness(c: Counts) -> Quantity:
    """Precision and negative predictive value beyond guessing: tp / (tp + fp) + tn / (tn + fn) - 1."""
    return precision.definition(c) + negative_predictive_value.definition(c) - 1


@statistic("mcc", symbol="MCC", bounds=SIGNED, also=("matthews", "matthews_corrcoef", "phi"))
def mcc(c: Counts) -> Quantity:
    """Matthews correlation: (tp tn - fp fn) / sqrt((tp + fp) (tp + fn) (tn + fp) (tn + fn))."""
    covariance = c.tp * c.tn - c.fp * c.fn
    return root(covariance * abs(covariance), c.predicted_positives * c.positives * c.negatives * c.predicted_negatives)


@statistic("kappa", symbol="κ", bounds=SIGNED, also=("cohen_kappa", "cohens_kappa"))
def kappa(c: Counts) -> Quantity:
    """Agreement beyond chance (Cohen): 2 (tp tn - fp fn) / ((tp + fp) (fp + tn) + (tp + fn) (fn + tn))."""
    return ratio(
        2 * (c.tp * c.tn - c.fp * c.fn), c.predicted_positives * c.negatives + c.positives * c.predicted_negatives
    )


@statistic("geometric_mean", symbol="GM", also=("g_mean", "gmean"))
def geometric_mean(c: Counts) -> Quantity:
    """The geometric mean of recall and specificity: sqrt(tp tn / ((tp + fn) (tn + fp)))."""
    return root(c.tp * c.tn, c.positives * c.negatives)


@statistic("fowlkes_mallows", symbol="FM", ignores=("tn",))
def fowlkes_mallows(c: Counts) -> Quantity:
    """The geometric mean of precision and recall: sqrt(tp tp / ((tp + fp) (tp + fn)))."""
    return root(c.tp * c.tp, c.predicted_positives * c.positives)


@statistic("prevalence", symbol="π", proportion=True, higher_is_better=None, also=("base_rate",))
def prevalence(c: Counts) -> Quantity:
    """Positives of all: (tp + fn) / (tp + tn + fp + fn)."""
    return ratio(c.positives, c.total)


@statistic("predicted_prevalence", symbol="q", proportion=True, higher_is_better=None, also=("positive_rate",))
def predicted_prevalence(c: Counts) -> Quantity:
    """Predicted positive of all: (tp + fp) / (tp + tn + fp + fn)."""
    return ratio(c.predicted_positives, c.total)


@statistic("positive_likelihood_ratio", symbol="LR+", bounds=UNBOUNDED, also=("lr+", "lr_plus", "plr"))
def positive_likelihood_ratio(c: Counts) -> Quantity:
    """How much likelier a positive prediction is for a positive: recall / (1 - specificity)."""
    return ratio(c.tp * c.negatives, c.fp * c.positives)


@statistic(
    "negative_likelihood_ratio", symbol="LR-", bounds=UNBOUNDED, higher_is_better=False, also=("lr-", "lr_minus", "nlr")
)
def negative_likelihood_ratio(c: Counts) -> Quantity:
    """How much likelier a negative prediction is for a positive: (1 - recall) / specificity."""
    return ratio(c.fn * c.negatives, c.tn * c.positives)


@statistic("diagnostic_odds_ratio", symbol="DOR", bounds=UNBOUNDED, also=("dor", "odds_ratio"))
def diagnostic_odds_ratio(c: Counts) -> Quantity:
    """The odds of a positive prediction among positives over those among negatives: tp tn / (fp fn)."""
    return ratio(c.tp * c.tn, c.fp * c.fn)


@statistic("lift", symbol="L", bounds=UNBOUNDED)
def lift(c: Counts) -> Quantity:
    """Precision over prevalence: tp (tp + tn + fp + fn) / ((tp + fp) (tp + fn))."""
    return ratio(c.tp * c.total, c.predicted_positives * c.positives)


@statistic(
    "hamming_distance",
    symbol="H",
    proportion=True,
    higher_is_better=False,
    also=("hamming_loss", "error_rate", "hamming"),
)
def hamming_distance(c: Counts) -> Quantity:
    """Wrong predictions of all: (fp + fn) / (tp + tn + fp + fn)."""
    return ratio(c.errors, c.total)
