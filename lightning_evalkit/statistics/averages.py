"""Averages over classes or labels, written once for every statistic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import numpy as np
import torch

from lightning_evalkit.counts import is_deferred
from lightning_evalkit.errors import DeclarationError

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts import Counts
    from lightning_evalkit.statistics.table import Statistic

Average = Literal["micro", "macro", "weighted", "none"]


def checked_average(average: Average | None, number: int | None = 1) -> Average:
    """How classes are averaged, or 'none'; without a number of classes they can only be summed."""
    average = "none" if average is None else average
    if average not in get_args(Average):
        raise DeclarationError(
            f"expected average to be None or one of {', '.join(map(repr, get_args(Average)))}, got {average!r}."
        )
    if number is None and average != "micro":
        raise DeclarationError(f"expected num_classes for average={average!r}: only 'micro' does without.")
    return average


def averaged(
    statistic: Statistic,
    counts: Counts,
    average: Average,
    zero_division: float,
    included: Tensor | None = None,
    empty: float = float("nan"),
) -> Tensor:
    """The statistic over the last dimension of the counts: of their sum (micro), or of each and then averaged.

    ``included`` says which classes take part in a macro or weighted average; by default those where the statistic has
    a value. ``empty`` is the average of none.
    """
    if average == "micro":
        return statistic.value(counts.summed(), zero_division)
    values = statistic.value(counts, zero_division)
    if average == "none":
        return values
    included = ~values.isnan() if included is None else included
    weights = included.to(values.dtype)
    if average == "weighted":
        weights = weights * cast("Tensor", counts.support)
    return mean(values, weights, empty)


def mean(values: Tensor, weights: Tensor, empty: float) -> Tensor:
    """The weighted mean over the last dimension; what weighs nothing is not looked at, NaN or not."""
    if is_deferred(values) or values.requires_grad:  # an interval follows the gradient of a mean
        found: Tensor = _mean(torch, values, weights.to(values.dtype), empty)
        return found
    with np.errstate(invalid="ignore", divide="ignore"):
        return torch.from_numpy(np.asarray(_mean(np, values.numpy(), weights.numpy(), empty)))


def _mean(library: Any, values: Any, weights: Any, empty: float) -> Any:
    total = weights.sum(-1)
    part = library.where(weights == 0, 0.0, values * weights).sum(-1)
    return library.where(total == 0, empty, part / total)
