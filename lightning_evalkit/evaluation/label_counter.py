"""The counter of several labels, with the values of each sample that means over samples need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lightning_evalkit.counts import MultilabelCounter
from lightning_evalkit.statistics import find

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts import Counts
    from lightning_evalkit.inputs import Multilabel
    from lightning_evalkit.statistics.table import Statistic

DEFAULT = ("exact_match", "hamming_accuracy", "f1/micro", "f1/macro", "f1/samples", "jaccard/samples")
"""What is reported unless something else is declared."""


@dataclass(frozen=True)
class _PerSample:
    """The statistic of each sample over its labels; NaN if a sample has no value."""

    statistic: Statistic

    def __call__(self, counts: Counts) -> Tensor:
        return self.statistic.in_tensors(counts).value()  # numbers of labels, whose products stay small


def label_counter(task: Multilabel) -> MultilabelCounter:
    """The counter of a declaration."""
    means = tuple(_PerSample(find(name.partition("/")[0])) for name in task.sample_sums[2:])  # after whole samples
    return MultilabelCounter(task, means)
