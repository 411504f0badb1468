"""Histograms of scores: every task becomes yes-or-no questions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from lightning_evalkit.counts.numpy_path import Array


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

    def at(self, places: Tensor) -> LimitsAt:
        """The limits of the bins with these numbers."""
        return LimitsAt(self, places)


class LimitsAt(NamedTuple):
    """The limits of some bins; each part is read on first use, as most callers need one."""

    limits: Limits
    places: Tensor

    @property
    def alone(self) -> Tensor:
        """Which of these bins hold one value only."""
        return self.limits.alone.index_select(0, self.places)

    @property
    def lowest(self) -> Tensor:
        """The smallest scores."""
        return self.limits.lowest.index_select(0, self.places)

    @property
    def highest(self) -> Tensor:
        """The largest scores."""
        return self.limits.highest.index_select(0, self.places)

    @property
    def edges(self) -> Edges:
        """Their edges."""
        first, cut, logits = self.limits.edges
        return Edges(first.index_select(0, self.places), cut.index_select(0, self.places), logits)

    def at(self, places: Tensor) -> LimitsAt:
        """The limits of some of these bins."""
        return LimitsAt(self.limits, self.places.index_select(0, places))


@dataclass(frozen=True)
class ScoreCounts:
    """The number or weight of samples with a score in each bin, from the lowest bin to the highest.

    ``yes`` and ``no`` are of shape (questions, bins). A bin that is ``alone`` holds one value, so its scores are
    equal; scores of other bins are known only to the bin. ``lowest`` and ``highest`` are the ends of each bin as
    probabilities; ``edges`` are the thresholds that begin with each bin. They are computed on first use: an area needs
    none of them, and for stored scores they take more memory than everything else.
    """

    yes: Tensor
    no: Tensor
    bins: Limits | Callable[[], Limits | LimitsAt]
    """The limits of each bin, or a function that finds them."""
    given: bool = False
    """Whether the bins lie between thresholds given by a user."""
    reach: int = 0
    """The most bins by which two samples in the wrong order can be apart, because scores were rounded."""
    error: float = 0.0
    """The relative error of a sum of weights."""
    unasked: tuple[int, ...] = ()
    """The classes whose samples are ignored by declaration, so that they have no positives."""
    without_empty: bool = False
    """Whether no bin is empty for all questions."""

    @cached_property
    def limits(self) -> Limits | LimitsAt:
        """The limits of each bin."""
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
        """The thresholds that begin with each bin."""
        return self.limits.edges

    def only(self, place: int) -> ScoreCounts:
        """One question."""
        return replace(self, yes=self.yes[place : place + 1], no=self.no[place : place + 1])

    @cached_property
    def support(self) -> tuple[Array, Array]:
        """The number or weight of yes and of no for each question, on the CPU."""
        yes, no = (part.numpy(force=True).sum(-1) for part in (self.yes, self.no))
        return yes, no

    def occupied(self) -> ScoreCounts:
        """The same without empty bins."""
        return self if self.without_empty else self._at(self._occupied())

    def on_the_cpu(self) -> ScoreCounts:
        """The same on the CPU, without empty bins and with everything computed."""
        found = self.occupied()
        first, cut, logits = found.edges
        alone, lowest, highest, first, cut = (
            part.cpu() for part in (found.alone, found.lowest, found.highest, first, cut)
        )
        limits = Limits(alone, lowest, highest, Edges(first, cut, logits))
        return replace(found, yes=found.yes.cpu(), no=found.no.cpu(), bins=limits)

    def filled(self) -> ScoreCounts:
        """The same without empty bins, if most are empty, for curves and areas.

        Computations that use distances between bins (``reach``) or ends of bins need all of them.
        """
        if self.reach or self.without_empty:
            return self
        places = self._occupied()
        return self if 2 * len(places) > self.yes.shape[-1] else self._at(places)

    def _occupied(self) -> Tensor:
        return ((self.yes + self.no) != 0).any(0).nonzero().squeeze(-1)

    def _at(self, places: Tensor) -> ScoreCounts:
        yes, no = (part.index_select(1, places) for part in (self.yes, self.no))
        return replace(self, yes=yes, no=no, bins=lambda: self.limits.at(places), without_empty=True)
