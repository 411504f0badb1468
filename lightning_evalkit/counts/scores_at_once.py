"""Counting scores by bins on the CPU, through NumPy: values are checked first, and a bad batch raises.

A batch names the bins it adds to, and is not as wide as they are, unless it has more scores than there are bins.
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from lightning_evalkit.counts import sums_at_once
from lightning_evalkit.counts.counter import ArrayTotals
from lightning_evalkit.counts.counts import real_dtype, wide_dtype
from lightning_evalkit.counts.decisions import refuse_labels
from lightning_evalkit.counts.numpy_path import (
    BLOCK,
    Array,
    any_of,
    array_of,
    is_endless,
    ones_among,
    row_begins,
    tensor_of,
    within,
    within_unit,
    without_nan,
    zeros_and_ones,
)
from lightning_evalkit.counts.odds import class_log_odds, doubtful
from lightning_evalkit.counts.score_totals import ScoreTotals
from lightning_evalkit.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.inputs import Declaration


class Block(NamedTuple):
    """The additions of a part of a batch: places of the state to add 1 to, sums over probabilities, and numbers."""

    places: Array
    counted: Array | None
    """The histogram of the places, in their stead where it is shorter."""
    sums: Array | None
    ignored: int
    doubtful: int


class ScoresAtOnce(ScoreTotals):
    """Counts batches on the CPU, unweighted."""

    def __init__(self, task: Declaration, checks: bool) -> None:
        super().__init__(task)
        self.checks, self._number = checks, np.array(self.bins.number, np.int32)
        self._begin = np.array(self.books.width, np.int32)
        self._ignores, self._rows = bool(task.ignored), max(BLOCK // self.num_curves, 1)

    @cached_property
    def _questions(self) -> Array:
        """The numbers of the questions; made when first needed, because a state of very many is refused."""
        return np.arange(self.num_curves, dtype=np.int32)

    @cached_property
    def _begins(self) -> Array:
        """The places at which the histogram of each question begins."""
        begins: Array = self._questions * np.int32(2 * self.bins.number) + np.int32(self.books.width)
        return begins

    def _begins_of(self, samples: int) -> Array:
        """The same for each score of so many samples, sample by sample."""
        if samples > self._rows:
            return np.tile(self._begins, samples)
        return self._begins_of_block[: samples * self.num_curves]

    @cached_property
    def _begins_of_block(self) -> Array:
        return np.tile(self._begins, self._rows)

    def _at_once(self, preds: Tensor, target: Tensor, batches: int) -> ArrayTotals:
        refuse_labels(preds)
        scores, truth, kind = array_of(preds), array_of(target), preds.dtype
        marks = self.task.marks(target.dtype) if self._ignores else ()
        probable = self.guesses and self._probable(scores, truth, marks)
        if len(scores) <= self._rows:
            block = self._block(scores, truth, probable, kind, marks)
        else:
            parts = [slice(begin, begin + self._rows) for begin in range(0, len(scores), self._rows)]
            block = _joined([self._block(scores[part], truth[part], probable, kind, marks) for part in parts])
        if block is None:
            raise InputError(self.task.complaint(preds, target, None))
        integers, begins = np.zeros(self.books.width, np.int64), self.books.begins
        integers[begins["updates"]] = batches
        if self.guesses and scores.size:
            integers[begins["guessed"] + (not probable)] = batches
        if block.doubtful:
            integers[begins["doubtful"]] = block.doubtful
        integers[begins["ignored"]] = block.ignored
        if block.counted is None and len(block.places) < self.layout.integers.width:
            return ArrayTotals(integers, block.sums, block.places.astype(np.int64, copy=False))
        dense = _histogram(block.places, self.layout.integers.width)
        if block.counted is not None:
            dense += block.counted
        dense[: len(integers)] += integers
        return ArrayTotals(dense, block.sums)

    def _probable(self, scores: Array, truth: Array, marks: tuple[int, ...]) -> bool:
        """Whether all scores that are not ignored are in [0, 1]."""
        probable = within_unit(scores)
        if probable or not marks:
            return probable
        return within_unit((np.moveaxis(scores, 1, -1) if self.is_multiclass else scores)[~any_of(truth, marks)])

    def _block(
        self, scores: Array, truth: Array, probable: bool, kind: torch.dtype, marks: tuple[int, ...]
    ) -> Block | None:
        """The additions of one block; None if a value is not what was declared."""
        questions = self._questions
        if self.is_multiclass:
            scores = scores if scores.ndim == 2 else np.moveaxis(scores, 1, -1).reshape(-1, self.num_curves)
            truth = truth.ravel()
        elements = scores.size
        if marks:
            used = ~any_of(truth, marks)
            scores, truth = scores[used], truth[used]
            questions = np.nonzero(used)[1] if self.labels else questions
        answers = self._answers_at_once(scores, truth, probable)
        if answers is None:
            return None
        values, sums = self._values(scores, probable, kind), None
        if self.sums.width:
            asked = np.broadcast_to(questions, truth.shape) if self.judged > 1 else None
            sums = self._summed(scores, answers, probable, asked, kind)
        places, counted = self._places_at_once(values, answers, questions), None
        if len(places) >= self.layout.integers.width:
            counted, places = _histogram(places, self.layout.integers.width), places[:0]
        return Block(places, counted, sums, elements - scores.size, self._doubt(values))

    def _answers_at_once(self, scores: Array, truth: Array, probable: bool) -> Array | None:
        """The classes, or which answers are yes; None if a value is not what was declared."""
        logits = self.score_kind == "logits" or (self.guesses and not probable)
        # Guessed probabilities were looked at, and are what they are.
        if self.checks and not (without_nan(scores) if logits else self.guesses or within_unit(scores)):
            return None
        if not self.is_multiclass:
            plain = not (self.labels or self.sums.width)  # a place is looked up: by numbers that takes half the time
            return (zeros_and_ones if plain else ones_among)(truth) if self.checks else truth == 1
        if (self.checks and not within(truth, self.num_curves)) or (logits and is_endless(scores)):
            return None
        return truth.astype(np.int64, copy=False)

    def _places_at_once(self, values: Array, answers: Array, questions: Array) -> Array:
        """The place of the state to which each element adds 1."""
        bins = self.bins.at_once(values)
        if self.is_multiclass:
            in_a_row = bins.ravel()
            in_a_row[row_begins(bins.size, self.num_curves) + answers] += self._number
            in_a_row += self._begins_of(len(bins))
            return in_a_row
        if self.labels:
            places: Array = np.multiply(answers, self._number, dtype=np.int32)
            places += bins
            if len(places.shape) == 1:
                return places + self._begins.take(questions)
            places = places.ravel()
            places += self._begins_of(len(bins))
            return places
        places = np.multiply(answers, self._number, dtype=np.int32)
        places += self._begin
        places += bins
        return places

    def _doubt(self, values: Array) -> int:
        """The number of scores that are in doubt or not bfloat16 numbers, where that matters."""
        if self.kind == "bfloat16":
            single = values.astype(np.float32)
            return int(np.count_nonzero((single.view(np.int32) & 0xFFFF != 0) | (single != values)))
        return doubtful(self.bins, values) if self.computed else 0

    def _values(self, scores: Array, probable: bool, kind: torch.dtype) -> Array:
        """The scores in the form in which they are put into bins."""
        if not self.computed and (probable or not self.guesses):
            return scores
        return array_of(self._as_binned(tensor_of(scores, kind), probable))

    def _summed(self, scores: Array, answers: Array, probable: bool, asked: Array | None, kind: torch.dtype) -> Array:
        """The sums over probabilities; guessed logits are judged as probabilities.

        Its calibration bin is found in the precision of the scores, as in torchmetrics.
        """
        mixed = asked is not None and len(asked.shape) == 1
        judge: Any = partial(sums_at_once.judged_answers, mixed=mixed)
        if self.is_multiclass:
            judge = sums_at_once.judged_classes
        if self.guesses and not probable:
            given = tensor_of(scores, kind)
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
        """The scores as probabilities of this precision, if they were guessed to be logits."""
        if not self.guesses or probable is True:
            return scores
        scores = scores.to(kind)
        squashed = self._squashed(scores)
        return squashed if probable is False else torch.where(probable, scores, squashed)

    def _squashed(self, logits: Tensor) -> Tensor:
        return logits.softmax(1) if self.is_multiclass else logits.sigmoid()


def _histogram(places: Array, width: int) -> Array:
    """How often each place occurs; numbers of another type NumPy would convert in twice the time."""
    return np.bincount(places.astype(np.intp, copy=False), minlength=width)


def _joined(blocks: list[Block | None]) -> Block | None:
    """The additions of all blocks; None if a value of any is not what was declared."""
    counted = [block for block in blocks if block is not None]
    if len(counted) < len(blocks):
        return None
    places, histograms, sums, *numbers = zip(*counted, strict=True)
    return Block(np.concatenate(places), _sum(histograms), _sum(sums), *map(sum, numbers))


def _sum(parts: tuple[Array | None, ...]) -> Array | None:
    """The sum of the parts that are there, if any."""
    there = [part for part in parts if part is not None]
    return sum(there[1:], there[0]) if there else None
