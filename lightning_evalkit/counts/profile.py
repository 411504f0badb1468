"""Counts where a log loss comes from: by class, by size, and at other temperatures.

The classes are yes and no of a binary problem, and the labels of a multilabel one. The state holds losses and weights
for each class, for each size of the loss, and by size again for wrong predictions alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from lightning_evalkit.counts.calibration_sums import loss_of_answers, loss_of_classes
from lightning_evalkit.counts.counter import EagerOrDeferred, Ledger, Totals
from lightning_evalkit.counts.counts import real_dtype
from lightning_evalkit.counts.decisions import unweighable
from lightning_evalkit.counts.histogram import weighted_histogram
from lightning_evalkit.counts.layout import Cells, Layout
from lightning_evalkit.counts.losses import BINS, by_size
from lightning_evalkit.counts.temperatures import WIDTH, Sharpened, sharpened_answers, sharpened_classes, unpack
from lightning_evalkit.inputs import Multiclass, Multilabel

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.inputs import Declaration


class Elements(NamedTuple):
    """The properties of every element (sample, or label of a sample), all of shape (M,)."""

    loss: Tensor
    wrong: Tensor
    group: Tensor
    """The class or label to which its loss belongs."""
    weight: Tensor
    """The weight; 0 if it is ignored or invalid."""


class LossSums(NamedTuple):
    """Sums of losses and weights by class, by size, by size for wrong predictions, and at other temperatures."""

    class_losses: Tensor
    class_weights: Tensor
    losses: Tensor
    weights: Tensor
    wrong_losses: Tensor
    wrong_weights: Tensor
    sharpened: Sharpened


class ProfileCounter(EagerOrDeferred):
    """Adds up the log losses of a declaration; see ``Counter`` for what the methods promise."""

    task: Any
    plain = False

    def __init__(self, task: Declaration) -> None:
        self.task = task
        self.is_multiclass, self.labels = isinstance(task, Multiclass), isinstance(task, Multilabel)
        self.groups = task.classes if isinstance(task, Multiclass) else getattr(task, "num_labels", 2)
        by_class = Cells(class_losses=self.groups, class_weights=self.groups)
        by_size = Cells(losses=BINS, weights=BINS, wrong_losses=BINS, wrong_weights=BINS)
        books = Cells(valid=1, ignored=1, elements=1, updates=1)
        self.layout = Layout(books, by_class + by_size + Cells(sharpened=WIDTH))

    def elements(self, preds: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> Elements:
        """The elements of a batch."""
        with torch.no_grad():
            scores, truth, used, weight = self._read(*self.task.arranged(preds, target, sample_weight))
            return self._elements(scores, truth, torch.where(used, weight, 0))

    def _read(self, preds: Tensor, target: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Valid scores, valid targets, a mask of used elements, and their weights."""
        if self.is_multiclass:
            preds, target = preds.movedim(1, -1).flatten(0, -2), target.flatten()
        truth = target.long()
        good = (truth >= 0) & (truth < (self.groups if self.is_multiclass else 2)) & (truth == target)
        readable = self._readable(preds)
        good = good & (readable.select(-1, 0) if self.is_multiclass else readable)
        ones = torch.ones_like(truth, dtype=real_dtype(preds.device))
        weight = ones if weight is None else weight.reshape(truth.shape).to(ones.dtype)
        good = good & unweighable(weight).logical_not() & (weight != 0)
        return (
            torch.where(readable, preds, 0 if self.task.inputs == "logits" else 0.5),
            truth.clamp(0, self.groups - 1 if self.is_multiclass else 1),
            good & self.task.left_out(target).logical_not(),
            weight,
        )

    def _readable(self, preds: Tensor) -> Tensor:
        """Which scores are as declared; for classes, all of a sample."""
        good = preds.clamp(0, 1) == preds if self.task.inputs == "probabilities" else preds == preds
        if not self.is_multiclass:
            return good
        if self.task.inputs == "logits":
            good = good & (preds.amax(-1, keepdim=True).abs() != torch.inf)  # softmax would be NaN
        return good.all(-1, keepdim=True).expand_as(good)

    def _logits(self, scores: Tensor) -> Tensor:
        """Logits in single precision at least; infinite for certainty."""
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        if self.task.inputs == "logits":
            return scores
        return scores.log() if self.is_multiclass else scores.logit()

    def _elements(self, scores: Tensor, truth: Tensor, weight: Tensor) -> Elements:
        """The elements; an evaluation computes losses by the same functions."""
        if self.is_multiclass:
            loss = loss_of_classes(scores, truth, self.task.inputs)
            return Elements(loss, scores.argmax(-1) != truth, truth, weight)
        answers = truth == 1
        loss = loss_of_answers(scores, answers, self.task.inputs)
        groups = torch.arange(self.groups, device=truth.device).expand_as(truth) if self.labels else truth
        wrong = (scores > (0 if self.task.inputs == "logits" else 0.5)) != answers
        return Elements(*(part.flatten() for part in (loss, wrong, groups, weight)))

    def _deferred(self, preds: Tensor, target: Tensor, weight: Tensor | None) -> Totals:
        scores, truth, used, weights = self._read(preds, target, weight)
        every = self._elements(scores, truth, torch.where(used, weights, 0))
        # An infinite loss times a weight of 0 would be NaN.
        weighted = torch.where(every.weight > 0, every.loss.to(every.weight.dtype), 0) * every.weight
        wrong = [torch.where(every.wrong, part, 0) for part in (weighted, every.weight)]
        reals = self.layout.reals.parts(
            class_losses=weighted_histogram(every.group, weighted, self.groups),
            class_weights=weighted_histogram(every.group, every.weight, self.groups),
            losses=by_size(every.loss, weighted),
            weights=by_size(every.loss, every.weight),
            wrong_losses=by_size(every.loss, wrong[0]),
            wrong_weights=by_size(every.loss, wrong[1]),
            sharpened=self._sharpened(scores, truth, every.weight),
        )
        there = (weights != 0).flatten()  # a weight of 0 removes a sample, whatever its values
        ignored = self.task.left_out(target).flatten() & there
        numbers = [each.sum() for each in (used, ignored, there)]
        ones = torch.ones_like(numbers[0])
        ledger = self.layout.integers.parts(valid=numbers[0], ignored=numbers[1], elements=numbers[2], updates=ones)
        return Totals(torch.stack(ledger), torch.cat(reals))

    def _sharpened(self, scores: Tensor, truth: Tensor, weight: Tensor) -> Tensor:
        logits = self._logits(scores)
        if self.is_multiclass:
            return sharpened_classes(logits, truth, weight)
        return sharpened_answers(logits.flatten(), truth.flatten() == 1, weight)

    def sums(self, totals: Totals) -> LossSums:
        """The sums by their names."""
        assert totals.reals is not None  # always kept
        cells = {name: self.layout.reals.read(totals.reals, name) for name in LossSums._fields}
        sharpened = unpack(cells.pop("sharpened"))
        return LossSums(**cells, sharpened=sharpened)

    def ledger(self, totals: Totals) -> Ledger:
        """The bookkeeping, in elements."""
        names = ("valid", "ignored", "elements", "updates")
        valid, ignored, elements, updates = map(sum, self.layout.integers.numbers(totals.integers, *names))
        return Ledger(updates, ignored, elements - ignored - valid, guessed_logits=0, guessed_probabilities=0)
