"""Values of single samples over their labels, whose sums an evaluation keeps; NaN where a sample has none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from lightning_evalkit.counts import Counts
    from lightning_evalkit.statistics.table import Statistic


def without_error(counts: Counts) -> Tensor:
    """1 for a sample without an error, 0 with one."""
    right: Tensor = counts.errors == 0
    return right.to(counts.tp.dtype)


def exact_match(counts: Counts) -> Tensor:
    """The same; a sample with nothing to look at, all its labels ignored, has no value."""
    return torch.where(counts.total == 0, torch.nan, without_error(counts))


def looked_at(counts: Counts) -> Tensor:
    """1 for every sample with something to look at: their sum is the number of samples."""
    return torch.where(counts.total == 0, torch.nan, torch.ones_like(counts.tp))


def of_samples(statistic: Statistic) -> Callable[[Counts], Tensor]:
    """The statistic of each sample."""
    return _OfSamples(statistic)


class _OfSamples:
    def __init__(self, statistic: Statistic) -> None:
        self.statistic = statistic

    def __call__(self, counts: Counts) -> Tensor:
        return self.statistic(counts).value()
