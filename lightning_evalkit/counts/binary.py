"""Counts yes-or-no predictions, in two ways.

At once, on the CPU: values are checked first and a bad batch raises, so nothing of it is counted.
Deferred, on an accelerator and inside ``torch.compile``: a dozen operators, none of which waits for the device.
Samples that are not as declared are in neither class; their number is the difference to the total.

Totals are stored as marginals: true and false positives of each threshold, positives and negatives. Weights are stored
as the four cells of each table, because a difference of large sums loses small ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from lightning_evalkit.counts.counter import ArrayTotals, EagerOrDeferred, Ledger, Totals
from lightning_evalkit.counts.counts import Counts, real_dtype
from lightning_evalkit.counts.decisions import checked, decided, guesses, read_at_once, unweighable
from lightning_evalkit.counts.evidence import Evidence
from lightning_evalkit.counts.layout import Cells, Layout
from lightning_evalkit.counts.numpy_path import (
    BLOCK,
    Array,
    Cutting,
    any_of,
    array_of,
    ones_among,
    within_unit,
    without_nan,
)
from lightning_evalkit.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.inputs import Binary


class BinaryCounter(EagerOrDeferred):
    """Counts a ``Binary`` declaration; see ``Counter`` for what the methods promise."""

    task: Binary

    def __init__(self, task: Binary) -> None:
        self.task = task
        self.ignores, self.guesses = task.ignore_index is not None, task.inputs == "auto"
        tables = len(task.thresholds)
        self.predicted, self.classes = Cells(tp=tables, fp=tables), Cells(positives=1, negatives=1)
        self.masks = self.predicted + self.classes + Cells(ignored=int(self.ignores), samples=1)
        weights = self.predicted + Cells(fn=tables, tn=tables) if task.weighted else Cells()
        self.layout = Layout(self.masks + Cells(guessed=2 * self.guesses) + Cells(updates=1), weights)
        self.plain = not task.weighted and not task.samplewise
        self._cutting = Cutting(task)

    def _at_once(self, preds: Tensor, target: Tensor, batches: int) -> ArrayTotals:
        scores, score_kind, given = read_at_once(self.task, preds)
        samples = target.numel()
        if samples <= BLOCK:
            totals = self._block(scores, target, score_kind)
        else:
            pairs = zip(scores.split(BLOCK), target.split(BLOCK), strict=True)
            sums = [self._block(block, truth, score_kind) for block, truth in pairs]
            counted = [each for each in sums if each is not None]
            totals = np.sum(counted, axis=0) if len(counted) == len(sums) else None
        if totals is None:
            raise InputError(self.task.complaint(preds, target, None))
        begins = self.layout.integers.begins
        if self.guesses and samples and given != "labels":
            totals[begins["guessed"] + (given == "logits")] = batches
        totals[begins["updates"]] = batches
        return ArrayTotals(totals)

    def _block(self, preds: Tensor, target: Tensor, score_kind: str) -> Array | None:
        """The sums over one block, 0 for what concerns the batch; None if a value is not as declared."""
        scores, truth = array_of(preds), array_of(target)
        samples = truth.size
        if self.ignores:
            used = ~any_of(truth, self.task.marks(target.dtype))
            if np.count_nonzero(used) < samples:
                scores, truth = scores[used], truth[used]
        positive = ones_among(truth)
        above = self._above(scores, score_kind, preds.dtype)
        if positive is None or above is None:
            return None
        # Cell by cell: collecting the parts of a row by name would take a tenth of a small batch's time.
        row, begins = np.zeros(self.layout.integers.width, np.int64), self.layout.integers.begins
        for place, mask in enumerate(above):
            tp = np.count_nonzero(mask & positive)
            row[begins["tp"] + place], row[begins["fp"] + place] = tp, np.count_nonzero(mask) - tp
        positives = np.count_nonzero(positive)
        row[begins["positives"]], row[begins["negatives"]] = positives, truth.size - positives
        if self.ignores:
            row[begins["ignored"]] = samples - truth.size
        row[begins["samples"]] = samples
        return row

    def _above(self, scores: Array, score_kind: str, kind: torch.dtype) -> list[Array] | None:
        """Which scores are above each cut; None if a score is not as declared."""
        if score_kind == "labels":
            above = ones_among(scores)
            return None if above is None else [above] * len(self.task.thresholds)
        if not (within_unit(scores) if score_kind == "probabilities" else without_nan(scores)):
            return None
        return self._cutting(scores, score_kind, kind)

    def _deferred(self, preds: Tensor, target: Tensor, weight: Tensor | None) -> Totals:
        above, bad, probable = decided(self.task, preds, weight)
        if weight is not None:
            weight = weight.to(real_dtype(weight.device))
            bad = bad | unweighable(weight)
        there = None if weight is None else weight != 0  # a weight of 0 removes a sample, whatever its values
        masks = torch.stack(self._rows(above, checked(target, bad), target, there))
        if there is not None:
            masks = masks & there
        sums, reals = masks.sum(-1), None
        if weight is not None:
            reals = torch.where(self._tables(masks), weight, 0.0).sum(-1)
        if self.task.samplewise:
            sums, reals = sums.T, None if reals is None else reals.T
        if self.guesses:
            sums = torch.cat((sums, guesses(probable, preds, sums, weight)), -1)
        return Totals(torch.constant_pad_nd(sums, (0, 1), 1), reals)

    def _tables(self, masks: Tensor) -> Tensor:
        """The masks of tp, fp, fn and tn, one for each threshold."""
        widths = (self.predicted.width, self.classes.width)
        predicted, classes, _ = masks.split((*widths, len(masks) - sum(widths)))
        if len(self.task.thresholds) > 1:
            classes = classes.repeat_interleave(len(self.task.thresholds), 0)
        return torch.cat((predicted, predicted ^ classes))

    def _rows(self, above: list[Tensor], truth: Tensor, target: Tensor, there: Tensor | None) -> list[Tensor]:
        """One mask per stored sum; invalid samples are in none."""
        positive, negative = truth == 1, truth == 0
        if self.task.ignore_index == 1:
            positive = torch.zeros_like(positive)
        if self.task.ignore_index == 0:
            negative = torch.zeros_like(negative)
        if there is None:
            there = torch.ones_like(positive)  # summed like the others, because the number of samples may be symbolic
        return self.masks.flat(
            tp=[a & positive for a in above],
            fp=[a & negative for a in above],
            positives=[positive],
            negatives=[negative],
            ignored=[self.task.left_out(target)] if self.ignores else [],
            samples=[there],
        )

    def counts(self, totals: Totals) -> Counts:
        """The counts, of shape (T,) or (N, T)."""
        integers, reals = self.layout
        if totals.reals is not None:
            return Counts(*(reals.read(totals.reals, name) for name in ("tp", "fp", "fn", "tn")))
        marginals = ("tp", "fp", "positives", "negatives")
        tp, fp, positives, negatives = (integers.read(totals.integers, name) for name in marginals)
        return Counts(tp=tp, fp=fp, fn=positives - tp, tn=negatives - fp)

    def evidence(self, totals: Totals) -> Evidence:
        """The evidence of these totals."""
        return Evidence(self.task, self.counts(totals))

    def ledger(self, totals: Totals) -> Ledger:
        integers = totals.integers.sum(0) if self.task.samplewise else totals.integers
        names = ("positives", "negatives", "ignored", "samples", "guessed", "updates")
        *classes, ignored, samples, guessed, updates = self.layout.integers.numbers(integers, *names)
        probabilities, logits = guessed or (0, 0)
        return Ledger(
            updates=sum(updates),
            ignored=sum(ignored),
            invalid=sum(samples) - sum(ignored) - sum(map(sum, classes)),
            guessed_logits=logits,
            guessed_probabilities=probabilities,
        )
