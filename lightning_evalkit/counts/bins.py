"""Scores into the numbers of bins, in an order that no rounding breaks: a larger score is never in a lower bin.

Fine bins follow the logit x: 1 - 4 / (4 + |x|), signed, is cut evenly, which tells scores apart where classifiers put
them, near 0.5 as well as near certainty, and each of its steps is monotone in floating point (x / (1 + |x|) is not). A
probability p is measured by the bits of q = min(p, 1 - p), which is exact and grows like the logarithm of q: no
probability is too near to 1 to be told from it, and no logarithm is computed. Exact 0, 1 and ±infinity have bins of
their own. Every way exists twice: with NumPy on the CPU, and with torch's operators where nothing may wait.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch

from lightning_evalkit.counts.edges import edges_of, from_order, ordered
from lightning_evalkit.inputs.threshold import log_odds

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts.numpy_path import Array
    from lightning_evalkit.inputs.binning import Binning

SOFT = 4.0
HALF = 0x3F000000
"""The bits of one half."""
PER_OCTAVE = float(np.log(2) / 2**23)
"""What a step of the last bit is worth in logits: 2**23 of them halve a probability."""


class Bins(Protocol):
    """Where scores of one kind fall."""

    number: int

    def at_once(self, scores: Array) -> Array:
        """The bin of each score, which was checked."""

    def deferred(self, scores: Tensor) -> Tensor:
        """The bin of each score, on its device; of what is no score, any bin."""

    def alone(self) -> Tensor:
        """Which bins hold one value only, so that scores in them are equal."""

    def lowest(self) -> Tensor:
        """The smallest score of each bin, as a probability in double precision."""

    def below(self) -> Tensor:
        """The single-precision number before it, in the same form."""

    def ends(self) -> tuple[Tensor, Tensor]:
        """The first score of each bin and the last before it, as scores in double precision."""


class FineBins:
    """Evenly cut softened logits; the first and the last bin are for certainty alone."""

    def __init__(self, number: int, score_kind: str) -> None:
        self.number, self.probable = number, score_kind == "probabilities"
        self.scale = (number - 2) / 2

    def at_once(self, scores: Array) -> Array:
        """In single precision, in place: memory is what takes the time."""
        size, sign = _probable_sizes(scores) if self.probable else _logit_sizes(scores)
        certain = np.isinf(size) if np.maximum.reduce(size, axis=None, initial=0) == np.inf else None
        np.add(size, SOFT, out=size)
        np.divide(-SOFT, size, out=size)
        np.add(size, 1, out=size)
        np.copysign(size, sign, out=size, casting="same_kind")
        np.add(size, 1, out=size)
        np.multiply(size, self.scale, out=size)
        places = size.astype(np.int32)
        np.add(places, 1, out=places)
        np.minimum(places, self.number - 2, out=places)
        if certain is not None:
            places[certain] = np.where(sign[certain] < 0, 0, self.number - 1)
        return places

    def deferred(self, scores: Tensor) -> Tensor:
        """The same with torch's operators."""
        if self.probable:
            negative = scores < 0.5
            rare = torch.where(negative, scores, 1 - scores)
            size = (HALF - rare.float().clamp(min=1e-45).view(torch.int32)).float() * PER_OCTAVE
            certain = rare == 0
        else:
            negative, size = scores < 0, scores.float().abs()
            certain = scores.abs() == torch.inf
        soft = 1 - SOFT / (size + SOFT)
        signed = torch.where(negative, -soft, soft)
        places = ((signed + 1) * self.scale).int().long() + 1
        ends = torch.where(negative, 0, self.number - 1)
        return torch.where(certain, ends, places.clamp(1, self.number - 2))

    def alone(self) -> Tensor:
        """Only certainty."""
        alone = torch.zeros(self.number, dtype=torch.bool)
        alone[0] = alone[-1] = True
        return alone

    def lowest(self) -> Tensor:
        """Found by halving, as the bins are in the order of scores."""
        return _as_probability(_lowest(self.number, self.probable), self.probable)

    def below(self) -> Tensor:
        """Before the lowest."""
        return _as_probability(_before(_lowest(self.number, self.probable)), self.probable)

    def ends(self) -> tuple[Tensor, Tensor]:
        """Found by halving once more, in double precision."""
        return _fine_edges(self.number, self.probable)


@lru_cache(maxsize=8)
def _lowest(number: int, probable: bool) -> Tensor:
    """The smallest single-precision score of every fine bin; of a bin without one, that of the next with one."""
    bins = FineBins(number, "probabilities" if probable else "logits")
    ends = np.array([0, 1] if probable else [-np.inf, np.inf], dtype=np.float32)
    low, high = (np.full(number, end, dtype=np.int64) for end in ordered(ends))
    wanted = np.arange(number)
    while (low < high).any():
        middle = (low + high) >> 1
        enough = bins.at_once(from_order(middle.astype(np.int32))) >= wanted
        low, high = np.where(enough, low, middle + 1), np.where(enough, middle, high)
    return torch.from_numpy(from_order(low.astype(np.int32)))


@lru_cache(maxsize=8)
def _fine_edges(number: int, probable: bool) -> tuple[Tensor, Tensor]:
    bins = FineBins(number, "probabilities" if probable else "logits")
    return edges_of(_lowest(number, probable), bins.at_once, 0.0 if probable else -np.inf)


@lru_cache(maxsize=2)
def _bfloat16_edges(probable: bool) -> tuple[Tensor, Tensor]:
    bins = BFloat16Bins("probabilities" if probable else "logits", others=True)
    lowest = bins._values()
    lowest[lowest.isnan() & (torch.arange(bins.number) < 0x8000)] = -torch.inf
    return edges_of(lowest.clamp(min=0) if probable else lowest, bins.at_once, 0.0 if probable else -np.inf)


def _before(scores: Tensor) -> Tensor:
    return torch.nextafter(scores, torch.full_like(scores, -torch.inf))


def _as_probability(scores: Tensor, probable: bool) -> Tensor:
    return scores.double().clamp(0, 1) if probable else scores.double().sigmoid()


def _logit_sizes(scores: Array) -> tuple[Array, Array]:
    """How large a logit is, and its sign; what single precision cannot hold is large, but not infinite."""
    if scores.dtype != np.float64:
        return np.abs(scores, dtype=np.float32), scores
    size = np.abs(scores)
    np.minimum(size, np.finfo(np.float32).max, out=size, where=size < np.inf)
    return size.astype(np.float32), scores


def _probable_sizes(scores: Array) -> tuple[Array, Array]:
    """How far a probability is from one half, infinite where it is 0 or 1, and on which side."""
    rare = np.minimum(scores, 1 - scores)  # exact in every precision
    single = rare.astype(np.float32, copy=False)
    if rare.dtype == np.float64:
        np.maximum(single, np.float32(1e-45), out=single, where=rare > 0)  # rare, but not impossible
    size = (HALF - single.view(np.int32)).astype(np.float32)
    np.multiply(size, PER_OCTAVE, out=size)
    if np.minimum.reduce(rare, axis=None, initial=1) == 0:
        size[rare == 0] = np.inf
    return size, scores - 0.5


class BFloat16Bins:
    """One bin per value of bfloat16, in their order: of scores in that precision nothing is lost.

    Where ``others`` were counted too, a bin holds all that begin like its value.
    """

    number = 65_536

    def __init__(self, score_kind: str, others: bool = False) -> None:
        self.probable, self.others = score_kind == "probabilities", others

    def at_once(self, scores: Array) -> Array:
        """By the first 16 bits; those of negative numbers run backwards."""
        bits = (scores.astype(np.float32) + np.float32(0)).view(np.int32) >> 16  # adding 0 makes one zero of two
        return np.where(bits < 0, ~bits & 0x7FFF, bits + 0x8000)

    def deferred(self, scores: Tensor) -> Tensor:
        """The same with torch's operators."""
        bits = (scores.float() + 0.0).view(torch.int32) >> 16
        return torch.where(bits < 0, bits.bitwise_not() & 0x7FFF, bits + 0x8000).long()

    def alone(self) -> Tensor:
        """All, as long as scores are bfloat16: the counter knows whether they are."""
        return torch.full((self.number,), not self.others)

    def lowest(self) -> Tensor:
        """The values themselves; of others that begin like a negative one, the largest in size."""
        return _as_probability(self._values(), self.probable)

    def below(self) -> Tensor:
        """Before the values."""
        return _as_probability(_before(self._values()), self.probable)

    def ends(self) -> tuple[Tensor, Tensor]:
        """As of bins that hold others too, which have their ends where these have."""
        return _bfloat16_edges(self.probable)

    def _values(self) -> Tensor:
        places = np.arange(self.number, dtype=np.int64)
        bits = np.where(places < 0x8000, ~places & 0xFFFF, places - 0x8000) << 16
        if self.others:
            bits = np.where(places < 0x8000, bits | 0xFFFF, bits)
        return torch.from_numpy(bits.astype(np.uint32).view(np.float32))


class CutBins:
    """Bins between cuts: a score that equals a cut is above it, as in torchmetrics' curves.

    On the CPU by the first bits of a score: a table says how many cuts lie below all scores that begin so, and at which
    one more follows. Where two cuts begin alike, more bits are looked at, and at last a binary search is made.
    """

    def __init__(self, cuts: tuple[float, ...], score_kind: str) -> None:
        self.number, self.given = len(cuts) + 1, cuts
        self.least = -torch.inf if score_kind == "logits" else 0.0
        moved = [log_odds(cut) for cut in cuts] if score_kind == "logits" else list(cuts)
        self.cuts = torch.tensor(moved, dtype=torch.float32)
        self.edges = self.cuts.numpy()
        self.table = _table(self.edges)
        known = (self.cuts, self.cuts.double())
        self.moved: dict[tuple[torch.device, torch.dtype], Tensor] = {(each.device, each.dtype): each for each in known}

    def at_once(self, scores: Array) -> Array:
        """How many cuts are not above each score."""
        if self.table is None or scores.dtype != np.float32:
            return np.searchsorted(self.edges, scores, side="right").astype(np.int32)
        shift, first, below, following = self.table
        begins = ordered(scores) >> shift
        np.clip(begins - first, 0, len(below) - 1, out=begins)
        places: Array = below[begins] + (scores >= following[begins])
        return places

    def deferred(self, scores: Tensor) -> Tensor:
        """By a binary search, in the precision of the scores; cuts are brought to a device once."""
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32)).contiguous()
        place = scores.device, scores.dtype
        if place not in self.moved:
            self.moved[place] = self.cuts.to(*place)
        return torch.searchsorted(self.moved[place], scores, right=True)

    def alone(self) -> Tensor:
        """None."""
        return torch.zeros(self.number, dtype=torch.bool)

    def lowest(self) -> Tensor:
        """The thresholds as they were given, above the scores that reach none."""
        return torch.tensor([0.0, *self.given], dtype=torch.float64)

    def below(self) -> Tensor:
        """Before the thresholds."""
        return _as_probability(_before(torch.tensor([0.0, *self.given])), probable=True)

    def ends(self) -> tuple[Tensor, Tensor]:
        """The cuts, and the numbers before them."""
        first = torch.cat((torch.tensor([-torch.inf], dtype=torch.float64), self.cuts.double()))
        before = torch.nextafter(first, torch.full_like(first, -torch.inf))
        return first, before.where(first > self.least, torch.nan)


def _table(edges: Array) -> tuple[int, int, Array, Array] | None:
    """A shift under which no two cuts share a beginning, with what is below each beginning and the cut inside it."""
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


def bins_of(scores: Binning, score_kind: str) -> Bins:
    """The bins that were declared, for scores of this kind."""
    if scores.kind == "bfloat16":
        return BFloat16Bins(score_kind)
    return CutBins(scores.cuts, score_kind) if scores.kind == "cuts" else FineBins(scores.number, score_kind)
