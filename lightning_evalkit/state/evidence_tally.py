"""The state of an evaluation: its totals over all ranks are read as evidence, once for all entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightning_evalkit.state.tally import Tally

if TYPE_CHECKING:
    from lightning_evalkit.counts import Counts, Evidence, EvidenceCounter, Totals
    from lightning_evalkit.state.global_totals import GlobalTotals


class EvidenceTally(Tally):
    """Counts of one declaration; ``compute`` returns the evidence of all ranks."""

    counter: EvidenceCounter
    warned_undefined = False
    """Whether the warning about a NaN value was given."""
    warned_untold = False
    """Whether the warning about a logit that no probability represents was given."""

    @property
    def evidence(self) -> Evidence:
        """The evidence of all ranks; readable also when ``compute`` raises because of invalid samples."""
        return self._read(self._globally())

    @property
    def counts(self) -> Counts:
        return self.evidence.counts

    def compute(self) -> Evidence:
        """The evidence of all ranks; raise if samples were not as declared."""
        return self._read(self._valid())

    def _read(self, joined: GlobalTotals) -> Evidence:
        if joined.evidence is None:
            joined.evidence = self.counter.evidence(joined.totals)
        return joined.evidence

    def value_of(self, totals: Totals) -> Evidence:
        """The evidence of other totals, such as those of one batch."""
        return self.counter.evidence(totals)
