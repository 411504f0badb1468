"""The evaluation of several yes-or-no predictions per sample."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import nan
from typing import TYPE_CHECKING, Any, Literal

from lightning_evalkit.counts import MultilabelCounter
from lightning_evalkit.diagnosis import Finding, SampleSums, explain_multilabel
from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.evaluation.base import Evaluation, checked_names
from lightning_evalkit.evaluation.curves import CHOSEN, JUDGED, RANKED, declared_binning, with_curves
from lightning_evalkit.evaluation.explaining import never_predicted
from lightning_evalkit.evaluation.losses import beside_loss, explained_by_scores, profile_of_scores, refused
from lightning_evalkit.evaluation.names import (
    MEANINGS,
    checked_class_names,
    multilabel_readout,
    number_named,
    of_each,
    sample_sums_of,
)
from lightning_evalkit.evaluation.readouts import Averaged, Readout
from lightning_evalkit.inputs import Inputs, Multilabel
from lightning_evalkit.inputs.declaration import names_given
from lightning_evalkit.inputs.numbers import checked_flag
from lightning_evalkit.inputs.threshold import Given, parsed, thresholds_of
from lightning_evalkit.statistics import find

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

    from lightning_evalkit.counts import Counts
    from lightning_evalkit.statistics.table import Statistic

DEFAULT = ("exact_match", "hamming_accuracy", "f1/micro", "f1/macro", "f1/samples", "jaccard/samples")


@dataclass(frozen=True)
class _PerSample:
    """The statistic of each sample over its labels; NaN if a sample has no value."""

    statistic: Statistic

    def __call__(self, counts: Counts) -> Tensor:
        return self.statistic.in_tensors(counts).value()  # numbers of labels, whose products stay small


class MultilabelEvaluation(Evaluation):
    """All numbers of a multilabel classifier from one count of every batch, with every meaning of accuracy.

    "exact_match" is the share of samples with all labels right, "hamming_accuracy" the share of right labels. Any
    statistic can be averaged over labels ("f1/macro", "f1/micro", "f1/weighted") or over samples ("f1/samples");
    ``per_label=True`` also reports it for each label under its name. ``threshold`` is one number or one per label;
    ``num_labels`` may be left out if ``label_names`` are given.

    >>> import torch
    >>> evaluation = MultilabelEvaluation(inputs="labels", num_labels=3, statistics=["exact_match", "hamming_accuracy"])
    >>> evaluation.update(torch.tensor([[0, 1, 1], [1, 0, 0]]), torch.tensor([[0, 1, 0], [1, 1, 0]]))
    >>> evaluation.compute()
    {'exact_match': tensor(0.), 'hamming_accuracy': tensor(0.6667)}
    """

    def __init__(
        self,
        inputs: Inputs,
        num_labels: int | None = None,
        label_names: Sequence[str] | None = None,
        threshold: Given | Sequence[Given] = 0.5,
        per_label: bool = False,
        statistics: Sequence[str] | None = None,
        curves: bool = False,
        resolution: int | Literal["bfloat16"] | None = None,
        weighted: bool = False,
        ignore_index: int | None = None,
        zero_division: float = nan,
        prefix: str | None = None,
        postfix: str | None = None,
        buckets: int | None = None,
        **kwargs: Any,
    ) -> None:
        num_labels = number_named("label", num_labels, label_names)
        averaged = tuple(f"{name}/macro" for name in (*RANKED, *JUDGED, "best_f1"))
        names = with_curves(checked_names(inputs, statistics, DEFAULT), curves, averaged)
        checked_flag("per_label", per_label)
        threshold = parsed(threshold)
        cuts = thresholds_of(threshold)
        binning = declared_binning(curves, resolution, num_curves=num_labels)
        labels = checked_class_names("label", label_names, num_labels)
        sums, called = sample_sums_of(names), names_given(tuple(labels))
        task = Multilabel(
            inputs,
            ignore_index,
            weighted,
            thresholds=cuts,
            num_labels=num_labels,
            sample_sums=sums,
            binning=binning,
            names=called,
            buckets=buckets,
        )
        readouts: dict[str, Readout] = {name: multilabel_readout(name, labels) for name in names}
        if per_label:
            bases = [readout.statistic.name for readout in readouts.values() if isinstance(readout, Averaged)]
            for base in dict.fromkeys(["accuracy", *bases]):
                readouts |= {f"{base}/{label}": multilabel_readout(f"{base}/{label}", labels) for label in labels}
            if curves:
                readouts |= of_each((*RANKED, *JUDGED, *CHOSEN), labels)
        means = tuple(_PerSample(find(name.partition("/")[0])) for name in task.sample_sums[2:])  # after whole samples
        counter = MultilabelCounter(task, means)
        super().__init__(counter, readouts, zero_division, prefix, postfix, **kwargs)
        self.num_labels, self.label_names, self.threshold = num_labels, tuple(labels), threshold

    def curve_names(self) -> Sequence[str]:
        """The names of the labels."""
        return self.label_names

    def explain(
        self,
        first: str | None = None,
        second: str | None = None,
        before: MultilabelEvaluation | None = None,
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
        if "accuracy" in names and "accuracy" not in self:
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
        if name not in self and name.partition("/")[2] in self.label_names:
            return multilabel_readout(name, {label: place for place, label in enumerate(self.label_names)})
        return self[name].readout

    def _explained_loss(self, accuracy: str, before: MultilabelEvaluation | None) -> Finding:
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
