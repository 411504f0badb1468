"""Counting scores by bins on the CPU, through NumPy: values are checked first, and a bad batch raises.

A batch names the bins it adds to, and is not as wide as they are, unless it has more scores than there are bins.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from lightning_evalkit.counts import sums_at_once
from lightning_evalkit.counts.counter import Totals
from lightning_evalkit.counts.counts import real_dtype, wide_dtype
from lightning_evalkit.counts.numpy_path import (
    BLOCK,
    Array,
    any_of,
    array_of,
    ones_among,
    within,
    within_unit,
    without_nan,
)
from lightning_evalkit.counts.odds import class_log_odds, doubtful
from lightning_evalkit.counts.score_totals import ScoreTotals
from lightning_evalkit.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.inputs import Declaration


class Block(NamedTuple):
    """What a part of a batch adds: places of the state that are one higher, sums over probabilities, and numbers."""

    places: Array
    sums: Array | None
    ignored: int
    doubtful: int


class ScoresAtOnce(ScoreTotals):
    """Counts batches on the CPU, unweighted."""

    def __init__(self, task: Declaration, checks: bool) -> None:
        super().__init__(task)
        self.checks, self._number = checks, np.array(self.bins.number)

    @cached_property
    def _questions(self) -> Array:
        """Their numbers; made when first needed, as a state of very many is refused."""
        return np.arange(self.num_curves)

    @cached_property
    def _begins(self) -> Array:
        """Where the histogram of each question begins."""
        begins: Array = self._questions * (2 * self.bins.number) + self.books.width
        return begins

    def _at_once(self, preds: Tensor, target: Tensor) -> Totals:
        probable = self.guesses and self._probable(array_of(preds), target)
        rows = max(BLOCK // self.num_curves, 1)
        if preds.shape[0] <= rows:
            block = self._block(preds, target, probable)
        else:
            pairs = zip(preds.split(rows), target.split(rows), strict=True)
            block = _joined([self._block(scores, truth, probable) for scores, truth in pairs])
        if block is None:
            raise InputError(self.task.complaint(preds, target, None))
        books = self.books.flat(
            doubtful=(block.doubtful,),
            guessed=(probable, not probable) if preds.numel() else (0, 0),
            ignored=(block.ignored,),
            invalid=(0,),
            updates=(1,),
        )
        integers, reals = np.array(books, dtype=np.int64), None if block.sums is None else torch.from_numpy(block.sums)
        if len(block.places) < self.layout.integers.width:
            return Totals(torch.from_numpy(integers), reals, torch.from_numpy(block.places))
        dense = np.bincount(block.places, minlength=self.layout.integers.width)
        dense[: len(integers)] += integers
        return Totals(torch.from_numpy(dense), reals)

    def _probable(self, scores: Array, target: Tensor) -> bool:
        """Whether all scores that are not ignored are in [0, 1]."""
        probable = within_unit(scores)
        if probable or not self.task.ignored:
            return probable
        used = ~any_of(array_of(target), self.task.marks(target.dtype))
        return within_unit((np.moveaxis(scores, 1, -1) if self.is_multiclass else scores)[used])

    def _block(self, preds: Tensor, target: Tensor, probable: bool) -> Block | None:
        """What one block adds; None if a value is not what was declared."""
        scores, truth, questions = array_of(preds), array_of(target), self._questions
        if self.is_multiclass:
            scores = scores if scores.ndim == 2 else np.moveaxis(scores, 1, -1).reshape(-1, self.num_curves)
            truth = truth.ravel()
        elements = scores.size
        if self.task.ignored:
            used = ~any_of(truth, self.task.marks(target.dtype))
            scores, truth = scores[used], truth[used]
            questions = np.nonzero(used)[1] if self.labels else questions
        if self._refused(scores, truth, probable):
            return None
        answers = truth.astype(np.int64, copy=False) if self.is_multiclass else truth == 1
        values, sums = self._values(scores, probable, preds.dtype), None
        if self.sums.width:
            asked = np.broadcast_to(questions, truth.shape) if self.judged > 1 else None
            sums = self._summed(scores, answers, probable, asked, preds.dtype)
        places = self._places_at_once(values, answers, questions)
        return Block(places, sums, elements - scores.size, self._doubt(values))

    def _refused(self, scores: Array, truth: Array, probable: bool) -> bool:
        """Whether a value is not what was declared."""
        logits = self.score_kind == "logits" or (self.guesses and not probable)
        if self.checks:
            # Guessed probabilities were looked at, and are what they are.
            fine = without_nan(scores) if logits else self.guesses or within_unit(scores)
            known = within(truth, self.num_curves) if self.is_multiclass else ones_among(truth) is not None
            if not (fine and known):
                return True
        return self.is_multiclass and logits and _endless(scores)

    def _places_at_once(self, values: Array, answers: Array, questions: Array) -> Array:
        """Where the state is higher by each element."""
        if self.is_multiclass:
            places: Array = self._begins + self.bins.at_once(values)
            places[np.arange(len(places)), answers] += self._number
            return places.ravel()
        places = answers * self._number
        places += self._begins.take(questions) if self.labels else self._begins
        places += self.bins.at_once(values)
        return places.ravel()

    def _doubt(self, values: Array) -> int:
        """How many scores are in doubt, or no bfloat16 numbers, where that matters."""
        if self.kind == "bfloat16":
            single = values.astype(np.float32)
            return int(np.count_nonzero((single.view(np.int32) & 0xFFFF != 0) | (single != values)))
        return doubtful(self.bins, values) if self.computed else 0

    def _values(self, scores: Array, probable: bool, kind: torch.dtype) -> Array:
        """Scores as they are put into bins."""
        if not self.computed and (probable or not self.guesses):
            return scores
        return array_of(self._as_binned(_tensor(scores, kind), probable))

    def _summed(self, scores: Array, answers: Array, probable: bool, asked: Array | None, kind: torch.dtype) -> Array:
        """The sums over probabilities; what was guessed is judged as a probability.

        Its calibration bin is found in the precision of the scores, as in torchmetrics.
        """
        judge = sums_at_once.judged_classes if self.is_multiclass else sums_at_once.judged_answers
        if self.guesses and not probable:
            given = _tensor(scores, kind)
            judged = judge(array_of(self._squashed(given.double())), answers, self.score_kind)
            placed = self._squashed(given).amax(-1).float() if self.is_multiclass else self._squashed(given)
            confidence, kind = array_of(placed), placed.dtype
        else:
            judged = judge(scores, answers, self.score_kind)
            confidence = judged.confidence
            if self.is_multiclass:
                confidence, kind = confidence.astype(np.float32, copy=False), torch.float32
            elif self.score_kind == "logits":
                kind = wide_dtype(kind)
        places = sums_at_once.calibration_places(confidence, self.task.binning.calibration_bins, kind)
        return sums_at_once.summed(judged, places, asked, self.sums)

    # ---- what guesses and log-odds make of scores, on every device

    def _as_binned(self, scores: Tensor, probable: Any) -> Tensor:
        """Scores of the kind that the bins are for: log-odds of classes, probabilities of guessed logits."""
        if self.computed:
            return class_log_odds(scores)
        kind = real_dtype(scores.device)
        if self.kind == "cuts":  # torchmetrics compares thresholds with probabilities in the precision of the scores
            kind = scores.dtype
        return self._probabilities(scores, probable, kind)

    def _probabilities(self, scores: Tensor, probable: Any, kind: torch.dtype) -> Tensor:
        """Scores, of which those that were guessed to be logits are probabilities of this precision."""
        if not self.guesses or probable is True:
            return scores
        scores = scores.to(kind)
        squashed = self._squashed(scores)
        return squashed if probable is False else torch.where(probable, scores, squashed)

    def _squashed(self, logits: Tensor) -> Tensor:
        return logits.softmax(1) if self.is_multiclass else logits.sigmoid()


def _tensor(scores: Array, kind: torch.dtype) -> Tensor:
    """Scores in the precision in which they came, which may be one that NumPy lacks."""
    return torch.from_numpy(np.ascontiguousarray(scores)).to(kind)


def _endless(scores: Array) -> bool:
    """Whether the largest logit of a row is infinite, so that a softmax is no number."""
    if not scores.size or (
        np.maximum.reduce(scores, axis=None) < np.inf and np.minimum.reduce(scores, axis=None) > -np.inf
    ):
        return False
    return bool(np.isinf(scores.max(1)).any())


def _joined(blocks: list[Block | None]) -> Block | None:
    """What all of them add; None if a value of any is not what was declared."""
    counted = [block for block in blocks if block is not None]
    if len(counted) < len(blocks):
        return None
    places, sums, *numbers = zip(*counted, strict=True)
    return Block(np.concatenate(places), None if sums[0] is None else np.sum(sums, axis=0), *map(sum, numbers))
