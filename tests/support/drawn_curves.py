"""Evaluations whose curves are drawn."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit.evaluation.score_snapshot import score_snapshot

if TYPE_CHECKING:
    from lightning_evalkit.evaluation.score_snapshot import ScoreSnapshot
    from lightning_evalkit.sinks.panels import Line, Panel


CLASSES = ("cat_1", "_dog $", "bird")


def evaluation(task: str, **options: Any) -> Any:
    options = {"inputs": "logits", "curves": True, "zero_division": 0.0, "prefix": "val/"} | options
    if task == "binary":
        return BinaryEvaluation(**options)
    if task == "multiclass":
        return MulticlassEvaluation(**({"num_classes": 3, "class_names": CLASSES, "confusion_matrix": True} | options))
    return MultilabelEvaluation(**({"num_labels": 3, "label_names": CLASSES} | options))


def updated(metric: Any, scores: Tensor, target: Tensor, *weight: Tensor) -> ScoreSnapshot:
    metric.update(scores, target, *weight)
    kept = score_snapshot(metric)
    assert kept is not None
    return kept


def binary(rows: int = 500, separation: float = 1.5, **options: Any) -> tuple[Tensor, Tensor]:
    y = (torch.rand(rows) < 0.3).long()
    return torch.randn(rows) + separation * y - 1, y


def line(panel: Panel, beginning: str) -> Line:
    (found,) = [each for each in panel.lines if each.label.startswith(beginning)]
    return found


def written(label: str) -> list[float]:
    """The numbers at the end of a label."""
    return [float(number) for number in re.findall(r"\d+\.?\d*(?:e-\d+)?", label.rpartition(":")[2])]


def check_area(label: str, exact: float) -> None:
    """As scikit-learn has it; an interval is around it, and what bins leave open cannot be seen here."""
    value, *interval = written(re.sub(r".*AUROC |.*precision ", "", label))
    assert value == pytest.approx(exact, abs=2e-4)
    assert "open" not in label
    assert not interval or interval[0] < exact < interval[1]


def classes(number: int, rows: int = 400, present: int | None = None, **options: Any) -> tuple[ScoreSnapshot, Any, Any]:
    y = torch.randint(0, present or number, (rows,))
    scores = torch.randn(rows, number) + torch.linspace(0.5, 3, number) * functional.one_hot(y, number)
    names = options.pop("class_names", None)
    return updated(evaluation("multiclass", num_classes=number, class_names=names), scores, y), scores.softmax(1), y


def labels(number: int, rows: int = 300) -> ScoreSnapshot:
    y = (torch.rand(rows, number) < torch.linspace(0.1, 0.7, number)).long()
    scores = torch.randn(rows, number) + torch.linspace(0.3, 3, number) * y - 1
    names = CLASSES if number == 3 else None
    return updated(evaluation("multilabel", num_labels=number, label_names=names), scores, y)
