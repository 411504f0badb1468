"""Forward counts a batch once and gives its own value: from the batch alone, whatever the size of the state."""

from __future__ import annotations

import tracemalloc
import warnings
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torchmetrics import MetricCollection

import lightning_evalkit.metrics as ours
from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

CLASSES = 4
EVERY = ["adaptive_calibration_error", "classwise_calibration_error", "brier_refinement", "eer", "auroc", "best_f1"]


def batch(task: str, seed: int, samples: int = 40) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    if task == "Binary":
        return torch.randn(samples, generator=generator), torch.randint(0, 2, (samples,), generator=generator)
    scores = torch.randn(samples, CLASSES, generator=generator)
    if task == "Multiclass":
        return scores, torch.randint(0, CLASSES, (samples,), generator=generator)
    return scores, torch.randint(0, 2, (samples, CLASSES), generator=generator)


def scored(task: str) -> list[str]:
    names = ("AUROC", "AveragePrecision", "ROC", "PrecisionRecallCurve", "EER", "CalibrationError")
    return [f"{task}{name}" for name in names if hasattr(ours, f"{task}{name}")]


def metric(name: str, task: str, **declared: Any) -> Any:
    size = {} if task == "Binary" else {"num_classes" if task == "Multiclass" else "num_labels": CLASSES}
    return getattr(ours, name)(inputs="logits", **size, **declared)


CASES: dict[str, tuple[str, Callable[[], Any]]] = {
    f"{name}-{thresholds}": (task, lambda n=name, t=task, k=thresholds: metric(n, t, thresholds=k))  # type: ignore[misc]
    for task in ("Binary", "Multiclass", "Multilabel")
    for name in scored(task)
    if "Calibration" not in name
    for thresholds in ("fine", "bfloat16", 20, None)
}
CASES |= {
    "BinaryCalibrationError": ("Binary", lambda: metric("BinaryCalibrationError", "Binary")),
    "binary": ("Binary", lambda: BinaryEvaluation("logits", curves=True)),
    "binary_scores": ("Binary", lambda: BinaryEvaluation("logits", curves=True, statistics=EVERY)),
    "multiclass": ("Multiclass", lambda: MulticlassEvaluation("logits", CLASSES, curves=True, per_class=True)),
    "multiclass_scores": (
        "Multiclass",
        lambda: MulticlassEvaluation("logits", CLASSES, curves=True, statistics=[f"{name}/macro" for name in EVERY]),
    ),
    "multilabel": ("Multilabel", lambda: MultilabelEvaluation("logits", CLASSES, curves=True, per_label=True)),
}
every_case = pytest.mark.parametrize(("task", "build"), CASES.values(), ids=CASES)


@every_case
def test_the_value_of_a_batch_is_that_of_a_metric_that_saw_nothing_else(task: str, build: Callable[[], Any]) -> None:
    one, alone, both = build(), build(), build()
    one.update(*batch(task, 1))
    alone.update(*batch(task, 2))
    for seed in (1, 2):
        both.update(*batch(task, seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same(one(*batch(task, 2)), alone.compute())
        same(one.compute(), both.compute())


def same(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-7, equal_nan=True)


@pytest.mark.parametrize("thresholds", ["fine", 20])
def test_metrics_that_share_a_state_in_a_stock_collection_count_a_batch_once(thresholds: Any) -> None:
    names = ("BinaryAUROC", "BinaryAveragePrecision", "BinaryEER")
    collection = MetricCollection({name: metric(name, "Binary", thresholds=thresholds) for name in names})
    collection.update(*batch("Binary", 1))  # after which they share
    assert len(collection.compute_groups) == 1
    for seed in (2, 3):
        collection(*batch("Binary", seed))
    for name, value in collection.compute().items():
        alone = metric(name, "Binary", thresholds=thresholds)
        for seed in (1, 2, 3):
            alone.update(*batch("Binary", seed))
        same(value, alone.compute())


def test_a_state_that_somebody_holds_stays_as_it_was() -> None:
    auroc = metric("BinaryAUROC", "Binary")
    auroc(*batch("Binary", 1))
    held, before = auroc.totals.integers, auroc.totals.integers.clone()
    auroc(*batch("Binary", 2))
    assert held.equal(before)
    assert int(auroc.totals.integers.sum()) > int(before.sum())


def test_a_state_that_nobody_holds_is_not_copied() -> None:
    auroc = metric("BinaryAUROC", "Binary")
    place = auroc.totals.integers.data_ptr()
    auroc(*batch("Binary", 1))
    assert auroc.totals.integers.data_ptr() == place


def test_a_batch_that_is_refused_changes_nothing() -> None:
    auroc = metric("BinaryAUROC", "Binary")
    auroc(*batch("Binary", 1))
    before, scores = auroc.totals.integers.clone(), torch.tensor([0.5, torch.nan])
    with pytest.raises(ValueError, match="expected"):
        auroc(scores, torch.tensor([0, 1]))
    assert auroc.totals.integers.equal(before)
    auroc.update(*batch("Binary", 2))  # into the state again
    assert auroc.update_count == 2


@pytest.mark.parametrize("name", scored("Binary"))
def test_the_value_of_a_batch_takes_no_memory_as_wide_as_the_bins(name: str) -> None:
    made, given = metric(name, "Binary"), batch("Binary", 0)
    made(*given)  # what happens only once is not looked at
    tracemalloc.start()
    try:
        made(*given)
        assert tracemalloc.get_traced_memory()[1] < 65_536
    finally:
        tracemalloc.stop()
