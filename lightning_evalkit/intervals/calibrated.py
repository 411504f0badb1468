"""Whether probabilities come true: tests from how many samples of each score are positive.

If scores are calibrated, the positives among samples of one score are a binomial draw with that probability. Each test
here asks how far what was seen is from such draws.
"""

from __future__ import annotations

from math import nan, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]

FARTHEST = 30.0
"""Logits beyond this are as good as certain."""
SHARPEST = 16.0
FEWEST = 5
"""Positives and negatives below which no line is fitted."""
GROUPS, DRAWS, SEED = 128, 128, 20_000


class Scored(NamedTuple):
    """How many samples of each probability, in rising order, are positive and negative."""

    probabilities: Array
    yes: Array
    no: Array

    @property
    def total(self) -> Array:
        """The samples of each probability."""
        return self.yes + self.no

    @property
    def logits(self) -> Array:
        """ln(p / (1 - p)), where certainty is a large number."""
        with np.errstate(divide="ignore"):
            found: Array = np.log(self.probabilities) - np.log1p(-self.probabilities)
        return found.clip(-FARTHEST, FARTHEST)


class Sharpness(NamedTuple):
    """The temperature that logits should be divided by, and how many standard errors it is from 1.

    Above 1 the scores are overconfident. Both hold beside the best shift of the logits, so that a shift is no
    temperature.
    """

    temperature: float = nan
    z: float = nan


def sharpness(scored: Scored) -> Sharpness:
    """Cox's line, logit P(positive) = shift + logit / temperature, with the score test of temperature = 1."""
    if min(scored.yes.sum(), scored.no.sum()) < FEWEST:
        return Sharpness()
    shift = float(_fitted(scored, free=1)[0])
    slope = float(_fitted(scored, free=2)[1])
    return Sharpness(1 / min(max(slope, 1 / SHARPEST), SHARPEST), _score(scored, shift))


def _score(scored: Scored, shift: float) -> float:
    """How far the slope falls below 1, in standard errors, where the shift is fitted."""
    logits = scored.logits
    expected = _sigmoid(shift + logits)
    doubt = scored.total * expected * (1 - expected)
    information = (doubt * logits**2).sum() - (doubt * logits).sum() ** 2 / doubt.sum()
    too_sharp = (logits * (scored.total * expected - scored.yes)).sum()
    return float(too_sharp / sqrt(information)) if information > 0 else nan


def _fitted(scored: Scored, free: int) -> Array:
    """Shift and slope by Newton's steps of the logistic fit, each at most 1 long; ``free`` of them may move."""
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
    """The best F1, its threshold, and how many standard errors that is from half of the F1."""

    f1: float = nan
    threshold: float = nan
    z: float = nan


def half_f1(scored: Scored) -> HalfF1:
    """The distance between the best threshold and half of its F1, against draws from calibrated scores.

    The best threshold of calibrated scores scatters around half of its F1 by chance. ``DRAWS`` data sets with these
    scores and targets drawn from them tell how far.
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
    """Neighbouring scores together, in at most ``GROUPS`` groups of about as many samples."""
    total = scored.total
    places = np.minimum((np.cumsum(total) - total / 2) * GROUPS / total.sum(), GROUPS - 1).astype(int)
    sums = [np.bincount(places, part, GROUPS) for part in (total, total * scored.probabilities, scored.yes)]
    weight, expected, yes = (each[sums[0] > 0] for each in sums)
    return Scored((expected / weight).clip(0, 1), yes, weight - yes)


def _best(scored: Scored, yes: Array) -> tuple[Array, Array]:
    """The largest F1 over all cuts, and the threshold there, for each row of positives."""
    called = np.cumsum(scored.total[::-1])
    hits = np.cumsum(yes[:, ::-1], 1)
    f1 = 2 * hits / np.maximum(hits[:, -1:] + called, 1e-12)
    place = f1.argmax(1)
    falling = np.append(scored.probabilities[::-1], 0.0)
    return f1.max(1), (falling[place] + falling[place + 1]) / 2
