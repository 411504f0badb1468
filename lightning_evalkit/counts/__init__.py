"""Meaning into counts: the only hot code."""

from lightning_evalkit.counts.binary import BinaryCounter
from lightning_evalkit.counts.counter import Counter, Ledger, Totals
from lightning_evalkit.counts.counts import Counts, real_dtype

__all__ = ["BinaryCounter", "Counter", "Counts", "Ledger", "Totals", "real_dtype"]
