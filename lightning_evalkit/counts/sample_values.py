"""Means over samples of a value per sample, from sums of fixed size."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from lightning_evalkit.counts.counter import EagerOrDeferred, Ledger, Totals
from lightning_evalkit.counts.counts import real_dtype
from lightning_evalkit.counts.decisions import guesses, unweighable
from lightning_evalkit.counts.hinge import HINGE
from lightning_evalkit.counts.layout import Cells, Layout
from lightning_evalkit.counts.ranks import RANKED
from lightning_evalkit.errors import InputError
from lightning_evalkit.inputs import Multiclass, Multilabel
from lightning_evalkit.inputs.declaration import Declaration

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, repr=False)
class Valued(Declaration):
    """A declaration with one named value per sample."""

    of: Any = field(kw_only=True)
    value: str = field(kw_only=True)

    def described(self) -> dict[str, Any]:
        """Describe the task and the value."""
        return {**self.of.described(), "value": self.value}

    def __repr__(self) -> str:
        return f"{self.value} of {self.of}"

    def names_of_values(self, argument: str) -> tuple[str, ...] | None:
        """The names of the task."""
        named: tuple[str, ...] | None = self.of.names_of_values(argument)
        return named

    def arranged(
        self, preds: Tensor, target: Tensor, sample_weight: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Scores (M, C) or (M, L), targets (M, 1) or (M, L), and one weight for each of M samples."""
        if not preds.is_floating_point():
            raise InputError(f"expected preds to be floating-point scores, got {preds.dtype}: labels have no order.")
        if isinstance(self.of, Multilabel):
            self.refuse_weights_of_elements(sample_weight, len(preds), f"{self.value} is a mean over")
            preds, target, weight = self.of.arranged(preds, target, sample_weight)
            return preds, target, None if weight is None else weight.select(-1, 0)
        preds, target, weight = self.of.arranged(preds, target, sample_weight)
        preds = preds.movedim(1, -1).flatten(0, -2) if isinstance(self.of, Multiclass) else preds.unsqueeze(-1)
        return preds, target.reshape(-1, 1), None if weight is None else weight.flatten()

    def complaint(self, preds: Tensor, target: Tensor, weight: Tensor | None) -> str:
        """What is wrong with the values of a batch."""
        if not isinstance(self.of, Multilabel):
            target = target.squeeze(-1)
            preds = preds if isinstance(self.of, Multiclass) else preds.squeeze(-1)
        elif weight is not None:
            weight = weight.unsqueeze(-1).expand(target.shape)
        said: str = self.of.complaint(preds, target, weight)
        return said


class SampleValueCounter(EagerOrDeferred):
    """Adds up one of the values of ``HINGE`` and ``RANKED``; see ``Counter`` for what the methods promise."""

    task: Valued
    plain = False

    def __init__(self, task: Any, value: str) -> None:
        self.task = Valued(task.inputs, task.ignore_index, task.weighted, of=task, value=value)
        self.classes = task.classes if isinstance(task, Multiclass) else 0
        self.guesses = task.inputs == "auto" and value in HINGE  # logits and probabilities have the same ranks
        integers = Cells(valid=1, ignored=1, samples=1, guessed=2 * self.guesses, updates=1)
        values = self.classes if value.startswith("one-vs-all") else 1
        self.layout = Layout(integers, Cells(values=values, weights=1))

    def _deferred(self, preds: Tensor, target: Tensor, weight: Tensor | None) -> Totals:
        left_out = self.task.left_out(target)
        ignored, kind = left_out.all(-1), real_dtype(preds.device)
        weights = torch.ones_like(ignored, dtype=kind) if weight is None else weight.to(kind)
        there = weights != 0  # a weight of 0 removes a sample, whatever its values
        good, probable = self._good(preds, target, left_out, there)
        used = good & there & (ignored | unweighable(weights)).logical_not()
        values = self._values(preds.to(kind), target.long(), left_out, probable)
        sums = torch.where(used.unsqueeze(-1), values * weights.unsqueeze(-1), 0.0).sum(0)
        reals = self.layout.reals.parts(values=sums, weights=torch.where(used, weights, 0.0).sum().unsqueeze(0))
        numbers = torch.stack((used, ignored & there, there)).sum(-1)
        valid, left, samples = numbers.unsqueeze(-1).unbind()
        guessed = guesses(probable, preds, numbers, weights)
        parts = {"valid": valid, "ignored": left, "samples": samples, "guessed": guessed}
        integers = self.layout.integers.parts(**parts, updates=torch.ones_like(valid))
        return Totals(torch.cat(integers), torch.cat(reals))

    def _good(self, preds: Tensor, target: Tensor, left_out: Tensor, there: Tensor) -> tuple[Tensor, Tensor | None]:
        """Which samples are as declared, and whether scores were guessed to be probabilities."""
        proper = preds.clamp(0, 1) == preds
        good = proper if self.task.inputs == "probabilities" else preds == preds
        if self.classes and self.task.inputs != "probabilities":
            good = good & (preds.amax(-1, keepdim=True).abs() != torch.inf)  # softmax would be NaN
        whole = target.clamp(0, (self.classes or 2) - 1) == target
        if target.is_floating_point():
            whole = whole & (target == target.trunc())
        known = ((good & whole) | left_out).all(-1)
        if not self.guesses:
            return known, None
        return known, (proper | left_out | there.logical_not().unsqueeze(-1)).all().unsqueeze(0)

    def _values(self, scores: Tensor, truth: Tensor, left_out: Tensor, probable: Tensor | None) -> Tensor:
        """The value of every sample; any number for unused ones."""
        if self.task.value in RANKED:
            return RANKED[self.task.value](scores, (truth == 1) & left_out.logical_not(), left_out).unsqueeze(-1)
        if self.task.inputs != "probabilities":
            squashed = scores.softmax(-1) if self.classes else scores.sigmoid()
            scores = squashed if probable is None else torch.where(probable, scores, squashed)
        return HINGE[self.task.value](scores, truth.clamp(0, (self.classes or 2) - 1))

    def mean(self, totals: Totals) -> Tensor:
        """Sums over samples / sum of weights."""
        assert totals.reals is not None  # always kept
        sums, weights = (self.layout.reals.read(totals.reals, name) for name in ("values", "weights"))
        means = (sums / weights).float()
        return means if len(means) > 1 else means.squeeze(0)

    def ledger(self, totals: Totals) -> Ledger:
        """The bookkeeping, in samples."""
        names = ("guessed", "valid", "ignored", "samples", "updates")
        guessed, *others = self.layout.integers.numbers(totals.integers, *names)
        probabilities, logits = guessed or (0, 0)
        valid, ignored, samples, updates = map(sum, others)
        return Ledger(updates, ignored, samples - ignored - valid, logits, probabilities)
