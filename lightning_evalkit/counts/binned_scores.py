"""Counting scores by bins, apart for samples whose answer is yes and for those whose answer is no.

Every task is asked as yes-or-no questions: one of a binary problem, one for each label, one class against the rest for
each class. What a threshold would decide is then a sum over bins, for every threshold at once.

A batch on the CPU names the bins it adds to, and is not as wide as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from lightning_evalkit.counts import calibration_sums
from lightning_evalkit.counts.counter import EagerOrDeferred, Totals, is_deferred
from lightning_evalkit.counts.counts import real_dtype
from lightning_evalkit.counts.decisions import unweighable
from lightning_evalkit.counts.histogram import histogram, weighted_histogram
from lightning_evalkit.counts.numpy_path import BLOCK, Array, any_of, array_of, within, within_unit, without_nan
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
    valid: int
    elements: int
    doubtful: int


class ScoreCounter(ScoreTotals, EagerOrDeferred):
    """Counts the scores of a declaration; see ``Counter`` for what the methods promise."""

    by_rows = False

    def __init__(self, task: Declaration) -> None:
        super().__init__(task)
        self.plain = not task.weighted

    # ---- at once

    def count_arranged(self, preds: Tensor, target: Tensor, weight: Tensor | None) -> Totals:
        """The totals of one batch, of which the scores are real numbers."""
        if not preds.is_floating_point():
            raise InputError(f"expected preds to be floating-point scores, got {preds.dtype}: labels have no order.")
        return super().count_arranged(preds, target, weight)

    def _at_once(self, preds: Tensor, target: Tensor) -> Totals:
        probable = self.task.inputs != "logits" and self._probable(array_of(preds), target)
        rows = max(BLOCK // self.num_curves, 1)
        blocks = [(preds, target)] if len(preds) <= rows else zip(preds.split(rows), target.split(rows), strict=True)
        found = [self._block(scores, truth, probable) for scores, truth in blocks]
        counted = [block for block in found if block is not None]
        if len(counted) < len(found):
            raise InputError(self.task.complaint(preds, target, None))
        block = counted[0] if len(counted) == 1 else _joined(counted)
        books = self.books.flat(
            valid=(block.valid,),
            ignored=(block.elements - block.valid,),
            elements=(block.elements,),
            doubtful=(block.doubtful,),
            guessed=(probable, not probable) if preds.numel() else (0, 0),
            updates=(1,),
        )
        reals = None if block.sums is None else torch.from_numpy(block.sums)
        return Totals(torch.from_numpy(np.array(books, dtype=np.int64)), reals, torch.from_numpy(block.places))

    def _probable(self, scores: Array, target: Tensor) -> bool:
        """Whether all scores that are not ignored are in [0, 1]."""
        if within_unit(scores) or not self.task.ignored:
            return within_unit(scores)
        used = ~any_of(array_of(target), self.task.marks(target.dtype))
        return within_unit((np.moveaxis(scores, 1, -1) if self.is_multiclass else scores)[used])

    def _block(self, preds: Tensor, target: Tensor, probable: bool) -> Block | None:
        """What one block adds; None if a value is not what was declared."""
        scores, truth = array_of(preds), array_of(target)
        if self.is_multiclass:
            scores, truth = np.moveaxis(scores, 1, -1).reshape(-1, self.num_curves), truth.ravel()
        elements = scores.size
        if self.task.ignored:
            used = ~any_of(truth, self.task.marks(target.dtype))
            scores, truth = scores[used], truth[used]
            if self.labels:
                return self._count(scores, truth, probable, np.nonzero(used)[1], elements)
        questions = np.arange(self.num_curves) if scores.ndim > 1 else 0
        return self._count(scores, truth, probable, questions, elements)

    def _count(self, scores: Array, truth: Array, probable: bool, questions: Any, elements: int) -> Block | None:
        check = without_nan if self.score_kind == "logits" or (self.guesses and not probable) else within_unit
        if not check(scores) or not _whole(truth) or not within(truth, self.num_curves if self.is_multiclass else 2):
            return None
        if self.is_multiclass and check is without_nan and np.isinf(scores.max(1, initial=-np.inf)).any():
            return None  # a softmax is no number where the largest logit is infinite
        given = torch.from_numpy(np.ascontiguousarray(scores))
        values = self._as_binned(given, probable).numpy()
        sums = None
        if self.sums.width:
            judged = self._judged(given, torch.from_numpy(truth.astype(np.int64)), probable)
            asked = np.broadcast_to(questions, truth.shape) if self.judged > 1 else None
            sums = calibration_sums.summed_at_once(judged, asked, self.sums)
        if self.is_multiclass:
            truth = truth[:, None] == questions
        doubt = 0
        if self.kind == "bfloat16":
            single = values.astype(np.float32)
            doubt = int(np.count_nonzero((single.view(np.int32) & 0xFFFF != 0) | (single != values)))
        elif self.computed:
            doubt = doubtful(self.bins, values)
        rows = (questions * 2 + truth.astype(np.int32)) * self.bins.number + self.books.width
        places: Array = (self.bins.at_once(values) + rows).ravel()
        return Block(places, sums, scores.size, elements, doubt)

    def _as_binned(self, scores: Tensor, probable: Any) -> Tensor:
        """Scores of the kind that the bins are for: log-odds of classes, probabilities of guessed logits."""
        if self.computed:
            return class_log_odds(scores)
        kind = real_dtype(scores.device)
        if self.kind == "cuts":  # torchmetrics compares thresholds with probabilities in the precision of the scores
            kind = torch.promote_types(scores.dtype, torch.float32)
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

    def _judged(self, scores: Tensor, truth: Tensor, probable: Any) -> calibration_sums.Judged:
        """What is summed over probabilities; what was guessed is judged as a probability."""
        values = self._probabilities(scores, probable, real_dtype(scores.device))
        if not self.is_multiclass:
            return calibration_sums.judged_answers(values, truth, self.score_kind)
        return calibration_sums.judged_classes(values, truth, self.score_kind)

    # ---- deferred

    def _deferred(self, preds: Tensor, target: Tensor, weight: Tensor | None) -> Totals:
        preds, truth, ignored, whole = self._arranged(preds, target)
        there, weight = self._weights(truth, weight)
        used, probable = self._used(preds, truth, ignored, whole, there, weight)
        questions, answers = torch.arange(self.num_curves, device=preds.device), self._answers(preds, truth)
        values = self._as_binned(preds, probable)
        codes = self.bins.deferred(values) + (questions * 2 + answers) * self.bins.number
        codes = torch.where(used, codes, self.cells)
        doubt = self._uncertain(values, used)
        books = self.books.flat(
            valid=[used.sum()],
            ignored=[(ignored & there).expand_as(used).sum()],
            elements=[there.expand_as(used).sum()],
            doubtful=[doubt.sum()],
            guessed=self._guess(probable, preds, weight),
            updates=[torch.ones((), dtype=torch.int64, device=preds.device)],
        )
        integers, reals = torch.stack(books), []
        if weight is None:
            integers = torch.cat((integers, histogram(codes, self.cells + 1).narrow(0, 0, self.cells)))
        else:
            spread = torch.where(used, weight.expand(codes.shape), 0.0)
            reals.append(weighted_histogram(codes, spread, self.cells + 1).narrow(0, 0, self.cells))
        if self.sums.width:
            reals.append(self._judged_deferred(preds, truth, questions, probable, weight, used))
        return Totals(integers, torch.cat(reals) if reals else None)

    def _judged_deferred(
        self, preds: Tensor, truth: Tensor, questions: Tensor, probable: Any, weight: Tensor | None, used: Tensor
    ) -> Tensor:
        """What is not used is judged as if it were the first class, and weighs nothing."""
        if self.is_multiclass:
            truth, used = truth.squeeze(-1).clamp(0, self.num_curves - 1), used.select(-1, 0)
            weight = None if weight is None else weight.squeeze(-1)
            asked, judged = torch.zeros_like(truth), self._judged(preds, truth, probable)
        else:
            asked, judged = questions.expand(preds.shape), self._judged(preds, truth == 1, probable)
        return calibration_sums.summed(judged, asked, self.sums, weight, used)

    def _arranged(self, preds: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Scores (M, K), truth (M, 1) or (M, K), which targets are ignored, and which are whole numbers."""
        if self.is_multiclass:
            preds, target = preds.movedim(1, -1).flatten(0, -2), target.flatten()
        elif not self.labels:
            preds = preds.unsqueeze(1)
        target = target.unsqueeze(-1) if target.ndim < preds.ndim else target
        truth = target.long()
        return preds, truth, self.task.left_out(target), truth == target

    def _weights(self, truth: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Which targets are there, as what weighs nothing is not, whatever its values; and the weights as reals."""
        if weight is None:
            return torch.ones_like(truth, dtype=torch.bool), None
        weight = weight.to(real_dtype(weight.device)).reshape(truth.shape)
        return weight != 0, weight

    def _used(
        self, preds: Tensor, truth: Tensor, ignored: Tensor, whole: Tensor, there: Tensor, weight: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Which elements are what was declared and not ignored, and the guess."""
        unseen = ignored if weight is None else ignored | there.logical_not()
        good, probable = self._good(preds, unseen)
        good = good & whole & (truth >= 0) & (truth < (self.num_curves if self.is_multiclass else 2))
        if weight is not None:
            good = good & unweighable(weight).logical_not()
        return good & unseen.logical_not(), probable

    def _answers(self, preds: Tensor, truth: Tensor) -> Tensor:
        """Yes or no to each question, as numbers."""
        if not self.is_multiclass:
            return truth
        return (truth == torch.arange(self.num_curves, device=preds.device)).long()

    def _good(self, preds: Tensor, ignored: Tensor) -> tuple[Tensor, Tensor | None]:
        """Which scores are what was declared (all of a sample, for classes), and the guess, if any."""
        probable = ((preds.clamp(0, 1) == preds) | ignored).all() if self.guesses else None
        good = preds.clamp(0, 1) == preds if self.task.inputs == "probabilities" else preds == preds
        if self.is_multiclass and self.task.inputs != "probabilities":
            good = good & (preds.amax(-1, keepdim=True).abs() != torch.inf)  # of which a softmax is no number
        return good.all(-1, keepdim=True).expand_as(good) if self.is_multiclass else good, probable

    def _guess(self, probable: Tensor | None, preds: Tensor, weight: Tensor | None) -> list[Tensor]:
        """Whether the batch was guessed to be probabilities, and logits, as numbers; an empty one is neither."""
        if probable is None:
            return []
        if not preds.numel():
            return [torch.zeros_like(probable, dtype=torch.int64)] * 2
        guessed = (probable, probable.logical_not())
        return [(each if weight is None else each & weight.any()).long() for each in guessed]

    def _uncertain(self, values: Tensor, used: Tensor) -> Tensor:
        """Which scores are in doubt, or no bfloat16 numbers, where that matters."""
        if self.kind == "bfloat16" and values.dtype != torch.bfloat16:
            single = values.float()
            return (((single.view(torch.int32) & 0xFFFF) != 0) | (single != values)) & used
        if not self.computed:
            return torch.zeros_like(used)
        if is_deferred(values):
            return used  # to look closer would cost as much as the bins
        return torch.tensor([doubtful(self.bins, values[used].view(-1, self.num_curves).numpy())])


def _joined(blocks: list[Block]) -> Block:
    places, sums, *numbers = zip(*blocks, strict=True)
    return Block(np.concatenate(places), None if sums[0] is None else np.sum(sums, axis=0), *map(sum, numbers))


def _whole(truth: Array) -> bool:
    return truth.dtype.kind in "biu" or bool(((truth == 0) | (truth == 1)).all())
