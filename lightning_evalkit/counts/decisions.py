"""Turns scores into yes or no without waiting for the device."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

import torch

from lightning_evalkit.counts.numpy_path import array_of, within_unit
from lightning_evalkit.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.inputs import Thresholded


class Decisions(NamedTuple):
    """The decisions of scores: a mask per threshold, a mask of invalid scores, and the guess, if any."""

    above: list[Tensor]
    bad: Tensor
    probable: Tensor | None
    """Whether the batch was guessed to be probabilities, of shape (1,)."""


def decided(task: Thresholded, preds: Tensor, weight: Tensor | None = None) -> Decisions:
    """Cut a batch of scores, with one operator or two per quantity; scores of weight 0 do not affect a guess."""
    score_kind = task.score_kind(preds)
    if score_kind == "labels":
        return Decisions([preds == 1] * len(task.thresholds), _no_label(preds), None)
    if score_kind == "probabilities":
        return Decisions([preds > cut for cut in task.cuts(score_kind, preds.dtype)], preds.clamp(0, 1) != preds, None)
    no_number = preds != preds  # only NaN is unequal to itself
    if score_kind == "logits":
        return Decisions([preds > cut for cut in task.cuts(score_kind, preds.dtype)], no_number, None)
    # Guessed as torchmetrics does: logits as soon as one score of the batch is outside [0, 1].
    fitting = preds.clamp(0, 1) == preds
    if weight is not None:
        fitting = fitting | (weight == 0)
    probable = fitting.flatten().all(-1, keepdim=True)
    if task.rounds:
        scores = torch.where(probable, preds, preds.sigmoid())
        return Decisions([scores > threshold for threshold in task.thresholds], no_number, probable)
    pairs = zip(task.cuts("probabilities", preds.dtype), task.cuts("logits", preds.dtype), strict=True)
    above = [torch.where(probable, preds > cut, preds > logit) for cut, logit in pairs]
    return Decisions(above, no_number, probable)


def read_at_once(task: Thresholded, preds: Tensor) -> tuple[Tensor, str, str]:
    """Prepare a batch on the CPU for cutting: its scores, their kind, and the kind of the given scores.

    Guessed logits become probabilities if no cut of logits is equivalent.
    """
    score_kind = task.score_kind(preds)
    if score_kind == "auto":
        score_kind = "probabilities" if within_unit(array_of(preds)) else "logits"
        if score_kind == "logits" and not task.has_cuts(score_kind):
            return preds.detach().sigmoid(), "probabilities", score_kind
    return preds, score_kind, score_kind


def _no_label(preds: Tensor) -> Tensor:
    if preds.is_floating_point():
        return (preds != 0) & (preds != 1)
    return torch.zeros_like(preds) if preds.dtype == torch.bool else preds.clamp(0, 1) != preds


def checked(target: Tensor, bad: Tensor) -> Tensor:
    """The targets, with a value that is neither 0 nor 1 for invalid samples."""
    return (target.to(torch.uint8) if target.dtype == torch.bool else target).masked_fill(bad, 2)


def guesses(probable: Tensor | None, preds: Tensor, like: Tensor, weight: Tensor | None = None) -> Tensor:
    """Two columns for the ledger: guessed to be probabilities, logits; an empty or weightless batch is neither."""
    if probable is None or not preds.numel():
        return like.new_zeros((*like.shape[:-1], 2))
    guessed = torch.cat((probable, probable.logical_not()))
    if weight is not None:
        guessed = guessed & weight.any()
    return guessed.expand(*like.shape[:-1], 2)


def refuse_labels(preds: Tensor) -> None:
    """Refuse predictions that are no scores."""
    if not preds.is_floating_point():
        raise InputError(f"expected preds to be floating-point scores, got {preds.dtype}: labels have no order.")


def unweighable(weight: Tensor) -> Tensor:
    """Which real weights are negative, infinite or NaN."""
    return weight.clamp(0, torch.finfo(weight.dtype).max) != weight


def refuse_endless(weights: Tensor) -> None:
    """Refuse finite weights whose sum over the last dimension is not: areas would be wrong without a sign of it."""
    if bool(weights.sum(-1).isinf().any()):
        raise InputError(
            "expected weights whose sum a floating-point number can hold, got more: divide all of them by a common "
            "factor, which changes no statistic."
        )


def either(first: Tensor, *others: Tensor | None) -> Tensor:
    """The union of these masks, of which all but the first may be None."""
    return reduce(torch.logical_or, [mask for mask in others if mask is not None], first)
