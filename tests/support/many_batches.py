"""Batches of many classes and labels, and what is counted of them element by element."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from torch import Tensor

from lightning_evalkit import MulticlassEvaluation, MultilabelEvaluation, metrics
from lightning_evalkit.metrics.base import CountMetric

# Laws of the counts make do with one entry of every kind.
SOME_OF_CLASSES = ["accuracy", "balanced_accuracy", "mcc", "kappa", "top_2_accuracy", "f1/micro", "f2/macro"]
SOME_OF_CLASSES += ["specificity/weighted", "negative_predictive_value/macro"]
SOME_OF_LABELS = ["exact_match", "hamming_accuracy", "f1/micro", "f2/macro", "precision/weighted", "jaccard/samples"]

Batch = tuple[Tensor, ...]


def joined(*batches: Batch) -> Batch:
    return tuple(torch.cat(parts) for parts in zip(*batches, strict=True))


def of_classes(classes: int, **options: Any) -> MulticlassEvaluation:
    return MulticlassEvaluation("logits", classes, **({"statistics": SOME_OF_CLASSES} | options))


def of_labels(labels: int, **options: Any) -> MultilabelEvaluation:
    return MultilabelEvaluation("labels", labels, **({"statistics": SOME_OF_LABELS} | options))


def counted(evaluation: Any, *batches: Batch) -> Any:
    for batch in batches:
        evaluation.update(*batch)
    return evaluation


def plain(evaluation: Any) -> dict[str, float]:
    return {name: value.item() for name, value in evaluation.compute().items()}


def same(values: dict[str, float]) -> Any:
    """Equal to float32, in which values are reported."""
    return pytest.approx(values, rel=1e-5, abs=1e-6, nan_ok=True)


def assert_same_totals(one: Any, other: Any) -> None:
    """The same state, but for the number of updates, which is last; sums of reals to rounding."""
    ours, theirs = one.tally.totals, other.tally.totals
    assert ours.integers[:-1].tolist() == theirs.integers[:-1].tolist()
    assert (ours.reals is None) == (theirs.reals is None)
    if ours.reals is not None:
        torch.testing.assert_close(ours.reals, theirs.reals, rtol=1e-12, atol=1e-12)


def is_metric(name: str) -> bool:
    kind = getattr(metrics, name)
    return isinstance(kind, type) and issubclass(kind, CountMetric)


METRICS = [name for name in metrics.__all__ if is_metric(name)]
SAMPLEWISE = [name for name in METRICS if "multidim_average" in inspect.signature(getattr(metrics, name)).parameters]


def made(name: str, **options: Any) -> Any:
    number = {"Multiclass": {"num_classes": 3}, "Multilabel": {"num_labels": 3}}.get(name[:10], {})
    return getattr(metrics, name)(**number, **({"beta": 2.0} if "FBeta" in name else {}), **options)


def batch_for(name: str, size: int, extra: tuple[int, ...] = ()) -> Batch:
    """Scores and targets for a metric with three classes or labels."""
    if name.startswith("Binary"):
        return torch.rand(size, *extra), torch.randint(2, (size, *extra))
    if name.startswith("Multilabel"):
        return torch.rand(size, 3, *extra), torch.randint(2, (size, 3, *extra))
    return torch.rand(size, 3, *extra), torch.randint(3, (size, *extra))


def close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6, equal_nan=True, check_dtype=False)


LABELLED = torch.tensor([0, 1, 2, 1])
SCORED = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.3, 0.4, 0.3]])

YES = torch.tensor([[1, 0, 1], [0, 0, 1], [1, 1, 1], [0, 1, 0]])
