"""The state of counts by group: a batch touches only the groups it has samples of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from lightning_evalkit.state.tally import Tally

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts import SliceCounter, Totals


class GroupTally(Tally):
    """A row of counts for every group; updates also take the group number of every sample."""

    counter: SliceCounter  # type: ignore[assignment]  # adds a batch to totals instead of making new ones

    def update(  # type: ignore[override]
        self, preds: Tensor, target: Tensor, groups: Tensor, sample_weight: Tensor | None = None
    ) -> None:
        """Count a batch, each sample in its group. If it raises, nothing of the batch was counted."""
        self.refuse_elsewhere(preds)
        self.counter.add(self.totals, preds, target, groups, sample_weight)

    def batch_totals(self, *args: Any, **kwargs: Any) -> Totals:
        """Count a batch in a new state, add that, and return it as the totals of this batch alone."""
        held = after = self._states()
        try:
            with torch.inference_mode(False):
                self.__dict__.update(self.storage.empty(self._device))
            self.update(*args, **kwargs)
            with torch.inference_mode(False):  # not in place: a stock MetricCollection may share the state
                after = self.storage.sum(held, self.__dict__)
            return self._over_ranks(self.dist_sync_on_step)
        finally:
            self.__dict__.update(after)
