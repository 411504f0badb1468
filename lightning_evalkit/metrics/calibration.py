"""Calibration: how far confidence is from what happens. The last bin is closed, so that a confidence of 1 is in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.metrics.scores import BinaryScores, MulticlassScores, ScoreMetric
from lightning_evalkit.statistics.curve_results import calibration_error

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts import Totals
    from lightning_evalkit.metrics.scores import Ignored


class CalibrationError(ScoreMetric):
    """The gaps between confidence and hits over bins, as ``norm`` says: "l1", "l2" or "max"."""

    higher_is_better = False
    plot_lower_bound, plot_upper_bound = 0.0, 1.0
    norm: str

    def value_of(self, totals: Totals) -> Tensor:
        """The error."""
        return calibration_error(self.counter.calibration(totals), self.norm)


class BinaryCalibrationError(CalibrationError, BinaryScores):
    """Confidence is the probability of yes, a hit a yes."""

    def __init__(
        self,
        n_bins: int = 15,
        norm: str = "l1",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            (0.5,), ignore_index, validate_args, sums=True, calibration_bins=checked_bins(n_bins), **kwargs
        )
        self.n_bins, self.norm = n_bins, checked_norm(norm)


class MulticlassCalibrationError(CalibrationError, MulticlassScores):
    """Confidence is the highest probability, a hit the right class."""

    def __init__(
        self,
        num_classes: int,
        n_bins: int = 15,
        norm: str = "l1",
        ignore_index: Ignored = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        bins = checked_bins(n_bins)
        super().__init__(num_classes, (0.5,), ignore_index, validate_args, sums=True, calibration_bins=bins, **kwargs)
        self.n_bins, self.norm = n_bins, checked_norm(norm)


def checked_bins(n_bins: int) -> int:
    """A number of bins."""
    if not isinstance(n_bins, int) or isinstance(n_bins, bool) or n_bins < 1:
        raise DeclarationError(f"expected n_bins to be a whole number of at least 1, got {n_bins!r}.")
    return n_bins


def checked_norm(norm: str) -> str:
    """One of three."""
    if norm not in ("l1", "l2", "max"):
        raise DeclarationError(f"expected norm to be 'l1', 'l2' or 'max', got {norm!r}.")
    return norm
