"""Calibration errors as functions of one batch, with torchmetrics' names and arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightning_evalkit.counts import CalibrationCounter
from lightning_evalkit.functional.counting import counted
from lightning_evalkit.inputs import Binary, Binning, Inputs, Multiclass
from lightning_evalkit.statistics.curve_options import Norm, checked_bins, checked_norm
from lightning_evalkit.statistics.curve_results import calibration_error

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.functional.counting import Ignored


def binary_calibration_error(
    preds: Tensor,
    target: Tensor,
    n_bins: int = 15,
    norm: Norm = "l1",
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Compute the gaps between the probability of yes and the share of yes over bins, in the scores' precision."""
    how, binning = checked_norm(norm), Binning("calibration", 0, calibration_bins=checked_bins(n_bins))
    task = Binary(inputs, ignore_index, sample_weight is not None, binning=binning)
    counter, totals = counted(CalibrationCounter(task), preds, target, validate_args, sample_weight)
    return calibration_error(counter.by_bin(totals), how, totals.integers.device)


def multiclass_calibration_error(
    preds: Tensor,
    target: Tensor,
    num_classes: int,
    n_bins: int = 15,
    norm: Norm = "l1",
    ignore_index: Ignored = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Compute the gaps between the highest probability and the share of right classes over bins."""
    how, binning = checked_norm(norm), Binning("calibration", 0, calibration_bins=checked_bins(n_bins))
    weighted = sample_weight is not None
    task = Multiclass(inputs, ignore_index, weighted, num_classes=num_classes, binning=binning)
    counter, totals = counted(CalibrationCounter(task), preds, target, validate_args, sample_weight)
    return calibration_error(counter.by_bin(totals), how, totals.integers.device)
