"""Histograms of scores into curves, areas and single points; every yes-or-no question (class, label) is a row.

A threshold at the lower edge of a bin decides yes for that bin and all above, so the counts at every threshold are sums
from the top. The order inside a bin is unknown unless all its scores are equal, so areas come with certain bounds
(AUROC: all undecided pairs lost or won; average precision: positives last or first in a bin).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from lightning_evalkit.counts import Counts, Edges
from lightning_evalkit.statistics import bounds
from lightning_evalkit.statistics.arrays import array_of, sized, tensor_of

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts import ScoreCounts
    from lightning_evalkit.statistics.arrays import Array


class Bounded(NamedTuple):
    """A value from bins, and certain bounds of the value that the scores themselves would give."""

    low: Tensor
    value: Tensor
    high: Tensor


@dataclass(frozen=True)
class Reached:
    """Counts at falling thresholds, of shape (questions, points), and of all samples, of shape (questions, 1)."""

    tp: Tensor
    fp: Tensor
    thresholds: Tensor
    """The smallest score that each point calls positive."""
    edges: Edges
    """The thresholds that give these points, as scores."""
    positives: Tensor
    negatives: Tensor
    fn: Tensor
    """Summed from the bottom: subtracting from the total would lose small weights."""
    tn: Tensor

    @property
    def counts(self) -> Counts:
        """The tables of all thresholds."""
        return Counts(tp=self.tp, fp=self.fp, fn=self.fn, tn=self.tn)


def reached(scores: ScoreCounts) -> Reached:
    """Counts at the lower edge of every bin that is not empty, and above all bins."""
    scores = scores.occupied()
    yes, no, lowest = scores.yes, scores.no, scores.lowest.flip(0)
    tp, fp, fn, tn = _from_top(yes), _from_top(no), yes.cumsum(-1).flip(-1), no.cumsum(-1).flip(-1)
    start, top = tp.new_zeros(len(tp), 1), lowest.new_full((1,), torch.inf)
    thresholds, first, cut = (torch.cat((top, part)) for part in (lowest, *(end.flip(0) for end in scores.edges[:2])))
    ends = Edges(first, cut if scores.edges.logits else cut.clamp(max=1.0), scores.edges.logits)
    tp, fp = torch.cat((start, tp), 1), torch.cat((start, fp), 1)
    fn, tn = torch.cat((fn, start), 1), torch.cat((tn, start), 1)
    return Reached(tp, fp, thresholds, ends, *_totals(scores), fn, tn)


def at_given(scores: ScoreCounts) -> Reached:
    """Counts at the thresholds that a user gave, in falling order."""
    tp, fp = (_from_top(part)[:, :-1] for part in (scores.yes, scores.no))
    fn, tn = (part.cumsum(-1)[:, :-1].flip(-1) for part in (scores.yes, scores.no))
    first, cut = (part[1:].flip(0) for part in scores.edges[:2])
    ends = Edges(first, cut, scores.edges.logits)
    return Reached(tp, fp, scores.lowest[1:].flip(0), ends, *_totals(scores), fn, tn)


def _totals(scores: ScoreCounts) -> tuple[Tensor, Tensor]:
    return scores.yes.sum(-1, keepdim=True), scores.no.sum(-1, keepdim=True)


def _from_top(parts: Tensor) -> Tensor:
    return parts.flip(-1).cumsum(-1)


# ---- areas


def auroc(scores: ScoreCounts, max_fpr: float | None = None) -> Bounded:
    """The area under the ROC curve and its bounds."""
    if max_fpr is not None and max_fpr < 1:
        return _partial_auroc(scores, max_fpr)
    return _between(auroc_value(scores), *bounds.auroc(scores))


def auroc_value(scores: ScoreCounts, max_fpr: float | None = None) -> Tensor:
    """The probability that a positive sample has a higher score than a negative one; ties count half."""
    if max_fpr is not None and max_fpr < 1:
        return _partial_auroc(scores, max_fpr).value
    yes, no = sized(scores.yes), sized(scores.no)
    pairs = yes.sum(-1) * no.sum(-1)
    won = no.cumsum(-1)
    no *= 0.5  # in place, as there may be millions of scores
    won -= no
    won *= yes
    with np.errstate(invalid="ignore"):  # 0/0 without a class
        return tensor_of(np.minimum(won.sum(-1) / pairs, 1.0), scores.yes)


def _between(value: Tensor, low: Tensor, high: Tensor) -> Bounded:
    """The value with its bounds, moved between them if rounding left it outside."""
    return Bounded(low, torch.minimum(torch.maximum(value, low), high), high)


def _partial_auroc(scores: ScoreCounts, max_fpr: float) -> Bounded:
    """The area up to a false-positive rate, rescaled so that chance is one half (McClish)."""
    low, value, high = (area_up_to(*rates, max_fpr) for rates in _extreme_rates(scores))
    off = bounds.slack(scores)
    return Bounded(*(rescaled(area, max_fpr) for area in (low - off, value, high + off)))


def _extreme_rates(scores: ScoreCounts) -> list[tuple[Tensor, Tensor]]:
    """Three ROC polygons: in undecided bins the negatives come before, together with, or after the positives."""
    yes, no = scores.yes.double().flip(-1), scores.no.double().flip(-1)
    undecided = ~scores.alone.flip(0) | (scores.reach > 0)
    later, sooner = bounds.moved(yes, scores.reach), bounds.moved(yes.flip(-1), scores.reach).flip(-1)
    polygons = []
    for part, first_no, first_yes in ((later, undecided, 0), (yes, 0, 0), (sooner, 0, undecided)):
        steps_no = torch.stack((no * first_no, no - no * first_no), -1).flatten(-2)
        steps_yes = torch.stack((part * first_yes, part - part * first_yes), -1).flatten(-2)
        polygons.append((_rates(steps_no), _rates(steps_yes)))
    return polygons


def _rates(steps: Tensor) -> Tensor:
    rates = steps.cumsum(-1) / steps.sum(-1, keepdim=True)
    return torch.cat((torch.zeros_like(rates[..., :1]), rates), -1)


def area_up_to(fpr: Tensor, tpr: Tensor, most: float) -> Tensor:
    """The area under a polygon left of a false-positive rate."""
    left, right, low, high = fpr[..., :-1], fpr[..., 1:], tpr[..., :-1], tpr[..., 1:]
    width = (right.clamp(max=most) - left.clamp(max=most)).clamp(min=0)
    share = torch.where(right > left, width / (right - left), 0)
    return (width * (low + (high - low) * share / 2)).sum(-1)


def rescaled(area: Tensor, most: float) -> Tensor:
    """Rescale a partial area so that chance is one half."""
    chance = most**2 / 2
    return 0.5 * (1 + (area - chance) / (most - chance))


def average_precision(scores: ScoreCounts) -> Bounded:
    """The area under the precision-recall curve, in steps, and its bounds."""
    return _between(average_precision_value(scores), *bounds.average_precision(scores))


def average_precision_value(scores: ScoreCounts) -> Tensor:
    """The mean over positive samples of the precision at the threshold that just reaches them."""
    yes, no = (array_of(part)[:, ::-1].astype(np.float64) for part in (scores.yes, scores.no))
    tp, predicted = yes.cumsum(-1), no.cumsum(-1)
    predicted += tp
    yes = sized(scores.yes)[:, ::-1] if scores.yes.is_floating_point() else yes  # products of small weights vanish
    positives = yes.sum(-1)
    with np.errstate(invalid="ignore"):  # 0/0 in bins above all samples, and without positives
        tp /= predicted
        tp *= yes
        return tensor_of(np.minimum(np.where(yes > 0, tp, 0).sum(-1) / positives, 1.0), scores.yes)


# ---- single points


def eer(scores: ScoreCounts) -> Tensor:
    """The equal error rate: the mean of false-positive and false-negative rate where they are nearest."""
    return tensor_of(nearest_rate(*shares_above(scores.occupied())), scores.yes)


def nearest_rate(fpr: Array, tpr: Array, rounding: float = 1e-12) -> Array:
    """The mean of both error rates at the first point where they are nearest; NaN where one of them is.

    Of two points that are equally near, one on each side, the first has the higher threshold: rounding does not decide.
    """
    gap = 1 - tpr
    gap -= fpr
    np.abs(gap, out=gap)
    place = (gap <= gap.min(-1, keepdims=True) + rounding).argmax(-1)
    rows = np.arange(len(fpr))
    mean: Array = (fpr[rows, place] + 1 - tpr[rows, place]) / 2
    return mean


def kolmogorov_smirnov(scores: ScoreCounts) -> Tensor:
    """The largest distance between the score distributions of both classes."""
    fpr, tpr = shares_above(scores.occupied())
    return tensor_of((tpr - fpr).max(-1), scores.yes)


def gini(scores: ScoreCounts) -> Tensor:
    """2 AUROC - 1."""
    return 2 * auroc_value(scores) - 1


def shares_above(scores: ScoreCounts, kind: type = np.float64) -> tuple[Array, Array]:
    """False-positive and true-positive rates above all bins and then at each lower edge, in falling order.

    They have shape (questions, bins + 1), and are NaN where the class has no samples.
    """
    negatives, positives = (whole[:, None] for whole in scores.support[::-1])
    fp, tp = sums_above(scores.no), sums_above(scores.yes)
    fpr: Array = np.empty(fp.shape, kind)
    tpr: Array = np.empty_like(fpr)
    with np.errstate(invalid="ignore"):
        np.divide(fp, negatives, out=fpr, casting="same_kind")
        np.divide(tp, positives, out=tpr, casting="same_kind")
    return fpr, tpr


def sums_above(part: Tensor) -> Array:
    """The sums of all bins above each threshold: 0, then from each lower edge upwards, in falling order."""
    bins = array_of(part)
    sums = np.zeros((len(bins), bins.shape[-1] + 1), dtype=bins.dtype)
    np.add.accumulate(bins[:, ::-1], axis=-1, out=sums[:, 1:])
    return sums


def rates(points: Reached) -> tuple[Tensor, Tensor]:
    """False-positive and true-positive rate of every point; NaN where the class has no samples."""
    return points.fp.double() / points.negatives, points.tp.double() / points.positives


def precisions(points: Reached) -> tuple[Tensor, Tensor]:
    """Precision and recall of every point; the precision is 1 where nothing is predicted positive."""
    predicted = (points.tp + points.fp).double()
    precision = torch.where(predicted > 0, points.tp / predicted, 1.0)
    return precision, points.tp.double() / points.positives


def gains(points: Reached) -> tuple[Tensor, Tensor]:
    """The share of samples called positive, and recall, of every point."""
    called = (points.tp + points.fp).double() / (points.positives + points.negatives)
    return called, points.tp.double() / points.positives
