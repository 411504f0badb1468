"""Batches of scores for tests of curves."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

FAMILIES = (
    "ROC",
    "PrecisionRecallCurve",
    "AUROC",
    "AveragePrecision",
    "EER",
    "RecallAtFixedPrecision",
    "PrecisionAtFixedRecall",
    "SensitivityAtSpecificity",
    "SpecificityAtSensitivity",
)
NAMES = [f"{task}{family}" for family in FAMILIES for task in ("Binary", "Multiclass", "Multilabel")]
NAMES += ["BinaryCalibrationError", "MulticlassCalibrationError"]
ROWS, CLASSES, LABELS = 64, 4, 3
BOUND = 0.5


def arguments(name: str) -> list[Any]:
    number = {"Multiclass": [CLASSES], "Multilabel": [LABELS]}.get(task_of(name), [])
    return [*number, BOUND] if "At" in name else number


def task_of(name: str) -> str:
    return next(task for task in ("Binary", "Multiclass", "Multilabel") if name.startswith(task))


def batch(task: str, seed: int, case: str = "plain", rows: int = ROWS) -> tuple[Tensor, Tensor]:
    """Scores and targets in which every class occurs."""
    generator = torch.Generator().manual_seed(seed)
    shape = {"Binary": (rows,), "Multiclass": (rows, CLASSES), "Multilabel": (rows, LABELS)}[task]
    logits = torch.randn(shape, generator=generator) * 2
    preds = logits.softmax(1) if task == "Multiclass" else logits.sigmoid()
    if case == "ties":
        preds = (preds * 8).round() / 8
    elif case == "logits":
        preds = logits
    where = shape[:1] if task == "Multiclass" else shape
    target = torch.randint(CLASSES if task == "Multiclass" else 2, where, generator=generator)
    if case == "ignoring":
        target = torch.where(torch.rand(where, generator=generator) < 0.2, -1, target)
    return preds, target
