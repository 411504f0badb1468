"""Meaning into counts: the only hot code."""

from lightning_evalkit.counts.binary import BinaryCounter
from lightning_evalkit.counts.counter import Counter, Ledger, Totals, is_deferred
from lightning_evalkit.counts.counts import Counts, real_dtype
from lightning_evalkit.counts.exact import ExactScores
from lightning_evalkit.counts.joined import JoinedCounter
from lightning_evalkit.counts.losses import LossCounter
from lightning_evalkit.counts.multiclass import MulticlassCounter
from lightning_evalkit.counts.multilabel import MultilabelCounter
from lightning_evalkit.counts.probabilities import Calibration
from lightning_evalkit.counts.questions import ScoreCounts
from lightning_evalkit.counts.scores import ScoreCounter
from lightning_evalkit.counts.slices import SliceCounter

__all__ = [
    "BinaryCounter",
    "Calibration",
    "Counter",
    "Counts",
    "ExactScores",
    "JoinedCounter",
    "Ledger",
    "LossCounter",
    "MulticlassCounter",
    "MultilabelCounter",
    "ScoreCounter",
    "ScoreCounts",
    "SliceCounter",
    "Totals",
    "is_deferred",
    "real_dtype",
]
