"""Every task asked as yes-or-no questions, and what is counted of their scores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from lightning_evalkit.inputs import Multiclass, Multilabel

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.inputs import Declaration


@dataclass(frozen=True)
class ScoreCounts:
    """How many samples, or how much weight, have a score in each bin, from the lowest to the highest.

    ``yes`` and ``no`` are of shape (questions, bins). A bin that is ``alone`` holds one value, so scores in it are
    equal; of others only the bin is known. ``lowest`` is the smallest score of each bin, ``below`` the one before it,
    both as probabilities.
    """

    yes: Tensor
    no: Tensor
    alone: Tensor
    lowest: Tensor
    below: Tensor
    given: bool = False
    """Whether the bins lie between thresholds that a user gave."""

    def only(self, place: int) -> ScoreCounts:
        """One question."""
        return replace(self, yes=self.yes[place : place + 1], no=self.no[place : place + 1])


def questions_of(task: Declaration) -> int:
    """How many yes-or-no questions a task asks about each sample."""
    if isinstance(task, Multiclass):
        return task.classes
    return task.num_labels if isinstance(task, Multilabel) else 1


def class_log_odds(logits: Tensor) -> Tensor:
    """ln(p / (1 - p)) of every class's softmax p, also where p is too near to 1 to be told from it.

    Of the likeliest class 1 - p is summed over the others; for the rest p is at most one half and nothing cancels.
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    best, place = logits.max(-1, keepdim=True)
    behind = logits - best  # first, as differences of large logits may be small
    others = behind.scatter(-1, place, -torch.inf).logsumexp(-1, keepdim=True)
    log_p = behind - torch.log1p(others.exp())
    odds = log_p - torch.log1p(-log_p.exp().clamp(max=0.5))
    return odds.scatter(-1, place, -others)
