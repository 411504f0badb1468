"""Counting yes-or-no predictions, in two ways.

At once, on the CPU: values are checked first and a bad batch raises, so nothing of it is counted.
Deferred, on an accelerator and inside ``torch.compile``: a dozen operators, none of which waits for the device.
Samples that are not what was declared fall out of both classes; their number is what is missing from the total.

Totals are kept in marginals, for T thresholds:
    tp × T, fp × T, positives, negatives, [ignored,] samples, [batches guessed to be probabilities, logits,] updates
Weights are kept in cells, as reals, because a difference of sums loses what is small beside them:
    tp × T, fp × T, fn × T, tn × T
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lightning_evalkit.counts.counter import EagerOrDeferred, Ledger, Totals
from lightning_evalkit.counts.counts import Counts, real_dtype
from lightning_evalkit.counts.decisions import checked, decided, guesses, unweighable
from lightning_evalkit.counts.numpy_path import (
    BLOCK,
    Array,
    above_cuts,
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
        self.marginals = 2 * len(task.thresholds) + 2
        self.width = self.marginals + self.ignores + 2 * self.guesses + 2
        self.real_width = 4 * len(task.thresholds) if task.weighted else 0
        self.plain = not task.weighted and not task.samplewise

    def _at_once(self, preds: Tensor, target: Tensor) -> Totals:
        score_kind = self.task.score_kind(preds)
        if score_kind == "auto":
            score_kind = "probabilities" if within_unit(array_of(preds)) else "logits"
        samples = target.numel()
        pairs = [(preds, target)] if samples <= BLOCK else zip(preds.split(BLOCK), target.split(BLOCK), strict=True)
        sums = [self._block(block, truth, score_kind) for block, truth in pairs]
        totals = sums[0] if len(sums) == 1 else None if None in sums else [sum(c) for c in zip(*sums, strict=True)]
        if totals is None:
            raise InputError(self.task.complaint(preds, target, None))
        totals.append(samples)
        if self.guesses:
            totals += [samples > 0 and score_kind == kind for kind in ("probabilities", "logits")]
        return Totals(torch.from_numpy(np.array([*totals, 1], dtype=np.int64)))

    def _block(self, preds: Tensor, target: Tensor, score_kind: str) -> list[Any] | None:
        """The sums over one block, up to the ignored; None if a value is not what was declared."""
        scores, truth = array_of(preds), array_of(target)
        ignored = []
        if self.ignores:
            used = ~any_of(truth, self.task.marks(target.dtype))
            ignored = [truth.size - np.count_nonzero(used)]
            if ignored[0]:
                scores, truth = scores[used], truth[used]
        positive = ones_among(truth)
        above = self._above(scores, score_kind, preds.dtype)
        if positive is None or above is None:
            return None
        positives = np.count_nonzero(positive)
        tp = [np.count_nonzero(mask & positive) for mask in above]
        fp = [np.count_nonzero(mask) - both for mask, both in zip(above, tp, strict=True)]
        return [*tp, *fp, positives, truth.size - positives, *ignored]

    def _above(self, scores: Array, score_kind: str, kind: torch.dtype) -> list[Array] | None:
        """Which scores are above each cut; None if a score is not what was declared."""
        if score_kind == "labels":
            above = ones_among(scores)
            return None if above is None else [above] * len(self.task.thresholds)
        if not (within_unit(scores) if score_kind == "probabilities" else without_nan(scores)):
            return None
        return above_cuts(scores, self.task.cuts(score_kind, kind))

    def _deferred(self, preds: Tensor, target: Tensor, weight: Tensor | None) -> Totals:
        above, bad, probable = decided(self.task, preds, weight)
        if weight is not None:
            weight = weight.to(real_dtype(weight.device))
            bad = bad | unweighable(weight)
        there = None if weight is None else weight != 0  # what weighs nothing is not there, whatever its values
        masks = torch.stack(self._rows(above, checked(target, bad), target, there))
        if there is not None:
            masks = masks & there
        sums, reals = masks.sum(-1), None
        if weight is not None:
            reals = torch.where(self._cells(masks), weight, 0.0).sum(-1)
        if self.task.samplewise:
            sums, reals = sums.T, None if reals is None else reals.T
        if self.guesses:
            sums = torch.cat((sums, guesses(probable, preds, sums, weight)), -1)
        return Totals(torch.constant_pad_nd(sums, (0, 1), 1), reals)

    def _cells(self, masks: Tensor) -> Tensor:
        """The masks of tp, fp, fn and tn, one for each threshold."""
        above, classes, _ = masks.split((self.marginals - 2, 2, len(masks) - self.marginals))
        if self.marginals > 4:
            classes = classes.repeat_interleave(len(self.task.thresholds), 0)
        return torch.cat((above, above ^ classes))

    def _rows(self, above: list[Tensor], truth: Tensor, target: Tensor, there: Tensor | None) -> list[Tensor]:
        """One mask per sum that is kept; samples that are not what was declared are in none."""
        positive, negative = truth == 1, truth == 0
        if self.task.ignore_index == 1:
            positive = torch.zeros_like(positive)
        if self.task.ignore_index == 0:
            negative = torch.zeros_like(negative)
        rows = [a & positive for a in above] + [a & negative for a in above] + [positive, negative]
        if self.ignores:
            rows.append(self.task.left_out(target))
        if there is None:
            there = torch.ones_like(positive)  # summed like the others, the number of samples may be a symbol
        return [*rows, there]

    def counts(self, totals: Totals) -> Counts:
        """The counts, of shape (T,) or (N, T)."""
        thresholds = len(self.task.thresholds)
        if totals.reals is not None:
            return Counts(*totals.reals.unflatten(-1, (4, thresholds)).unbind(-2))
        kept = totals.integers
        tp, fp = kept.narrow(-1, 0, thresholds), kept.narrow(-1, thresholds, thresholds)
        positives, negatives = kept.narrow(-1, 2 * thresholds, 1), kept.narrow(-1, 2 * thresholds + 1, 1)
        return Counts(tp=tp, fp=fp, fn=positives - tp, tn=negatives - fp)

    def ledger(self, totals: Totals) -> Ledger:
        """The bookkeeping; samples counted one by one are a batch each."""
        integers = totals.integers.sum(0) if self.task.samplewise else totals.integers
        first = self.marginals - 2
        *classes, updates = integers.narrow(0, first, self.width - first).tolist()
        logits, probabilities = (classes.pop(), classes.pop()) if self.guesses else (0, 0)
        samples = classes.pop()
        return Ledger(
            updates=updates,
            ignored=classes[2] if self.ignores else 0,
            invalid=samples - sum(classes),
            guessed_logits=logits,
            guessed_probabilities=probabilities,
        )
