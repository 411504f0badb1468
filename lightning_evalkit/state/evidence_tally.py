"""The state of an evaluation: what is joined over ranks is read as evidence, once for all of its entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightning_evalkit.state.tally import Tally

if TYPE_CHECKING:
    from lightning_evalkit.counts import Counts, Evidence, EvidenceCounter, Totals
    from lightning_evalkit.state.joined import Joined


class EvidenceTally(Tally):
    """Counts of one declaration; ``compute`` gives the evidence of all ranks."""

    counter: EvidenceCounter
    warned_undefined = False
    """Whether it was said that a value is NaN, and why."""
    warned_untold = False
    """Whether it was said that a threshold is a logit that no probability holds."""

    @property
    def evidence(self) -> Evidence:
        """The evidence of all ranks; readable also when ``compute`` raises because of invalid samples."""
        return self._read(self._globally())

    @property
    def counts(self) -> Counts:
        """The counts over all ranks; readable also when ``compute`` raises because of invalid samples."""
        return self.evidence.counts

    def compute(self) -> Evidence:
        """The evidence of all ranks. Raises if samples were not what was declared."""
        return self._read(self._valid())

    def _read(self, joined: Joined) -> Evidence:
        if joined.evidence is None:
            joined.evidence = self.counter.evidence(joined.totals)
        return joined.evidence

    def value_of(self, totals: Totals) -> Evidence:
        """The evidence of other totals, such as those of one batch."""
        return self.counter.evidence(totals)
