"""Measures how well the labels of each sample are ranked. Equal scores get the worse rank, as in scikit-learn.

All three values follow from two ranks of every true label: how many labels have a score at least as high, and how many
of those are true. Ignored labels are left out of both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


def _ranks(scores: Tensor, holds: Tensor, left_out: Tensor) -> tuple[Tensor, Tensor]:
    """For every label, how many have a score at least as high, and how many of those are true."""
    scores = scores.clamp(min=torch.finfo(scores.dtype).min)  # ignored labels rank below all
    every = scores.masked_fill(left_out, -torch.inf).sort(-1).values
    among = scores.masked_fill(holds.logical_not(), -torch.inf).sort(-1).values
    wanted = scores.contiguous()
    below, below_among = (torch.searchsorted(known, wanted).to(scores.dtype) for known in (every, among))
    return scores.shape[-1] - below, scores.shape[-1] - below_among


def coverage(scores: Tensor, holds: Tensor, left_out: Tensor) -> Tensor:
    """How many labels, from the highest score down, include all true ones."""
    rank, _ = _ranks(scores, holds, left_out)
    return torch.where(holds, rank, 0).amax(-1)


def average_precision(scores: Tensor, holds: Tensor, left_out: Tensor) -> Tensor:
    """The mean over true labels of the share of true ones among labels ranked as high; 1 if none or all are true."""
    rank, among = _ranks(scores, holds, left_out)
    shares = torch.where(holds, among / rank, 0.0).sum(-1) / holds.sum(-1)
    return torch.where(_mixed(holds, left_out), shares, 1.0)


def wrong_pairs(scores: Tensor, holds: Tensor, left_out: Tensor) -> Tensor:
    """The share of pairs of a true and a false label in the wrong order; 0 if there are no pairs."""
    rank, among = _ranks(scores, holds, left_out)
    wrong = torch.where(holds, rank - among, 0).sum(-1)
    pairs = holds.sum(-1) * (holds | left_out).logical_not().sum(-1)
    return torch.where(pairs > 0, wrong / pairs, 0.0)


def _mixed(holds: Tensor, left_out: Tensor) -> Tensor:
    return holds.any(-1) & (holds | left_out).logical_not().any(-1)


RANKED: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "coverage error": coverage,
    "ranking average precision": average_precision,
    "ranking loss": wrong_pairs,
}
"""Functions from scores (M, L), true labels and ignored labels to values (M,)."""
