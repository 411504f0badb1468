"""Puts scores into bins, in an order that no rounding breaks: a larger score is never in a lower bin.

Fine bins follow the logit x: 1 - 4 / (4 + |x|), signed, is cut evenly, which tells scores apart where classifiers put
them, near 0.5 as well as near certainty, and each of its steps is monotone in floating point (x / (1 + |x|) is not). A
probability p is measured by the bits of q = min(p, 1 - p), which is exact and grows like the logarithm of q: no
probability is too near to 1 to be told from it, and no logarithm is computed. Exact 0, 1 and ±infinity have bins of
their own. Every way exists twice: with NumPy on the CPU, and with torch's operators where nothing may wait. On an
accelerator each of these is a launch, so fine bins are searched for by where they begin, which is one.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch

from lightning_evalkit.counts.cut_bins import CutBins
from lightning_evalkit.counts.edges import as_probability, before, edges_of, from_order, ordered
from lightning_evalkit.counts.numpy_path import Array, largest, smallest
from lightning_evalkit.counts.searched import Searched

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.inputs.binning import Binning

SOFT = 4.0
HALF = 0x3F000000
"""The bits of one half."""
PER_OCTAVE = float(np.log(2) / 2**23)
"""What a step of the last bit is worth in logits: 2**23 of them halve a probability."""
# As arrays: of a batch of a few hundred, NumPy takes as long for reading a Python number as for the operation.
_SOFT, _ONE, _ONE_HALF, _PER_OCTAVE = (np.array(each, np.float32) for each in (SOFT, 1, 0.5, PER_OCTAVE))
_MINUS_SOFT, _HALF, _STEP = -_SOFT, np.array(HALF, np.int32), np.array(1, np.int32)
_SIGN = np.array(np.iinfo(np.int32).min, np.int32)


class Bins(Protocol):
    """The bins of scores of one kind."""

    number: int

    def at_once(self, scores: Array) -> Array:
        """The bin of each score, which was checked."""

    def deferred(self, scores: Tensor) -> Tensor:
        """The bin of each score, on its device; any bin for NaN."""

    def alone(self) -> Tensor:
        """Which bins hold one value only, so that scores in them are equal."""

    def lowest(self) -> Tensor:
        """The smallest score of each bin, as a probability in double precision."""

    def below(self) -> Tensor:
        """The single-precision number before the smallest score of each bin, in the same form."""

    def ends(self) -> tuple[Tensor, Tensor]:
        """The first score of each bin and the last before it, as scores in double precision."""


class FineBins(Searched):
    """Evenly cut softened logits; the first and the last bin are for certainty alone."""

    def __init__(self, number: int, score_kind: str) -> None:
        super().__init__()
        self.number, self.probable = number, score_kind == "probabilities"
        self.scale = (number - 2) / 2
        self._scale, self._last = np.array(self.scale, np.float32), np.array(number - 2, np.int32)

    def at_once(self, scores: Array) -> Array:
        """Compute bins in single precision and in place, because memory takes most of the time."""
        size, sign, certain = _probable_sizes(scores) if self.probable else _logit_sizes(scores)
        size += _SOFT
        np.divide(_MINUS_SOFT, size, out=size)
        size += _ONE
        _signed(size, sign)
        size += _ONE
        size *= self._scale
        places = size.astype(np.int32)
        places += _STEP
        if not self.probable:  # no probability but 0 and 1 is a logit beyond 104, whose softened size is below 0.97
            np.minimum(places, self._last, out=places)
        if certain is not None:
            places[certain] = np.where(sign[certain] < 0, 0, self.number - 1)
        return places

    def deferred(self, scores: Tensor) -> Tensor:
        """Search for bins on an accelerator; compute them in steps on the CPU and in a graph, which fuses them."""
        stepwise = scores.is_cpu or torch.compiler.is_compiling()
        return self._by_steps(scores) if stepwise else self.searched(scores)

    def begins(self, kind: torch.dtype) -> Tensor:
        """The first score of each bin but the lowest, among the scores of a precision."""
        if kind == torch.float64:  # behind the last score of a lower bin
            cut = self.ends()[1].narrow(0, 1, self.number - 1)
            return torch.nextafter(cut, torch.full_like(cut, torch.inf))
        return torch.from_numpy(_lowest(self.number, self.probable)).narrow(0, 1, self.number - 1)

    def _by_steps(self, scores: Tensor) -> Tensor:
        """Compute the same bins as ``at_once`` with torch's operators."""
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
        """Only the bins of certainty hold one value."""
        alone = torch.zeros(self.number, dtype=torch.bool)
        alone[0] = alone[-1] = True
        return alone

    def lowest(self) -> Tensor:
        """The smallest scores, found by bisection."""
        return as_probability(torch.from_numpy(_lowest(self.number, self.probable)), self.probable)

    def below(self) -> Tensor:
        """The numbers before the smallest scores."""
        return as_probability(before(torch.from_numpy(_lowest(self.number, self.probable))), self.probable)

    def ends(self) -> tuple[Tensor, Tensor]:
        """The ends, found by bisection in double precision."""
        first, cut = _fine_edges(self.number, self.probable)
        return torch.from_numpy(first), torch.from_numpy(cut)


@lru_cache(maxsize=8)  # of arrays: a tensor that is made in a mode of torch belongs to it
def _lowest(number: int, probable: bool) -> Array:
    """The smallest single-precision score of every fine bin; a bin without one has that of the next bin."""
    bins = FineBins(number, "probabilities" if probable else "logits")
    ends = np.array([0, 1] if probable else [-np.inf, np.inf], dtype=np.float32)
    low, high = (np.full(number, end, dtype=np.int64) for end in ordered(ends))
    wanted = np.arange(number)
    while (low < high).any():
        middle = (low + high) >> 1
        enough = bins.at_once(from_order(middle.astype(np.int32))) >= wanted
        low, high = np.where(enough, low, middle + 1), np.where(enough, middle, high)
    return from_order(low.astype(np.int32))


@lru_cache(maxsize=8)
def _fine_edges(number: int, probable: bool) -> tuple[Array, Array]:
    bins = FineBins(number, "probabilities" if probable else "logits")
    return edges_of(_lowest(number, probable), bins.at_once, 0.0 if probable else -np.inf)


@lru_cache(maxsize=2)
def _bfloat16_edges(probable: bool) -> tuple[Tensor, Tensor]:
    bins = BFloat16Bins("probabilities" if probable else "logits", others=True)
    lowest = bins._values()
    lowest[lowest.isnan() & (torch.arange(bins.number) < 0x8000)] = -torch.inf
    ends = edges_of((lowest.clamp(min=0) if probable else lowest).numpy(), bins.at_once, 0.0 if probable else -np.inf)
    return torch.from_numpy(ends[0]), torch.from_numpy(ends[1])


def _logit_sizes(scores: Array) -> tuple[Array, Array, Array | None]:
    """The size of each logit, its sign, and where it is infinite; a double too large for single precision is not."""
    size = np.abs(scores)
    if scores.dtype == np.float64:
        np.minimum(size, np.finfo(np.float32).max, out=size, where=size < np.inf)
    size = size.astype(np.float32, copy=False)
    certain = np.isinf(size) if size.size and largest(size) == np.inf else None
    return size, scores, certain


def _probable_sizes(scores: Array) -> tuple[Array, Array, Array | None]:
    """The distance of each probability from one half, its side, and where it is 0 or 1."""
    rare = np.minimum(scores, _ONE - scores)  # exact in every precision
    single = rare.astype(np.float32, copy=False)
    if rare.dtype == np.float64:
        np.maximum(single, np.float32(1e-45), out=single, where=rare > 0)  # rare, but not impossible
    size = (_HALF - single.view(np.int32)).astype(np.float32)
    np.multiply(size, _PER_OCTAVE, out=size)
    certain = rare == 0 if rare.size and smallest(rare) == 0 else None
    return size, scores - _ONE_HALF, certain


def _signed(size: Array, sign: Array) -> None:
    """Give sizes the signs of other numbers: by the bit if those have single precision, in a quarter of the time."""
    if sign.dtype == np.float32:
        bits = size.view(np.int32)
        bits |= sign.view(np.int32) & _SIGN
    else:
        np.copysign(size, sign, out=size)


class BFloat16Bins:
    """One bin per value of bfloat16, in their order: nothing of scores in that precision is lost.

    If ``others`` were counted too, a bin holds all scores that share the first bits of its value.
    """

    number = 65_536

    def __init__(self, score_kind: str, others: bool = False) -> None:
        self.probable, self.others = score_kind == "probabilities", others

    def at_once(self, scores: Array) -> Array:
        """Read the first 16 bits, whose order is reversed for negative numbers."""
        bits = (scores.astype(np.float32) + np.float32(0)).view(np.int32) >> 16  # adding 0 makes one zero of two
        return np.where(bits < 0, ~bits & 0x7FFF, bits + 0x8000)

    def deferred(self, scores: Tensor) -> Tensor:
        """Compute the same bins with torch's operators."""
        bits = (scores.float() + 0.0).view(torch.int32) >> 16
        return torch.where(bits < 0, bits.bitwise_not() & 0x7FFF, bits + 0x8000).long()

    def alone(self) -> Tensor:
        """All bins, as long as all scores are bfloat16, which the counter knows."""
        return torch.full((self.number,), not self.others)

    def lowest(self) -> Tensor:
        """The values themselves; with ``others``, the lowest score that shares the first bits of a negative value."""
        return as_probability(self._values(), self.probable)

    def below(self) -> Tensor:
        """The numbers before the values."""
        return as_probability(before(self._values()), self.probable)

    def ends(self) -> tuple[Tensor, Tensor]:
        """The ends of bins that hold others too, which are the same."""
        return _bfloat16_edges(self.probable)

    def _values(self) -> Tensor:
        places = np.arange(self.number, dtype=np.int64)
        bits = np.where(places < 0x8000, ~places & 0xFFFF, places - 0x8000) << 16
        if self.others:
            bits = np.where(places < 0x8000, bits | 0xFFFF, bits)
        return torch.from_numpy(bits.astype(np.uint32).view(np.float32))


def bins_of(scores: Binning, score_kind: str) -> Bins:
    """The bins that were declared, for scores of this kind."""
    if scores.kind == "bfloat16":
        return BFloat16Bins(score_kind)
    return CutBins(scores.cuts, score_kind) if scores.kind == "cuts" else FineBins(scores.number, score_kind)
