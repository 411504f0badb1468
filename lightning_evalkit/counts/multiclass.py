"""Counts predictions of one class among many.

The state holds for every class how often it is predicted rightly, missed, and predicted wrongly; or the whole confusion
matrix, if something needs it and for weights of few classes. The fourth one-vs-rest cell follows from these. Without a
matrix it is a difference, in which weights far below the largest are lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lightning_evalkit.counts.counter import ArrayTotals, EagerOrDeferred, Ledger, Totals, in_a_row
from lightning_evalkit.counts.counts import Counts, real_dtype
from lightning_evalkit.counts.decisions import unweighable
from lightning_evalkit.counts.deferral import is_deferred
from lightning_evalkit.counts.evidence import Evidence
from lightning_evalkit.counts.histogram import histogram, weighted_histogram
from lightning_evalkit.counts.layout import Cells, Layout
from lightning_evalkit.counts.numpy_path import Array, any_of, arg_max, array_of, within, within_unit, without_nan
from lightning_evalkit.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.inputs import Multiclass

PARTS = ("right", "missed", "wrongly_predicted")
FEW = 64
"""Up to this many classes, counting a small matrix is faster than three counts of classes."""
SMALL = 4_096
"""Up to this many samples, one call of NumPy is faster than several that are faster for each sample."""


class MulticlassCounter(EagerOrDeferred):
    """Counts a ``Multiclass`` declaration; see ``Counter`` for what the methods promise."""

    task: Multiclass

    def __init__(self, task: Multiclass) -> None:
        self.task, self.classes = task, task.classes
        self.matrix_kept, self.ignores = task.matrix or self._weighs_few(), bool(task.ignored)
        sizes = {"matrix": self.classes**2} if self.matrix_kept else dict.fromkeys(PARTS, self.classes)
        self.tables, hits = Cells(**sizes), Cells(hits=len(task.hits))
        self.masks = hits + Cells(ignored=int(self.ignores), samples=1)
        weights = self.tables + hits if task.weighted else Cells()
        # Of whole samples: those that are right throughout, and all.
        self.layout = Layout(self.tables + self.masks + Cells(updates=1), weights + Cells(exact=2 * task.exact))
        self.plain = not (task.weighted or task.samplewise or task.exact or task.hits or task.top_k > 1)
        self._ones = np.ones(min(self.classes, FEW), np.int64)

    def _weighs_few(self) -> bool:
        """Whether weights are stored in a matrix, whose cells are all sums, not differences."""
        return self.task.weighted and not self.task.samplewise and 1 < self.classes <= FEW

    # ---- at once

    def _at_once(self, preds: Tensor, target: Tensor, batches: int) -> ArrayTotals:
        truth, label, scored = array_of(target).ravel(), array_of(preds), preds.ndim > target.ndim
        used, fine = self._used(truth, target.dtype), True
        if scored:
            scores = np.moveaxis(label, 1, -1).reshape(-1, label.shape[1]) if label.ndim > 2 else label
            label = arg_max(scores) if len(scores) else np.zeros(0, np.int64)
            fine = self._fine(scores, label, used)
        else:
            label = label.ravel()
        samples = truth.size
        if used is not None:
            truth, label = truth[used], label[used]
        tables = self._tables(truth, label) if fine else None
        if tables is None:
            raise InputError(self.task.complaint(preds, target, None))
        integers, at = np.zeros(self.layout.integers.width, np.int64), self.layout.integers.slices
        for name, numbers in tables.items():
            integers[at[name]] = numbers
        if self.ignores:
            integers[at["ignored"]] = samples - truth.size
        integers[at["samples"]], integers[at["updates"]] = samples, batches
        return ArrayTotals(integers)

    def _used(self, truth: Array, kind: torch.dtype) -> Array | None:
        """Which targets are not ignored; None if all are."""
        if not self.ignores:
            return None
        used: Array = ~any_of(truth, self.task.marks(kind))
        return used

    def _fine(self, scores: Array, label: Array, used: Array | None) -> bool:
        """Whether the largest score of every used sample is as declared; NaN is the largest of its row."""
        check = within_unit if self.task.inputs == "probabilities" else without_nan
        if self.classes <= FEW and check(scores):  # reading few scores again is cheaper than picking out the largest
            return True
        best = scores[np.arange(len(label)), label]
        return check(best if used is None else best[used])

    def _tables(self, truth: Array, label: Array) -> dict[str, Any] | None:
        """The integers of each table of classes by the name of its cell; None if a class is out of range."""
        if self.task.num_classes is None:
            hits = np.count_nonzero(truth == label)
            errors = truth.size - hits
            return {"right": hits, "missed": errors, "wrongly_predicted": errors}
        truth, label = truth.astype(np.int64, copy=False), label.astype(np.int64, copy=False)
        if self.classes > FEW and not self.task.matrix:
            if not self._in_range(truth, label):
                return None
            places = (truth[truth == label], truth, label)
            right, positives, predicted = (np.bincount(part, minlength=self.classes) for part in places)
            return {"right": right, "missed": positives - right, "wrongly_predicted": predicted - right}
        codes = self._codes_at_once(truth, label)
        if codes is None:
            return None
        cells = np.bincount(codes, minlength=self.classes**2)
        if self.task.matrix:
            return {"matrix": cells}
        matrix = cells.reshape(self.classes, -1)
        right = matrix.diagonal()  # products with ones are twice as fast as sums of so few numbers
        missed, wrong = matrix.dot(self._ones) - right, self._ones.dot(matrix) - right
        return {"right": right, "missed": missed, "wrongly_predicted": wrong}

    def _in_range(self, truth: Array, label: Array) -> bool:
        return within(truth, self.classes) and within(label, self.classes)

    def _codes_at_once(self, truth: Array, label: Array) -> Array | None:
        """The place of each sample in the matrix; None if a class is out of range."""
        if truth.size > SMALL:
            return truth * self.classes + label if self._in_range(truth, label) else None
        try:  # this checks the range as well
            return np.ravel_multi_index((truth, label), (self.classes, self.classes))
        except ValueError:
            return None

    # ---- deferred

    def _deferred(self, preds: Tensor, target: Tensor, weight: Tensor | None) -> Totals:
        ahead = self._ahead(preds, target)
        label, good = self._decided(preds, target, ahead)
        hits = [ahead < k for k in self.task.hits]
        ignored = self.task.left_out(target)
        truth = target.long()  # a byte is widened before it is compared with 256 classes
        if self.task.num_classes is not None:
            good = good & (truth >= 0) & (truth < self.classes)
        there = torch.ones_like(good)  # summed like the others, because the number of samples may be symbolic
        if weight is not None:  # a weight of 0 removes a sample, whatever its values
            weight = weight.to(real_dtype(weight.device))
            good, there = good & unweighable(weight).logical_not(), weight != 0
            good, ignored = good & there, ignored & there
        used = good & ignored.logical_not()
        codes = self._codes(truth, label.long(), used)
        masks = [hit & used for hit in hits]
        rows = self.masks.flat(hits=masks, ignored=[ignored], samples=[there])
        sums = [self._counted(codes, None), *(_row_sums(row, self.task.samplewise) for row in rows)]
        reals = []
        if weight is not None:
            weights = [torch.where(mask, weight, 0.0) for mask in (used, *masks)]
            reals = [self._counted(codes, weights[0]), *(_row_sums(w, self.task.samplewise) for w in weights[1:])]
        if self.task.exact:
            reals.append(self._exact((label == target) | ignored, weight))
        integers = torch.constant_pad_nd(torch.cat(sums, -1), (0, 1), 1)
        return Totals(integers, in_a_row(reals))

    def _ahead(self, preds: Tensor, target: Tensor) -> Tensor:
        """How many classes rank before the target: larger scores, and equal ones of a lower number, as in an arg max.

        ``topk`` would take any of equal scores. If no rank is needed, the targets stand in.
        """
        if not self.task.hits and self.task.top_k == 1:
            return target
        place = target.long().clamp(0, self.classes - 1).unsqueeze(1)
        own, numbers = preds.gather(1, place), torch.arange(self.classes, device=preds.device)
        lower = numbers.view(-1, *[1] * (preds.ndim - 2)) < place
        return torch.where(lower, preds >= own, preds > own).sum(1)

    def _decided(self, preds: Tensor, target: Tensor, ahead: Tensor) -> tuple[Tensor, Tensor]:
        """Predicted labels, and which predictions are as declared."""
        if preds.ndim == target.ndim:
            label, anything = preds.long(), torch.ones_like(preds, dtype=torch.bool)
            return label, anything if self.task.num_classes is None else (label >= 0) & (label < self.classes)
        best, label = preds.max(1)  # the first of equal ones; NaN is the largest, and not equal to itself
        if self.task.top_k > 1:
            label = torch.where(ahead < self.task.top_k, target, label)
        return label, (best.clamp(0, 1) if self.task.inputs == "probabilities" else best) == best

    def _codes(self, truth: Tensor, label: Tensor, used: Tensor) -> Tensor:
        """A code for everything that is counted, of shape (parts, *target); the last code is for unused elements."""
        if self.matrix_kept:
            return torch.where(used, truth * self.classes + label, self.tables.width).unsqueeze(0)
        right = used & (truth == label)
        wrong = used ^ right
        if self.task.num_classes is None:
            truth = label = torch.zeros_like(truth)
        pairs = {"right": (right, truth), "missed": (wrong, truth), "wrongly_predicted": (wrong, label)}
        return torch.stack([torch.where(mask, code, self.classes) for mask, code in self.tables.parts(**pairs)])

    def _counted(self, codes: Tensor, weight: Tensor | None) -> Tensor:
        """The histogram of the codes: (cells,), or (N, cells) if samples are counted one by one."""
        codes = codes.flatten(2) if self.task.samplewise else codes.flatten(1).unsqueeze(1)
        parts, rows, elements = codes.shape
        bins = self.tables.width // parts + 1  # the last holds unused elements
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

    def _read(self, totals: Totals, name: str) -> Tensor:
        """A cell, weighted where declared."""
        if self.task.weighted and totals.reals is not None:
            return self.layout.reals.read(totals.reals, name)
        return self.layout.integers.read(totals.integers, name)

    def counts(self, totals: Totals) -> Counts:
        """One class against the rest, of shape (C,) or (N, C)."""
        if self.plain and not self.matrix_kept and totals.integers.ndim == 1 and not is_deferred(totals.integers):
            return self._counts_at_once(totals.integers.numpy())
        if self.matrix_kept:
            matrix = self.matrix(totals)
            right = matrix.diagonal(dim1=-2, dim2=-1)
            wrong = matrix - torch.diag_embed(right)
            fn, fp = wrong.sum(-1), wrong.sum(-2)
        else:
            right, fn, fp = (self._read(totals, part) for part in PARTS)
        if not self.task.weighted or totals.reals is None:
            return Counts(tp=right, fp=fp, fn=fn, tn=(right + fn).sum(-1, keepdim=True) - right - fp - fn)
        if self.matrix_kept and self.classes <= FEW:
            return Counts(tp=right, fp=fp, fn=fn, tn=_of_others(matrix))
        # A cell without samples is exactly 0, whatever rounding leaves.
        samples = self.counts(Totals(totals.integers)).tn
        elsewhere = (_without_each(fn) - fp).clamp(min=0)
        return Counts(tp=right, fp=fp, fn=fn, tn=torch.where(samples == 0, 0.0, _without_each(right) + elsewhere))

    def _counts_at_once(self, row: Array) -> Counts:
        """The same on the CPU, in half the time."""
        right, fn, fp = (row[self.layout.integers.slices[part]] for part in PARTS)
        tn = np.add.reduce(right) + np.add.reduce(fn) - right - fn - fp
        return Counts(*(torch.from_numpy(cell) for cell in (right, fp, fn, tn)))

    def matrix(self, totals: Totals) -> Tensor:
        """The confusion matrix, targets in rows and predictions in columns."""
        matrix: Tensor = self._read(totals, "matrix").unflatten(-1, (self.classes, self.classes))
        return matrix

    def hits(self, totals: Totals, k: int) -> Tensor:
        """How often the target was among the k largest scores."""
        return self._read(totals, "hits").select(-1, self.task.hits.index(k))

    def exact(self, totals: Totals) -> tuple[Tensor, Tensor]:
        """Samples that are right throughout, and all samples."""
        assert totals.reals is not None  # declared exact
        return self.layout.reals.one(totals.reals, "exact"), self.layout.reals.one(totals.reals, "exact", 1)

    def evidence(self, totals: Totals) -> Evidence:
        """The evidence of these totals."""
        matrix = self.matrix(totals) if self.matrix_kept else None
        hits = {k: self.hits(totals, k) for k in self.task.hits}
        return Evidence(self.task, self.counts(totals), matrix, hits)

    def sizes(self, integers: Tensor) -> Tensor:
        """The number of counted elements: right or missed ones, or the whole matrix."""
        names = ("matrix",) if self.matrix_kept else ("right", "missed")
        return torch.stack([self.layout.integers.read(integers, name).sum(-1) for name in names]).sum(0)

    def ledger(self, totals: Totals) -> Ledger:
        integers = totals.integers.sum(0) if self.task.samplewise else totals.integers
        names = ("ignored", "samples", "updates")
        ignored, samples, updates = map(sum, self.layout.integers.numbers(integers, *names))
        return Ledger(
            updates=updates,
            ignored=ignored,
            invalid=samples - ignored - int(self.sizes(integers)),
            guessed_logits=0,
            guessed_probabilities=0,
        )


def _of_others(matrix: Tensor) -> Tensor:
    """For every class the sum of the cells outside its row and column; nothing is subtracted."""
    others = 1 - torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    return (others @ matrix * others).sum(-1)


def _without_each(values: Tensor) -> Tensor:
    """For every class the sum over the others; nothing is subtracted."""
    sums = [part.cumsum(-1).roll(1, -1) for part in (values, values.flip(-1))]
    for part in sums:
        part.select(-1, 0).zero_()
    return sums[0] + sums[1].flip(-1)


def _row_sums(values: Tensor, samplewise: bool) -> Tensor:
    kind = None if values.dtype == torch.bool else real_dtype(values.device)
    if samplewise:
        return values.flatten(1).sum(-1, keepdim=True, dtype=kind)
    return values.flatten().sum(-1, keepdim=True, dtype=kind)
