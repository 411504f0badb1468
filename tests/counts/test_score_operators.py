"""An update with curves on an accelerator is few operators, each of which is a launch there: counted without a GPU."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import torch
from device import DEVICE, Operators, deferred, pretend_on_device, synchronisation_is_an_error, tally_of
from score_batches import SUMMED, Variant, assert_same_counts, every_summed
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from versions import since

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit.counts import Totals
from lightning_evalkit.counts.bins import FineBins
from lightning_evalkit.metrics import (
    BinaryAUROC,
    BinaryCalibrationError,
    BinaryROC,
    MulticlassAUROC,
    MulticlassCalibrationError,
    MultilabelAUROC,
)
from lightning_evalkit.state.storage import SumStorage

if TYPE_CHECKING:
    from collections.abc import Callable

SHAPES = {"binary": ((16,), (16,)), "classes": ((16, 10), (16,)), "labels": ((16, 20), (16, 20))}


@dataclass(frozen=True)
class Case:
    """A declaration and the number of operators that one update was measured to need; views are among them."""

    build: Callable[[], Any]
    most: int
    kind: str = "binary"
    weighted: bool = False

    def batch(self, device: torch.device = DEVICE) -> list[Tensor]:
        scores, target = SHAPES[self.kind]
        batch = [torch.rand(scores, device=device), torch.zeros(target, dtype=torch.int64, device=device)]
        return [*batch, torch.ones(16, device=device)] if self.weighted else batch


def of(kind: type, *args: Any, **options: Any) -> Callable[[], Any]:
    return lambda: kind(*args, **options)


CURVES: dict[str, Any] = {"curves": True}
CASES = {
    "fine_logits": Case(of(BinaryAUROC, inputs="logits"), 15),
    "fine_probabilities": Case(of(BinaryAUROC, inputs="probabilities"), 16),
    "fine_guessed": Case(of(BinaryAUROC), 24),
    "two_hundred_logits": Case(of(BinaryAUROC, thresholds=200, inputs="logits"), 15),
    "two_hundred": Case(of(BinaryAUROC, thresholds=200, inputs="probabilities"), 16),
    "two_hundred_guessed": Case(of(BinaryROC, thresholds=200), 23),
    "evaluation_logits": Case(of(BinaryEvaluation, "logits", **CURVES), 57),
    "evaluation": Case(of(BinaryEvaluation, "probabilities", **CURVES), 58),
    "evaluation_ignoring": Case(of(BinaryEvaluation, "logits", ignore_index=-1, **CURVES), 61),
    "evaluation_weighted": Case(of(BinaryEvaluation, "logits", weighted=True, **CURVES), 85, weighted=True),
    "classes_fine": Case(of(MulticlassAUROC, 10, inputs="probabilities"), 22, "classes"),
    "classes_fine_logits": Case(of(MulticlassAUROC, 10, inputs="logits"), 43, "classes"),
    "classes_evaluation": Case(of(MulticlassEvaluation, "probabilities", 10, **CURVES), 103, "classes"),
    "classes_evaluation_logits": Case(of(MulticlassEvaluation, "logits", 10, **CURVES), 125, "classes"),
    "calibration_logits": Case(of(BinaryCalibrationError, inputs="logits"), 23),
    "calibration": Case(of(BinaryCalibrationError, inputs="probabilities"), 24),
    "calibration_guessed": Case(of(BinaryCalibrationError), 32),
    "calibration_ignoring": Case(of(BinaryCalibrationError, inputs="logits", ignore_index=-1), 26),
    "calibration_weighted": Case(of(BinaryCalibrationError, inputs="logits", weighted=True), 38, weighted=True),
    "calibration_classes": Case(of(MulticlassCalibrationError, 10, inputs="logits"), 28, "classes"),
    "calibration_classes_guessed": Case(of(MulticlassCalibrationError, 10), 39, "classes"),
    "labels_fine": Case(of(MultilabelAUROC, 20, inputs="logits"), 18, "labels"),
    "labels_evaluation": Case(of(MultilabelEvaluation, "logits", 20, **CURVES), 127, "labels"),
}
moves_constants = since("torch", "2.7", "the fake tensors of 2.5 bring constants to the real device")
every_case = pytest.mark.parametrize(
    "case",
    [pytest.param(CASES[name], id=name, marks=[moves_constants] * name.startswith("two_hundred")) for name in CASES],
)


@every_case
def test_an_update_is_few_operators(case: Case) -> None:
    metric = case.build()
    with FakeTensorMode(allow_non_fake_inputs=True):
        batch = case.batch()
        pretend_on_device(metric).update(*batch)  # which may bring thresholds to the device
        with Operators() as operators:
            metric.update(*batch)
    assert operators.waiting == []
    assert len(operators.names) <= case.most, Counter(operators.names)


def test_one_curve_is_at_most_thirty_operators_and_an_evaluation_sixty() -> None:
    assert max(case.most for name, case in CASES.items() if name.startswith(("fine", "two_hundred"))) <= 30
    assert max(CASES[name].most for name in ("evaluation", "evaluation_logits")) <= 60


@every_summed
def test_a_value_of_one_batch_is_that_counted_at_once(variant: Variant) -> None:
    """On an accelerator ``forward`` has increments too, and cannot read them one by one."""
    at_once, later, batch = variant.fresh(), variant.fresh(), variant.batch()
    expected = at_once(*batch)
    with deferred():
        found = later(*batch)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6, equal_nan=True)
    assert_same_counts(later, at_once)


def test_a_copy_does_not_take_what_was_brought_to_a_device() -> None:
    bins = FineBins(64, "logits")
    bins.searched(torch.zeros(3, device="meta"))
    assert [place[0].type for place in bins.moved] == ["meta"]
    assert pickle.loads(pickle.dumps(bins)).moved == {}


def test_without_adding_by_index_the_histogram_is_added() -> None:
    """Apple's GPUs add no integers of 64 bits by index in older releases."""
    storage = SumStorage(BinaryAUROC(thresholds=3).counter)
    with FakeTensorMode():
        state, few, places = (torch.zeros(size, dtype=torch.int64, device="mps") for size in (12, 2, 3))
        with Operators() as operators:
            storage.add({storage.integers: state}, Totals(few, None, places))
    assert "index_add_" not in operators.names
    assert "sort" in operators.names


@pytest.mark.gpu
@pytest.mark.parametrize("name", SUMMED)
def test_an_update_on_a_device_counts_as_on_the_cpu(name: str) -> None:
    variant = SUMMED[name]
    counting, reference, batch = variant.fresh().to(DEVICE), variant.fresh(), variant.batch()
    on_device = [each.to(DEVICE) for each in batch]
    counting.update(*on_device)
    with synchronisation_is_an_error():
        counting.update(*on_device)
    counting(*on_device)
    for _ in range(3):
        reference.update(*batch)
    tally_of(counting).cpu()
    assert_same_counts(counting, reference)
