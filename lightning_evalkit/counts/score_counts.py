"""Histograms of scores: every task becomes yes-or-no questions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

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


class Limits(NamedTuple):
    """The limits of each bin: whether it holds one value only, its lowest and highest score, and its edges."""

    alone: Tensor
    lowest: Tensor
    highest: Tensor
    edges: Edges

    def at(self, places: Tensor) -> Limits:
        """The limits of some bins."""
        first, cut, logits = self.edges
        return Limits(
            self.alone[places], self.lowest[places], self.highest[places], Edges(first[places], cut[places], logits)
        )

    def cpu(self) -> Limits:
        """The same on the CPU."""
        first, cut, logits = self.edges
        return Limits(self.alone.cpu(), self.lowest.cpu(), self.highest.cpu(), Edges(first.cpu(), cut.cpu(), logits))


@dataclass(frozen=True)
class ScoreCounts:
    """How many samples, or how much weight, have a score in each bin, from the lowest to the highest.

    ``yes`` and ``no`` are of shape (questions, bins). A bin that is ``alone`` holds one value, so its scores are
    equal; scores of other bins are known only to the bin. ``lowest`` and ``highest`` are the ends of each bin as
    probabilities; ``edges`` are the thresholds that begin with each bin. They are computed on first use: an area needs
    none of them, and for stored scores they take more memory than everything else.
    """

    yes: Tensor
    no: Tensor
    bins: Limits | Callable[[], Limits]
    """What is known about each bin, or how it is found."""
    given: bool = False
    """Whether the bins lie between thresholds given by a user."""
    reach: int = 0
    """The most bins by which two samples in the wrong order can be apart, because scores were rounded."""
    error: float = 0.0
    """The relative error of a sum of weights."""
    unasked: tuple[int, ...] = ()
    """The classes whose samples are ignored by declaration, so that they have no positives."""

    @cached_property
    def limits(self) -> Limits:
        """What is known about each bin."""
        return self.bins if isinstance(self.bins, Limits) else self.bins()

    @property
    def alone(self) -> Tensor:
        """Which bins hold one value only."""
        return self.limits.alone

    @property
    def lowest(self) -> Tensor:
        """The smallest score of each bin, as a probability."""
        return self.limits.lowest

    @property
    def highest(self) -> Tensor:
        """The largest score of each bin, as a probability."""
        return self.limits.highest

    @property
    def edges(self) -> Edges:
        """Where thresholds are."""
        return self.limits.edges

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
        yes, no = self.yes[:, places], self.no[:, places]
        return replace(self, yes=yes, no=no, bins=lambda: self.limits.at(places))
