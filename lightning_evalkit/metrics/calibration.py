"""Calibration: how far confidence is from the share of hits. The last bin is closed, so it contains 1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from lightning_evalkit.inputs import Binary, Inputs, Multiclass, binning_of
from lightning_evalkit.metrics.scores import ScoreMetric
from lightning_evalkit.statistics.curve_options import Norm, checked_bins, checked_norm
from lightning_evalkit.statistics.curve_results import calibration_error

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts import Totals
    from lightning_evalkit.inputs import Declaration
    from lightning_evalkit.metrics.scores import Ignored


class CalibrationErrorMetric(ScoreMetric):
    """The gaps between confidence and hits over bins, as ``norm`` says: "l1", "l2" or "max"."""

    higher_is_better = False
    plot_lower_bound, plot_upper_bound = 0.0, 1.0
    precision: torch.dtype | None = None

    def __init__(self, task: Declaration, n_bins: int, norm: Norm, validate_args: bool, **kwargs: Any) -> None:
        super().__init__(task, **kwargs)
        self.n_bins, self.norm = n_bins, checked_norm(norm)
        self.ignore_index, self.validate_args = task.ignore_index, validate_args

    def value_of(self, totals: Totals) -> Tensor:
        return calibration_error(self.counter.calibration(totals), self.norm, self.precision or torch.float32)


class BinaryCalibrationError(CalibrationErrorMetric):
    """Confidence is the probability of yes, a hit a yes; the error has the precision of the scores, as in torchmetrics.

    Without an update, as in a loaded state, that precision is float32.
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
        binning = binning_of((0.5,), sums=True, calibration_bins=checked_bins(n_bins))
        task = Binary(inputs, ignore_index, weighted, binning=binning)
        super().__init__(task, n_bins, norm, validate_args, **kwargs)

    def update(self, preds: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> None:
        super().update(preds, target, sample_weight)
        self.precision = torch.promote_types(self.precision or preds.dtype, preds.dtype)

    def reset(self) -> None:
        super().reset()
        self.precision = None


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
        binning = binning_of((0.5,), num_classes, sums=True, calibration_bins=checked_bins(n_bins))
        task = Multiclass(inputs, ignore_index, weighted, num_classes=num_classes, binning=binning)
        super().__init__(task, n_bins, norm, validate_args, **kwargs)
        self.num_classes = num_classes
