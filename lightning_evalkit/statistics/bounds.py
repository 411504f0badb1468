"""Certain bounds of areas: they hold for every order of the scores inside a bin, and after any rounding.

The order of the samples in a bin is unknown, unless the bin holds one value; so is the order of samples in bins that
are at most ``reach`` apart. For AUROC, the bounds count all undecided pairs as lost, or as won. For average precision,
they rank the k-th positive from the top below all negatives that may be above it, or above all that may be below it.
Every term of a sum is at least 0, so the rounding error is a share of the sum, and each bound is moved outwards by that
share. The distance of an area from 1 is summed as well: of the two bounds the tighter one is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts import ScoreCounts

UNIT = 2.0**-53
"""The largest share by which one operation in double precision rounds."""
WHOLE = 2.0**53
"""The largest number up to which all integers are exact in double precision."""
FEW = 1_000
"""The start from which a logarithm and two terms give a sum of reciprocals to the last digits."""

SMALL = 2.0**-900
"""Quotients above it are rounded by a share of themselves, and so are products of a few."""

Ends = tuple["Tensor", "Tensor"]


def auroc(scores: ScoreCounts) -> Ends:
    """The AUROC if all undecided pairs are lost, and if all are won."""
    yes, no = sized(scores.yes), sized(scores.no)
    total, pairs = yes.sum(-1, keepdim=True), yes.sum(-1) * no.sum(-1)
    under = _running(yes, total, scores.reach)
    over = _running(yes.flip(-1), total, scores.reach).flip(-1)
    size, reach, tied = yes.shape[-1], scores.reach, _tied(scores)
    below, upto = under.narrow(-1, 0, size), under.narrow(-1, 2 * reach + 1, size)
    above, downto = over.narrow(-1, 2 * reach + 2, size), over.narrow(-1, 1, size)
    lost, maybe_lost = below + tied * yes / 2, torch.where(tied, below + yes / 2, upto)
    won, maybe_won = above + tied * yes / 2, torch.where(tied, above + yes / 2, downto)
    exact = (pairs < WHOLE) & (not scores.yes.is_floating_point())
    share = torch.where(exact, 4 * UNIT, _share(scores))
    least = _vanishing(scores)
    low = _least((no * won).sum(-1) / pairs, (no * maybe_lost).sum(-1) / pairs, share, least)
    return low, _most((no * maybe_won).sum(-1) / pairs, (no * lost).sum(-1) / pairs, share, least)


def average_precision(scores: ScoreCounts) -> Ends:
    """The average precision with a bin's positives below its negatives, one by one; and above them, tied."""
    yes, no, weight = scores.yes.double().flip(-1), scores.no.double().flip(-1), sized(scores.yes).flip(-1)
    positives, size, reach, tied = weight.sum(-1), yes.shape[-1], scores.reach, _tied(scores).flip(0)
    tp, fp = (_running(part, part.sum(-1, keepdim=True), reach) for part in (yes, no))
    before, upto, all_tp = (tp.narrow(-1, place, size) for place in (reach, reach + 1, 2 * reach + 1))
    least_fp, most_fp = fp.narrow(-1, 0, size), fp.narrow(-1, 2 * reach + 1, size)
    share, least = _share(scores), _vanishing(scores)

    together = _parts(weight, upto, most_fp)
    whole = not scores.yes.is_floating_point()
    one_by_one = _one_by_one(yes, before, most_fp) if whole else _without_steps(weight, yes, before, most_fp)
    kept, lost = (torch.where(tied, a, b).sum(-1) / positives for a, b in zip(together, one_by_one, strict=True))
    low = _least(kept, lost, share, least)
    ahead = _parts(weight, all_tp, least_fp)
    kept, lost = (torch.where(tied, a, b).sum(-1) / positives for a, b in zip(together, ahead, strict=True))
    return low, _most(kept, lost, share, least)


def sized(parts: Tensor) -> Tensor:
    """The parts in double precision; weights are scaled by a power of two, so that their products do not overflow."""
    if not parts.is_floating_point():
        return parts.double()
    _, exponent = torch.frexp(parts.double().sum(-1, keepdim=True))
    return parts.double() * torch.exp2(-exponent.double().clamp(min=-1023))  # no larger power of two is finite


def moved(parts: Tensor, steps: int) -> Tensor:
    """The contents of bins, moved by so many bins; the last bin collects what would fall off the end."""
    if not steps:
        return parts
    kept = parts.shape[-1] - steps
    if kept <= 0:
        return torch.cat((torch.zeros_like(parts[..., 1:]), parts.sum(-1, keepdim=True)), -1)
    last = parts[..., kept - 1 :].sum(-1, keepdim=True)
    return torch.cat((torch.zeros_like(parts[..., :steps]), parts[..., : kept - 1], last), -1)


def slack(scores: ScoreCounts) -> Tensor:
    """The largest rounding error of an area under a polygon of rates.

    A rate is off by a share of itself, and an area by at most three times that: the steps of either rate add up to 1.
    """
    return 3 * _share(scores)


def _tied(scores: ScoreCounts) -> Tensor:
    return scores.alone & (scores.reach == 0)


def _share(scores: ScoreCounts) -> Tensor:
    """The largest relative rounding error of a sum over bins of products and quotients of cells and running sums."""
    filled = ((scores.yes != 0) | (scores.no != 0)).sum(-1, dtype=torch.float64)
    return 4 * scores.error + (8 * filled + 32) * UNIT


def _running(parts: Tensor, total: Tensor, reach: int) -> Tensor:
    """The sums of the parts before each place, from ``reach`` places before the first to ``reach`` after the last."""
    none = torch.zeros_like(total)

    return torch.cat((*(reach + 1) * [none], parts.cumsum(-1), *(reach + 1) * [total]), -1)


def _least(kept: Tensor, lost: Tensor, share: Tensor, least: float) -> Tensor:
    """The lower bound of the share that is kept, from the least that is kept and the most that is lost."""
    complement = 1 - lost * (1 + share) - (lost != 0).double() * (4 * UNIT)
    return torch.maximum(kept * (1 - share) - least, complement).clamp(min=0)


def _most(kept: Tensor, lost: Tensor, share: Tensor, least: float) -> Tensor:
    """The upper bound of the share that is kept, from the most that is kept and the least that is lost."""
    complement = 1 - lost * (1 - share) + (lost != 0).double() * (4 * UNIT)
    return torch.minimum(kept * (1 + share) + least, complement).clamp(max=1)


def _vanishing(scores: ScoreCounts) -> float:
    """A bound of what is lost where parts are too small for a double; counts of samples never are."""
    return SMALL if scores.yes.is_floating_point() else 0.0


def _parts(weight: Tensor, tp: Tensor, fp: Tensor) -> Ends:
    """The weight times precision, and times 1 - precision."""
    whole = torch.where(weight > 0, tp + fp, 1)
    return weight * (tp / whole), weight * (fp / whole)


def _one_by_one(yes: Tensor, before: Tensor, fp: Tensor) -> Ends:
    """The lower bound of Σ (t + k) / (t + k + f) over k = 1 ... n, and the upper bound of Σ f / (t + k + f).

    The tighter of two bounds is taken: one uses the last denominator for every k, the other the sum of reciprocals.
    """
    total = before + fp
    last = torch.where(yes > 0, total + yes, 1)
    kept, lost = yes * ((before + (yes + 1) / 2) / last), yes * ((fp + (yes - 1) / 2) / last)
    return _nearer(yes, fp, kept, lost, fp * torch.where(fp > 0, _reciprocals(total, yes), 0))


def _without_steps(weight: Tensor, yes: Tensor, before: Tensor, fp: Tensor) -> Ends:
    """The same bounds for weights: their steps are unknown, but the integral over k bounds all of them.

    ``weight`` holds ``yes`` in a unit in which products do not vanish; the smallest weights cannot be halved.
    """
    total = before + fp
    last = torch.where(yes > 0, total + yes, 1)
    half = yes / last / 2
    kept, lost = weight * (before / last + half), weight * (fp / last + half)
    gained = yes / torch.where(total > 0, total, 1)
    summed = weight * (fp / torch.where(yes > 0, yes, 1)) * torch.log1p(gained)
    exact = (gained > SMALL) & (gained < 1 / SMALL) & summed.isfinite()  # not rounded among the smallest numbers
    return _nearer(weight, fp, kept, lost, torch.where(exact, summed, torch.inf))


def _nearer(weight: Tensor, fp: Tensor, kept: Tensor, lost: Tensor, summed: Tensor) -> Ends:
    summed = summed * (1 + 16 * UNIT)
    kept = torch.maximum(kept, weight * (1 - 8 * UNIT) - summed)
    nothing = fp == 0
    return torch.where(nothing, weight, kept), torch.where(nothing, 0, torch.minimum(lost, summed))


def _reciprocals(total: Tensor, steps: Tensor) -> Tensor:
    """The upper bound of Σ 1 / (T + k) over k = 1 ... n.

    The sum is a difference of two digammas, whose digits cancel where T is large. There the alternating series around
    T + ½ is used: after two terms its error is below the third.
    """
    ends = torch.digamma(total + steps + 1), torch.digamma(total + 1)
    exact = ends[0] - ends[1] + 32 * UNIT * (ends[0].abs() + 1)
    first = total + 0.5
    series = torch.log1p(steps / first) - (first**-2 - (first + steps) ** -2) / 24 + 7 / 960 * first**-4
    return torch.where(total < FEW, exact, series)
