"""The prevalence at which accuracy and F1 of a classifier cross, with its interval."""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING

from lightning_evalkit.intervals.binomial import logistic, wilson
from lightning_evalkit.intervals.comparison import unpaired
from lightning_evalkit.intervals.interval import Interval, around, checked_level
from lightning_evalkit.intervals.projection import crossing_prevalence
from lightning_evalkit.intervals.tables import whole_numbers

if TYPE_CHECKING:
    from lightning_evalkit.counts import Counts


def crossing_interval(counts: Counts, level: float = 0.95) -> Interval | None:
    """The prevalence s / (r + s) at which accuracy and F1 are equal; None if they do not cross.

    Its log-odds are ln s - ln r, and specificity s and recall r come from different samples. So the ends follow from
    Wilson's intervals of both by square-and-add (Newcombe 1998; Donner and Zou 2012), on the logarithmic scale.

    >>> from lightning_evalkit import Counts
    >>> print(crossing_interval(Counts(tp=45, fp=30, fn=5, tn=20)))
    0.3077 [0.2339, 0.3811]
    """
    level, counts = checked_level(level), whole_numbers(counts)
    crossing = crossing_prevalence(counts)
    if crossing is None:
        return None
    recall, specificity = (
        _logarithm(hits, of, level) for hits, of in ((counts.tp, counts.positives), (counts.tn, counts.negatives))
    )
    apart = unpaired(recall, specificity)
    ends = logistic(apart.low), logistic(apart.high)
    return around(float(crossing), ends, level, "square-and-add", counts.total)


def _logarithm(hits: int, of: int, level: float) -> Interval:
    low, high = wilson(hits, of, level)
    return Interval(log(hits / of), log(low), log(high), level, "wilson", of)
