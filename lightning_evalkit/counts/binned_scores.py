"""Counts scores by bins, separately for positive and negative samples.

Every task becomes yes-or-no questions: one for a binary problem, one per label, one-vs-rest per class. The decisions of
every threshold are then sums over bins.

A batch on the CPU lists the bins it adds to instead of all bins, unless it has more scores than there are bins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from lightning_evalkit.counts import calibration_sums
from lightning_evalkit.counts.counter import EagerOrDeferred, Totals, in_a_row
from lightning_evalkit.counts.counts import real_dtype
from lightning_evalkit.counts.decisions import checked, either, guesses, unweighable
from lightning_evalkit.counts.deferral import is_deferred
from lightning_evalkit.counts.histogram import weighted_histogram
from lightning_evalkit.counts.numpy_path import BLOCK, Array, any_of, array_of, within, within_unit, without_nan
from lightning_evalkit.counts.odds import class_log_odds, doubtful
from lightning_evalkit.counts.score_totals import ScoreTotals
from lightning_evalkit.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.inputs import Declaration


class Block(NamedTuple):
    """The totals of a part of a batch: increments of the state, sums over probabilities, and numbers."""

    places: Array
    sums: Array | None
    ignored: int
    doubtful: int


class Looked(NamedTuple):
    """Scores and answers of a batch, (M,) or (M, K); properties of whole samples have shape (M, 1)."""

    scores: Tensor
    target: Tensor
    yes: Tensor
    bad: Tensor
    ignored: Tensor | None
    weight: Tensor | None
    weightless: Tensor | None
    probable: Tensor | None
    """The guess, of shape (1,)."""

    @property
    def unused(self) -> Tensor:
        """Which elements are in no histogram and no sum."""
        return either(self.bad, self.ignored, self.weightless)

    def marked(self, numbers: Tensor, invalid: int, ignored: int, weightless: int) -> Tensor:
        """The numbers of all elements, with a filler for unused ones."""
        for mask, mark in ((self.bad, invalid), (self.ignored, ignored), (self.weightless, weightless)):
            if mask is not None:
                numbers = numbers.masked_fill(mask, mark)
        return numbers


class ScoreCounter(ScoreTotals, EagerOrDeferred):
    """Counts the scores of a declaration; see ``Counter`` for what the methods promise."""

    by_rows = False

    def __init__(self, task: Declaration, checks: bool = True) -> None:
        """Make a counter; without ``checks`` if another counter has checked the same values."""
        super().__init__(task)
        self.plain, self.checks = not task.weighted, checks

    # ---- at once

    def count_arranged(self, preds: Tensor, target: Tensor, weight: Tensor | None) -> Totals:
        """The totals of one batch of real scores."""
        if not preds.is_floating_point():
            raise InputError(f"expected preds to be floating-point scores, got {preds.dtype}: labels have no order.")
        return super().count_arranged(preds, target, weight)

    def _at_once(self, preds: Tensor, target: Tensor) -> Totals:
        probable = self.guesses and self._probable(array_of(preds), target)
        rows = max(BLOCK // self.num_curves, 1)
        blocks = [(preds, target)] if len(preds) <= rows else zip(preds.split(rows), target.split(rows), strict=True)
        found = [self._block(scores, truth, probable) for scores, truth in blocks]
        counted = [block for block in found if block is not None]
        if len(counted) < len(found):
            raise InputError(self.task.complaint(preds, target, None))
        block = counted[0] if len(counted) == 1 else _merged(counted)
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
        """The totals of one block; None if a value is not as declared."""
        scores, truth = array_of(preds), array_of(target)
        if self.is_multiclass:
            scores, truth = np.moveaxis(scores, 1, -1).reshape(-1, self.num_curves), truth.ravel()
        elements = scores.size
        if self.task.ignored:
            used = ~any_of(truth, self.task.marks(target.dtype))
            scores, truth = scores[used], truth[used]
            if self.labels:
                return self._count(scores, truth, probable, np.nonzero(used)[1], elements, preds.dtype)
        questions = np.arange(self.num_curves) if scores.ndim > 1 else 0
        return self._count(scores, truth, probable, questions, elements, preds.dtype)

    def _count(
        self, scores: Array, truth: Array, probable: bool, questions: Any, elements: int, kind: torch.dtype
    ) -> Block | None:
        check = without_nan if self.score_kind == "logits" or (self.guesses and not probable) else within_unit
        if self.checks and not (check(scores) and self._answered(truth)):
            return None
        if self.is_multiclass and check is without_nan and np.isinf(scores.max(1, initial=-np.inf)).any():
            return None  # softmax is NaN if the largest logit is infinite
        given = torch.from_numpy(np.ascontiguousarray(scores)).to(kind)  # bfloat16 again
        values = array_of(self._as_binned(given, probable))
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
        return Block(places, sums, elements - scores.size, doubt)

    def _answered(self, truth: Array) -> bool:
        """Whether every target is a class, or yes or no."""
        return _whole(truth) and within(truth, self.num_curves if self.is_multiclass else 2)

    def _as_binned(self, scores: Tensor, probable: Any) -> Tensor:
        """Convert scores to the kind of the bins: log-odds for classes, probabilities for guessed logits."""
        if self.computed:
            return class_log_odds(scores)
        kind = real_dtype(scores.device)
        if self.kind == "cuts":  # torchmetrics compares thresholds with probabilities in the precision of the scores
            kind = scores.dtype
        return self._probabilities(scores, probable, kind)

    def _probabilities(self, scores: Tensor, probable: Any, kind: torch.dtype) -> Tensor:
        """Turn scores that were guessed to be logits into probabilities of this precision."""
        if not self.guesses or probable is True:
            return scores
        scores = scores.to(kind)
        squashed = self._squashed(scores)
        return squashed if probable is False else torch.where(probable, scores, squashed)

    def _squashed(self, logits: Tensor) -> Tensor:
        return logits.softmax(1) if self.is_multiclass else logits.sigmoid()

    def _judged(self, scores: Tensor, truth: Tensor, probable: Any) -> calibration_sums.Judged:
        """The terms of the sums over probabilities; guessed scores are judged as probabilities.

        Their calibration bin is found in the precision of the scores, as in torchmetrics.
        """
        values = self._probabilities(scores, probable, real_dtype(scores.device))
        judge = calibration_sums.judged_classes if self.is_multiclass else calibration_sums.judged_answers
        judged = judge(values, truth, self.score_kind)
        if values is scores:
            return judged
        squashed = self._probabilities(scores, probable, scores.dtype)
        return judged._replace(placed=squashed.amax(-1).float() if self.is_multiclass else squashed)

    # ---- deferred

    def _deferred(self, preds: Tensor, target: Tensor, weight: Tensor | None) -> Totals:
        looked = self._looked(preds, target, weight)
        values, unused = self._as_binned(looked.scores, looked.probable), looked.unused
        places, reals = self._places(values, looked), []
        if looked.weight is not None:
            spread = looked.weight.masked_fill(unused, 0.0).expand(places.shape)
            reals.append(weighted_histogram(places, spread, self.cells))
            places = torch.full_like(places, self.books.begins["valid"])
        else:
            places = places + self.books.width
        places = looked.marked(places, *(self.books.begins[name] for name in ("invalid", "ignored", "weightless")))
        if self.sums.width:
            reals.append(self._judged_deferred(looked, unused, None))
        integers = self._leading(looked, values, unused)
        increments = torch.constant_pad_nd(places.flatten(), (0, 1), self.books.begins["updates"])
        totals = Totals(integers, in_a_row(reals), increments)
        return totals if is_deferred(preds) else totals.dense(self.layout.integers.width)

    def _looked(self, preds: Tensor, target: Tensor, weight: Tensor | None) -> Looked:
        """A batch as yes-or-no questions."""
        if self.is_multiclass:
            preds = preds if preds.ndim == 2 else preds.movedim(1, -1).flatten(0, -2)
            target = target.reshape(-1, 1)
        ignored, weightless = self.task.left_out(target) if self.task.ignored else None, None
        if weight is not None:
            weight = weight.to(real_dtype(weight.device)).reshape(target.shape)
            weightless = weight == 0  # a weight of 0 removes a sample, whatever its values
        probable = None
        if self.guesses:
            probable = either(preds.clamp(0, 1) == preds, ignored, weightless).flatten().all(-1, keepdim=True)
        yes, bad = (self._classes if self.is_multiclass else self._answers)(preds, target, weight)
        return Looked(preds, target, yes, bad, ignored, weight, weightless, probable)

    def _answers(self, preds: Tensor, target: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor]:
        """Which answers are yes, and which elements are invalid: neither yes nor no."""
        bad = preds.clamp(0, 1) != preds if self.task.inputs == "probabilities" else preds != preds
        truth = checked(target, bad if weight is None else bad | unweighable(weight))
        yes = truth == 1
        return yes, yes == (truth == 0)

    def _classes(self, preds: Tensor, target: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor]:
        """Which class is the target, and which samples are invalid, (M, 1)."""
        if self.task.inputs == "probabilities":
            good = (preds.clamp(0, 1) == preds).all(-1, keepdim=True)
        else:
            good = preds.amax(-1, keepdim=True).abs() < torch.inf  # else softmax is NaN, as with a NaN logit
        yes = target.long() == torch.arange(self.num_curves, device=preds.device)
        good = good & yes.any(-1, keepdim=True)
        return yes, good.logical_not() if weight is None else good.logical_not() | unweighable(weight)

    def _places(self, values: Tensor, looked: Looked) -> Tensor:
        """The histogram bin that each element increments; any bin for unused ones."""
        places = torch.add(self.bins.deferred(values), looked.yes, alpha=self.bins.number)
        if values.ndim == 1:
            return places
        return places + torch.arange(0, self.cells, 2 * self.bins.number, device=values.device)

    def _leading(self, looked: Looked, values: Tensor, unused: Tensor) -> Tensor:
        """The first bookkeeping cells, which are not increments."""
        parts = {}
        if self.leading.sizes["doubtful"]:
            parts["doubtful"] = self._uncertain(values, unused).sum().unsqueeze(0)
        if self.guesses:
            parts["guessed"] = guesses(looked.probable, looked.scores, values.flatten(), looked.weight).long()
        row = in_a_row(self.leading.parts(**parts))
        return torch.zeros(0, dtype=torch.int64, device=values.device) if row is None else row

    def _judged_deferred(self, looked: Looked, unused: Tensor, group: Tensor | None) -> Tensor:
        """The sums of all, or of every group as if each were a separate question.

        Unused elements are judged as the first class with weight 0.
        """
        scores, target, weight, asked = looked.scores, looked.yes, looked.weight, group
        if self.is_multiclass:
            target, unused = looked.target.squeeze(-1).long().clamp(0, self.num_curves - 1), unused.squeeze(-1)
            weight, asked = (None if each is None else each.squeeze(-1) for each in (weight, group))
        elif scores.ndim > 1:
            questions = torch.arange(self.num_curves, device=scores.device)
            asked = questions if group is None else group * self.num_curves + questions
        judged = self._judged(scores, target, looked.probable)
        return calibration_sums.summed(judged, asked, self.sums, weight, unused)

    def _uncertain(self, values: Tensor, unused: Tensor) -> Tensor:
        """Which scores may be in a neighbouring bin or are not bfloat16 numbers, if that matters."""
        used = unused.logical_not().expand(values.shape)
        if self.kind == "bfloat16":
            single = values.float()
            return (((single.view(torch.int32) & 0xFFFF) != 0) | (single != values)) & used
        if is_deferred(values):
            return used  # a closer check would cost as much as the binning
        return torch.tensor([doubtful(self.bins, values[used].view(-1, self.num_curves).numpy())])


def _merged(blocks: list[Block]) -> Block:
    places, sums, *numbers = zip(*blocks, strict=True)
    return Block(np.concatenate(places), None if sums[0] is None else np.sum(sums, axis=0), *map(sum, numbers))


def _whole(truth: Array) -> bool:
    return truth.dtype.kind in "biu" or bool(((truth == 0) | (truth == 1)).all())
