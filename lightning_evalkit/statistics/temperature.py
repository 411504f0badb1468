"""The temperature that minimises the log loss, and the loss there: the part that no temperature removes."""

from __future__ import annotations

from math import exp, log
from typing import TYPE_CHECKING, NamedTuple

from lightning_evalkit.counts.temperatures import SHARPNESS

if TYPE_CHECKING:
    from lightning_evalkit.counts.temperatures import Sharpened


class Scaled(NamedTuple):
    """The best temperature, the sum of losses there, and whether the best one lies outside the range searched."""

    temperature: float
    loss: float
    at_the_end: bool


def best_temperature(kept: Sharpened) -> Scaled:
    """Find the temperature at which the sum of losses is smallest.

    With x = ln(1/T), the slope dL/dx = L'/T and its derivative are known at both ends of the interval in which the
    slope changes sign; the root of the cubic through them gives the temperature, its integral the loss.
    """
    slopes = kept.slopes.tolist()
    if not any(slopes):  # nothing is left that a temperature would change
        return Scaled(1.0, float(kept.losses[SHARPNESS.index(1.0)]), at_the_end=False)
    if slopes[0] >= 0 or slopes[-1] <= 0:
        place = 0 if slopes[0] >= 0 else len(SHARPNESS) - 1
        return Scaled(1 / SHARPNESS[place], float(kept.losses[place]), at_the_end=True)
    place = max(place for place, slope in enumerate(slopes[:-1]) if slope < 0)
    low, high = log(SHARPNESS[place]), log(SHARPNESS[place + 1])
    start, end = (_by_logarithm(kept, each) for each in (place, place + 1))
    cubic = _cubic(start, end, high - low)
    t = _root(cubic)
    area = sum(factor * t ** (power + 1) / (power + 1) for power, factor in enumerate(cubic))
    return Scaled(exp(-low - t * (high - low)), float(kept.losses[place]) + (high - low) * area, at_the_end=False)


def _by_logarithm(kept: Sharpened, place: int) -> tuple[float, float]:
    """The first and second derivative by the logarithm of the sharpness."""
    sharpness = SHARPNESS[place]
    first = float(kept.slopes[place]) * sharpness
    return first, first + float(kept.curvatures[place]) * sharpness**2


def _cubic(start: tuple[float, float], end: tuple[float, float], width: float) -> tuple[float, float, float, float]:
    """The coefficients of 1, t, t², t³ of the cubic with these values and slopes at t = 0 and t = 1."""
    (first, rise), (last, fall) = start, end
    rise, fall = rise * width, fall * width
    return first, rise, 3 * (last - first) - 2 * rise - fall, 2 * (first - last) + rise + fall


def _root(cubic: tuple[float, ...]) -> float:
    """The root of a cubic that is negative at 0 and not at 1, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if sum(factor * middle**power for power, factor in enumerate(cubic)) < 0:
            low = middle
        else:
            high = middle
    return high
