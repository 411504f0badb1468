"""The distribution of a statistic of one table, from random tables near the counted one.

To resample the samples with replacement and count again is one multinomial draw of the cells: no sample is needed. The
seed is fixed, so that equal counts have equal intervals to the last bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lightning_evalkit.counts import Counts
from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.intervals.projection import at_prevalence

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[Any]
    Values = Callable[[Counts], Array]

SEED = 20_240_229
DRAWS = 10_000
HALF = 0.5
"""The number added to every cell: Jeffreys' prior."""
BEYOND = 5
"""The fewest drawn tables that must lie beyond each end."""


def dirichlet(cells: Array, values: Values, level: float) -> tuple[float, float]:
    """The equal-tailed interval of the statistic under Dirichlet(cells + ½), the posterior of the cells."""
    return tails(values(_posterior(cells)), level)


def projected(cells: Array, values: Values, level: float, prevalence: float) -> tuple[float, float]:
    """The equal-tailed interval at another prevalence, which draws only recall and specificity at random."""
    return tails(values(at_prevalence(_posterior(cells), prevalence)), level)


def _posterior(cells: Array) -> Counts:
    """Draws from the posterior, each up to a factor that no statistic sees."""
    return _counts(np.random.default_rng(SEED).standard_gamma(cells + HALF, (DRAWS, len(cells))))


def bootstrap(cells: Array, values: Values, level: float) -> tuple[float, float]:
    """The percentiles of resamples, which are too narrow for good classifiers and rare positives."""
    return tails(values(_counts(multinomial(cells))), level)


def bca(cells: Array, values: Values, level: float) -> tuple[float, float]:
    """The percentiles of resamples, corrected for bias and skewness (Efron 1987)."""
    from scipy.special import ndtr, ndtri

    refuse_few(DRAWS, level)
    drawn = values(_counts(multinomial(cells)))
    drawn = drawn[~np.isnan(drawn)]
    value = values(_counts(cells.astype(np.float64)[None]))[0]
    below = (np.count_nonzero(drawn < value) + np.count_nonzero(drawn == value) / 2) / max(len(drawn), 1)
    bias = ndtri(min(max(below, 0.5 / DRAWS), 1 - 0.5 / DRAWS))
    there = np.flatnonzero(cells)
    without = values(_counts(cells.astype(np.float64) - np.eye(len(cells))[there]))
    known = ~np.isnan(without)
    weights, without = cells[there][known], without[known]
    apart = np.average(without, weights=weights) - without if len(without) else without
    cubes, squares = (weights * apart**3).sum(), (weights * apart**2).sum()
    skew = cubes / (6 * squares**1.5) if squares > 0 else 0.0
    ends = bias + ndtri([(1 - level) / 2, (1 + level) / 2])
    low, high = np.quantile(drawn, ndtr(bias + ends / (1 - skew * ends))) if len(drawn) else (np.nan, np.nan)
    return float(low), float(high)


def multinomial(cells: Array, draws: int = DRAWS) -> Array:
    """Draw as many samples again from the cells, with replacement; one row for each resample."""
    total = int(cells.sum())
    there = np.flatnonzero(cells)
    drawn = np.zeros((draws, len(cells)), dtype=np.int64)
    drawn[:, there] = np.random.default_rng(SEED).multinomial(total, cells[there] / total, draws)
    return drawn


def _counts(drawn: Array) -> Counts:
    return Counts(*torch.from_numpy(np.ascontiguousarray(drawn.T)))


def tails(values: Array, level: float) -> tuple[float, float]:
    """The equal-tailed interval of the values that are not NaN."""
    refuse_few(len(values), level)
    known = np.sort(values[~np.isnan(values)])
    if not len(known):
        return float("nan"), float("nan")
    places = [(1 - level) / 2 * (len(known) - 1), (1 + level) / 2 * (len(known) - 1)]
    return float(known[int(np.floor(places[0]))]), float(known[int(np.ceil(places[1]))])


def refuse_few(draws: int, level: float) -> None:
    """Refuse a level so high that hardly any drawn table lies beyond the ends, which would be too near."""
    if (1 - level) / 2 * draws < BEYOND * (1 - 1e-9):
        raise DeclarationError(
            f"expected a level of at most {1 - 2 * BEYOND / draws:g} for a method that draws at random, got {level!r}: "
            f"too few of the {draws:,} drawn tables would lie beyond the ends."
        )
