"""Classifiers that are calibrated: targets are drawn from their own probabilities, so that only chance is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation

if TYPE_CHECKING:
    from collections.abc import Callable


def binary(n: int, seed: int, shift: float = 0.0) -> tuple[Tensor, Tensor]:
    """Logits that are calibrated, up to a shift; from balanced to one positive in ten."""
    random = torch.Generator().manual_seed(seed)
    middle = -3.2 * (seed % 4) / 3
    logits = middle + 2 * torch.randn(n, generator=random)
    return logits + shift, (torch.rand(n, generator=random) < logits.sigmoid()).long()


def classes(n: int, seed: int) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    number = (3, 10)[seed % 2]
    priors = torch.linspace(0, (0.0, -1.5)[seed // 2 % 2], number)
    logits = priors + 2.5 * torch.randn(n, number, generator=random)
    return logits, torch.multinomial(logits.softmax(1), 1, generator=random).squeeze(1)


def labels(n: int, seed: int) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    logits = 2.5 * torch.randn(n, (3, 8)[seed % 2], generator=random) - (0.0, 1.5)[seed // 2 % 2]
    return logits, (torch.rand(logits.shape, generator=random) < logits.sigmoid()).long()


def evaluated(task: str, n: int, seed: int) -> Any:
    made: dict[str, Callable[[int, int], tuple[Tensor, Tensor]]] = {
        "binary": binary,
        "multiclass": classes,
        "multilabel": labels,
    }
    logits, target = made[task](n, seed)
    if task == "binary":
        evaluation: Any = BinaryEvaluation("logits", curves=True, resolution=4096)
    elif task == "multiclass":
        evaluation = MulticlassEvaluation("logits", logits.shape[1], curves=True, resolution=1024)
    else:
        evaluation = MultilabelEvaluation("logits", logits.shape[1], curves=True, resolution=1024)
    evaluation.update(logits, target)
    return evaluation
