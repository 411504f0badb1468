"""Computes the sums of ``calibration_sums`` on the CPU with NumPy, in a third of the time of torch's operators.

Sigmoid and softmax are torch's, as their rounding decides in which calibration bin a confidence is.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from lightning_evalkit.counts.calibration_sums import in_order, shape_of
from lightning_evalkit.counts.numpy_path import arg_max

if TYPE_CHECKING:
    from lightning_evalkit.counts.layout import Cells
    from lightning_evalkit.counts.numpy_path import Array

MOST_BINS = 2**16
"""Up to so many calibration bins, a product with their number finds a bin or the one below it."""
FEW = 4_096
"""Up to so many confidences, comparing each with the end of its bin is faster than finding those near it."""


class Judged(NamedTuple):
    """The terms of the sums, element by element, in at least single precision."""

    squared_error: Array
    log_loss: Array
    """One each, or fewer rows of the same sum."""
    confidence: Array
    hit: Array


def judged_answers(scores: Array, yes: Array, score_kind: str, mixed: bool = False) -> Judged:
    """Yes-or-no answers: confidence is the probability of yes. Answers to several questions may be ``mixed`` in a row.

    The loss of a logit x is ln(1 + exp(-|x|)), and |x| more if it leads to the wrong answer.
    """
    scores = _real(scores)
    if score_kind == "logits":
        confidence: Array = torch.from_numpy(scores).sigmoid().numpy()
        size = np.abs(scores)
        np.exp(np.negative(size, out=size), out=size)
        given = scores * (yes.view(np.int8) * 2 - 1)  # that of the answer
        excess = np.minimum(given, 0, out=given)
        if mixed or len(scores) <= FEW:
            log_loss: Array = np.log1p(size) - excess
        else:
            totals = np.add.reduce(excess, axis=0, dtype=np.float64, keepdims=True)
            log_loss = np.concatenate((_few_logs(size), -totals))
    else:
        confidence = scores
        log_loss = _surprise(np.abs(scores - ~yes))  # |p - 1| = 1 - p
    error = confidence - yes
    return Judged(error * error, log_loss, confidence, yes)


PRODUCT = 64
"""So many numbers in [0, 1], each plus 1, have a product far below the largest number."""


def _few_logs(small: Array) -> Array:
    """A few rows with the same sum as ln(1 + x) of all x in [0, 1]: the logarithms of products.

    Processors without AVX-512 take ten times as long for a logarithm as for all else. A product has the form
    (1 + a)(1 + b) = 1 + (a + b + ab), in which small numbers keep their digits.
    """
    rest = len(small) % PRODUCT
    parts = small[rest:].astype(np.float64).reshape(PRODUCT, -1, *small.shape[1:])
    while len(parts) > 1:
        a, b = parts[: len(parts) // 2], parts[len(parts) // 2 :]
        parts = a * b
        parts += a
        parts += b
    return np.concatenate((np.log1p(parts[0]), np.log1p(small[:rest])))


def judged_classes(scores: Array, truth: Array, score_kind: str) -> Judged:
    """One class among many, scores of shape (N, C): confidence is the highest probability, a hit the right class."""
    scores = _real(scores)
    probabilities, label, rows = scores, arg_max(scores), np.arange(len(scores))
    if score_kind == "logits":
        logits = torch.from_numpy(scores)
        probabilities, logs = logits.softmax(-1).numpy(), logits.log_softmax(-1).numpy()
        log_loss = -logs[rows, truth]
    else:
        log_loss = _surprise(scores[rows, truth])
    confidence = probabilities[rows, label]
    apart = probabilities.copy() if probabilities is scores else probabilities  # given scores stay as they are
    apart[rows, truth] -= 1
    return Judged(np.einsum("ij,ij->i", apart, apart), log_loss, confidence, label == truth)


def _real(scores: Array) -> Array:
    """The scores in contiguous memory and at least in single precision."""
    return np.ascontiguousarray(scores, np.float32 if scores.dtype == np.float16 else None)


def _surprise(given: Array) -> Array:
    """-ln of the probability given to the target: infinite if that is 0."""
    with np.errstate(divide="ignore"):
        surprise: Array = -np.log(given)
    return surprise


def summed(judged: Judged, places: Array, questions: Array | None, cells: Cells) -> Array:
    """The sums as one row, for elements in these calibration bins.

    ``questions`` is None if there is one; where every question has a column, they need not be looked up.
    """
    number, bins = shape_of(cells)
    error, loss, confidence, hit = judged
    if questions is None or len(questions.shape) > 1:
        by_question = [np.add.reduce(part, 0, np.float64).reshape(number) for part in (error, loss)]
    else:
        by_question = [np.bincount(questions, part, number) for part in (error, loss)]
    if questions is not None:
        places = places + questions.ravel() * bins
    confidence, hit = confidence.ravel(), hit.ravel()
    size = number * bins
    apart = places + hit * size  # for both: a sum that many elements in a row are added to waits for each of them
    missed, hits = np.bincount(apart, minlength=2 * size).reshape(2, size)
    weights, confidences = missed + hits, np.add.reduce(np.bincount(apart, confidence, 2 * size).reshape(2, size))
    by_question.append(np.add.reduce(weights.reshape(number, bins), axis=1))
    return np.concatenate(in_order(cells, *by_question, weights, confidences, hits), dtype=np.float64)


class _Cuts(NamedTuple):
    """The ends of calibration bins in a precision, and the factor that finds them."""

    ends: Array
    """The end of each bin; nothing is above the last."""
    factor: Array | None
    """The factor that turns a confidence into its bin or the one below; None if it may be off by more."""


def calibration_places(confidence: Array, bins: int, kind: torch.dtype) -> Array:
    """The calibration bin of each confidence, cut in this precision; the last bin is closed."""
    confidence, (ends, factor) = confidence.ravel(), _cuts(bins, kind)
    if factor is None:
        return np.searchsorted(ends[:-1], confidence.astype(ends.dtype, copy=False), side="right")
    scaled = confidence * factor
    places: Array = scaled.astype(np.intp)
    if places.size <= FEW:
        places += confidence >= ends.take(places)
        return places
    near = np.nonzero(scaled - np.floor(scaled) > 1 - bins * 2**-18)[0]
    places[near] += confidence[near] >= ends[places[near]]
    return places


@lru_cache(maxsize=8)
def _cuts(bins: int, kind: torch.dtype) -> _Cuts:
    edges = torch.linspace(0, 1, bins + 1, dtype=kind, device="cpu")[1:]
    edges[-1] = torch.inf
    ends: Array = (edges if kind == torch.float64 else edges.float()).numpy()
    if kind not in (torch.float32, torch.float64) or bins > MOST_BINS:
        return _Cuts(ends, None)
    # A little too small, so that rounding never leads to a bin above, and to the one below only just before an edge.
    return _Cuts(ends, np.array(bins * (1 - 2**-20), ends.dtype))
