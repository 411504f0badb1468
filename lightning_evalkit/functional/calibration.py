"""Calibration errors as functions of one batch, with torchmetrics' names and arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from lightning_evalkit.functional.scores import scored
from lightning_evalkit.inputs import Binary, Inputs, Multiclass, binning_of
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
    how, scores = checked_norm(norm), binning_of((0.5,), sums=True, calibration_bins=checked_bins(n_bins))
    task = Binary(inputs, ignore_index, sample_weight is not None, binning=scores)
    counter, totals = scored(task, preds, target, validate_args, sample_weight)
    return calibration_error(counter.calibration(totals), how, torch.as_tensor(preds).dtype)


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
    how, weighted = checked_norm(norm), sample_weight is not None
    scores = binning_of((0.5,), num_classes, sums=True, calibration_bins=checked_bins(n_bins))
    task = Multiclass(inputs, ignore_index, weighted, num_classes=num_classes, binning=scores)
    counter, totals = scored(task, preds, target, validate_args, sample_weight)
    return calibration_error(counter.calibration(totals), how)
