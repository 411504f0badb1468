"""Counting yes-or-no predictions, in two ways.

At once, on the CPU: values are checked first and a bad batch raises, so nothing of it is counted.
Deferred, on an accelerator and inside ``torch.compile``: a dozen operators, none of which waits for the device.
Samples that are not what was declared fall out of both classes; their number is what is missing from the total.

Totals are kept in marginals, for T thresholds:
    tp × T, fp × T, positives, negatives, [ignored,] [batches not guessed to be logits,] samples, updates
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lightning_evalkit.counts.counter import Ledger, Totals
from lightning_evalkit.counts.counts import Counts, real_dtype
from lightning_evalkit.errors import InputError
from lightning_evalkit.inputs import Binary, complaint

BLOCK = 65_536
"""Samples whose masks fit the processor's cache and the allocator's pool: larger ones cost fresh memory pages."""


class BinaryCounter:
    """Counts a ``Binary`` declaration; see ``Counter`` for what the methods promise."""

    def __init__(self, task: Binary) -> None:
        self.task = task
        self.real_width = 2 * len(task.thresholds) + 2
        self.ignores = task.ignore_index is not None
        self.guesses = task.inputs == "auto"
        self.width = self.real_width + self.ignores + self.guesses + 2

    def count(self, preds: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> Totals:
        """The totals of one batch; (N, width) where samples are counted one by one."""
        preds, target, weight = self.task.arranged(preds, target, sample_weight)
        deferred = torch.compiler.is_compiling() or type(preds) is not Tensor or not preds.is_cpu
        if weight is None and not self.task.samplewise and not deferred:
            return self._at_once(preds, target)
        with torch.no_grad():
            totals = self._deferred(preds, target, weight)
        if not deferred and self.ledger(totals).invalid:
            raise InputError(complaint(self.task, preds, target, weight))
        return totals

    def _at_once(self, preds: Tensor, target: Tensor) -> Totals:
        reading = self.task.reading(preds)
        if reading == "auto":
            reading = "probabilities" if _within_unit(_array(preds)) else "logits"
        samples = target.numel()
        pairs = [(preds, target)] if samples <= BLOCK else zip(preds.split(BLOCK), target.split(BLOCK), strict=True)
        sums = [self._block(block, truth, reading) for block, truth in pairs]
        totals = sums[0] if len(sums) == 1 else None if None in sums else [sum(c) for c in zip(*sums, strict=True)]
        if totals is None:
            raise InputError(complaint(self.task, preds, target, None))
        if self.guesses:
            totals.append(int(reading != "logits"))
        return Totals(torch.from_numpy(np.array([*totals, samples, 1], dtype=np.int64)))

    def _block(self, preds: Tensor, target: Tensor, reading: str) -> list[Any] | None:
        """The sums over one block, up to the ignored; None if a value is not what was declared."""
        scores, truth = _array(preds), _array(target)
        ignored = []
        if self.ignores:
            used = truth != self.task.ignore_index
            ignored = [truth.size - np.count_nonzero(used)]
            if ignored[0]:
                scores, truth, preds = scores[used], truth[used], preds[torch.from_numpy(used)]
        positives, positive = _ones_among(truth)
        above = self._above(preds, scores, reading)
        if positive is None or above is None:
            return None
        tp = [np.count_nonzero(mask & positive) for mask in above]
        fp = [np.count_nonzero(mask) - both for mask, both in zip(above, tp, strict=True)]
        return [*tp, *fp, positives, truth.size - positives, *ignored]

    def _above(self, preds: Tensor, scores: Array, reading: str) -> list[Array] | None:
        """Which scores are above each cut; None if a score is not what was declared."""
        if reading == "labels":
            _, above = _ones_among(scores)
            return None if above is None else [above] * len(self.task.thresholds)
        if not (_within_unit(scores) if reading == "probabilities" else _without_nan(scores)):
            return None
        if preds.dtype in (torch.float16, torch.bfloat16):  # compared in their own precision, as on a device
            return [(preds > cut).numpy() for cut in self.task.cuts(reading)]
        return [scores > cut for cut in self.task.cuts(reading)]

    def _deferred(self, preds: Tensor, target: Tensor, weight: Tensor | None) -> Totals:
        reading = self.task.reading(preds)
        known = None
        if reading == "labels":
            yes = preds == 1
            above, good = [yes] * len(self.task.thresholds), yes | (preds == 0)
        elif reading == "probabilities":
            above, good = [preds > cut for cut in self.task.cuts(reading)], preds.clamp(0, 1) == preds
        else:
            good = preds == preds  # NaN is not
            if reading == "logits":
                above = [preds > cut for cut in self.task.cuts(reading)]
            else:
                inside = preds.clamp(0, 1) == preds
                known = inside.all() if self.task.samplewise else inside.all(-1, keepdim=True)
                cuts = zip(self.task.thresholds, self.task.cuts("logits"), strict=True)
                above = [preds > torch.where(known, *pair) for pair in cuts]
        if weight is not None:
            good = good & (weight >= 0) & (weight < math.inf)
        masks = torch.stack(self._rows(above, torch.where(good, target, -1), target))
        sums, reals = masks.sum(-1), None
        if weight is not None:
            weighed = torch.where(masks.narrow(0, 0, self.real_width), weight, 0.0)
            reals = weighed.sum(-1, dtype=real_dtype(weight.device))
        if self.task.samplewise:
            sums, reals = sums.T, None if reals is None else reals.T
        if self.guesses:
            column = _ones(sums) if known is None else known.expand(*sums.shape[:-1], 1)
            sums = torch.cat((sums, column), -1)
        sums = torch.constant_pad_nd(sums, (0, 1), preds.shape[-1])
        return Totals(torch.constant_pad_nd(sums, (0, 1), 1), reals)

    def _rows(self, above: list[Tensor], checked: Tensor, target: Tensor) -> list[Tensor]:
        """One mask per sum that is kept; targets that are not what was declared are in none."""
        positive, negative = checked == 1, checked == 0
        if self.task.ignore_index == 1:
            positive = torch.zeros_like(positive)
        if self.task.ignore_index == 0:
            negative = torch.zeros_like(negative)
        rows = [a & positive for a in above] + [a & negative for a in above] + [positive, negative]
        return [*rows, target.eq(self.task.ignore_index)] if self.task.ignore_index is not None else rows

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
        *classes, samples, updates = integers.narrow(0, self.real_width - 2, self.width - self.real_width + 2).tolist()
        otherwise = classes.pop() if self.guesses else updates
        return Ledger(
            updates=updates,
            ignored=classes[2] if self.ignores else 0,
            invalid=samples - sum(classes),
            guessed_logits=updates - otherwise,
            guessed_otherwise=otherwise,
        )


# NumPy reads small and large arrays on the CPU several times faster than torch's operators do.
Array = np.ndarray[Any, np.dtype[Any]]


def _array(values: Tensor) -> Array:
    """The tensor's memory as an array; precisions that NumPy lacks are widened, which is exact."""
    if values.requires_grad:
        values = values.detach()
    array: Array = (values.float() if values.dtype == torch.bfloat16 else values).numpy()
    return array


def _ones_among(values: Array) -> tuple[Any, Array | None]:
    """How many values are 1, and which, if all others are 0; everything that is not 0 is nonzero, NaN too."""
    mask: Array = values if values.dtype == np.bool_ else values == 1
    ones = np.count_nonzero(mask)
    return ones, mask if ones == np.count_nonzero(values) else None


def _within_unit(scores: Array) -> bool:
    """Whether every score is in [0, 1]; NaN is not."""
    return not scores.size or bool(np.minimum.reduce(scores) >= 0 and np.maximum.reduce(scores) <= 1)


def _without_nan(scores: Array) -> bool:
    return not scores.size or not math.isnan(np.maximum.reduce(scores))


def _ones(sums: Tensor) -> Tensor:
    return torch.ones((*sums.shape[:-1], 1), dtype=sums.dtype, device=sums.device)
