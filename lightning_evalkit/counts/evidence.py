"""The evidence of an evaluation's totals, read once: every reported number is computed from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from lightning_evalkit.counts.counter import Counter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

    from lightning_evalkit.counts.buckets import Buckets
    from lightning_evalkit.counts.calibration_sums import Calibration
    from lightning_evalkit.counts.counter import BatchTotals, Totals
    from lightning_evalkit.counts.counts import Counts
    from lightning_evalkit.counts.score_counts import ScoreCounts
    from lightning_evalkit.inputs import Declaration

Found = TypeVar("Found")


@dataclass(frozen=True, eq=False)
class Evidence:
    """The counts of a declaration and its other parts; a part that is not stored is None or empty."""

    task: Declaration
    counts: Counts
    """One table for each threshold, class or label, in the last dimension."""
    matrix: Tensor | None = None
    """The confusion matrix, targets in rows and predictions in columns."""
    hits: Mapping[int, Tensor] = field(default_factory=dict)
    """For each k, how often the target was among the k largest scores."""
    sample_sums: Mapping[str, tuple[Tensor, Tensor]] = field(default_factory=dict)
    """Sums over samples by name, and the weight of the samples that have a value."""
    scores: ScoreCounts | None = None
    """The histograms of scores, one for each class or label."""
    calibration: Calibration | None = None
    """Sums over probabilities."""
    buckets: Buckets | None = None
    """The counts of every bucket of samples."""
    _known: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    def once(self, compute: Callable[..., Found], *given: Any) -> Found:
        """``compute(self, *given)``, computed at the first call."""
        key = (compute, *given)
        found: Found | None = self._known.get(key)
        if found is None:
            found = self._known[key] = compute(self, *given)
        return found


class EvidenceCounter(Counter, Protocol):
    """A counter whose totals are read as evidence."""

    def evidence(self, totals: Totals) -> Evidence:
        """The evidence of these totals."""


class CountCounter(EvidenceCounter, Protocol):
    """A counter of decisions: at a threshold, of classes or of labels."""

    plain: bool
    """Whether batches on the CPU are counted at once."""

    def count_arranged(self, preds: Tensor, target: Tensor, weight: Tensor | None, batches: int = 1, /) -> BatchTotals:
        """The totals of one batch that the declaration has arranged, or of several that are counted as one."""

    def counts(self, totals: Totals) -> Counts:
        """The counts in these totals, weighted where declared so."""
