"""Sums over probabilities that no histogram of scores contains: Brier score, log loss and calibration.

Each label has its own sums, a binary problem has one set, and so have all classes of a multiclass problem together:
those of the class with the highest probability.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch.nn.functional import logsigmoid, nll_loss

from lightning_evalkit.counts.counts import real_dtype
from lightning_evalkit.counts.histogram import weighted_histogram
from lightning_evalkit.counts.layout import Cells, Item

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts.numpy_path import Array


class Calibration(NamedTuple):
    """Sums of each question; the last three by calibration bin, of shape (questions, bins)."""

    squared_errors: Tensor
    log_losses: Tensor
    weights: Tensor
    bin_weights: Tensor
    confidences: Tensor
    hits: Tensor


class Judged(NamedTuple):
    """What is summed, element by element."""

    squared_error: Tensor
    log_loss: Tensor
    confidence: Tensor
    hit: Tensor


def judged_answers(scores: Tensor, answers: Tensor, score_kind: str) -> Judged:
    """Yes-or-no answers: confidence is the probability of yes."""
    scores, answers = _real(scores), answers.bool()
    confidence = scores.sigmoid() if score_kind == "logits" else scores
    log_loss = loss_of_answers(scores, answers, score_kind)
    return Judged((confidence - answers.to(scores.dtype)) ** 2, log_loss, confidence, answers)


def loss_of_answers(scores: Tensor, answers: Tensor, score_kind: str) -> Tensor:
    """-ln of the probability given to each answer: infinite where that is 0."""
    scores = _real(scores)
    if score_kind == "logits":
        return -logsigmoid(torch.where(answers, scores, -scores))
    return -torch.where(answers, scores, 1 - scores).log()


def judged_classes(scores: Tensor, target: Tensor, score_kind: str) -> Judged:
    """One class among many, scores of shape (N, C): confidence is the highest probability, a hit the right class.

    The class is predicted by the scores as they are given: probabilities of unequal logits may round to equal ones.
    """
    scores = _real(scores)
    probabilities = scores.softmax(-1) if score_kind == "logits" else scores
    label = scores.argmax(-1)
    confidence = probabilities.amax(-1)
    right = probabilities.gather(-1, target.unsqueeze(-1)).squeeze(-1)
    squared_error = (probabilities**2).sum(-1).sub(right, alpha=2) + 1
    return Judged(squared_error, loss_of_classes(scores, target, score_kind), confidence, label == target)


def loss_of_classes(scores: Tensor, target: Tensor, score_kind: str) -> Tensor:
    """-ln of the probability given to each target, scores of shape (N, C): infinite where that is 0."""
    scores = _real(scores)
    logs = scores.log_softmax(-1) if score_kind == "logits" else scores.log()
    return nll_loss(logs, target, reduction="none")


def _real(scores: Tensor) -> Tensor:
    """At least in single precision."""
    return scores.to(torch.promote_types(scores.dtype, torch.float32))


def summed_at_once(judged: Judged, questions: Array | None, cells: Cells) -> Array:
    """The sums as one row, on the CPU; ``questions`` is None where there is one."""
    number, bins = _shape(cells)
    error, loss, confidence, hit = (part.numpy().ravel() for part in judged)
    if questions is None:
        by_question = [
            np.array([total]) for total in (error.sum(dtype=np.float64), loss.sum(dtype=np.float64), len(hit))
        ]
    else:
        questions = questions.ravel()
        by_question = [np.bincount(questions, part, number) for part in (error, loss, None)]
    places = _inside(confidence, bins) + (0 if questions is None else questions * bins)
    by_bin = [np.bincount(places, part, number * bins) for part in (None, confidence, hit)]
    return np.concatenate(_in_order(cells, *by_question, *by_bin), dtype=np.float64)


def _inside(confidence: Array, bins: int) -> Array:
    """The calibration bin of each confidence: by a product, which may be one off at an edge, and so is put right."""
    edges = torch.linspace(0, 1, bins + 1, dtype=torch.float32).numpy().astype(confidence.dtype)
    edges[-1] = np.inf  # the last bin is closed
    places = np.minimum((confidence * bins).astype(np.int32), bins - 1)
    places += confidence >= edges[1:].take(places)
    places -= confidence < edges.take(places)
    inside: Array = places
    return inside


def summed(judged: Judged, questions: Tensor, cells: Cells, weight: Tensor | None, used: Tensor | None) -> Tensor:
    """The sums as one row, over the elements that are used; their questions are numbers of the same shape."""
    number, bins = _shape(cells)
    kind = real_dtype(judged.confidence.device)
    ones = torch.ones_like(judged.confidence, dtype=kind)
    weights = ones if weight is None else weight.to(kind).expand(ones.shape)
    if used is not None:
        weights = torch.where(used, weights, 0)
    edges = torch.linspace(0, 1, bins + 1, dtype=torch.float32, device=weights.device).to(judged.confidence.dtype)
    inside = torch.searchsorted(edges, judged.confidence.contiguous(), right=True).sub(1).clamp(0, bins - 1)
    places = questions * bins + inside
    values = (judged.squared_error, judged.log_loss, ones)
    by_question = [weighted_histogram(questions, _weighed(value, weights), number) for value in values]
    by_bin = [
        weighted_histogram(places, _weighed(value, weights), number * bins)
        for value in (ones, judged.confidence, judged.hit)
    ]
    return torch.cat(_in_order(cells, *by_question, *by_bin))


def _weighed(value: Tensor, weights: Tensor) -> Tensor:
    """Without what is not used, also where that is no number."""
    return torch.where(weights > 0, value.to(weights.dtype), 0) * weights


def cells_of(number: int, bins: int) -> Cells:
    """The sums of so many questions, each a field of ``Calibration``."""
    by_question = Cells(squared_errors=number, log_losses=number, weights=number)
    return by_question + Cells(bin_weights=number * bins, confidences=number * bins, hits=number * bins)


def _shape(cells: Cells) -> tuple[int, int]:
    """The number of questions and of bins."""
    number = cells.sizes["weights"]
    return number, cells.sizes["bin_weights"] // number


def _in_order(cells: Cells, *sums: Item) -> list[Item]:
    """The sums, given in the order of ``Calibration``, as they are kept."""
    return cells.parts(**dict(zip(Calibration._fields, sums, strict=True)))


def unpack(row: Tensor, cells: Cells) -> Calibration:
    """The sums in a row of these cells."""
    parts = [cells.read(row, name) for name in Calibration._fields]
    return Calibration(*parts[:3], *(part.view(_shape(cells)) for part in parts[3:]))
