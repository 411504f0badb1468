"""Calibration: how far confidence is from the share of hits. The last bin is closed, so it contains 1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lightning_evalkit.counts import CalibrationCounter
from lightning_evalkit.inputs import Binary, Binning, Inputs, Multiclass
from lightning_evalkit.state import Tally
from lightning_evalkit.statistics.curve_options import Norm, checked_bins, checked_norm
from lightning_evalkit.statistics.curve_results import calibration_error

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts import Totals
    from lightning_evalkit.inputs import Declaration
    from lightning_evalkit.metrics.scores import Ignored


class CalibrationErrorMetric(Tally):
    """The gaps between confidence and hits over bins, as ``norm`` says: "l1", "l2" or "max"."""

    counter: CalibrationCounter
    without_counts = "a calibration error has no counts without a threshold: ask an evaluation for them at one."
    higher_is_better = False
    plot_lower_bound, plot_upper_bound = 0.0, 1.0

    def __init__(self, task: Declaration, n_bins: int, norm: Norm, validate_args: bool, **kwargs: Any) -> None:
        super().__init__(CalibrationCounter(task), **kwargs)
        self.n_bins, self.norm = n_bins, checked_norm(norm)
        self.ignore_index, self.validate_args = task.ignore_index, validate_args

    def value_of(self, totals: Totals) -> Tensor:
        """The error of these totals."""
        return calibration_error(self.counter.by_bin(totals), self.norm, totals.integers.device)

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Draw one value or several with torchmetrics' own plot."""
        return self._plot(val, ax)


class BinaryCalibrationError(CalibrationErrorMetric):
    """Confidence is the probability of yes, a hit a yes; the error has the precision of the scores, as in torchmetrics.

    Of batches in several precisions it is the widest, over all ranks; without an update it is float32.
    """

    def __init__(
        self,
        n_bins: int = 15,
        norm: Norm = "l1",
        ignore_index: int | None = None,
        validate_args: bool = True,
        *,
        inputs: Inputs = "auto",
        weighted: bool = False,
        **kwargs: Any,
    ) -> None:
        binning = Binning("calibration", 0, calibration_bins=checked_bins(n_bins))
        task = Binary(inputs, ignore_index, weighted, binning=binning)
        super().__init__(task, n_bins, norm, validate_args, **kwargs)


class MulticlassCalibrationError(CalibrationErrorMetric):
    """Confidence is the highest probability, a hit the right class."""

    plot_legend_name = "Class"

    def __init__(
        self,
        num_classes: int,
        n_bins: int = 15,
        norm: Norm = "l1",
        ignore_index: Ignored = None,
        validate_args: bool = True,
        *,
        inputs: Inputs = "auto",
        weighted: bool = False,
        **kwargs: Any,
    ) -> None:
        binning = Binning("calibration", 0, calibration_bins=checked_bins(n_bins))
        task = Multiclass(inputs, ignore_index, weighted, num_classes=num_classes, binning=binning)
        super().__init__(task, n_bins, norm, validate_args, **kwargs)
        self.num_classes = num_classes
