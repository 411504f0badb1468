"""Histograms of scores: every task becomes yes-or-no questions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor


class Edges(NamedTuple):
    """The lower ends of bins, in double precision and as the scores come: logits stay logits.

    ``first`` is the smallest single-precision score of a bin (or the smallest, if it has none of that precision).
    ``cut`` is the largest score of a lower bin, so that the scores above it are those of this bin and all higher ones.
    It is NaN if nothing is lower, as nothing is lower than a probability of 0.
    """

    first: Tensor
    cut: Tensor
    logits: bool

    def only(self, places: Tensor) -> Edges:
        """The edges of some bins, on the CPU."""
        return Edges(self.first[places].cpu(), self.cut[places].cpu(), self.logits)


@dataclass(frozen=True)
class ScoreCounts:
    """How many samples, or how much weight, have a score in each bin, from the lowest to the highest.

    ``yes`` and ``no`` are of shape (questions, bins). A bin that is ``alone`` holds one value, so its scores are equal;
    scores of other bins are known only to the bin. ``lowest`` and ``highest`` are the ends of each bin as
    probabilities; ``edges`` are the thresholds that begin with each bin.
    """

    yes: Tensor
    no: Tensor
    alone: Tensor
    lowest: Tensor
    highest: Tensor
    edges: Edges
    given: bool = False
    """Whether the bins lie between thresholds given by a user."""
    reach: int = 0
    """The most bins by which two samples in the wrong order can be apart, because scores were rounded."""
    error: float = 0.0
    """The relative error of a sum of weights."""
    unasked: tuple[int, ...] = ()
    """The classes whose samples are ignored by declaration, so that they have no positives."""

    def only(self, place: int) -> ScoreCounts:
        """One question."""
        return replace(self, yes=self.yes[place : place + 1], no=self.no[place : place + 1])

    def filled(self) -> ScoreCounts:
        """The same without empty bins, if most are empty, for curves and areas.

        Computations that use distances between bins (``reach``) or ends of bins need all of them.
        """
        places = ((self.yes + self.no) != 0).any(0)
        if self.reach or 2 * int(places.sum()) > len(places):
            return self
        first, cut = self.edges.first[places], self.edges.cut[places]
        return replace(
            self,
            yes=self.yes[:, places],
            no=self.no[:, places],
            alone=self.alone[places],
            lowest=self.lowest[places],
            highest=self.highest[places],
            edges=Edges(first, cut, self.edges.logits),
        )
