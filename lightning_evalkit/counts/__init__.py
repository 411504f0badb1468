"""Counts batches of declared meaning: the only hot code."""

from lightning_evalkit.counts.binary import BinaryCounter
from lightning_evalkit.counts.binned_scores import ScoreCounter
from lightning_evalkit.counts.buckets import BucketCounter
from lightning_evalkit.counts.calibration_counter import BinSums, CalibrationCounter
from lightning_evalkit.counts.calibration_sums import Calibration
from lightning_evalkit.counts.counter import ArrayTotals, BatchTotals, Counter, Ledger, Totals
from lightning_evalkit.counts.counts import ANSWERS, Counts, real_dtype
from lightning_evalkit.counts.counts_and_scores import CountsAndScores
from lightning_evalkit.counts.deferral import is_deferred
from lightning_evalkit.counts.evidence import CountCounter, Evidence, EvidenceCounter
from lightning_evalkit.counts.layout import Cells, Layout
from lightning_evalkit.counts.losses import LossCounter
from lightning_evalkit.counts.multiclass import MulticlassCounter
from lightning_evalkit.counts.multilabel import MultilabelCounter
from lightning_evalkit.counts.pairs import PairCounter
from lightning_evalkit.counts.pending import PendingBatches, pending_for
from lightning_evalkit.counts.sample_values import SampleValueCounter
from lightning_evalkit.counts.score_counts import Edges, Limits, ScoreCounts
from lightning_evalkit.counts.slices import SliceCounter
from lightning_evalkit.counts.stored_scores import StoredScores

__all__ = [
    "ANSWERS",
    "ArrayTotals",
    "BatchTotals",
    "BinSums",
    "BinaryCounter",
    "BucketCounter",
    "Calibration",
    "CalibrationCounter",
    "Cells",
    "CountCounter",
    "Counter",
    "Counts",
    "CountsAndScores",
    "Edges",
    "Evidence",
    "EvidenceCounter",
    "Layout",
    "Ledger",
    "Limits",
    "LossCounter",
    "MulticlassCounter",
    "MultilabelCounter",
    "PairCounter",
    "PendingBatches",
    "SampleValueCounter",
    "ScoreCounter",
    "ScoreCounts",
    "SliceCounter",
    "StoredScores",
    "Totals",
    "is_deferred",
    "pending_for",
    "real_dtype",
]
