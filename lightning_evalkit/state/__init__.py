"""Counts into one tensor kept on the device, and its sum over ranks in one all-reduce."""

from lightning_evalkit.state.bucket_tally import BucketTally
from lightning_evalkit.state.evidence_tally import EvidenceTally
from lightning_evalkit.state.group_tally import GroupTally
from lightning_evalkit.state.pair_tally import PairTally
from lightning_evalkit.state.tally import Tally

__all__ = ["BucketTally", "EvidenceTally", "GroupTally", "PairTally", "Tally"]
