"""Statistics of a whole multiclass table, from one class against the rest: sums over classes, not averages of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch

from lightning_evalkit.counts import real_dtype
from lightning_evalkit.registry import Registry
from lightning_evalkit.statistics.quantity import Quantity, ratio, root

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from lightning_evalkit.counts import Counts

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
    covariance, samples = _agreement_beyond_chance(c), c.positives.sum(-1)
    spread = [samples**2 - (m**2).sum(-1) for m in (c.positives, c.predicted_positives)]
    return root(covariance * abs(covariance), spread[0] * spread[1])


@overall("kappa")
def kappa(c: Counts) -> Quantity:
    """Agreement beyond chance (Cohen)."""
    c = c.real()
    chance = (c.positives * c.predicted_positives).sum(-1)
    return ratio(_agreement_beyond_chance(c), c.positives.sum(-1) ** 2 - chance)


def _agreement_beyond_chance(c: Counts) -> Tensor:
    agreement: Tensor = c.tp.sum(-1) * c.positives.sum(-1) - (c.positives * c.predicted_positives).sum(-1)
    return agreement


def weighted_kappa(matrix: Tensor, weights: Literal["linear", "quadratic"]) -> Tensor:
    """Kappa in which a disagreement weighs by the (squared) distance between ordered classes; NaN for 0/0."""
    matrix = matrix.to(real_dtype(matrix.device))
    steps = torch.arange(matrix.shape[-1], device=matrix.device, dtype=matrix.dtype)
    cost = (steps.unsqueeze(0) - steps.unsqueeze(1)).abs() ** (1 if weights == "linear" else 2)
    expected = matrix.sum(-1, keepdim=True) * matrix.sum(-2, keepdim=True) / matrix.sum((-2, -1), keepdim=True)
    return 1 - (cost * matrix).sum((-2, -1)) / (cost * expected).sum((-2, -1))
