"""The profile of a log loss, which says where the loss comes from, as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from lightning_evalkit.counts.losses import BINS, beside_infinite, share_of_worst
from lightning_evalkit.statistics.temperature import best_temperature

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts.profile import LossSums

SHOWN = 64
"""Bins of the histogram of losses, four per doubling, from 2**-9 to 2**7; the outermost bins hold all losses beyond."""
LOWEST = 2.0**-9


@dataclass(frozen=True)
class Profile:
    """Where a log loss comes from: ``loss`` is its mean, NaN without samples.

    ``refinement`` is the loss at the best ``temperature``, which no division of the logits lowers; ``calibration`` is
    the rest, which dividing the logits by that temperature removes. The loss is infinite if ``infinite`` samples gave
    their target a probability of 0. No temperature changes that; the best one is then that of the other samples, whose
    mean loss is ``otherwise``. ``at_the_end`` says that the best temperature lies outside the range from 1/16 to 16
    that is searched. ``histogram`` counts the samples, and ``wrong`` the wrongly predicted ones, with a loss between
    two ``edges``.
    """

    samples: float
    loss: float
    infinite: float
    otherwise: float
    by_class: dict[str, float]
    accuracy: float
    of_wrong: float
    """The share of the loss that wrong predictions carry."""
    worst: float
    of_worst: float
    """The share of the loss that the share ``worst`` of the samples carries."""
    temperature: float
    at_the_end: bool
    refinement: float
    calibration: float
    edges: tuple[float, ...]
    histogram: tuple[float, ...]
    wrong: tuple[float, ...]
    carried: tuple[float, ...]
    """The sums of losses in the bins of the histogram."""


def profile_of(sums: LossSums, names: list[str], worst: float) -> Profile:
    """Compute the profile from the sums."""
    samples, total = float(sums.weights.sum()), float(sums.losses.sum())
    infinite = sums.losses == torch.inf
    number, finite = float(sums.weights[infinite].sum()), float(sums.losses[~infinite].sum())
    errors = float(sums.wrong_weights.sum())
    carried = beside_infinite(sums.losses, sums.weights)
    wrong = torch.where(infinite, sums.wrong_weights, 0) if number else sums.wrong_losses
    scaled = best_temperature(sums.sharpened)
    loss = _over(total, samples)
    # The temperature 1 is one of those searched: interpolation between others cannot make the best worse.
    refinement = min(_over(scaled.loss, samples), loss)
    by_class = sums.class_losses / sums.class_weights
    return Profile(
        samples=samples,
        loss=loss,
        infinite=number,
        otherwise=_over(finite, samples - number),
        by_class=dict(zip(names, by_class.tolist(), strict=True)),
        accuracy=_over(samples - errors, samples),
        of_wrong=_over(float(wrong.sum()), float(carried.sum())),
        worst=worst,
        of_worst=float(share_of_worst(sums.losses, sums.weights, worst)),
        temperature=scaled.temperature if samples else torch.nan,
        at_the_end=scaled.at_the_end,
        refinement=refinement,
        calibration=0.0 if loss == torch.inf else loss - refinement,
        edges=tuple(LOWEST * 2 ** (place / 4) for place in range(SHOWN + 1)),
        histogram=_shown(sums.weights),
        wrong=_shown(sums.wrong_weights),
        carried=_shown(sums.losses),
    )


def _over(part: float, whole: float) -> float:
    return part / whole if whole else torch.nan


def _shown(weights: Tensor) -> tuple[float, ...]:
    """Gather the fine bins (losses whose first 16 bits agree as float32) into bins that a figure can show."""
    lower = (torch.arange(BINS, dtype=torch.int32) << 16).view(torch.float32).double().nan_to_num(torch.inf)
    places = ((lower.clamp(LOWEST).log2() - torch.tensor(LOWEST).log2()) * 4).floor().clamp(0, SHOWN - 1)
    gathered = torch.zeros(SHOWN, dtype=torch.float64).index_add_(0, places.long(), weights.double().cpu())
    return tuple(gathered.tolist())
