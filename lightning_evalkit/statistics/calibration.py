"""Predictions against outcomes, by groups of scores: calibration errors and the parts of a Brier score.

Sums of confidences, where they were counted, are exact. A histogram of scores has none: there the middle of a fine bin
stands for its scores, which is off by at most half the width of the bin, and every fine bin belongs to one group as a
whole. Of N fine bins none is wider than 4 / (N - 2) as a probability.
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
    """The sums of each question by group of its scores, of shape (questions, groups)."""

    weights: Tensor
    confidences: Tensor
    hits: Tensor


class BrierParts(NamedTuple):
    """A Brier score in parts: brier = calibration + refinement + within; all are NaN without samples.

    ``calibration`` is the loss of bins whose mean confidence differs from their share of positives. ``refinement`` is
    the loss of bins that hold both outcomes; it is at most the ``uncertainty`` of the data, which is the Brier score of
    always predicting the prevalence, and 0 if only one class occurs. ``within`` is the variance of the confidences
    inside bins minus twice their covariance with the outcome. The usual three parts leave it out, so they add up only
    if each bin holds one confidence. It is negative if the confidences are informative inside bins too.
    """

    brier: Tensor
    calibration: Tensor
    refinement: Tensor
    uncertainty: Tensor
    within: Tensor

    @property
    def resolution(self) -> Tensor:
        """The gain of the bins over always predicting the prevalence: uncertainty - refinement, never negative."""
        return self.uncertainty - self.refinement


# ---- groups


def exclusive(scores: ScoreCounts, sums: Calibration) -> bool:
    """Whether the task is multiclass: its sums are those of the predicted class, not one for each class."""
    return len(scores.yes) > len(sums.weights)


def binned(sums: Calibration, place: int | None = None) -> Grouped:
    """The calibration bins of one question or of all."""
    rows = _rows(place)
    return Grouped(sums.bin_weights[rows], sums.confidences[rows], sums.hits[rows])


def answers(scores: ScoreCounts, sums: Calibration, place: int | None = None) -> Grouped:
    """The calibration bins of yes-or-no questions; those of one-vs-rest classes are read from the histogram."""
    if not exclusive(scores, sums):
        return binned(sums, place)
    return in_equal_bins(scores if place is None else scores.only(place), sums.bin_weights.shape[-1])


def _rows(place: int | None) -> slice:
    return slice(None) if place is None else slice(place, place + 1)


class Filled(NamedTuple):
    """The fine bins that are not empty: their contents, and their ends as probabilities."""

    yes: Tensor
    no: Tensor
    lowest: Tensor
    highest: Tensor

    @property
    def middles(self) -> Tensor:
        """The probabilities that stand for the scores of each bin."""
        return (self.lowest + self.highest) / 2


def filled(scores: ScoreCounts) -> Filled:
    """The fine bins of a histogram in which any question has samples."""
    places = (scores.yes + scores.no).any(0)
    yes, no = (part[:, places].double() for part in (scores.yes, scores.no))
    return Filled(yes, no, scores.lowest[places], scores.highest[places])


def in_equal_bins(scores: ScoreCounts, number: int = GROUPS) -> Grouped:
    """Groups of equal width, closed below; a fine bin belongs to the group of its highest score."""
    bins = filled(scores)
    edges = torch.linspace(0, 1, number + 1, dtype=torch.float32, device=bins.highest.device).double()
    places = torch.searchsorted(edges, bins.highest, right=True).sub(1).clamp(0, number - 1)
    return _summed(bins, places, number)


def in_equal_masses(scores: ScoreCounts, number: int = GROUPS) -> Grouped:
    """Groups between quantiles of the score; the middle sample of a fine bin decides its group."""
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
    """Prevalence · (1 - prevalence), summed from refinement and resolution so that rounding never makes it smaller."""
    prevalence = groups.hits.sum(-1, keepdim=True) / groups.weights.sum(-1, keepdim=True)
    return refinement(groups) + mean((groups.hits / groups.weights - prevalence) ** 2, groups.weights, torch.nan)


def brier_parts(scores: ScoreCounts, sums: Calibration, place: int | None = None) -> BrierParts:
    """The parts for one question, or summed over all, as the Brier score of several classes is."""
    groups = answers(scores, sums, place)
    calibration, refined, uncertain = (part(groups).sum() for part in (squared_gap, refinement, uncertainty))
    if place is not None and exclusive(scores, sums):
        brier = _brier(scores.only(place))
    else:
        brier = (sums.squared_errors / sums.weights)[_rows(place)].sum()
    return BrierParts(brier, calibration, refined, uncertain, brier - calibration - refined)


def _brier(scores: ScoreCounts) -> Tensor:
    """The Brier score of one class against the rest, to the width of a fine bin."""
    bins = filled(scores)
    errors = bins.yes * (1 - bins.middles) ** 2 + bins.no * bins.middles**2
    return errors.sum() / (bins.yes + bins.no).sum()
