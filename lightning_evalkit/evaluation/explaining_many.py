"""Explains the numbers of many classes and of many labels, of whatever holds their counts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lightning_evalkit.diagnosis import Finding, SampleSums, explain_multiclass, explain_multilabel
from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.evaluation.explaining import Explaining, never_predicted, one_class_predicted
from lightning_evalkit.evaluation.losses import (
    beside_loss,
    explained_by_confidence,
    explained_by_scores,
    profile_of_scores,
    refused,
)
from lightning_evalkit.evaluation.names import MEANINGS, multiclass_readout, multilabel_readout
from lightning_evalkit.evaluation.readouts import TopK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lightning_evalkit.evaluation.readouts import Readout


class ExplainingClasses(Explaining):
    """Explains one class among many."""

    class_names: tuple[str, ...]

    def explain(self, first: str | None = None, second: str | None = None) -> Finding:
        """Explain why two numbers are equal, or how far apart they are and why; or what one number says and hides.

        The default is accuracy and "f1/micro"; "loss" and "accuracy" can be explained too.
        """
        if (beside := beside_loss(first, second, "accuracy")) is not None:
            if beside != "accuracy":
                raise refused("accuracy", beside)
            self._refuse_without_scores()
            return self.nothing_counted() or explained_by_confidence(self)
        names = [first] if first is not None and second is None else [first or "accuracy", second or "f1/micro"]
        places = {name: place for place, name in enumerate(self.class_names)}
        readouts = {name: multiclass_readout(name, places) for name in names}
        for name, readout in readouts.items():
            if isinstance(readout, TopK) and not self._reports(name):
                raise DeclarationError(f"{name!r} was not counted: add it to the statistics of the evaluation.")
        self._refuse_unkept(readouts)
        if (nothing := self.nothing_counted()) is not None:
            return nothing
        values, ignored = self._explained(readouts), self.tally.counter.task.ignored
        if len(names) == 1:
            return self._alone(names[0], readouts[names[0]], values[names[0]], self.class_names, exclusive=True)
        finding = explain_multiclass(self.tally.counts, values, not ignored, self.zero_division, self.class_names)
        if constant := one_class_predicted(self.tally.counts, self.class_names):
            finding = replace(finding, reasons=(f"{constant} gives the same numbers.", *finding.reasons))
        return self._sure(finding, readouts)


class ExplainingLabels(Explaining):
    """Explains several yes-or-no predictions per sample."""

    label_names: tuple[str, ...]

    def explain(
        self,
        first: str | None = None,
        second: str | None = None,
        before: Any = None,
    ) -> Finding:
        """Explain why two numbers are equal, or how far apart they are and why; or what one number says and hides.

        The default is exact_match and hamming_accuracy. "loss" and "hamming_accuracy" (with ``curves``) can be
        explained too and, given the evaluation of an epoch ``before``, what has changed since.
        """
        if (beside := beside_loss(first, second, "hamming_accuracy")) is not None:
            if beside != "hamming_accuracy":
                raise refused("hamming_accuracy", beside)
            self._refuse_without_scores()
            return self.nothing_counted() or self._explained_loss(beside, before)
        single = first is not None and second is None
        names = [first] if single else [first or "exact_match", second or "hamming_accuracy"]
        if "accuracy" in names and not self._reports("accuracy"):
            raise DeclarationError(MEANINGS)
        readouts = {name: self._readout_of(name) for name in names if name is not None}
        self._refuse_unkept(readouts)
        if (nothing := self.nothing_counted()) is not None:
            return nothing
        values = self._explained(readouts)
        if single and first is not None:
            return self._alone(first, readouts[first], values[first], self.label_names, exclusive=False)
        complete = not self.tally.global_ledger.ignored
        sums = self._sample_sums(readouts)
        counts, labels = self.tally.counts, self.label_names
        finding = explain_multilabel(counts, values, labels, complete, self.zero_division, sums)
        finding = replace(finding, reasons=(*never_predicted(counts, labels), *finding.reasons))
        return self._sure(finding, readouts)

    def _readout_of(self, name: str) -> Readout:
        """The readout of an entry, or of any number that the counts of labels hold."""
        if not self._reports(name) and name.partition("/")[2] in self.label_names:
            return multilabel_readout(name, {label: place for place, label in enumerate(self.label_names)})
        return self._reported(name)

    def _explained_loss(self, accuracy: str, before: Any) -> Finding:
        earlier = None if before is None else profile_of_scores(before, before.tally.counts).profile
        task: Any = self.tally.counter.task
        halfway = all(cut == 0.5 for cut in task.thresholds)
        return explained_by_scores(self, self.tally.counts, accuracy, halfway, earlier)

    def _sample_sums(self, readouts: Mapping[str, Readout]) -> SampleSums | None:
        """The sums of exact_match and of a mean over samples that is 1 if all labels are right."""
        others = [name for name in readouts if name in ("f1/samples", "jaccard/samples")]
        if "exact_match" not in readouts or not others:
            return None
        sums = self.tally.compute().sample_sums
        (total, defined), (exact, _), (samples, _) = (sums[name] for name in (others[0], "exact_match", "samples"))
        return SampleSums(*map(float, (samples, exact, total, defined)))
