"""Sums over probabilities that no histogram of scores contains: Brier score, log loss and calibration.

Each label has its own sums; a binary problem has one set. All classes of a multiclass problem share one set, that of
the class with the highest probability.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch.nn.functional import logsigmoid, nll_loss

from lightning_evalkit.counts.counts import real_dtype, wide_dtype
from lightning_evalkit.counts.deferral import is_deferred
from lightning_evalkit.counts.histogram import weighted_histogram
from lightning_evalkit.counts.layout import Cells, Item

if TYPE_CHECKING:
    from torch import Tensor


class Calibration(NamedTuple):
    """Sums of each question; the last three by calibration bin, of shape (questions, bins)."""

    squared_errors: Tensor
    log_losses: Tensor
    weights: Tensor
    bin_weights: Tensor
    confidences: Tensor
    hits: Tensor


class Judged(NamedTuple):
    """The terms of the sums, element by element."""

    squared_error: Tensor
    log_loss: Tensor
    confidence: Tensor
    hit: Tensor
    placed: Tensor
    """The confidence in the precision of the calibration bins: that of the scores, or single for classes."""


def judged_answers(scores: Tensor, answers: Tensor, score_kind: str) -> Judged:
    """Yes-or-no answers: confidence is the probability of yes."""
    given, scores, answers = scores, as_real(scores), answers.bool()
    confidence = scores.sigmoid() if score_kind == "logits" else scores
    log_loss = loss_of_answers(scores, answers, score_kind)
    placed = confidence if score_kind == "logits" else given
    return Judged(torch.add(confidence, answers, alpha=-1) ** 2, log_loss, confidence, answers, placed)


def loss_of_answers(scores: Tensor, answers: Tensor, score_kind: str) -> Tensor:
    """-ln of the probability given to each answer; infinite if that is 0."""
    scores = as_real(scores)
    given = _given(scores, answers, score_kind)
    return -(logsigmoid(given) if score_kind == "logits" else given.log())


def _given(scores: Tensor, answers: Tensor, score_kind: str) -> Tensor:
    """The score of each given answer: that of yes, or its complement for no."""
    if is_deferred(scores):
        return torch.where(answers, scores, -scores if score_kind == "logits" else 1 - scores)
    # The same numbers on the CPU in a fifth of the time: a product with 1 or -1, and |p - 1| = 1 - p.
    if score_kind == "logits":
        return scores * answers.view(torch.int8).mul(2).sub_(1)
    return torch.add(scores, answers.logical_not(), alpha=-1).abs()


def judged_classes(scores: Tensor, target: Tensor, score_kind: str) -> Judged:
    """One class among many, scores of shape (N, C): confidence is the highest probability, a hit the right class.

    The given scores decide the predicted class: probabilities of different logits may round to equal ones.
    """
    scores = as_real(scores)
    probabilities = scores.softmax(-1) if score_kind == "logits" else scores
    label = scores.argmax(-1)
    confidence = probabilities.amax(-1)
    # Differences first: sum p^2 - 2 p_t + 1 cancels to nothing where a classifier is nearly certain and right.
    place = target.unsqueeze(-1)
    squared_error = (probabilities.scatter(-1, place, probabilities.gather(-1, place) - 1) ** 2).sum(-1)
    log_loss = loss_of_classes(scores, target, score_kind)
    return Judged(squared_error, log_loss, confidence, label == target, confidence.float())


def loss_of_classes(scores: Tensor, target: Tensor, score_kind: str) -> Tensor:
    """-ln of the probability given to each target, scores of shape (N, C); infinite if that is 0."""
    scores = as_real(scores)
    logs = scores.log_softmax(-1) if score_kind == "logits" else scores.log()
    return nll_loss(logs, target, reduction="none")


def as_real(scores: Tensor) -> Tensor:
    """Convert to single precision at least."""
    return scores.to(wide_dtype(scores.dtype))


def summed(judged: Judged, questions: Tensor | None, cells: Cells, weight: Tensor | None, unused: Tensor) -> Tensor:
    """The sums as one row, without unused elements; ``questions`` is None if there is one.

    Everything is added in one pass: the sum of a question is that over its bins.
    """
    number, bins = shape_of(cells)
    places = searched(judged.placed, bins)
    if questions is not None:
        places = places + questions * bins
    rows = torch.stack((judged.squared_error, judged.log_loss, unused.logical_not(), judged.confidence, judged.hit))
    rows = rows.to(real_dtype(rows.device))
    if weight is not None:
        rows = rows * weight
    rows = rows.masked_fill(unused, 0.0).flatten(1)  # NaN too
    begins = torch.arange(0, len(rows) * number * bins, number * bins, device=rows.device).unsqueeze(1)
    table = weighted_histogram(places.flatten() + begins, rows, len(rows) * number * bins).view(len(rows), number, bins)
    by_question, by_bin = table.narrow(0, 0, 3).sum(-1), table.narrow(0, 2, 3).flatten(1)
    return torch.cat(in_order(cells, *by_question.unbind(), *by_bin.unbind()))


def searched(placed: Tensor, bins: int) -> Tensor:
    """The calibration bin of each confidence, of which the last is closed."""
    edges = as_real(torch.linspace(0, 1, bins + 1, dtype=placed.dtype, device=placed.device))
    return torch.searchsorted(edges.narrow(0, 1, bins - 1), as_real(placed).contiguous(), right=True)


def cells_of(number: int, bins: int) -> Cells:
    """The sums of so many questions, each a field of ``Calibration``."""
    by_question = Cells(squared_errors=number, log_losses=number, weights=number)
    return by_question + Cells(bin_weights=number * bins, confidences=number * bins, hits=number * bins)


def shape_of(cells: Cells) -> tuple[int, int]:
    """The number of questions and of bins."""
    number = cells.sizes["weights"]
    return number, cells.sizes["bin_weights"] // number


def in_order(cells: Cells, *sums: Item) -> list[Item]:
    """Reorder sums from the order of ``Calibration`` to that of the state."""
    return cells.parts(**dict(zip(Calibration._fields, sums, strict=True)))


def unpack(row: Tensor, cells: Cells) -> Calibration:
    """The sums in a row of these cells."""
    parts = [cells.read(row, name) for name in Calibration._fields]
    return Calibration(*parts[:3], *(part.view(shape_of(cells)) for part in parts[3:]))
