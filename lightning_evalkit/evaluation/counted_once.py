"""Counts that are given once, to be explained: without a state, and without torchmetrics, which loads slowly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lightning_evalkit.counts import BucketCounter, MulticlassCounter
from lightning_evalkit.errors import DeclarationError, nearest
from lightning_evalkit.evaluation.curves import Curves
from lightning_evalkit.evaluation.explaining_many import ExplainingClasses, ExplainingLabels
from lightning_evalkit.evaluation.intervals import Intervals
from lightning_evalkit.evaluation.label_counter import DEFAULT, label_counter
from lightning_evalkit.evaluation.names import checked_class_names, multilabel_readout, sample_sums_of
from lightning_evalkit.inputs import Multiclass, Multilabel
from lightning_evalkit.inputs.declaration import names_given

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

    from lightning_evalkit.counts import Counts, Evidence, EvidenceCounter
    from lightning_evalkit.evaluation.readouts import Readout


class _CountedBatch:
    """One batch in place of a state."""

    update_called, sync_on_compute = True, False

    def __init__(self, counter: EvidenceCounter, *batch: Any) -> None:
        totals: Any = counter.count(*batch)
        totals = totals.dense(counter.layout.integers.width)
        self.counter, self.global_ledger = counter, counter.ledger(totals)
        self._evidence = counter.evidence(totals)

    @property
    def counts(self) -> Counts:
        return self._evidence.counts

    def compute(self) -> Evidence:
        """What was counted."""
        return self._evidence


class _CountedOnce(Curves, Intervals):
    """Reads what an evaluation would read from its state."""

    def __init__(self, tally: _CountedBatch, readouts: Mapping[str, Readout], zero_division: float) -> None:
        self._tally, self._readouts, self.zero_division = tally, readouts, zero_division

    @property
    def tally(self) -> Any:
        return self._tally

    def _reports(self, name: str) -> bool:
        return name in self._readouts

    def _reported(self, name: str) -> Readout:
        if name not in self._readouts:
            raise DeclarationError(f"there is no entry {name!r}: {nearest(name, self._readouts)}")
        return self._readouts[name]


class CountedClasses(_CountedOnce, ExplainingClasses):
    """Labels of one class among many."""

    def __init__(self, preds: Tensor, target: Tensor, names: Sequence[str], matrix: bool, zero_division: float) -> None:
        self.class_names = tuple(checked_class_names("class", names, len(names)))
        task = Multiclass("labels", num_classes=len(names), matrix=matrix, names=names_given(names))
        super().__init__(_CountedBatch(MulticlassCounter(task), preds, target, None), {}, zero_division)


class CountedLabels(_CountedOnce, ExplainingLabels):
    """Labels of several yes-or-no predictions per sample, counted in buckets."""

    def __init__(
        self,
        preds: Tensor,
        target: Tensor,
        names: Sequence[str],
        sample: Tensor,
        buckets: int,
        statistics: Sequence[str],
        zero_division: float,
    ) -> None:
        labels = checked_class_names("label", names, len(names))
        self.label_names, wanted = tuple(labels), [*dict.fromkeys((*DEFAULT, *statistics))]
        readouts = {name: multilabel_readout(name, labels) for name in wanted}
        sums, called = sample_sums_of(wanted), names_given(names)
        task = Multilabel("labels", num_labels=len(names), sample_sums=sums, names=called, buckets=buckets)
        counter = label_counter(task)
        bucketed: Any = BucketCounter(counter, counter, buckets)
        super().__init__(_CountedBatch(bucketed, preds, target, None, sample), readouts, zero_division)
