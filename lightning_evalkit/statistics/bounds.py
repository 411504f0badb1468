"""Between what areas lie for certain, whatever the order of scores inside a bin, and whatever rounding did.

Nothing is known about the order of samples in one bin, unless it holds one value, nor of those in bins that are at most
``reach`` apart. AUROC has all undecided pairs lost or won. Average precision has the k-th positive from the top behind
all negatives that may be above it, or ahead of all that need not be. Each sum is taken from parts that are not
negative, so that its rounding is a share of itself, and each end is moved outwards by that share. The distance from 1
is summed too: the nearer end is the better bound.
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
"""Up to where whole numbers are exact."""
FEW = 1_000
"""Steps from which on a logarithm and two terms tell a sum of reciprocals to the last digits."""

Ends = tuple["Tensor", "Tensor"]


def auroc(scores: ScoreCounts) -> Ends:
    """All undecided pairs lost, and all won."""
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
    low = _least((no * won).sum(-1) / pairs, (no * maybe_lost).sum(-1) / pairs, share)
    return low, _most((no * maybe_won).sum(-1) / pairs, (no * lost).sum(-1) / pairs, share)


def average_precision(scores: ScoreCounts) -> Ends:
    """Positives behind the negatives that may be above them, one by one; and tied, ahead of them."""
    yes, no = scores.yes.double().flip(-1), scores.no.double().flip(-1)
    positives, size, reach, tied = yes.sum(-1), yes.shape[-1], scores.reach, _tied(scores).flip(0)
    tp, fp = (_running(part, part.sum(-1, keepdim=True), reach) for part in (yes, no))
    before, upto, all_tp = (tp.narrow(-1, place, size) for place in (reach, reach + 1, 2 * reach + 1))
    least_fp, most_fp = fp.narrow(-1, 0, size), fp.narrow(-1, 2 * reach + 1, size)
    share = _share(scores)

    together = _parts(yes, upto, most_fp)
    one_by_one = _one_by_one(yes, before, most_fp, not scores.yes.is_floating_point())
    kept, lost = (torch.where(tied, a, b).sum(-1) / positives for a, b in zip(together, one_by_one, strict=True))
    low = _least(kept, lost, share)
    ahead = _parts(yes, all_tp, least_fp)
    kept, lost = (torch.where(tied, a, b).sum(-1) / positives for a, b in zip(together, ahead, strict=True))
    return low, _most(kept, lost, share)


def sized(parts: Tensor) -> Tensor:
    """The parts in double precision; weights by a power of two of a size of which products do not overflow."""
    if not parts.is_floating_point():
        return parts.double()
    _, exponent = torch.frexp(parts.double().sum(-1, keepdim=True))
    return parts.double() * torch.exp2(-exponent.double().clamp(min=-1023))  # no larger power of two is finite


def moved(parts: Tensor, steps: int) -> Tensor:
    """The parts of bins, each so many bins further; what would fall off the end stays in the last."""
    if not steps:
        return parts
    kept = parts.shape[-1] - steps
    if kept <= 0:
        return torch.cat((torch.zeros_like(parts[..., 1:]), parts.sum(-1, keepdim=True)), -1)
    last = parts[..., kept - 1 :].sum(-1, keepdim=True)
    return torch.cat((torch.zeros_like(parts[..., :steps]), parts[..., : kept - 1], last), -1)


def slack(scores: ScoreCounts) -> Tensor:
    """By how much an area under a polygon of rates may be off.

    A rate is off by a share of itself, and an area by at most three times that: the steps of either rate add up to 1.
    """
    return 3 * _share(scores)


def _tied(scores: ScoreCounts) -> Tensor:
    return scores.alone & (scores.reach == 0)


def _share(scores: ScoreCounts) -> Tensor:
    """By what share of itself a sum over bins of products and quotients of cells and running sums may be off."""
    filled = ((scores.yes != 0) | (scores.no != 0)).sum(-1, dtype=torch.float64)
    return 4 * scores.error + (8 * filled + 32) * UNIT


def _running(parts: Tensor, total: Tensor, reach: int) -> Tensor:
    """Sums of the parts before each place from -reach on, and on to reach places behind the last."""
    none = torch.zeros_like(total)

    return torch.cat((*(reach + 1) * [none], parts.cumsum(-1), *(reach + 1) * [total]), -1)


def _least(kept: Tensor, lost: Tensor, share: Tensor) -> Tensor:
    """The lower end of what is kept of 1, given least of that and most of what is lost."""
    complement = 1 - lost * (1 + share) - (lost != 0).double() * (4 * UNIT)
    return torch.maximum(kept * (1 - share), complement).clamp(min=0)


def _most(kept: Tensor, lost: Tensor, share: Tensor) -> Tensor:
    """The upper end of what is kept of 1, given most of that and least of what is lost."""
    complement = 1 - lost * (1 - share) + (lost != 0).double() * (4 * UNIT)
    return torch.minimum(kept * (1 + share), complement).clamp(max=1)


def _parts(weight: Tensor, tp: Tensor, fp: Tensor) -> Ends:
    """What precision leaves of a weight, and what it takes."""
    whole = torch.where(weight > 0, tp + fp, 1)
    return weight * (tp / whole), weight * (fp / whole)


def _one_by_one(yes: Tensor, before: Tensor, fp: Tensor, whole: bool) -> Ends:
    """Least of Σ (t + k) / (t + k + f) over k = 1 ... n, and most of Σ f / (t + k + f).

    Of weights the steps are not known; beyond any of them lies the integral over k. Two bounds of the sum, the nearer
    of which is taken: with the last denominator for all of them, and by the sum of reciprocals.
    """
    total, step = before + fp, 1.0 if whole else 0.0
    last = torch.where(yes > 0, total + yes, 1)
    kept, lost = yes * ((before + (yes + step) / 2) / last), yes * ((fp + (yes - step) / 2) / last)
    summed = fp * torch.where(fp > 0, _reciprocals(total, yes) if whole else torch.log1p(yes / total), 0)
    summed = summed * (1 + 16 * UNIT)
    kept = torch.maximum(kept, yes * (1 - 8 * UNIT) - summed)
    nothing = fp == 0
    return torch.where(nothing, yes, kept), torch.where(nothing, 0, torch.minimum(lost, summed))


def _reciprocals(total: Tensor, steps: Tensor) -> Tensor:
    """Most of Σ 1 / (T + k) over k = 1 ... n.

    It is a difference of digammas, of which many digits cancel where T is large. There their series around T + ½, whose
    terms alternate, ends after two of them with an error below the third.
    """
    ends = torch.digamma(total + steps + 1), torch.digamma(total + 1)
    exact = ends[0] - ends[1] + 32 * UNIT * (ends[0].abs() + 1)
    first = total + 0.5
    series = torch.log1p(steps / first) - (first**-2 - (first + steps) ** -2) / 24 + 7 / 960 * first**-4
    return torch.where(total < FEW, exact, series)
