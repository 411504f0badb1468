"""Averages over classes or labels: whether they have an interval, and how wide the classes' intervals make it.

The value of a class with few samples is mostly chance (one of one correct looks certain), yet an average gives such a
class as much weight as any other. Two rules follow. An average has an interval only if at most one in ten of its
classes has fewer than five samples: values from fewer are biased, all in the same direction, and no width corrects
that. And the interval is at least as wide as the classes' intervals make it: their distances from the values are
squared, added and rooted (Zou and Donner 2008).
"""

from __future__ import annotations

from math import inf, isinf, sqrt
from typing import TYPE_CHECKING, cast

import torch

from lightning_evalkit.counts import Counts
from lightning_evalkit.intervals.binomial import wilson
from lightning_evalkit.intervals.shares import share_of

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.statistics import Quantity, Statistic

FEW = 5
"""The fewest samples from which the value of a class is known well enough."""
MOST = 0.1
"""The largest share of classes that may have fewer."""
FILLED = 0.9
"""The share of filled buckets above which they say little about the number of ids in them."""
ONE_TRUE_NEGATIVE = Counts(tp=0, fp=0, fn=0, tn=1)


def too_few(samples: Tensor, kind: str, of: str) -> str:
    """The reason why an average over classes with so many ``samples`` has no interval; empty if it has one.

    >>> import torch
    >>> too_few(torch.tensor([40, 30, 2]), "classes", "samples").partition(",")[0]
    '1 of the 3 classes that it averages has fewer than 5 samples'
    """
    few, number = int((samples < FEW).sum()), len(samples)
    if few <= MOST * number:
        return ""
    return (
        f"{few} of the {number} {kind} that it averages {'has' if few == 1 else 'have'} fewer than {FEW} {of}, "
        f"so chance biases their mean; single {kind} have intervals"
    )


def looked_at(statistic: Statistic, counts: Counts) -> Tensor:
    """The samples behind the value of each class: its targets, or the whole of a share that counts true negatives."""
    if share_of(statistic) is not None and statistic(ONE_TRUE_NEGATIVE).terms[0].whole:
        return cast("Tensor", statistic.in_tensors(counts).terms[0].whole)
    return cast("Tensor", counts.positives)


def units(held: Tensor, buckets: int) -> Tensor:
    """Estimate how many ids fill ``held`` of all ``buckets``; infinitely many if nearly all are filled.

    >>> import torch
    >>> units(torch.tensor([0, 4, 1024]), 1024).round(decimals=2).tolist()
    [0.0, 4.01, inf]
    """
    share = held.double() / buckets
    return torch.where(share > FILLED, inf, -buckets * torch.log1p(-share))


def one_class(samples: Tensor) -> str:
    """The reason why a statistic that compares classes has no interval if nearly all samples are of one of them."""
    others = int(samples.sum() - samples.max())
    if others >= FEW:
        return ""
    are = "sample is" if others == 1 else "samples are"
    return f"only {others} {are} not of the most frequent class, too few to compare with"


def from_classes(
    statistic: Statistic, counts: Counts, included: Tensor, value: float, level: float, units: Tensor | None = None
) -> tuple[float, float]:
    """The ends of an average that follow from Wilson's intervals of its classes; its value if they have none.

    ``units`` is the number of independent units of each class, if these are not its samples.
    """
    share = share_of(statistic)
    if share is None:
        return value, value
    term = statistic.in_tensors(counts).terms[0]
    inside, outside = term.part / float(share.inside), (term.whole - term.part) / float(share.outside)
    size = inside + outside
    told = size if units is None else size * units / looked_at(statistic, counts.real())
    averaged, included = int(included.sum()), included & (size > 0)  # a value that stands for 0/0 does not vary
    below = above = 0.0
    for right, number in zip((inside / size)[included].tolist(), told[included].tolist(), strict=True):
        if isinf(number):
            continue
        middle, low, high = map(share.image, (right, *wilson(right * number, number, level)))
        below, above = below + (middle - low) ** 2, above + (high - middle) ** 2
    return value - sqrt(below) / averaged, value + sqrt(above) / averaged


def from_terms(quantity: Quantity, told: list[float], value: float, level: float) -> tuple[float, float]:
    """The ends of a sum of shares that follow from Wilson's intervals of each, given their numbers of samples."""
    below = above = 0.0
    for term, number in zip(quantity.terms, told, strict=True):
        if not isinf(number):
            share = float(term.part / term.whole)
            low, high = wilson(share * number, number, level)
            below, above = below + (share - low) ** 2, above + (high - share) ** 2
    return value - sqrt(below) / quantity.divisor, value + sqrt(above) / quantity.divisor
