"""Scores and targets, and evaluations that keep them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
import torch
from device import deferred, tally_of
from torch import Tensor

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit.metrics import (
    BinaryAUROC,
    BinaryCalibrationError,
    MulticlassAUROC,
    MulticlassCalibrationError,
    MultilabelAUROC,
    MultilabelAveragePrecision,
)

if TYPE_CHECKING:
    from collections.abc import Callable


INF, NAN = math.inf, math.nan
Batch = tuple[Tensor, ...]

READINGS = ("logits", "probabilities")


def scores_in(counting: Any) -> list[Any]:
    """The histograms of an evaluation or a metric; one for each question where every score is kept."""
    counter, totals = tally_of(counting).counter, tally_of(counting).totals
    return counter.tables(totals) if hasattr(counter, "tables") else [counter.evidence(totals).scores]


def _updated(metric: Any, batch: Batch, way: str = "at_once") -> Any:
    if way == "deferred":
        with deferred():
            metric.update(*batch)
    else:
        metric.update(*batch)
    return metric


@dataclass(frozen=True)
class Variant:
    """A declaration, and batches for it with ties, certainty and scores beside each other."""

    build: Callable[..., Any]
    kind: str
    options: dict[str, Any] = field(default_factory=dict)
    marked: int | None = None

    @property
    def weighted(self) -> bool:
        return self.options.get("weighted", False)

    def fresh(self, **options: Any) -> Any:
        return self.build(**{**self.options, **options})

    def batch(self, size: int = 24, seed: int = 0, weight: Tensor | None = None) -> Batch:
        generator = torch.Generator().manual_seed(seed)
        shape = {"binary": (size,), "classes": (size, 4), "labels": (size, 3)}[self.kind.split("_")[0]]
        preds = torch.randn(shape, generator=generator).mul(3).round(decimals=1)
        if not self.kind.endswith("logits"):
            preds = preds.softmax(1) if self.kind.startswith("classes") else preds.sigmoid()
        high, where = (4, (size,)) if self.kind.startswith("classes") else (2, shape)
        target = torch.randint(high, where, generator=generator)
        if self.marked is not None:
            target = torch.where(torch.rand(where, generator=generator) < 0.2, self.marked, target)
        if not self.weighted:
            return preds, target
        return preds, target, torch.randint(0, 4, (size,), generator=generator).double() if weight is None else weight


def binary(inputs: str) -> Callable[..., Any]:
    return lambda **options: BinaryEvaluation(inputs, curves=True, zero_division=0.0, **options)  # type: ignore[arg-type]


def classes(inputs: str) -> Callable[..., Any]:
    return lambda **options: MulticlassEvaluation(inputs, 4, curves=True, zero_division=0.0, **options)  # type: ignore[arg-type]


def labels(inputs: str) -> Callable[..., Any]:
    return lambda **options: MultilabelEvaluation(inputs, 3, curves=True, zero_division=0.0, **options)  # type: ignore[arg-type]


FEW: dict[str, Any] = {"resolution": 64}
EVALUATIONS = {
    "binary_logits": Variant(binary("logits"), "binary_logits", FEW),
    "binary": Variant(binary("probabilities"), "binary", FEW),
    "binary_bfloat16": Variant(binary("logits"), "binary_logits", {"resolution": "bfloat16"}),
    "binary_ignoring": Variant(binary("probabilities"), "binary", {**FEW, "ignore_index": -1}, marked=-1),
    "binary_weighted": Variant(binary("logits"), "binary_logits", {**FEW, "weighted": True}),
    "classes_logits": Variant(classes("logits"), "classes_logits", FEW),
    "classes": Variant(classes("probabilities"), "classes", FEW),
    "classes_ignoring": Variant(classes("logits"), "classes_logits", {**FEW, "ignore_index": (1, -5)}, marked=-5),
    "classes_weighted": Variant(classes("probabilities"), "classes", {**FEW, "weighted": True}),
    "labels_logits": Variant(labels("logits"), "labels_logits", FEW),
    "labels": Variant(labels("probabilities"), "labels", FEW),
    "labels_ignoring": Variant(labels("probabilities"), "labels", {**FEW, "ignore_index": -1}, marked=-1),
    "labels_weighted": Variant(
        labels("logits"), "labels_logits", {**FEW, "weighted": True, "ignore_index": -1}, marked=-1
    ),
}


def metric(kind: type, *args: Any) -> Callable[..., Any]:
    return lambda **options: kind(*args, **options)


METRICS = {
    "guessed": Variant(metric(BinaryAUROC), "binary_logits"),
    "given": Variant(metric(BinaryAUROC), "binary", {"thresholds": 7}),
    "given_logits": Variant(metric(BinaryAUROC), "binary_logits", {"thresholds": 7, "inputs": "logits"}),
    "given_weighted": Variant(metric(BinaryAUROC), "binary", {"thresholds": [0.2, 0.6], "weighted": True}),
    "exact": Variant(metric(BinaryAUROC), "binary", {"thresholds": None}),
    "guessed_classes": Variant(metric(MulticlassAUROC, 4), "classes_logits", {"thresholds": 7}),
    "exact_classes": Variant(metric(MulticlassAUROC, 4), "classes", {"thresholds": None, "ignore_index": 2}),
    "guessed_labels": Variant(metric(MultilabelAUROC, 3), "labels_logits", {"thresholds": 7}),
    "exact_labels": Variant(metric(MultilabelAveragePrecision, 3), "labels", {"thresholds": None, "weighted": True}),
    "calibration": Variant(metric(BinaryCalibrationError), "binary_logits"),
    "calibration_classes": Variant(metric(MulticlassCalibrationError, 4), "classes"),
    "calibration_weighted": Variant(
        metric(BinaryCalibrationError), "binary", {"weighted": True, "ignore_index": -1}, marked=-1
    ),
    "calibration_declared": Variant(
        metric(MulticlassCalibrationError, 4),
        "classes_logits",
        {"inputs": "logits", "ignore_index": (1, -5)},
        marked=-5,
    ),
}
VARIANTS = EVALUATIONS | METRICS
SUMMED = {name: variant for name, variant in VARIANTS.items() if not name.startswith("exact")}

every_variant = pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
every_summed = pytest.mark.parametrize("variant", SUMMED.values(), ids=SUMMED)


def without_doubt(counting: Any) -> Tensor:
    """The integers without how many log-odds of classes are near the edge of a bin: counting later says all."""
    return without(counting, "doubtful") if is_computed(counting) else tally_of(counting).totals.integers.clone()


def is_computed(counting: Any) -> bool:
    scores = getattr(tally_of(counting).counter, "_scores", tally_of(counting).counter)
    return getattr(scores, "computed", False) and scores.kind in ("fine", "cuts")


def without(counting: Any, *names: str) -> Tensor:
    """The integers with these cells, of counts and of scores, set to 0."""
    cells, integers = tally_of(counting).counter.layout.integers, tally_of(counting).totals.integers.clone()
    for name in cells.sizes:
        if name.rpartition(".")[2] in names:
            cells.read(integers, name).zero_()
    return integers


def without_updates(counting: Any) -> tuple[list[int], Tensor | None]:
    """The totals without how many updates and guesses they came from."""
    doubt = ("doubtful",) if is_computed(counting) else ()
    return without(counting, "updates", "guessed", *doubt).tolist(), tally_of(counting).totals.reals


def assert_same_counts(one: Any, other: Any) -> None:
    (integers, reals), (others, other_reals) = without_updates(one), without_updates(other)
    assert integers == others
    assert any(integers)
    if reals is not None:
        torch.testing.assert_close(reals, other_reals, rtol=1e-7, atol=1e-9)


def _assert_same_results(one: Any, other: Any) -> None:
    torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6, equal_nan=True)


def plain(value: Any) -> Any:
    return {k: v.tolist() for k, v in value.items()} if isinstance(value, dict) else value.tolist()
