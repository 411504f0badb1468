"""The evaluation of several yes-or-no predictions per sample."""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING, Any, Literal

from lightning_evalkit.evaluation.base import Evaluation, checked_names
from lightning_evalkit.evaluation.curves import CHOSEN, JUDGED, RANKED, declared_binning, with_curves
from lightning_evalkit.evaluation.explaining_many import ExplainingLabels
from lightning_evalkit.evaluation.label_counter import DEFAULT, label_counter
from lightning_evalkit.evaluation.names import (
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

if TYPE_CHECKING:
    from collections.abc import Sequence


class MultilabelEvaluation(ExplainingLabels, Evaluation):
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
        super().__init__(label_counter(task), readouts, zero_division, prefix, postfix, **kwargs)
        self.num_labels, self.label_names, self.threshold = num_labels, tuple(labels), threshold

    def curve_names(self) -> Sequence[str]:
        """The names of the labels."""
        return self.label_names
