"""Words for values that contradict the declaration. Slow on purpose: only called when an update is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.inputs.binary import Binary


def complaint(task: Binary, preds: Tensor, target: Tensor, weight: Tensor | None) -> str:
    """Say which values of this batch are not what was declared: how many, the first, and what to do."""
    used = torch.ones_like(target, dtype=torch.bool) if task.ignore_index is None else target != task.ignore_index
    also = "" if task.ignore_index is None else f" or ignore_index={task.ignore_index}"
    wrong_target = used & (target != 0) & (target != 1)
    if wrong_target.any():
        hint = "soft targets and class numbers above 1 are no binary problem"
        if task.ignore_index is None and bool((target[wrong_target] < 0).all()):
            hint = f"if it marks samples to leave out, declare ignore_index={_first(target, wrong_target):g}"
        return _sentence("target", f"0 or 1{also}", target, wrong_target, hint)
    for name, expected, values, wrong, hint in _suspects(task, preds, weight):
        if (used & wrong).any():
            return _sentence(name, expected, values, used & wrong, hint)
    return "some samples are not what was declared."


def _suspects(task: Binary, preds: Tensor, weight: Tensor | None) -> list[tuple[str, str, Tensor, Tensor, str]]:
    suspects = []
    reading = task.reading(preds)
    if reading == "labels":
        hint = "declare inputs='logits' or inputs='probabilities' for scores"
        suspects.append(("preds", "the label 0 or 1", preds, (preds != 0) & (preds != 1), hint))
    else:
        hint = "look for a division by zero or an overflow in the model"
        suspects.append(("preds", "a number", preds, preds.isnan(), hint))
    if reading == "probabilities":
        hint = "declare inputs='logits' if no sigmoid was applied"
        suspects.append(("preds", "a probability in [0, 1]", preds, (preds < 0) | (preds > 1), hint))
    if weight is not None:
        wrong = ~((weight >= 0) & (weight < torch.inf))
        suspects.append(("sample_weight", "finite and not negative", weight, wrong, "0 leaves a sample out"))
    return suspects


def _first(values: Tensor, wrong: Tensor) -> float:
    return float(values[wrong][0])


def _sentence(name: str, expected: str, values: Tensor, wrong: Tensor, hint: str) -> str:
    place = wrong.flatten().nonzero()[0].item()
    return (
        f"expected every {name} to be {expected}, got {_first(values, wrong):g} at position {place} "
        f"({int(wrong.sum())} of {wrong.numel()} values are wrong); {hint}."
    )
