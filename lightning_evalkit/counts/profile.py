"""Counting where a log loss comes from: which classes, how large, and how it would be at other temperatures.

Totals: elements that are valid, ignored, all, updates; as reals: losses and weights of each class (yes and no of a
binary problem, labels of a multilabel one), losses and weights by size, wrong ones alone by size, ``temperatures``
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.nn.functional import softplus

from lightning_evalkit.counts.counter import Ledger, Totals, TwoWays
from lightning_evalkit.counts.counts import real_dtype
from lightning_evalkit.counts.decisions import unweighable
from lightning_evalkit.counts.histogram import weighted_histogram
from lightning_evalkit.counts.losses import BINS, by_size
from lightning_evalkit.counts.temperatures import (
    WIDTH,
    Sharpened,
    limited,
    sharpened_answers,
    sharpened_classes,
    taken,
)
from lightning_evalkit.errors import InputError
from lightning_evalkit.inputs import Multiclass, Multilabel

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.inputs import Declaration


class Elements(NamedTuple):
    """What is known of every element (sample, or label of a sample), all of shape (M,)."""

    loss: Tensor
    wrong: Tensor
    group: Tensor
    """The class or label to which its loss belongs."""
    weight: Tensor
    """0 where it is ignored or invalid."""


class LossSums(NamedTuple):
    """Sums of losses and weights by class, and by size, of all and of wrong predictions; and at other temperatures."""

    class_losses: Tensor
    class_weights: Tensor
    losses: Tensor
    weights: Tensor
    wrong_losses: Tensor
    wrong_weights: Tensor
    sharpened: Sharpened


class ProfileCounter(TwoWays):
    """Adds up the log losses of a declaration; see ``Counter`` for what the methods promise."""

    task: Any
    width = 4
    plain = False

    def __init__(self, task: Declaration) -> None:
        self.task = task
        self.many, self.labels = isinstance(task, Multiclass), isinstance(task, Multilabel)
        self.groups = task.classes if isinstance(task, Multiclass) else getattr(task, "num_labels", 2)
        self.parts = [self.groups] * 2 + [BINS] * 4 + [WIDTH]
        self.real_width = sum(self.parts)

    def elements(self, preds: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> Elements:
        """Every element of a batch by itself."""
        with torch.no_grad():
            logits, truth, used, weight = self._read(*self.task.arranged(preds, target, sample_weight))
            return self._elements(logits, truth, torch.where(used, weight, 0))

    def _read(self, preds: Tensor, target: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Finite logits, targets that exist, which elements are used, and their weights."""
        if self.many:
            preds, target = preds.movedim(1, -1).flatten(0, -2), target.flatten()
        truth = target.long()
        good = (truth >= 0) & (truth < (self.groups if self.many else 2)) & (truth == target)
        readable = self._readable(preds)
        good = good & (readable.all(-1) if self.many else readable)
        ones = torch.ones_like(truth, dtype=real_dtype(preds.device))
        weight = ones if weight is None else weight.reshape(truth.shape).to(ones.dtype)
        good = good & unweighable(weight).logical_not()
        logits = torch.where(readable, self._logits(preds), 0)
        return (
            limited(logits),
            truth.clamp(0, self.groups - 1 if self.many else 1),
            good & self._ignored(target).logical_not(),
            weight,
        )

    def _readable(self, preds: Tensor) -> Tensor:
        """Which scores are what was declared."""
        return preds.clamp(0, 1) == preds if self.task.inputs == "probabilities" else preds == preds

    def _logits(self, preds: Tensor) -> Tensor:
        if self.task.inputs == "logits":
            return preds
        preds = preds.to(torch.promote_types(preds.dtype, torch.float32))
        return preds.log() if self.many else preds.logit()

    def _ignored(self, target: Tensor) -> Tensor:
        ignored = torch.zeros_like(target, dtype=torch.bool)
        for index in self.task.ignored:
            ignored = ignored | (target == index)
        return ignored

    def _elements(self, logits: Tensor, truth: Tensor, weight: Tensor) -> Elements:
        if self.many:
            loss = logits.logsumexp(-1) - logits.gather(-1, truth.unsqueeze(-1)).squeeze(-1)
            return Elements(loss, logits.argmax(-1) != truth, truth, weight)
        margin = torch.where(truth == 1, logits, -logits)
        groups = torch.arange(self.groups, device=truth.device).expand_as(truth) if self.labels else truth
        wrong = (logits > 0) != (truth == 1)
        return Elements(*(part.flatten() for part in (softplus(-margin), wrong, groups, weight)))

    def _deferred(self, preds: Tensor, target: Tensor, weight: Tensor | None) -> Totals:
        logits, truth, used, weights = self._read(preds, target, weight)
        every = self._elements(logits, truth, torch.where(used, weights, 0))
        weighted = every.loss.to(every.weight.dtype) * every.weight
        reals = [weighted_histogram(every.group, part, self.groups) for part in (weighted, every.weight)]
        for mask in (torch.ones_like(every.wrong), every.wrong):
            reals += [by_size(every.loss, torch.where(mask, part, 0)) for part in (weighted, every.weight)]
        if self.many:
            reals.append(sharpened_classes(logits, truth, every.weight))
        else:
            reals.append(sharpened_answers(logits.flatten(), truth.flatten() == 1, every.weight))
        sums = (used, self._ignored(target), torch.ones_like(used))
        ledger = torch.stack([each.sum() for each in sums])
        return Totals(torch.constant_pad_nd(ledger, (0, 1), 1), torch.cat(reals))

    def sums(self, totals: Totals) -> LossSums:
        """The sums by their names."""
        assert totals.reals is not None  # always kept
        by_class, of_class, losses, weights, wrong, errors, row = totals.reals.split(self.parts)
        return LossSums(by_class, of_class, losses, weights, wrong, errors, taken(row))

    def counts(self, totals: Totals) -> Any:
        """Refused: losses are added up."""
        raise InputError("losses are added up, not counted: an evaluation has counts.")

    def ledger(self, totals: Totals) -> Ledger:
        """The bookkeeping, in elements."""
        valid, ignored, every, updates = totals.integers.tolist()
        return Ledger(updates, ignored, every - ignored - valid, guessed_logits=0, guessed_probabilities=0)
