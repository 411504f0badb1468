"""The state of an evaluation that counts in buckets: an update also takes the ids of samples or of clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lightning_evalkit.state.evidence_tally import EvidenceTally

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts import BucketCounter


class BucketTally(EvidenceTally):
    """Counts of one declaration, and of every bucket of samples."""

    counter: BucketCounter

    def update(
        self,
        preds: Tensor,
        target: Tensor,
        sample_weight: Tensor | None = None,
        sample: Any = None,
        cluster: Any = None,
    ) -> None:
        """Count a batch, each sample in the bucket of its id. If it raises, nothing of the batch was counted."""
        self.refuse_elsewhere(preds)
        self.keep(self.counter.count(preds, target, sample_weight, sample, cluster))
