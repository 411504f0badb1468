"""Errors about values that contradict the declaration. Slow on purpose: only called when an update is refused."""

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
"""A possible fault: a name, the expectation, the values, a mask of the wrong ones, and the remedy."""


def complaint(task: Thresholded, preds: Tensor, target: Tensor, weight: Tensor | None) -> str:
    """Say which values of this batch are not what was declared: how many, the first, and what to do."""
    used = _used(task, target, weight)
    wrong = used & (target != 0) & (target != 1)
    hint = "soft targets and class numbers above 1 are no binary problem"
    return _first_of(used, [_target(task, "0 or 1", target, wrong, hint), *_suspects(task, preds, weight)])


def multiclass_complaint(task: Multiclass, preds: Tensor, target: Tensor, weight: Tensor | None) -> str:
    """The same for class numbers and scores of classes."""
    used, last, truth = _used(task, target, weight), task.classes - 1, target.long()  # no byte is compared with 256
    hint = "classes are numbered from 0: declare a larger num_classes, or ignore_index for a mark"
    suspects = [_target(task, f"a class from 0 to {last}", target, used & ((truth < 0) | (truth > last)), hint)]
    if preds.ndim == target.ndim:
        label = preds.long()
        suspects.append(("preds", f"a class from 0 to {last}", preds, (label < 0) | (label > last), hint))
    else:
        best = preds.amax(1)
        suspects.append(("preds", "a number", best, best.isnan(), NAN_HINT))
        if task.inputs == "probabilities":
            suspects.append(("preds", "a probability in [0, 1]", best, (best < 0) | (best > 1), LOGITS_HINT))
            least = preds.amin(1)
            if task.binning is not None:  # if every score is checked
                suspects.append(("preds", "a probability in [0, 1]", least, least < 0, LOGITS_HINT))
    suspects += _weights(weight)
    if preds.ndim > target.ndim and task.inputs != "probabilities":  # last, because mere comparisons tolerate it
        best = preds.amax(1)
        suspects.append(("preds", "finite where it is largest", best, best.isinf(), NAN_HINT))
    return _first_of(used, suspects)


def _used(task: Declaration, target: Tensor, weight: Tensor | None) -> Tensor:
    """Elements that are neither ignored nor of weight 0."""
    used = ~task.left_out(target)
    return used if weight is None else used & (weight != 0)


def _target(task: Declaration, expected: str, target: Tensor, wrong: Tensor, hint: str) -> Suspect:
    if task.ignored:
        expected += f" or ignore_index={task.ignore_index}"
        if wrong.any() and not task.marks(target.dtype):
            value = float(target[wrong][0])
            hint = f"no {target.dtype} is {task.ignore_index}: if this marks samples, declare ignore_index={value:g}"
    elif wrong.any() and bool((target[wrong] < 0).all()):
        hint = f"if it marks samples to leave out, declare ignore_index={float(target[wrong][0]):g}"
    return "target", expected, target, wrong, hint


def _suspects(task: Thresholded, preds: Tensor, weight: Tensor | None) -> list[Suspect]:
    score_kind = task.score_kind(preds)
    if score_kind == "labels":
        hint = "declare inputs='logits' or inputs='probabilities' for scores"
        return [("preds", "the label 0 or 1", preds, (preds != 0) & (preds != 1), hint), *_weights(weight)]
    suspects: list[Suspect] = [("preds", "a number", preds, preds.isnan(), NAN_HINT)]
    if score_kind == "probabilities":
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
