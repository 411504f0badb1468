"""How well the labels of each sample are ranked. Equal scores have the worse rank, as in scikit-learn.

All three values follow from two ranks of every label that holds: how many labels have a score as high, and how many of
those hold too. Ignored labels have no part in either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


def _ranks(scores: Tensor, holds: Tensor, left_out: Tensor) -> tuple[Tensor, Tensor]:
    """For every label how many have a score as high, and how many of those hold."""
    scores = scores.clamp(min=torch.finfo(scores.dtype).min)  # below which is what does not count
    every = scores.masked_fill(left_out, -torch.inf).sort(-1).values
    among = scores.masked_fill(holds.logical_not(), -torch.inf).sort(-1).values
    wanted = scores.contiguous()
    below, below_among = (torch.searchsorted(known, wanted).to(scores.dtype) for known in (every, among))
    return scores.shape[-1] - below, scores.shape[-1] - below_among


def coverage(scores: Tensor, holds: Tensor, left_out: Tensor) -> Tensor:
    """How many labels have to be taken, from the highest score down, until all that hold are among them."""
    rank, _ = _ranks(scores, holds, left_out)
    return torch.where(holds, rank, 0).amax(-1)


def average_precision(scores: Tensor, holds: Tensor, left_out: Tensor) -> Tensor:
    """The mean over labels that hold of the share that holds among labels ranked as high; 1 where none or all hold."""
    rank, among = _ranks(scores, holds, left_out)
    shares = torch.where(holds, among / rank, 0.0).sum(-1) / holds.sum(-1)
    return torch.where(_mixed(holds, left_out), shares, 1.0)


def wrong_pairs(scores: Tensor, holds: Tensor, left_out: Tensor) -> Tensor:
    """The share of pairs, one label that holds and one that does not, in the wrong order; 0 where there are none."""
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
"""Scores (M, L), which labels hold and which are ignored, into values (M,)."""
