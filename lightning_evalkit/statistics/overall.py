"""Statistics of a whole multiclass table, from one-vs-rest counts: sums over classes, not averages of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch

from lightning_evalkit.counts import Counts, real_dtype
from lightning_evalkit.counts.wide import Wide
from lightning_evalkit.registry import Registry
from lightning_evalkit.statistics.quantity import Quantity, ratio, root

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

OVERALL: Registry[Callable[[Counts], Quantity]] = Registry("statistic of a whole multiclass table")


def overall(name: str) -> Callable[[Callable[[Counts], Quantity]], Callable[[Counts], Quantity]]:
    """Add a function of the counts of all classes, shape (..., C), to the table."""

    def add(definition: Callable[[Counts], Quantity]) -> Callable[[Counts], Quantity]:
        OVERALL.add(name, definition)
        return definition

    return add


@overall("accuracy")
def accuracy(c: Counts) -> Quantity:
    """Correct predictions of all."""
    return ratio(c.tp.sum(-1), c.positives.sum(-1))


@overall("hamming_distance")
def hamming_distance(c: Counts) -> Quantity:
    """Wrong predictions of all."""
    return ratio(c.fn.sum(-1), c.positives.sum(-1))


@overall("mcc")
def mcc(c: Counts) -> Quantity:
    """Matthews correlation (Gorodkin): covariance of target and prediction over the root of their variances."""
    c = c.real()
    covariance = _agreement_beyond_chance(c)
    spread = (c.positives * c.negatives).sum(-1), (c.predicted_positives * c.predicted_negatives).sum(-1)
    return root(covariance * abs(covariance), spread[0] * spread[1])


@overall("kappa")
def kappa(c: Counts) -> Quantity:
    """Agreement beyond chance (Cohen)."""
    c = c.real()
    return ratio(_agreement_beyond_chance(c), (c.positives * c.predicted_negatives).sum(-1))


def _agreement_beyond_chance(c: Counts) -> Tensor:
    """Σ (tp tn - fp fn) over classes: the same as all · right - Σ targets · predictions, with less to cancel."""
    agreement: Tensor = (c.tp * c.tn - c.fp * c.fn).sum(-1)
    return agreement


def weighted_kappa(matrix: Tensor, weights: Literal["linear", "quadratic"]) -> Tensor:
    """Kappa that weights a disagreement by the (squared) distance between ordered classes; NaN for 0/0."""
    weighted, matrix = matrix.is_floating_point(), matrix.to(real_dtype(matrix.device))
    if weighted:  # by a power of two, so that sums do not overflow and small parts vanish last
        room = 900 if matrix.dtype == torch.float64 else 100
        matrix = Wide.of(matrix.flatten(-2)).in_proportion(room).view(matrix.shape)
    steps = torch.arange(matrix.shape[-1], device=matrix.device, dtype=matrix.dtype)
    cost = (steps.unsqueeze(0) - steps.unsqueeze(1)).abs() ** (1 if weights == "linear" else 2)
    expected = matrix.sum(-1, keepdim=True) * (matrix.sum(-2, keepdim=True) / matrix.sum((-2, -1), keepdim=True))
    return 1 - (cost * matrix).sum((-2, -1)) / (cost * expected).sum((-2, -1))
