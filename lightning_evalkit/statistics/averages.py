"""Averages over classes or labels, written once for every statistic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import numpy as np
import torch

from lightning_evalkit.counts import is_deferred
from lightning_evalkit.counts.wide import Wide, is_moderate
from lightning_evalkit.errors import DeclarationError

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts import Counts
    from lightning_evalkit.statistics.table import Statistic

Average = Literal["micro", "macro", "weighted", "none"]


def checked_average(average: Average | None, number: int | None = 1) -> Average:
    """Return the kind of average, 'none' for None; without a number of classes only 'micro' is possible."""
    average = "none" if average is None else average
    if average not in get_args(Average):
        raise DeclarationError(
            f"expected average to be None or one of {', '.join(map(repr, get_args(Average)))}, got {average!r}."
        )
    if number is None and average != "micro":
        raise DeclarationError(f"expected num_classes for average={average!r}: only 'micro' works without it.")
    return average


def averaged(
    statistic: Statistic,
    counts: Counts,
    average: Average,
    zero_division: float,
    included: Tensor | None = None,
    empty: float = float("nan"),
) -> Tensor:
    """The statistic over the last dimension: of the summed counts (micro), or of each class and then averaged.

    ``included`` masks the classes of a macro or weighted average; by default, those where the statistic is defined.
    ``empty`` is the average over no class.
    """
    if average == "micro":
        return statistic.value(counts.of_any_size().summed() if is_weighted(counts) else counts.summed(), zero_division)
    values = statistic.value(counts, zero_division)
    if average == "none":
        return values
    included = ~values.isnan() if included is None else included
    weights = included.to(values.dtype)
    if average == "weighted":
        weights = weights * supports(counts)
    return mean(values, weights, empty)


def supports(counts: Counts) -> Tensor:
    """The support of each table; of weights any multiple, as a mean needs no more than their proportions."""
    found = counts.of_any_size().support if is_weighted(counts) else counts.support
    return cast("Tensor", found.in_proportion() if isinstance(found, Wide) else found)


def is_weighted(counts: Counts) -> bool:
    """Whether these are sums of weights, which may be of any size."""
    return bool(counts.tp.is_floating_point())


def mean(values: Tensor, weights: Tensor, empty: float) -> Tensor:
    """The weighted mean over the last dimension; a value of weight 0 is left out, even if it is NaN."""
    if is_deferred(values) or values.requires_grad:  # an interval follows the gradient of a mean
        found: Tensor = _mean(torch, values, weights.to(values.dtype), empty)
        return found
    amounts = weights.numpy()
    if not is_moderate((amounts,)):
        amounts = Wide.of(amounts).in_proportion()
    with np.errstate(invalid="ignore", divide="ignore"):
        return torch.from_numpy(np.asarray(_mean(np, values.numpy(), amounts, empty)))


def _mean(library: Any, values: Any, weights: Any, empty: float) -> Any:
    total = weights.sum(-1)
    part = library.where(weights == 0, 0.0, values * weights).sum(-1)
    return library.where(total == 0, empty, part / total)
