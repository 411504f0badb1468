"""Every task asked as yes-or-no questions, and what is counted of their scores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from lightning_evalkit.inputs import Multiclass, Multilabel

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.inputs import Declaration


class Edges(NamedTuple):
    """The lower ends of bins, in double precision and as the scores come: logits stay logits.

    ``first`` is the smallest single-precision score of a bin (or the smallest, if it has none of that precision), and
    ``cut`` the largest score that is in a lower bin, so that a bin and all above it are what lies above its cut. It is
    NaN where nothing lies lower, as nothing is lower than a probability of 0.
    """

    first: Tensor
    cut: Tensor
    logits: bool

    def only(self, places: Tensor) -> Edges:
        """Those of some bins, on the CPU."""
        return Edges(self.first[places].cpu(), self.cut[places].cpu(), self.logits)


@dataclass(frozen=True)
class ScoreCounts:
    """How many samples, or how much weight, have a score in each bin, from the lowest to the highest.

    ``yes`` and ``no`` are of shape (questions, bins). A bin that is ``alone`` holds one value, so scores in it are
    equal; of others only the bin is known. ``lowest`` and ``highest`` are the ends of each bin
    as probabilities; ``edges`` are where a threshold has to be to begin with a bin.
    """

    yes: Tensor
    no: Tensor
    alone: Tensor
    lowest: Tensor
    highest: Tensor
    edges: Edges
    given: bool = False
    """Whether the bins lie between thresholds that a user gave."""
    reach: int = 0
    """Up to how many bins apart two samples may be in the other order, as their scores were computed with rounding."""
    error: float = 0.0
    """By what share of itself a sum of weights may be off."""
    unasked: tuple[int, ...] = ()
    """Questions of classes whose samples are ignored by declaration, so that they have no positives."""

    def only(self, place: int) -> ScoreCounts:
        """One question."""
        return replace(self, yes=self.yes[place : place + 1], no=self.no[place : place + 1])

    def filled(self) -> ScoreCounts:
        """The same without empty bins, where most are empty: what curves and areas are computed from.

        What depends on how far bins are apart (``reach``) needs all of them, and so does where a bin ends.
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


def num_curves_of(task: Declaration) -> int:
    """How many yes-or-no questions a task asks about each sample."""
    if isinstance(task, Multiclass):
        return task.classes
    return task.num_labels if isinstance(task, Multilabel) else 1
