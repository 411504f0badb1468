"""The cache of a metric between two updates: the totals of all ranks, and their evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lightning_evalkit.counts import Evidence, Ledger, Totals


@dataclass
class GlobalTotals:
    """Totals over all ranks, their bookkeeping and, once read, their evidence."""

    totals: Totals
    ledger: Ledger
    evidence: Evidence | None = None

    def __reduce__(self) -> tuple[type[GlobalTotals], tuple[Totals, Ledger]]:
        return GlobalTotals, (self.totals, self.ledger)  # a copy reads its own evidence
