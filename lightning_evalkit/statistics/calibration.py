"""What was predicted against what happened, by groups of scores: calibration errors and the parts of a Brier score.

Where sums of confidences were kept they are exact. A histogram of scores has none: the middle of a fine bin stands for
the scores in it, which is wrong by half of its width at most, and no fine bin is divided between two groups. None of N
fine bins is wider than 4 / (N - 2) as a probability.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from lightning_evalkit.counts.histogram import weighted_histogram
from lightning_evalkit.statistics.averages import mean

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts import Calibration, ScoreCounts

GROUPS = 15


class Grouped(NamedTuple):
    """Sums of each question by group of its scores, of shape (questions, groups)."""

    weights: Tensor
    confidences: Tensor
    hits: Tensor


class BrierParts(NamedTuple):
    """A Brier score in parts: brier = calibration + refinement + within; all are NaN without samples.

    ``calibration`` is lost by bins whose mean confidence is not the share of what happened in them, ``refinement`` by
    bins in which both happened. That is at most the ``uncertainty`` of the data, which one who always says the
    prevalence is left with, and which is 0 where there is one class only. ``within`` is the variance of confidences
    inside bins, less twice their covariance with what happened: the usual three parts leave it out, and so add up only
    where each bin holds one confidence. It is negative where confidences are right inside bins too.
    """

    brier: Tensor
    calibration: Tensor
    refinement: Tensor
    uncertainty: Tensor
    within: Tensor

    @property
    def resolution(self) -> Tensor:
        """What bins say beyond the prevalence: uncertainty - refinement, which is never negative."""
        return self.uncertainty - self.refinement


# ---- groups


def exclusive(scores: ScoreCounts, sums: Calibration) -> bool:
    """Whether one of several classes is right; sums are then of the predicted class, and not of each."""
    return len(scores.yes) > len(sums.weights)


def binned(sums: Calibration, place: int | None = None) -> Grouped:
    """The bins of the sums, of one question or of all."""
    rows = _rows(place)
    return Grouped(sums.bin_weights[rows], sums.confidences[rows], sums.hits[rows])


def answers(scores: ScoreCounts, sums: Calibration, place: int | None = None) -> Grouped:
    """The bins of yes-or-no questions: of the sums, for each class against the rest of the histogram."""
    if not exclusive(scores, sums):
        return binned(sums, place)
    return in_equal_bins(scores if place is None else scores.only(place), sums.bin_weights.shape[-1])


def _rows(place: int | None) -> slice:
    return slice(None) if place is None else slice(place, place + 1)


class Filled(NamedTuple):
    """The fine bins that hold something: what is in them, and their ends as probabilities."""

    yes: Tensor
    no: Tensor
    lowest: Tensor
    highest: Tensor

    @property
    def middles(self) -> Tensor:
        """What stands for the scores in them."""
        return (self.lowest + self.highest) / 2


def filled(scores: ScoreCounts) -> Filled:
    """Those of a histogram."""
    places = (scores.yes + scores.no).any(0)
    yes, no = (part[:, places].double() for part in (scores.yes, scores.no))
    return Filled(yes, no, scores.lowest[places], scores.highest[places])


def in_equal_bins(scores: ScoreCounts, number: int = GROUPS) -> Grouped:
    """Bins of equal width, closed below; a fine bin is in that of its highest score, so that a score on an edge is."""
    bins = filled(scores)
    edges = torch.linspace(0, 1, number + 1, dtype=torch.float32, device=bins.highest.device).double()
    places = torch.searchsorted(edges, bins.highest, right=True).sub(1).clamp(0, number - 1)
    return _summed(bins, places, number)


def in_equal_masses(scores: ScoreCounts, number: int = GROUPS) -> Grouped:
    """Groups cut at quantiles of the score; a fine bin is in the group in which the middle of its samples is."""
    bins = filled(scores)
    weights = bins.yes + bins.no
    until = weights.cumsum(-1)
    # A middle on a quantile is above it, also where a sum of weights rounds down.
    places = ((until - weights / 2) * number / until[:, -1:] + 1e-9).long()
    return _summed(bins, places.clamp(0, number - 1), number)  # also where nothing weighs anything


def _summed(bins: Filled, places: Tensor, number: int) -> Grouped:
    """The sums of fine bins by the number of their group."""
    weights, rows = bins.yes + bins.no, torch.arange(len(bins.yes), device=places.device).unsqueeze(-1)
    codes = rows * number + places
    parts = (weights, weights * bins.middles, bins.yes)
    return Grouped(*(weighted_histogram(codes, part, len(weights) * number).view(-1, number) for part in parts))


# ---- gaps


def mean_gap(groups: Grouped) -> Tensor:
    """Σ |mean confidence - share of hits| · share of samples."""
    return mean((groups.confidences - groups.hits).abs() / groups.weights, groups.weights, torch.nan)


def largest_gap(groups: Grouped) -> Tensor:
    """max |mean confidence - share of hits| over groups that are not empty."""
    gaps = ((groups.confidences - groups.hits).abs() / groups.weights).nan_to_num(0.0)
    return torch.where(groups.weights.sum(-1) > 0, gaps.amax(-1), torch.nan)


def squared_gap(groups: Grouped) -> Tensor:
    """Σ (mean confidence - share of hits)² · share of samples."""
    return mean(((groups.confidences - groups.hits) / groups.weights) ** 2, groups.weights, torch.nan)


# ---- parts of a Brier score


def refinement(groups: Grouped) -> Tensor:
    """Σ share of hits · (1 - share of hits) · share of samples."""
    shares = groups.hits / groups.weights
    return mean(shares * (1 - shares), groups.weights, torch.nan)


def uncertainty(groups: Grouped) -> Tensor:
    """Prevalence · (1 - prevalence), as the sum of refinement and resolution: no rounding makes it less than one."""
    prevalence = groups.hits.sum(-1, keepdim=True) / groups.weights.sum(-1, keepdim=True)
    return refinement(groups) + mean((groups.hits / groups.weights - prevalence) ** 2, groups.weights, torch.nan)


def brier_parts(scores: ScoreCounts, sums: Calibration, place: int | None = None) -> BrierParts:
    """Of one question, or summed over all, as the Brier score of several classes is."""
    groups = answers(scores, sums, place)
    calibration, refined, uncertain = (part(groups).sum() for part in (squared_gap, refinement, uncertainty))
    if place is not None and exclusive(scores, sums):
        brier = _brier(scores.only(place))
    else:
        brier = (sums.squared_errors / sums.weights)[_rows(place)].sum()
    return BrierParts(brier, calibration, refined, uncertain, brier - calibration - refined)


def _brier(scores: ScoreCounts) -> Tensor:
    """Of one class against the rest, to the width of a fine bin."""
    bins = filled(scores)
    errors = bins.yes * (1 - bins.middles) ** 2 + bins.no * bins.middles**2
    return errors.sum() / (bins.yes + bins.no).sum()
