"""Evaluations and batches for tests of slices."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
import torch
from torch import Tensor

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation, Slices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


GROUPS = 4


@dataclass(frozen=True)
class Case:
    """A template and the batches it takes; ``classes`` is 0 for yes-or-no questions."""

    template: Callable[[], Any]
    shape: tuple[int, ...] = ()
    classes: int = 0
    labels: bool = False
    marks: tuple[int, ...] = ()
    weighted: bool = False

    def build(self, groups: int = GROUPS, **options: Any) -> Slices:
        return Slices(self.template(), groups, **options)

    def batch(self, size: int, seed: int = 0, groups: int = GROUPS) -> list[Tensor]:
        """Scores, targets, groups, and whole-number weights where declared: their sums have no rounding."""
        generator = torch.Generator().manual_seed(seed)
        shape, high = (size, *self.shape), max(self.classes, 2)
        values = torch.tensor([*range(high), *self.marks])
        target = values[torch.randint(0, len(values), shape, generator=generator)]
        scored = (size, self.classes, *self.shape) if self.classes else shape
        preds = torch.rand(scored, generator=generator)
        if self.labels:
            preds = torch.randint(0, high, shape, generator=generator)
        group = torch.randint(0, groups, (size,), generator=generator)
        weight = torch.randint(0, 4, (size,), generator=generator).double()
        return [preds, target, group, weight] if self.weighted else [preds, target, group]


def binary(inputs: str = "probabilities", **options: Any) -> Callable[[], Any]:
    return lambda: BinaryEvaluation(inputs, **options)  # type: ignore[arg-type]


def classes(inputs: str = "probabilities", **options: Any) -> Callable[[], Any]:
    return lambda: MulticlassEvaluation(inputs, 3, **options)  # type: ignore[arg-type]


def labels(inputs: str = "probabilities", **options: Any) -> Callable[[], Any]:
    return lambda: MultilabelEvaluation(inputs, 3, **options)  # type: ignore[arg-type]


HITS = {"statistics": ["accuracy", "top_2_accuracy", "f1/macro", "f1/micro", "recall/1", "kappa"]}
CASES = {
    "binary": Case(binary()),
    "binary_cuts": Case(binary(threshold=[0.8, 0.2, 0.5], prefix="val/")),
    "binary_ignoring": Case(binary(ignore_index=-1), marks=(-1,)),
    "binary_ignoring_zero": Case(binary(ignore_index=0)),
    "binary_labels": Case(binary("labels", statistics=["kappa", "lift"]), labels=True),
    "binary_images": Case(binary(), shape=(2, 3)),
    "binary_weighted": Case(binary(weighted=True), weighted=True),
    "binary_weighted_images": Case(
        binary(weighted=True, threshold=[0.2, 0.6], ignore_index=-1), shape=(2,), marks=(-1,), weighted=True
    ),
    "classes": Case(classes(per_class=True), classes=3),
    "classes_labels": Case(classes("labels", ignore_index=(1, -1)), classes=3, labels=True, marks=(-1,)),
    "classes_hits": Case(classes(**HITS), classes=3),
    "classes_top_2": Case(classes(top_k=2), classes=3, shape=(2,)),
    "classes_matrix": Case(classes(confusion_matrix=True, weighted=True, **HITS), classes=3, weighted=True),
    "classes_weighted": Case(classes(weighted=True, ignore_index=-1), classes=3, marks=(-1,), weighted=True),
    "labels": Case(labels(per_label=True), shape=(3,)),
    "labels_without_rows": Case(
        labels(statistics=["f1/macro", "accuracy/1"], ignore_index=-1), shape=(3,), marks=(-1,)
    ),
    "labels_of_elements": Case(labels(threshold=[0.2, 0.5, 0.8], ignore_index=-1), shape=(3, 2), marks=(-1,)),
    "labels_weighted": Case(labels("labels", weighted=True), shape=(3,), labels=True, weighted=True),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def state(slices: Slices) -> list[Any]:
    """The totals of this rank as plain numbers."""
    return [None if total is None else total.tolist() for total in (slices.totals.integers, slices.totals.reals)]


def cells(counts: Any) -> list[list[Any]]:
    """(tp, fp, fn, tn), each with the groups first."""
    return [cell.tolist() for cell in counts.cells]


def filled(case: Case, *batches: list[Tensor], **options: Any) -> Slices:
    slices = case.build(**options)
    for batch in batches:
        slices.update(*batch)
    return slices


@contextmanager
def deferred() -> Iterator[None]:
    """Count as on a device: the two paths are told apart by the device and by whether a graph is being compiled."""
    with mock.patch.object(torch.compiler, "is_compiling", return_value=True):
        yield


def same(one: Any, other: Any) -> bool:
    return one == pytest.approx(other, rel=1e-6, nan_ok=True)
