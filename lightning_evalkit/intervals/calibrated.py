"""Tests of calibration, from the numbers of positives and negatives at each score.

If scores are calibrated, the number of positives among the samples of one score is a binomial draw with that
probability. Each test asks how far the data are from such draws.
"""

from __future__ import annotations

from math import nan, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]

FARTHEST = 30.0
"""Logits beyond this count as certain."""
SHARPEST = 16.0
FEWEST = 5
"""The fewest positives, and the fewest negatives, for which a line is fitted."""
GROUPS, DRAWS, SEED = 128, 128, 20_000


class Scored(NamedTuple):
    """The numbers of positive and negative samples at each probability, in rising order."""

    probabilities: Array
    yes: Array
    no: Array

    @property
    def total(self) -> Array:
        """The number of samples at each probability."""
        return self.yes + self.no

    @property
    def logits(self) -> Array:
        """ln(p / (1 - p)), clipped so that certainty is a finite number."""
        with np.errstate(divide="ignore"):
            found: Array = np.log(self.probabilities) - np.log1p(-self.probabilities)
        return found.clip(-FARTHEST, FARTHEST)


class Sharpness(NamedTuple):
    """The temperature by which the logits should be divided, and the number of standard errors between it and 1.

    Above 1 the scores are overconfident. Both are estimated together with the best shift of the logits, so that a mere
    shift does not look like a temperature.
    """

    temperature: float = nan
    z: float = nan


def sharpness(scored: Scored) -> Sharpness:
    """Fit Cox's line, logit P(positive) = shift + logit / temperature, and test temperature = 1 (score test)."""
    if min(scored.yes.sum(), scored.no.sum()) < FEWEST:
        return Sharpness()
    shift = float(_fitted(scored, free=1)[0])
    slope = float(_fitted(scored, free=2)[1])
    return Sharpness(1 / min(max(slope, 1 / SHARPEST), SHARPEST), _score(scored, shift))


def _score(scored: Scored, shift: float) -> float:
    """The distance of the slope below 1 in standard errors, with the shift fitted."""
    logits = scored.logits
    expected = _sigmoid(shift + logits)
    doubt = scored.total * expected * (1 - expected)
    information = (doubt * logits**2).sum() - (doubt * logits).sum() ** 2 / doubt.sum()
    too_sharp = (logits * (scored.total * expected - scored.yes)).sum()
    return float(too_sharp / sqrt(information)) if information > 0 else nan


def _fitted(scored: Scored, free: int) -> Array:
    """Fit shift and slope by Newton's method with steps of at most 1; ``free`` of the two may move."""
    design = np.stack((np.ones_like(scored.logits), scored.logits), 1)
    line, moved = np.array([0.0, 1.0]), design[:, :free]
    for _ in range(50):
        expected = _sigmoid(design @ line)
        doubt = scored.total * expected * (1 - expected)
        rise = moved.T @ (scored.yes - scored.total * expected)
        bend = moved.T @ (moved * doubt[:, None]) + 1e-9 * np.eye(free)
        step = np.linalg.solve(bend, rise).clip(-1, 1)
        line[:free] += step
        if abs(step).max() < 1e-8 or abs(line[1]) > SHARPEST:
            break
    return line


def _sigmoid(logits: Array) -> Array:
    found: Array = 1 / (1 + np.exp(-logits.clip(-700, 700)))
    return found


# ---- the threshold that maximises F1 of calibrated scores is half of that F1


class HalfF1(NamedTuple):
    """The best F1, its threshold, and the number of standard errors between the threshold and half of the F1."""

    f1: float = nan
    threshold: float = nan
    z: float = nan


def half_f1(scored: Scored) -> HalfF1:
    """Compare the best threshold with half of its F1, against draws from calibrated scores.

    The best threshold of calibrated scores scatters around half of its F1 by chance. ``DRAWS`` data sets with these
    scores, and targets drawn from them, estimate how far.
    """
    if not (scored.yes.sum() and scored.no.sum()):
        return HalfF1()
    grouped = _grouped(scored)
    f1, threshold = (float(each[0]) for each in _best(grouped, grouped.yes[None]))
    random = np.random.default_rng(SEED)
    drawn = random.binomial(np.rint(grouped.total).astype(np.int64), grouped.probabilities, (DRAWS, len(grouped.yes)))
    f1s, thresholds = _best(grouped, drawn)
    apart = thresholds - f1s / 2
    spread = float(apart.std(ddof=1))
    z = (threshold - f1 / 2 - float(apart.mean())) / spread if spread > 0 else nan
    return HalfF1(f1, threshold, z)


def _grouped(scored: Scored) -> Scored:
    """Merge neighbouring scores into at most ``GROUPS`` groups of about equal numbers of samples."""
    total = scored.total
    places = np.minimum((np.cumsum(total) - total / 2) * GROUPS / total.sum(), GROUPS - 1).astype(int)
    sums = [np.bincount(places, part, GROUPS) for part in (total, total * scored.probabilities, scored.yes)]
    weight, expected, yes = (each[sums[0] > 0] for each in sums)
    return Scored((expected / weight).clip(0, 1), yes, weight - yes)


def _best(scored: Scored, yes: Array) -> tuple[Array, Array]:
    """The largest F1 over all thresholds, and its threshold, for each row of positives."""
    called = np.cumsum(scored.total[::-1])
    hits = np.cumsum(yes[:, ::-1], 1)
    f1 = 2 * hits / np.maximum(hits[:, -1:] + called, 1e-12)
    place = f1.argmax(1)
    falling = np.append(scored.probabilities[::-1], 0.0)
    return f1.max(1), (falling[place] + falling[place + 1]) / 2
