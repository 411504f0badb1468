"""The table of statistics that need scores or probabilities, like that of the statistics of counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from lightning_evalkit.registry import Registry
from lightning_evalkit.statistics import calibration, curves
from lightning_evalkit.statistics.table import STATISTICS

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from lightning_evalkit.counts import Calibration, ScoreCounts
    from lightning_evalkit.statistics.calibration import Grouped
    from lightning_evalkit.statistics.thresholds import Choice

Needs = Literal["scores", "filled", "calibration", "answers", "best_f1"]


@dataclass(frozen=True)
class ScoreStatistic:
    """A number for each question, computed from the evidence that ``needs`` names.

    That is the histogram (``scores``) or only its bins that are not empty (``filled``), the ``calibration`` sums, the
    calibration bins of yes-or-no questions (``answers``), or the threshold of the ``best_f1``. A multiclass task has
    one calibration, that of the predicted class; everything else is computed one-vs-rest.
    """

    name: str
    needs: Needs = field(hash=False)
    compute: Callable[[Any], Tensor] = field(hash=False)
    formula: str = field(hash=False)
    bounds: tuple[float, float] = field(hash=False)
    higher_is_better: bool | None = field(hash=False)
    is_threshold: bool = field(default=False, hash=False)
    """Whether the number is a threshold, which rounding to single precision would move across a score."""


SCORE_STATISTICS: Registry[ScoreStatistic] = Registry("statistic of scores")
STATISTICS.beside(SCORE_STATISTICS, "which counts alone do not hold: an evaluation with curves=True reports it")


def scored(
    needs: Needs, bounds: tuple[float, float] = (0.0, 1.0), better: bool | None = True, is_threshold: bool = False
) -> Callable[[Callable[[Any], Tensor]], Callable[[Any], Tensor]]:
    """Add a function to the table under its name; its docstring ends with the formula."""

    def added(function: Callable[[Any], Tensor]) -> Callable[[Any], Tensor]:
        name = function.__name__
        formula = (function.__doc__ or "").strip().rstrip(".")
        SCORE_STATISTICS.add(name, ScoreStatistic(name, needs, function, formula, bounds, better, is_threshold))
        return function

    return added


@scored("filled")
def auroc(scores: ScoreCounts) -> Tensor:
    """P(score of a positive > score of a negative) + ½ P(equal)."""
    return curves.auroc_value(scores)


@scored("filled")
def average_precision(scores: ScoreCounts) -> Tensor:
    """Σ (recall gained) · precision over falling thresholds."""
    return curves.average_precision_value(scores)


@scored("filled", better=False)
def eer(scores: ScoreCounts) -> Tensor:
    """The rate at which false positives and false negatives are equally frequent in their classes."""
    return curves.eer(scores)


@scored("filled")
def kolmogorov_smirnov(scores: ScoreCounts) -> Tensor:
    """max (recall + specificity - 1) over thresholds."""
    return curves.kolmogorov_smirnov(scores)


@scored("filled", bounds=(-1.0, 1.0))
def gini(scores: ScoreCounts) -> Tensor:
    """2 AUROC - 1."""
    return curves.gini(scores)


@scored("best_f1")
def best_f1(choice: Choice) -> Tensor:
    """max F1 over thresholds."""
    return choice.value


@scored("best_f1", better=None, is_threshold=True)
def best_f1_threshold(choice: Choice) -> Tensor:
    """The threshold where F1 is highest."""
    return choice.threshold


@scored("calibration", bounds=(0.0, 2.0), better=False)
def brier(sums: Calibration) -> Tensor:
    """Mean squared distance of the probabilities from what happened."""
    return sums.squared_errors / sums.weights


@scored("calibration", bounds=(0.0, float("inf")), better=False)
def log_loss(sums: Calibration) -> Tensor:
    """Mean of -ln(probability of what happened)."""
    return sums.log_losses / sums.weights


@scored("calibration", better=False)
def calibration_error(sums: Calibration) -> Tensor:
    """Σ over bins |mean confidence - share of hits| · share of samples."""
    return (sums.confidences - sums.hits).abs().sum(-1) / sums.weights


@scored("calibration", better=False)
def max_calibration_error(sums: Calibration) -> Tensor:
    """max |mean confidence - share of hits| over bins (Naeini et al. 2015)."""
    return calibration.largest_gap(calibration.binned(sums))


@scored("scores", better=False)
def adaptive_calibration_error(scores: ScoreCounts) -> Tensor:
    """Σ over 15 groups of equal mass |mean confidence - share of yes| · share of samples (Nixon et al. 2019)."""
    return calibration.mean_gap(calibration.in_equal_masses(scores))


@scored("answers", better=False)
def classwise_calibration_error(groups: Grouped) -> Tensor:
    """Σ over bins |mean confidence - share of yes| · share of samples, against the rest (Kull et al. 2019)."""
    return calibration.mean_gap(groups)


@scored("answers", better=False)
def brier_calibration(groups: Grouped) -> Tensor:
    """Σ over bins (mean confidence - share of yes)² · share of samples."""
    return calibration.squared_gap(groups)


@scored("answers", bounds=(0.0, 0.25), better=False)
def brier_refinement(groups: Grouped) -> Tensor:
    """Σ over bins share of yes · share of no · share of samples."""
    return calibration.refinement(groups)


@scored("answers", bounds=(0.0, 0.25), better=None)
def brier_uncertainty(groups: Grouped) -> Tensor:
    """Share of yes · share of no."""
    return calibration.uncertainty(groups)
