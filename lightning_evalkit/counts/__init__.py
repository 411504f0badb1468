"""Meaning into counts: the only hot code."""

from lightning_evalkit.counts.binary import BinaryCounter
from lightning_evalkit.counts.counter import Counter, Ledger, Totals, is_deferred
from lightning_evalkit.counts.counts import Counts, real_dtype
from lightning_evalkit.counts.losses import LossCounter
from lightning_evalkit.counts.multiclass import MulticlassCounter
from lightning_evalkit.counts.multilabel import MultilabelCounter

__all__ = [
    "BinaryCounter",
    "Counter",
    "Counts",
    "Ledger",
    "LossCounter",
    "MulticlassCounter",
    "MultilabelCounter",
    "Totals",
    "is_deferred",
    "real_dtype",
]
