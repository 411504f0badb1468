"""Counting yes-or-no predictions, in two ways.

At once, on the CPU: values are checked first and a bad batch raises, so nothing of it is counted.
Deferred, on an accelerator and inside ``torch.compile``: a dozen operators, none of which waits for the device.
Samples that are not what was declared fall out of both classes; their number is what is missing from the total.

Totals are kept in marginals, for T thresholds:
    tp × T, fp × T, positives, negatives, [ignored,] samples, [batches guessed to be probabilities, logits,] updates
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lightning_evalkit.counts.arrays import (
    BLOCK,
    Array,
    above_cuts,
    array_of,
    equal_to,
    ones_among,
    within_unit,
    without_nan,
)
from lightning_evalkit.counts.counter import Ledger, Totals, TwoWays
from lightning_evalkit.counts.counts import Counts, real_dtype
from lightning_evalkit.counts.decisions import checked, decided, guesses, unweighable
from lightning_evalkit.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.inputs import Binary


class BinaryCounter(TwoWays):
    """Counts a ``Binary`` declaration; see ``Counter`` for what the methods promise."""

    task: Binary

    def __init__(self, task: Binary) -> None:
        self.task = task
        self.ignores, self.guesses = task.ignore_index is not None, task.inputs == "auto"
        self.marginals = 2 * len(task.thresholds) + 2
        self.width = self.marginals + self.ignores + 2 * self.guesses + 2
        self.real_width = self.marginals if task.weighted else 0
        self.plain = not task.weighted and not task.samplewise

    def _at_once(self, preds: Tensor, target: Tensor) -> Totals:
        reading = self.task.reading(preds)
        if reading == "auto":
            reading = "probabilities" if within_unit(array_of(preds)) else "logits"
        samples = target.numel()
        pairs = [(preds, target)] if samples <= BLOCK else zip(preds.split(BLOCK), target.split(BLOCK), strict=True)
        sums = [self._block(block, truth, reading) for block, truth in pairs]
        totals = sums[0] if len(sums) == 1 else None if None in sums else [sum(c) for c in zip(*sums, strict=True)]
        if totals is None:
            raise InputError(self.task.complaint(preds, target, None))
        totals.append(samples)
        if self.guesses:
            totals += [samples > 0 and reading == kind for kind in ("probabilities", "logits")]
        return Totals(torch.from_numpy(np.array([*totals, 1], dtype=np.int64)))

    def _block(self, preds: Tensor, target: Tensor, reading: str) -> list[Any] | None:
        """The sums over one block, up to the ignored; None if a value is not what was declared."""
        scores, truth = array_of(preds), array_of(target)
        ignored = []
        if self.ignores:
            used = ~equal_to(truth, self.task.ignore_index)
            ignored = [truth.size - np.count_nonzero(used)]
            if ignored[0]:
                scores, truth, preds = scores[used], truth[used], preds[torch.from_numpy(used)]
        positive = ones_among(truth)
        above = self._above(preds, scores, reading)
        if positive is None or above is None:
            return None
        positives = np.count_nonzero(positive)
        tp = [np.count_nonzero(mask & positive) for mask in above]
        fp = [np.count_nonzero(mask) - both for mask, both in zip(above, tp, strict=True)]
        return [*tp, *fp, positives, truth.size - positives, *ignored]

    def _above(self, preds: Tensor, scores: Array, reading: str) -> list[Array] | None:
        """Which scores are above each cut; None if a score is not what was declared."""
        if reading == "labels":
            above = ones_among(scores)
            return None if above is None else [above] * len(self.task.thresholds)
        if not (within_unit(scores) if reading == "probabilities" else without_nan(scores)):
            return None
        return above_cuts(preds, scores, self.task.cuts(reading))

    def _deferred(self, preds: Tensor, target: Tensor, weight: Tensor | None) -> Totals:
        above, bad, probable = decided(self.task, preds)
        if weight is not None:
            weight = weight.to(real_dtype(weight.device))
            bad = bad | unweighable(weight)
        masks = torch.stack(self._rows(above, checked(target, bad), target))
        sums, reals = masks.sum(-1), None
        if weight is not None:
            weighed = torch.where(masks.narrow(0, 0, self.marginals), weight, 0.0)
            reals = weighed.sum(-1)
        if self.task.samplewise:
            sums, reals = sums.T, None if reals is None else reals.T
        if self.guesses:
            sums = torch.cat((sums, guesses(probable, preds, sums)), -1)
        return Totals(torch.constant_pad_nd(sums, (0, 1), 1), reals)

    def _rows(self, above: list[Tensor], truth: Tensor, target: Tensor) -> list[Tensor]:
        """One mask per sum that is kept; samples that are not what was declared are in none."""
        positive, negative = truth == 1, truth == 0
        if self.task.ignore_index == 1:
            positive = torch.zeros_like(positive)
        if self.task.ignore_index == 0:
            negative = torch.zeros_like(negative)
        rows = [a & positive for a in above] + [a & negative for a in above] + [positive, negative]
        rows += [target == index for index in self.task.ignored]
        return [*rows, torch.ones_like(positive)]  # summed like the others, the number of samples may be a symbol

    def counts(self, totals: Totals) -> Counts:
        """The counts, of shape (T,) or (N, T)."""
        kept = totals.integers if totals.reals is None else totals.reals
        thresholds = len(self.task.thresholds)
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
