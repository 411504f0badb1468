"""Counts scores by bins, separately for positive and negative samples.

Every task becomes yes-or-no questions: one for a binary problem, one per label, one-vs-rest per class. The decisions of
every threshold are then sums over bins.

``scores_at_once`` counts a batch on the CPU; this file counts on accelerators, and wherever there are weights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from lightning_evalkit.counts import calibration_sums
from lightning_evalkit.counts.counter import EagerOrDeferred, Totals, in_a_row
from lightning_evalkit.counts.counts import real_dtype
from lightning_evalkit.counts.decisions import checked, either, guesses, refuse_labels, unweighable
from lightning_evalkit.counts.deferral import is_deferred
from lightning_evalkit.counts.histogram import weighted_histogram
from lightning_evalkit.counts.odds import doubtful
from lightning_evalkit.counts.scores_at_once import ScoresAtOnce

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.inputs import Declaration


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


class ScoreCounter(ScoresAtOnce, EagerOrDeferred):
    """Counts the scores of a declaration; see ``Counter`` for what the methods promise."""

    by_rows = False

    def __init__(self, task: Declaration, checks: bool = True) -> None:
        """Make a counter; without ``checks`` if another counter has checked the same values."""
        super().__init__(task, checks)
        self.plain = not task.weighted

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
        refuse_labels(preds)
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

    def _judged(self, scores: Tensor, truth: Tensor, probable: Tensor | None) -> calibration_sums.Judged:
        """The terms of the sums over probabilities; guessed logits are judged as probabilities.

        Its calibration bin is found in the precision of the scores, as in torchmetrics.
        """
        values = self._probabilities(scores, probable, real_dtype(scores.device))
        judge = calibration_sums.judged_classes if self.is_multiclass else calibration_sums.judged_answers
        judged = judge(values, truth, self.score_kind)
        if values is scores:
            return judged
        squashed = self._probabilities(scores, probable, scores.dtype)
        return judged._replace(placed=squashed.amax(-1).float() if self.is_multiclass else squashed)

    def _uncertain(self, values: Tensor, unused: Tensor) -> Tensor:
        """Which scores may be in a neighbouring bin or are not bfloat16 numbers, if that matters."""
        used = unused.logical_not().expand(values.shape)
        if self.kind == "bfloat16":
            single = values.float()
            return (((single.view(torch.int32) & 0xFFFF) != 0) | (single != values)) & used
        if is_deferred(values):
            return used  # a closer check would cost as much as the binning
        return torch.tensor([doubtful(self.bins, values[used].view(-1, self.num_curves).numpy())])
