"""Bins between given thresholds: a score's bin is the number of thresholds that it reaches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from lightning_evalkit.counts.edges import as_probability, before, ordered
from lightning_evalkit.counts.searched import Searched
from lightning_evalkit.inputs.threshold import log_odds

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts.numpy_path import Array


class CutBins(Searched):
    """Bins between cuts: a score that equals a cut is above it, as in torchmetrics' curves.

    The CPU uses the first bits of a score: a table gives the number of cuts below all scores with these bits, and the
    next cut. If two cuts share their first bits, more bits are used, and finally a binary search.
    """

    def __init__(self, cuts: tuple[float, ...], score_kind: str) -> None:
        super().__init__()
        self.number, self.given = len(cuts) + 1, cuts
        self.least = -torch.inf if score_kind == "logits" else 0.0
        moved = [log_odds(cut) for cut in cuts] if score_kind == "logits" else list(cuts)
        self.cuts = torch.tensor(moved, dtype=torch.float32)
        self.edges = self.cuts.numpy()
        self.table = _table(self.edges)
        self.moved = {(each.device, each.dtype): each for each in (self.cuts, self.cuts.double())}

    def at_once(self, scores: Array) -> Array:
        """The number of cuts that each score reaches."""
        if self.table is None or scores.dtype != np.float32:
            return np.searchsorted(self.edges, scores, side="right").astype(np.int32)
        shift, first, below, following = self.table
        begins = (ordered(scores) >> shift).astype(np.intp)
        begins -= first
        places: Array = below.take(begins, mode="clip")
        places += scores >= following.take(begins, mode="clip")
        return places

    def deferred(self, scores: Tensor) -> Tensor:
        """Find the same bins by a binary search, in the precision of the scores."""
        return self.searched(scores)

    def begins(self, kind: torch.dtype) -> Tensor:
        """The cuts."""
        return self.cuts.to(kind)

    def alone(self) -> Tensor:
        """No bin holds a single value."""
        return torch.zeros(self.number, dtype=torch.bool)

    def lowest(self) -> Tensor:
        """The thresholds as they were given, above the scores that reach none."""
        return torch.tensor([0.0, *self.given], dtype=torch.float64)

    def below(self) -> Tensor:
        """The numbers before the thresholds."""
        return as_probability(before(torch.tensor([0.0, *self.given])), probable=True)

    def ends(self) -> tuple[Tensor, Tensor]:
        """The cuts, and the numbers before them."""
        first = torch.cat((torch.tensor([-torch.inf], dtype=torch.float64), self.cuts.double()))
        return first, before(first).where(first > self.least, torch.nan)


def _table(edges: Array) -> tuple[int, int, Array, Array] | None:
    """A shift at which no two cuts share their first bits, and for each beginning the number below and its cut."""
    if not len(edges):
        return None
    places = ordered(edges).astype(np.int64)
    for shift in (14, 12, 10):
        begins = places >> shift
        if len(set(begins.tolist())) == len(places):
            first, last = int(begins[0]) - 1, int(begins[-1]) + 1
            starts = np.arange(first, last + 1) << shift
            inside = np.full(len(starts), np.float32(np.nan))  # which nothing reaches
            inside[begins - first] = edges
            return shift, first, np.searchsorted(places, starts, side="left").astype(np.int32), inside
    return None
