"""From scores to yes or no without waiting for the device."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.inputs import Thresholded


class Decisions(NamedTuple):
    """What scores decide: a mask per threshold, which scores are what was declared, and the guess, if one was made."""

    above: list[Tensor]
    good: Tensor
    probable: Tensor | None
    """Whether the batch was guessed to be probabilities, of shape (1,)."""


def decided(task: Thresholded, preds: Tensor) -> Decisions:
    """Cut a batch of scores; one operator or two per quantity."""
    reading = task.reading(preds)
    if reading == "labels":
        yes = preds == 1
        return Decisions([yes] * len(task.thresholds), yes | (preds == 0), None)
    if reading == "probabilities":
        return Decisions([preds > cut for cut in task.cuts(reading)], preds.clamp(0, 1) == preds, None)
    number = preds == preds  # NaN is not
    if reading == "logits":
        return Decisions([preds > cut for cut in task.cuts(reading)], number, None)
    # Guessed as torchmetrics does: logits as soon as one score of the batch is outside [0, 1].
    probable = (preds.clamp(0, 1) == preds).flatten().all(-1, keepdim=True)
    pairs = zip(task.cuts("probabilities"), task.cuts("logits"), strict=True)
    above = [torch.where(probable, preds > cut, preds > logit) for cut, logit in pairs]
    return Decisions(above, number, probable)


def guesses(probable: Tensor | None, preds: Tensor, like: Tensor) -> Tensor:
    """Two columns for the ledger: guessed to be probabilities, to be logits; an empty batch is neither."""
    if probable is None or not preds.numel():
        return like.new_zeros((*like.shape[:-1], 2))
    return torch.cat((probable, ~probable)).expand(*like.shape[:-1], 2)


def weighable(weight: Tensor) -> Tensor:
    """Which weights are finite and not negative."""
    return (weight >= 0) & (weight < math.inf)
