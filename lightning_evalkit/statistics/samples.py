"""Values of single samples over their labels, whose sums an evaluation keeps; NaN where a sample has none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts import Counts
    from lightning_evalkit.statistics.table import Statistic


@dataclass(frozen=True)
class of_samples:  # noqa: N801  # reads as a function: of_samples(f1)(counts)
    """The statistic of each sample."""

    statistic: Statistic

    def __call__(self, counts: Counts) -> Tensor:
        """One value per sample."""
        return self.statistic(counts).value()
