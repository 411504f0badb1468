"""Arranges the predictions and labels of a Hugging Face model in the shapes that evaluations count.

Their models put classes last, (N, C) or (N, tokens, C), and two classes are two logits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from lightning_evalkit.errors import InputError
from lightning_evalkit.inputs import Binary, Multilabel
from lightning_evalkit.inputs.arrays import tensor_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lightning_evalkit.inputs import Declaration


def batches(predictions: Any, labels: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the one batch, or each batch of a list, as ``eval_do_concat_batches=False`` gives them."""
    if not (isinstance(predictions, list) and isinstance(labels, list)):
        yield predictions, labels
    elif len(predictions) != len(labels):
        raise InputError(
            f"expected as many batches of predictions as of labels, got {len(predictions)} and {len(labels)}."
        )
    else:
        yield from zip(predictions, labels, strict=True)


def scores_and_labels(predictions: Any, labels: Any) -> tuple[Any, Any]:
    """Return the logits, which are the first of several outputs, and the labels of the only label name."""
    if labels is None:
        raise InputError(
            "expected labels with the predictions, got None: name the data set's column of labels 'labels', or set "
            "label_names in the TrainingArguments."
        )
    if isinstance(labels, (tuple, list)) and len(labels) > 1 and hasattr(labels[0], "shape"):
        raise InputError(
            f"expected labels of one name, got {len(labels)}: say which belong to which output by "
            "take=lambda predictions, labels: (predictions[0], labels[0])."
        )
    return _first(predictions), _first(labels)


def _first(value: Any) -> Any:
    """The first of several outputs; lists of plain numbers are values."""
    if isinstance(value, (tuple, list)) and value and (hasattr(value[0], "shape") or isinstance(value, tuple)):
        return value[0]
    return value


def tensors(task: Declaration, preds: Any, target: Any) -> tuple[Tensor, Tensor]:
    """Arrays as tensors; a single row as a batch of one."""
    scores = tensor_of("predictions", preds, torch.device("cpu"))
    truth = tensor_of("labels", target, scores.device)
    if truth.ndim == 0 or (isinstance(task, Multilabel) and scores.ndim == truth.ndim == 1):
        return scores.unsqueeze(0), truth.unsqueeze(0)
    return scores, truth


def arranged(task: Declaration, preds: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Scores and labels in the shapes of the task."""
    if isinstance(task, Multilabel):
        return _labels(task, preds, target)
    if isinstance(task, Binary):
        return _yes_or_no(task, preds, target)
    return _classes(preds, target)


def _labels(task: Multilabel, preds: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    if preds.ndim == 2 and target.shape != preds.shape:
        raise InputError(
            f"expected a 0 or 1 for each of {task.num_labels} labels in every row, shape {tuple(preds.shape)} as the "
            f"predictions, got labels of shape {tuple(target.shape)}: write each row's labels as {task.num_labels} "
            "zeros and ones, or declare a MulticlassEvaluation for one class per row."
        )
    return preds, target


def _yes_or_no(task: Binary, preds: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Two logits of a softmax are one: the log-odds of the second class are their difference."""
    if preds.ndim == target.ndim + 1 and preds.shape[-1] == 1:
        return preds.squeeze(-1), target
    if preds.shape == (*target.shape, 2) and task.inputs != "labels":
        no, yes = preds.unbind(-1)
        return (yes.double() - no.double() if task.inputs == "logits" else yes), target
    return preds, target


def _classes(preds: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Every token is a sample; classes that are not last are left to the evaluation, which expects them second."""
    if preds.is_floating_point() and target.is_floating_point() and preds.shape == target.shape:
        raise InputError(
            f"expected the number of one class per row as labels, shape {tuple(target.shape[:-1])}, got {target.dtype} "
            f"{tuple(target.shape)}: declare a MultilabelEvaluation for several labels per row, or call "
            "labels.argmax(-1) if exactly one is 1."
        )
    if target.ndim > 1 and preds.shape[:-1] == target.shape:
        return preds.flatten(0, -2), target.flatten()
    return preds, target
