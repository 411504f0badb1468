"""Words for values that contradict the declaration. Slow on purpose: only called when an update is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from lightning_evalkit.inputs.declaration import Declaration
    from lightning_evalkit.inputs.multiclass import Multiclass
    from lightning_evalkit.inputs.thresholded import Thresholded

NAN_HINT = "look for a division by zero or an overflow in the model"
LOGITS_HINT = "declare inputs='logits' if no sigmoid or softmax was applied"

Suspect = tuple[str, str, Tensor, Tensor, str]
"""What may be wrong: a name, what was expected, the values, which of them are wrong, and what to do."""


def complaint(task: Thresholded, preds: Tensor, target: Tensor, weight: Tensor | None) -> str:
    """Say which values of this batch are not what was declared: how many, the first, and what to do."""
    used = _used(task, target)
    wrong = used & (target != 0) & (target != 1)
    hint = "soft targets and class numbers above 1 are no binary problem"
    return _first_of(used, [_target(task, "0 or 1", target, wrong, hint), *_suspects(task, preds, weight)])


def multiclass_complaint(task: Multiclass, preds: Tensor, target: Tensor, weight: Tensor | None) -> str:
    """The same for class numbers and scores of classes."""
    used, last = _used(task, target), task.classes - 1
    hint = "classes are numbered from 0: declare a larger num_classes, or ignore_index for a mark"
    suspects = [_target(task, f"a class from 0 to {last}", target, (target < 0) | (target > last), hint)]
    if preds.ndim == target.ndim:
        suspects.append(("preds", f"a class from 0 to {last}", preds, (preds < 0) | (preds > last), hint))
    else:
        best = preds.amax(1)
        suspects.append(("preds", "a number", best, best.isnan(), NAN_HINT))
        if task.inputs == "probabilities":
            suspects.append(("preds", "a probability in [0, 1]", best, (best < 0) | (best > 1), LOGITS_HINT))
            least = preds.amin(1)
            if task.scores is not None:  # where every score is looked at
                suspects.append(("preds", "a probability in [0, 1]", least, least < 0, LOGITS_HINT))
        elif task.scores is not None:
            suspects.append(("preds", "finite where it is largest", best, best.isinf(), NAN_HINT))
    return _first_of(used, suspects + _weights(weight))


def _used(task: Declaration, target: Tensor) -> Tensor:
    used = torch.ones_like(target, dtype=torch.bool)
    for index in task.ignored:
        used = used & (target != index)
    return used


def _target(task: Declaration, expected: str, target: Tensor, wrong: Tensor, hint: str) -> Suspect:
    wrong = wrong & _used(task, target)
    if task.ignored:
        expected += f" or ignore_index={task.ignore_index}"
    elif wrong.any() and bool((target[wrong] < 0).all()):
        hint = f"if it marks samples to leave out, declare ignore_index={float(target[wrong][0]):g}"
    return "target", expected, target, wrong, hint


def _suspects(task: Thresholded, preds: Tensor, weight: Tensor | None) -> list[Suspect]:
    reading = task.reading(preds)
    if reading == "labels":
        hint = "declare inputs='logits' or inputs='probabilities' for scores"
        return [("preds", "the label 0 or 1", preds, (preds != 0) & (preds != 1), hint), *_weights(weight)]
    suspects: list[Suspect] = [("preds", "a number", preds, preds.isnan(), NAN_HINT)]
    if reading == "probabilities":
        suspects.append(("preds", "a probability in [0, 1]", preds, (preds < 0) | (preds > 1), LOGITS_HINT))
    return suspects + _weights(weight)


def _weights(weight: Tensor | None) -> list[Suspect]:
    if weight is None:
        return []
    wrong = ~((weight >= 0) & (weight < torch.inf))
    return [("sample_weight", "finite and not negative", weight, wrong, "0 leaves a sample out")]


def _first_of(used: Tensor, suspects: list[Suspect]) -> str:
    for name, expected, values, wrong, hint in suspects:
        wrong = wrong & used
        if wrong.any():
            place = wrong.flatten().nonzero()[0].item()
            return (
                f"expected every {name} to be {expected}, got {float(values.detach()[wrong][0]):g} at position {place} "
                f"({int(wrong.sum())} of {wrong.numel()} values are wrong); {hint}."
            )
    return "some samples are not what was declared."
