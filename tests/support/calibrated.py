"""Definitions of calibration, sample by sample, and batches for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit.statistics import SCORE_STATISTICS, BrierParts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor

    Rows = tuple[np.ndarray, np.ndarray, np.ndarray]
    """Probabilities of yes, answers and weights."""


GROUPS, DEFAULT = 15, 65_536
ADDED = ("max_calibration_error", "adaptive_calibration_error", "classwise_calibration_error")
PARTS = ("brier_calibration", "brier_refinement", "brier_uncertainty")


def widest(bins: int) -> float:
    """No bin of ``FineBins`` is wider, as a probability."""
    return 4 / (bins - 2)


EDGES = np.arange(1, GROUPS) / GROUPS


def sigmoid(x: Tensor) -> Tensor:
    return x.double().sigmoid()


def answered(size: int, seed: int, spread: float = 2.0, bent: float = 0.6) -> tuple[Tensor, Tensor, Tensor]:
    """Logits that are too confident, what happened, and weights."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(size, generator=generator) * spread
    y = (torch.rand(size, generator=generator) < (logits * bent - 0.3).sigmoid()).long()
    return logits, y, torch.rand(size, generator=generator).double() * 3


def classed(size: int, number: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(size, number, generator=generator) * 2
    chances = (logits * 0.6 + torch.linspace(0, 1, number)).softmax(1)
    y = torch.multinomial(chances, 1, generator=generator).squeeze(1)
    w = torch.rand(size, generator=generator).double() * 3
    off = logits.double().softmax(1)[..., None] - torch.from_numpy(EDGES)
    clear = off.abs().amin((1, 2)) > widest(DEFAULT)  # of edges, which are in no fine bin with any of them then
    return logits[clear], y[clear], w[clear]


def rows_of(p: Tensor, y: Tensor, w: Tensor | None = None) -> Rows:
    weights = torch.ones(len(y)) if w is None else w
    return p.double().numpy(), y.double().numpy(), weights.double().numpy()


def values_of(evaluation: Any) -> dict[str, float]:
    return {name: float(value) for name, value in evaluation.compute().items()}


CLASSES = ("ant", "bee", "cat", "dog")


def names_of(task: str, bases: Iterable[str] = SCORE_STATISTICS) -> list[str]:
    """All entries that a task has of these statistics."""
    if task == "binary":
        return list(bases)
    places = CLASSES if task == "classes" else CLASSES[:3]
    alone = [base for base in bases if task == "classes" and SCORE_STATISTICS[base].needs == "calibration"]
    each = [f"{base}/{over}" for base in bases if base not in alone for over in ("macro", "weighted", *places)]
    return alone + each


def build(task: str, reading: Any, bases: Iterable[str] = SCORE_STATISTICS, **options: Any) -> Any:
    options = {"curves": True, "statistics": names_of(task, bases), **options}
    if task == "binary":
        return BinaryEvaluation(reading, **options)
    if task == "classes":
        return MulticlassEvaluation(reading, len(CLASSES), CLASSES, **options)
    return MultilabelEvaluation(reading, 3, CLASSES[:3], **options)


def batch_of(task: str, size: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    if task == "binary":
        return answered(size, seed)
    if task == "classes":
        return classed(size, len(CLASSES), seed)
    columns = [answered(size, seed + 10 * (k + 1), spread=1 + k) for k in range(3)]
    logits, y = (torch.stack([column[part] for column in columns], 1) for part in (0, 1))
    return logits, y, columns[0][2]


def questions(task: str, logits: Tensor, y: Tensor, w: Tensor | None) -> dict[str, Rows]:
    """The yes-or-no question of every class or label by its name."""
    if task == "binary":
        return {"": rows_of(sigmoid(logits), y, w)}
    if task == "classes":
        chances = logits.double().softmax(1)
        return {name: rows_of(chances[:, k], (y == k), w) for k, name in enumerate(CLASSES)}
    return {name: rows_of(sigmoid(logits[:, k]), y[:, k], w) for k, name in enumerate(CLASSES[:3])}


TASKS = ("binary", "classes", "labels")
every_task = pytest.mark.parametrize("task", TASKS)
every_weighting = pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])


def counted(
    task: str, weighted: bool, size: int, reading: str = "logits", seed: int = 0, **options: Any
) -> tuple[Any, dict[str, Rows]]:
    """An evaluation of some data in two batches, and its questions."""
    logits, y, w = batch_of(task, size, seed)
    preds = logits
    if reading == "probabilities":
        preds = (logits.double().softmax(1) if task == "classes" else sigmoid(logits)).float()
    evaluation = build(task, reading, weighted=weighted, **options)
    for part in (slice(size // 3), slice(size // 3, None)):
        evaluation.update(preds[part], y[part], *([w[part]] if weighted else []))
    return evaluation, questions(task, logits, y, w if weighted else None)


def tensor_parts(parts: BrierParts) -> dict[str, float]:
    assert isinstance(parts, BrierParts)
    found = {name: float(value) for name, value in parts._asdict().items()}
    assert found["brier"] == pytest.approx(found["calibration"] + found["refinement"] + found["within"], abs=1e-12)
    assert all(found[name] >= 0 for name in ("brier", "calibration", "refinement", "uncertainty"))
    assert found["refinement"] <= found["uncertainty"]  # whatever was rounded
    assert float(parts.resolution) == found["uncertainty"] - found["refinement"] >= 0
    return found
