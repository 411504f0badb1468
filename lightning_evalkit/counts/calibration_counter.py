"""Counts calibration alone: misses, hits and confidence by bin, without a histogram and without losses.

The confidence of a yes-or-no question is the probability of yes, and yes is a hit; that of a class is the highest
probability, and the right class is a hit. The sums are those of ``calibration_sums``.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from lightning_evalkit.counts.calibration_sums import as_real, searched
from lightning_evalkit.counts.counter import ArrayTotals, EagerOrDeferred, Ledger, Totals
from lightning_evalkit.counts.counts import real_dtype, wide_dtype
from lightning_evalkit.counts.decisions import checked, either, guesses, refuse_endless, refuse_labels, unweighable
from lightning_evalkit.counts.deferral import is_deferred
from lightning_evalkit.counts.histogram import weighted_histogram
from lightning_evalkit.counts.layout import Cells, Layout
from lightning_evalkit.counts.numpy_path import (
    BLOCK,
    Array,
    any_of,
    arg_max,
    array_of,
    is_endless,
    row_begins,
    tensor_of,
    within,
    within_unit,
    without_nan,
    zeros_and_ones,
)
from lightning_evalkit.counts.sums_at_once import calibration_places
from lightning_evalkit.errors import InputError
from lightning_evalkit.inputs import Multiclass

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.inputs import Declaration


PRECISIONS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
"""Updates are counted by the precision of their scores, which is that of a binary calibration error."""


class BinSums(NamedTuple):
    """Sums over the samples of each bin, on the CPU."""

    weights: Array
    confidences: Array
    hits: Array
    precision: torch.dtype
    """The widest precision of the scores; single of classes, or without scores."""


class CalibrationCounter(EagerOrDeferred):
    """Counts a declaration with a ``calibration`` binning; see ``Counter`` for what the methods promise."""

    def __init__(self, task: Declaration) -> None:
        assert task.binning is not None  # declared
        self.task, self.plain, self.bins = task, not task.weighted, task.binning.calibration_bins
        self.classes = task.classes if isinstance(task, Multiclass) else 0
        self.guesses, self.logits = task.inputs == "auto", task.inputs == "logits"
        self._ignores, self._rows = bool(task.ignored), max(BLOCK // (self.classes or 1), 1)
        weighted = int(task.weighted)
        leading = Cells(guessed=2 * self.guesses)  # others are counted with misses and hits
        updates = 1 if self.classes else len(PRECISIONS)
        self.books = leading + Cells(valid=weighted, weightless=weighted, ignored=1, invalid=1, updates=updates)
        counts, sums = Cells(misses=self.bins, hits=self.bins), Cells(confidences=self.bins)
        self.layout = Layout(self.books, counts + sums) if weighted else Layout(self.books + counts, sums)
        self.cells = self.layout.reals if weighted else self.layout.integers
        self._misses, self._hits = (self.cells.begins[name] for name in ("misses", "hits"))
        self._begins = np.array((self._misses, self._hits))
        begin = self.books.begins["updates"]
        self._updates = {kind: begin + place * (not self.classes) for place, kind in enumerate(PRECISIONS)}

    # ---- at once

    def _at_once(self, preds: Tensor, target: Tensor, batches: int) -> ArrayTotals:
        refuse_labels(preds)
        scores, truth = array_of(preds), array_of(target)
        if self.classes:
            scores = scores if scores.ndim == 2 else np.moveaxis(scores, 1, -1).reshape(-1, self.classes)
            truth = truth.ravel()
        given = truth.size
        if self._ignores:
            used = ~any_of(truth, self.task.marks(target.dtype))
            scores, truth = scores[used], truth[used]
        probable = not self.logits and within_unit(scores)
        known = self._checked(scores, truth, probable)
        if known is None:
            raise InputError(self.task.complaint(preds, target, None))
        integers, reals = self._added(scores, known, probable, preds.dtype)
        integers[self._updates[preds.dtype]] = batches
        integers[self.books.begins["ignored"]] = given - known.size
        if self.guesses and given:
            integers[self.books.begins["guessed"] + (not probable)] = batches
        return ArrayTotals(integers, reals)

    def _checked(self, scores: Array, truth: Array, probable: bool) -> Array | None:
        """The classes, or which answers are yes; None if a value is not what was declared."""
        if not probable and (self.task.inputs == "probabilities" or not without_nan(scores)):
            return None
        if not self.classes:
            return zeros_and_ones(truth)
        return truth if within(truth, self.classes) and (probable or not is_endless(scores)) else None

    def _added(self, scores: Array, truth: Array, probable: bool, kind: torch.dtype) -> tuple[Array, Array]:
        """The additions of a batch to the integers and to the reals, block by block."""
        rows = self._rows
        if len(truth) <= rows:
            return self._block(scores, truth, probable, kind)
        parts = (slice(begin, begin + rows) for begin in range(0, len(truth), rows))
        blocks = [self._block(scores[part], truth[part], probable, kind) for part in parts]
        integers, reals = (np.sum(added, axis=0) for added in zip(*blocks, strict=True))
        return integers, reals

    def _block(self, scores: Array, truth: Array, probable: bool, kind: torch.dtype) -> tuple[Array, Array]:
        if self.classes:
            confidence, hit, placed = self._of_classes(scores, truth, probable, kind)
            kind = torch.float32
        elif probable:
            confidence, hit, placed = scores, truth, scores
        else:
            confidence, hit, placed = self._of_logits(scores, truth, kind)
            kind = wide_dtype(kind) if self.logits else kind
        places = calibration_places(placed, self.bins, kind)
        counted = self._begins.take(hit)
        counted += places
        return np.bincount(counted, minlength=self.cells.width), np.bincount(places, confidence, self.bins)

    def _of_logits(self, scores: Array, yes: Array, kind: torch.dtype) -> tuple[Array, Array, Array]:
        """Confidences, hits, and confidences as they are put into bins: of guessed logits as in torchmetrics."""
        given = tensor_of(scores, kind)
        if self.logits:
            confidence = array_of(as_real(given).sigmoid())
            return confidence, yes, confidence
        return array_of(given.double().sigmoid()), yes, array_of(given.sigmoid())

    def _of_classes(self, scores: Array, truth: Array, probable: bool, kind: torch.dtype) -> tuple[Array, Array, Array]:
        """The same for classes: declared logits decide the predicted class, as their softmax may round."""
        values = scores
        if not probable:
            given = tensor_of(scores, kind)
            values = array_of((as_real(given) if self.logits else given.double()).softmax(1))
        label = arg_max(scores if self.logits else values)
        confidence = values.ravel().take(row_begins(values.size, self.classes) + label)
        rounded = confidence if probable or self.logits else array_of(given.softmax(1).amax(1).float())
        return confidence, label == truth, rounded.astype(np.float32, copy=False)

    # ---- deferred

    def _deferred(self, preds: Tensor, target: Tensor, weight: Tensor | None) -> Totals:
        refuse_labels(preds)
        if self.classes:
            preds = preds if preds.ndim == 2 else preds.movedim(1, -1).flatten(0, -2)
            target = target.flatten()
        left_out = {"ignored": self.task.left_out(target) if self.task.ignored else None, "weightless": None}
        if weight is not None:
            weight = weight.to(real_dtype(weight.device)).flatten()
            left_out["weightless"] = weight == 0  # a weight of 0 removes a sample, whatever its values
        bad, probable = self._looked(preds, *left_out.values())
        truth, bad = self._truth(target, bad if weight is None else bad | unweighable(weight))
        confidence, hit, placed = self._confident(preds, truth, probable)
        places, unused = searched(placed, self.bins), either(bad, *left_out.values())
        counted = torch.add(places + self._misses, hit, alpha=self._hits - self._misses)
        if weight is None:
            reals = weighted_histogram(places, confidence.masked_fill(unused, 0.0), self.bins)
        else:
            both = torch.stack((counted, places + self.cells.begins["confidences"]))
            amounts = torch.stack((weight, weight * confidence)).masked_fill(unused, 0.0)
            reals = weighted_histogram(both, amounts, self.cells.width)
            counted = torch.full_like(places, self.books.begins["valid"])
        for name, mask in {"invalid": bad, **left_out}.items():
            if mask is not None:
                counted = counted.masked_fill(mask, self.books.begins[name])
        guessed = guesses(probable, preds, places, weight).long() if self.guesses else places.new_zeros(0)
        increments = torch.constant_pad_nd(counted, (0, 1), self._updates[preds.dtype])
        totals = Totals(guessed, reals, increments)
        return totals if is_deferred(preds) else totals.dense(self.layout.integers.width)

    def _looked(self, preds: Tensor, *left_out: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Which samples have scores that are not as declared, and the guess that they are probabilities."""
        proper = None if self.logits else preds.clamp(0, 1) == preds
        if proper is not None and self.classes:
            proper = proper.all(-1)
        if proper is not None and not self.guesses:
            return proper.logical_not(), None
        bad = (preds.amax(-1).abs() < torch.inf).logical_not() if self.classes else preds != preds
        return bad, None if proper is None else either(proper, *left_out).all(-1, keepdim=True)

    def _truth(self, target: Tensor, bad: Tensor) -> tuple[Tensor, Tensor]:
        """The classes, or which answers are yes, and which samples are invalid."""
        if self.classes:
            truth = target.long()
            return truth, bad | (truth.clamp(0, self.classes - 1) != truth)
        truth = checked(target, bad)
        yes = truth == 1
        return yes, yes == (truth == 0)

    def _confident(self, scores: Tensor, truth: Tensor, probable: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Confidences, hits, and confidences as they are put into bins; as in ``_of_logits`` and ``_of_classes``."""
        if probable is None:
            given = as_real(scores)
            values = self._squashed(given) if self.logits else given
            rounded = values if self.logits else scores
        else:
            wide = scores.to(real_dtype(scores.device))
            given = values = torch.where(probable, wide, self._squashed(wide))
            rounded = torch.where(probable, scores, self._squashed(scores))
        if not self.classes:
            return values, truth, rounded
        confidence = values.amax(-1)
        rounded = confidence if probable is None else rounded.amax(-1)
        return confidence, given.argmax(-1) == truth, rounded.float()

    def _squashed(self, logits: Tensor) -> Tensor:
        return logits.softmax(-1) if self.classes else logits.sigmoid()

    # ---- reading

    def by_bin(self, totals: Totals) -> BinSums:
        """The sums of each calibration bin."""
        assert totals.reals is not None  # always kept
        integers, reals = totals.integers.numpy(force=True), totals.reals.numpy(force=True)
        if not self.plain:
            refuse_endless(totals.reals.narrow(0, 0, 2 * self.bins))
        counts, begin = integers if self.plain else reals, self.layout.reals.begins["confidences"]
        misses, hits = (counts[first : first + self.bins] for first in (self._misses, self._hits))
        return BinSums(misses + hits, reals[begin : begin + self.bins], hits, self._precision(integers))

    def _precision(self, integers: Array) -> torch.dtype:
        seen = () if self.classes else [kind for kind, place in self._updates.items() if integers[place]]
        return reduce(torch.promote_types, seen) if seen else torch.float32

    def ledger(self, totals: Totals) -> Ledger:
        """The bookkeeping, in samples."""
        guessed, *others = self.books.numbers(totals.integers, "guessed", "ignored", "invalid", "updates")
        probabilities, logits = guessed or (0, 0)
        ignored, invalid, updates = map(sum, others)
        return Ledger(updates, ignored, invalid, logits, probabilities)
