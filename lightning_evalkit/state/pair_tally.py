"""The state of two models on the same samples: an update takes the predictions of both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from lightning_evalkit.ranks import rank_and_world_size
from lightning_evalkit.state.tally import Tally

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts import PairCounter

RANK = 2**40
"""The most rows of a rank; more would get the ids of the next rank."""


class PairTally(Tally):
    """Counts of two models on the same samples."""

    counter: PairCounter  # type: ignore[assignment]  # counts two predictions for each target

    def update(  # type: ignore[override]
        self,
        first: Tensor,
        second: Tensor,
        target: Tensor,
        sample_weight: Tensor | None = None,
        sample: Any = None,
        cluster: Any = None,
    ) -> None:
        """Count the predictions of both models; without ids every row is a separate sample."""
        self.refuse_elsewhere(first)
        self.refuse_elsewhere(second)
        if sample is None and cluster is None:
            begin = rank_and_world_size()[0] * RANK
            rows = self.counter.split(self.totals).rows
            sample = torch.arange(begin, begin + len(target), device=target.device) + rows
        self.keep(self.counter.count(first, second, target, sample_weight, sample, cluster))
