"""Finds the parts of a run that use sample weights, so that a callback that was not told of them can say so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from lightning_evalkit.evaluation.stages import StageEvaluations
from lightning_evalkit.state import Tally
from lightning_evalkit.trainer import callbacks_of

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.trainer import LightningModule, Trainer


def is_weighted(module: Any) -> bool:
    """Whether a module is one of ours and declared with weights, which its steps then return."""
    return bool(getattr(module, "weighted", False)) and callable(getattr(module, "decided", None))


def weight_of(target: Tensor, sample_weight: Tensor | None) -> Tensor:
    """Return the weights; 1 for samples without any."""
    return torch.ones(target.shape[:1], device=target.device) if sample_weight is None else sample_weight


def weighing(trainer: Trainer, module: LightningModule, asking: Any) -> str | None:
    """Name what uses weights: the module, a metric in it, or another callback."""
    for name, each in module.named_modules():
        if isinstance(each, Tally) and each.counter.task.weighted:
            return f"{type(module).__name__} counts with weights (in {name})"
    for callback in callbacks_of(trainer):
        if callback is not asking and _counts_with_weights(callback):
            return f"{type(callback).__name__} counts with weights"
    return None


def _counts_with_weights(callback: Any) -> bool:
    stages = getattr(callback, "stages", None)
    if isinstance(stages, StageEvaluations):
        return any(each.tally.counter.task.weighted for each in stages.of("val"))
    return getattr(callback, "weighted", None) is True
