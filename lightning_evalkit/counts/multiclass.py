"""Counting predictions of one class among many.

Kept for every class: how often it is predicted rightly, how often it is the target, how often it is predicted (or the
whole confusion matrix, where something needs it). The other cells of one class against the rest follow from these.

Totals: right × C, targets × C, predicted × C (or C × C), hits × K, [ignored,] samples, updates;
as reals, where declared: the same up to the hits, weighted; samples that are right throughout, and all samples
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from lightning_evalkit.counts.arrays import Array, array_of, equal_to, within, within_unit, without_nan
from lightning_evalkit.counts.counter import Ledger, Totals, TwoWays
from lightning_evalkit.counts.counts import Counts, real_dtype
from lightning_evalkit.counts.decisions import unweighable
from lightning_evalkit.counts.histogram import histogram, weighted_histogram
from lightning_evalkit.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.inputs import Multiclass

FEW = 64
"""Up to so many classes, one count of a small matrix is faster than three counts of classes."""


class MulticlassCounter(TwoWays):
    """Counts a ``Multiclass`` declaration; see ``Counter`` for what the methods promise."""

    task: Multiclass

    def __init__(self, task: Multiclass) -> None:
        self.task, self.classes = task, task.classes
        self.cells = self.classes**2 if task.matrix else 3 * self.classes
        self.kept = self.cells + len(task.hits)
        self.ignores = bool(task.ignored)
        self.width = self.kept + self.ignores + 2
        self.real_width = (self.kept if task.weighted else 0) + (2 if task.exact else 0)
        self.plain = not (task.weighted or task.samplewise or task.exact or task.hits or task.top_k > 1)

    # ---- at once

    def _at_once(self, preds: Tensor, target: Tensor) -> Totals:
        truth, label, scored = array_of(target).ravel(), array_of(preds), preds.ndim > target.ndim
        used, fine = self._used(truth), True
        if scored:
            scores = np.moveaxis(label, 1, -1).reshape(-1, label.shape[1]) if label.ndim > 2 else label
            label = scores.argmax(1) if len(scores) else np.zeros(0, np.int64)
            fine = self._fine(scores, label, used)
        else:
            label = label.ravel()
        samples = truth.size
        if used is not None:
            truth, label = truth[used], label[used]
        if not (fine and self._in_range(truth) and (scored or self._in_range(label))):
            raise InputError(self.task.complaint(preds, target, None))
        ledger = [samples - truth.size, samples, 1] if self.ignores else [samples, 1]
        return Totals(torch.from_numpy(np.concatenate((self._sums(truth, label), ledger))))

    def _used(self, truth: Array) -> Array | None:
        """Which targets are not ignored; None if all are."""
        if not self.ignores:
            return None
        used: Array = ~np.logical_or.reduce([equal_to(truth, index) for index in self.task.ignored])
        return used

    def _fine(self, scores: Array, label: Array, used: Array | None) -> bool:
        """Whether the largest score of every used sample is what was declared; NaN is the largest of its row."""
        check = within_unit if self.task.inputs == "probabilities" else without_nan
        if self.classes <= FEW and check(scores):  # reading few scores again is cheaper than picking out the largest
            return True
        best = scores[np.arange(len(label)), label]
        return check(best if used is None else best[used])

    def _in_range(self, numbers: Array) -> bool:
        return self.task.num_classes is None or within(numbers, self.classes)

    def _sums(self, truth: Array, label: Array) -> Array:
        if self.task.num_classes is None:
            return np.array([np.count_nonzero(truth == label), truth.size, truth.size], dtype=np.int64)
        truth, label = truth.astype(np.int64, copy=False), label.astype(np.int64, copy=False)
        if not self.task.matrix and self.classes > FEW:
            parts = (truth[truth == label], truth, label)
            return np.concatenate([np.bincount(part, minlength=self.classes) for part in parts])
        matrix = np.bincount(truth * self.classes + label, minlength=self.classes**2)
        if self.task.matrix:
            return matrix
        matrix = matrix.reshape(self.classes, self.classes)
        return np.concatenate((matrix.diagonal(), matrix.sum(1), matrix.sum(0)))

    # ---- deferred

    def _deferred(self, preds: Tensor, target: Tensor, weight: Tensor | None) -> Totals:
        label, good = self._decided(preds, target)
        hits = [self._among(preds, target, k) for k in self.task.hits]
        ignored = torch.zeros_like(good)
        for index in self.task.ignored:
            ignored = ignored | (target == index)
        truth = target.long()  # a byte is compared with 256 classes only after it was widened
        if self.task.num_classes is not None:
            good = good & (truth >= 0) & (truth < self.classes)
        if weight is not None:
            weight = weight.to(real_dtype(weight.device))
            good = good & unweighable(weight).logical_not()
        used = good & ignored.logical_not()
        codes = self._codes(truth, label.long(), used)
        masks = [hit & used for hit in hits]
        sums = [self._counted(codes, None), *(_row_sums(mask, self.task.samplewise) for mask in masks)]
        if self.ignores:
            sums.append(_row_sums(ignored, self.task.samplewise))
        sums.append(_row_sums(torch.ones_like(used), self.task.samplewise))  # the number of samples may be a symbol
        reals = []
        if weight is not None:
            weights = [torch.where(mask, weight, 0.0) for mask in (used, *masks)]
            reals = [self._counted(codes, weights[0]), *(_row_sums(w, self.task.samplewise) for w in weights[1:])]
        if self.task.exact:
            reals.append(self._exact((label == target) | ignored, weight))
        integers = torch.constant_pad_nd(torch.cat(sums, -1), (0, 1), 1)
        return Totals(integers, torch.cat(reals, -1) if reals else None)

    def _decided(self, preds: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Predicted labels, and which predictions are what was declared."""
        if preds.ndim == target.ndim:
            label, anything = preds.long(), torch.ones_like(preds, dtype=torch.bool)
            return label, anything if self.task.num_classes is None else (label >= 0) & (label < self.classes)
        best, label = preds.max(1)  # NaN is the largest, and not equal to itself
        if self.task.top_k > 1:
            label = torch.where(self._among(preds, target, self.task.top_k), target, label)
        return label, (best.clamp(0, 1) if self.task.inputs == "probabilities" else best) == best

    def _among(self, preds: Tensor, target: Tensor, k: int) -> Tensor:
        """Whether the target is among the k largest scores."""
        return (preds.topk(k, 1).indices == target.unsqueeze(1)).any(1)

    def _codes(self, truth: Tensor, label: Tensor, used: Tensor) -> Tensor:
        """A number for all that is counted, of shape (parts, *target): the last one for what is not used."""
        if self.task.matrix:
            return torch.where(used, truth * self.classes + label, self.cells).unsqueeze(0)
        right = used & (truth == label)
        if self.task.num_classes is None:
            truth = label = torch.zeros_like(truth)
        pairs = ((right, truth), (used, truth), (used, label))
        return torch.stack([torch.where(mask, code, self.classes) for mask, code in pairs])

    def _counted(self, codes: Tensor, weight: Tensor | None) -> Tensor:
        """The histogram of the codes: (cells,), or (N, cells) where samples are counted one by one."""
        codes = codes.flatten(2) if self.task.samplewise else codes.flatten(1).unsqueeze(1)
        parts, rows, elements = codes.shape
        bins = (self.cells if self.task.matrix else self.classes) + 1  # the last holds what is not used
        first = torch.arange(parts * rows, device=codes.device).view(parts, rows, 1) * bins
        places = codes + first
        if weight is None:
            sums = histogram(places, rows * parts * bins)
        else:
            spread = weight.reshape(1, rows, elements).expand(places.shape)
            sums = weighted_histogram(places, spread, rows * parts * bins)
        sums = sums.view(parts, rows, bins).narrow(-1, 0, bins - 1).transpose(0, 1).flatten(1)
        return sums if self.task.samplewise else sums.squeeze(0)

    def _exact(self, right: Tensor, weight: Tensor | None) -> Tensor:
        """Samples that are right throughout, and all samples."""
        exact = right.unsqueeze(-1).flatten(1).all(1)
        each = torch.stack((exact, torch.ones_like(exact)), -1).to(real_dtype(right.device))
        if weight is not None:
            each = each * weight.unsqueeze(-1).flatten(1).select(1, 0).unsqueeze(-1)
        return each if self.task.samplewise else each.sum(0)

    # ---- reading

    def _kept(self, totals: Totals) -> Tensor:
        return totals.reals if self.task.weighted and totals.reals is not None else totals.integers

    def counts(self, totals: Totals) -> Counts:
        """One class against the rest, of shape (C,) or (N, C)."""
        if self.task.matrix:
            matrix = self.matrix(totals)
            right, targets, predicted = matrix.diagonal(dim1=-2, dim2=-1), matrix.sum(-1), matrix.sum(-2)
        else:
            kept = self._kept(totals).narrow(-1, 0, self.cells)
            right, targets, predicted = kept.unflatten(-1, (3, self.classes)).unbind(-2)
        fp, fn = predicted - right, targets - right
        tn = targets.sum(-1, keepdim=True) - right - fp - fn
        if self.task.weighted and totals.reals is not None:  # what rounding leaves of a cell without samples is nothing
            samples = self.counts(Totals(totals.integers)).tn
            tn = torch.where(samples == 0, 0.0, tn.clamp(min=0))
        return Counts(tp=right, fp=fp, fn=fn, tn=tn)

    def matrix(self, totals: Totals) -> Tensor:
        """The confusion matrix, targets in rows and predictions in columns."""
        matrix: Tensor = self._kept(totals).narrow(-1, 0, self.cells).unflatten(-1, (self.classes, self.classes))
        return matrix

    def hits(self, totals: Totals, k: int) -> Tensor:
        """How often the target was among the k largest scores."""
        return self._kept(totals).select(-1, self.cells + self.task.hits.index(k))

    def exact(self, totals: Totals) -> tuple[Tensor, Tensor]:
        """Samples that are right throughout, and all samples."""
        assert totals.reals is not None  # declared exact
        return totals.reals.select(-1, -2), totals.reals.select(-1, -1)

    def ledger(self, totals: Totals) -> Ledger:
        """The bookkeeping; samples counted one by one are a batch each."""
        integers = totals.integers.sum(0) if self.task.samplewise else totals.integers
        first, length = (0, self.cells) if self.task.matrix else (self.classes, self.classes)
        *ignored, samples, updates = integers.narrow(0, self.kept, self.width - self.kept).tolist()
        return Ledger(
            updates=updates,
            ignored=sum(ignored),
            invalid=samples - sum(ignored) - int(integers.narrow(0, first, length).sum()),
            guessed_logits=0,
            guessed_probabilities=0,
        )


def _row_sums(values: Tensor, samplewise: bool) -> Tensor:
    kind = None if values.dtype == torch.bool else real_dtype(values.device)
    if samplewise:
        return values.flatten(1).sum(-1, keepdim=True, dtype=kind)
    return values.flatten().sum(-1, keepdim=True, dtype=kind)
