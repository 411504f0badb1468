"""Counts several yes-or-no predictions per sample: for each label as in a binary problem, and over samples.

Weights are stored as the four cells of each table, because a difference of large sums loses small ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lightning_evalkit.counts.counter import ArrayTotals, EagerOrDeferred, Ledger, Totals, in_a_row
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
    rows_with_any,
    true_per_column,
    true_per_row,
    within_unit,
    without_nan,
)
from lightning_evalkit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from lightning_evalkit.inputs import Multilabel


MARGINALS = ("tp", "fp", "positives", "negatives")


class MultilabelCounter(EagerOrDeferred):
    """Counts a ``Multilabel`` declaration; see ``Counter`` for what the methods promise.

    The ``rows`` of the declaration are sums over samples: "samples" (those with a used label, of all), "exact_match"
    (those without an error, of the former), then a name for each of ``row_values``, functions of the counts of every
    sample over its labels that are NaN if a sample has no value.
    """

    task: Multilabel

    def __init__(self, task: Multilabel, row_values: tuple[Callable[[Counts], Tensor], ...] = ()) -> None:
        self.task, self.row_values = task, row_values
        self.guesses = task.inputs == "auto"
        labels, rows = task.num_labels, len(task.sample_sums)
        predicted = Cells(tp=labels, fp=labels)
        self.marginals = predicted + Cells(positives=labels, negatives=labels)
        self.numbers = Cells(ignored=1, elements=1)
        self.weights = predicted + Cells(fn=labels, tn=labels) if task.weighted else Cells()
        self.rows = Cells(sample_sums=rows, sample_weights=rows)
        of_batch = Cells(guessed=2 * self.guesses, updates=1)
        self.layout = Layout(self.marginals + self.numbers + of_batch, self.weights + self.rows)
        self._block_rows = max(BLOCK // labels, 1)
        self.plain = not task.weighted and not task.samplewise
        self._cutting = Cutting(task, by_column=len(task.thresholds) > 1)

    # ---- at once

    def _at_once(self, preds: Tensor, target: Tensor, batches: int) -> ArrayTotals:
        scores, score_kind, given = read_at_once(self.task, preds)
        rows = self._block_rows
        if preds.shape[0] <= rows:
            sums = self._block(scores, target, score_kind)
        else:
            pairs = zip(scores.split(rows), target.split(rows), strict=True)
            sums = _added([self._block(block, truth, score_kind) for block, truth in pairs])
        if sums is None:
            raise InputError(self.task.complaint(preds, target, None))
        (integers, reals), begins = sums, self.layout.integers.begins
        if self.guesses and target.numel() and given != "labels":
            integers[begins["guessed"] + (given == "logits")] = batches
        integers[begins["updates"]] = batches
        return ArrayTotals(integers, reals)

    def _block(self, preds: Tensor, target: Tensor, score_kind: str) -> tuple[Array, Array | None] | None:
        """The sums over the elements of one block, and over its samples; None for values that are not declared.

        What concerns the batch is left 0.
        """
        scores, truth = array_of(preds), array_of(target)
        used = None
        if self.task.ignore_index is not None:
            used = ~any_of(truth, self.task.marks(target.dtype))
            scores, truth = np.where(used, scores, 0), np.where(used, truth, 0)
        positive, above = ones_among(truth), self._above(scores, score_kind, preds.dtype)
        if positive is None or above is None:
            return None
        if used is not None:
            above = above & used
        both = above & positive
        tp, predicted, positives = true_per_column(both, above, positive)
        looked = truth.shape[0] if used is None else true_per_column(used)[0]
        cells = self.layout.integers
        integers, at = np.zeros(cells.width, np.int64), cells.slices
        integers[at["tp"]], integers[at["fp"]] = tp, predicted - tp
        integers[at["positives"]], integers[at["negatives"]] = positives, looked - positives
        integers[at["elements"]] = truth.size
        if used is not None:
            integers[at["ignored"]] = used.size - np.count_nonzero(used)
        return integers, self._row_sums_of(both, above, positive, used) if self.task.sample_sums else None

    def _above(self, scores: Array, score_kind: str, kind: torch.dtype) -> Array | None:
        if score_kind == "labels":
            return ones_among(scores)
        if not (within_unit(scores) if score_kind == "probabilities" else without_nan(scores)):
            return None
        return self._cutting(scores, score_kind, kind)[0]

    def _row_sums_of(self, both: Array, above: Array, positive: Array, used: Array | None) -> Array:
        wrong, samples = rows_with_any(above ^ positive), above.shape[0]
        looked = samples if used is None else rows_with_any(used)
        exact = looked - wrong  # errors are always used
        if not self.row_values:
            kept = self.rows.flat(sample_sums=(looked, exact), sample_weights=(samples, looked))
            return np.array(kept, dtype=np.float64)
        masks = (both, above, positive, np.ones_like(above) if used is None else used)
        tp, predicted, positives, labels = (torch.from_numpy(true_per_row(mask)).double() for mask in masks)
        values, weights = self._values(tp, predicted - tp, positives, labels - positives, None)
        sums: list[Any] = self.rows.flat(
            sample_sums=([looked, exact], values.numpy()), sample_weights=([samples, looked], weights.numpy())
        )
        return np.concatenate(sums)

    # ---- deferred

    def _deferred(self, preds: Tensor, target: Tensor, weight: Tensor | None) -> Totals:
        above, bad, probable = self._decided(preds, weight)
        if weight is not None:
            weight = weight.to(real_dtype(weight.device))
            bad = bad | unweighable(weight)
        truth = checked(target, bad)
        positive, negative = truth == 1, truth == 0
        ignored = self.task.left_out(target)
        kept = ignored.logical_not()
        positive, negative = positive & kept, negative & kept
        marginals = {"tp": above & positive, "fp": above & negative, "positives": positive, "negatives": negative}
        masks = torch.stack(self.marginals.parts(**marginals), -2)  # (..., 4, L)
        # Elements are summed, because their number may be symbolic.
        apart = torch.stack(self.numbers.parts(ignored=ignored, elements=torch.ones_like(ignored)), -1)
        if weight is not None:  # a weight of 0 removes a sample, whatever its values
            there = weight != 0
            masks, apart = masks & there.unsqueeze(-2), apart & there.unsqueeze(-1)
        sums = [masks.sum(-3).flatten(-2), apart.sum((-3, -2))]
        if self.guesses:
            sums.append(guesses(probable, preds, sums[0], weight))
        integers = torch.constant_pad_nd(torch.cat(sums, -1), (0, 1), 1)
        reals = []
        if weight is not None:
            predicted, classes = masks.split(2, -2)
            cells = torch.cat((predicted, predicted ^ classes), -2)
            reals.append(torch.where(cells, weight.unsqueeze(-2), 0.0).sum(-3).flatten(-2))
        if self.task.sample_sums:
            rows = dict(zip(self.marginals.sizes, masks.sum(-1).to(real_dtype(masks.device)).unbind(-1), strict=True))
            tp, fp, positives, negatives = (rows[name] for name in MARGINALS)
            row_weight = torch.ones_like(tp) if weight is None else weight.select(-1, 0)
            reals.append(self._row_sums(tp, fp, positives, negatives, row_weight))
        return Totals(integers, in_a_row(reals))

    def _decided(self, preds: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
        above, bad, probable = decided(self.task, preds, weight)
        if len(above) == 1:
            return above[0], bad, probable
        columns = [mask.select(-1, label) for label, mask in enumerate(above)]
        return torch.stack(columns, -1), bad, probable

    def _row_sums(self, tp: Tensor, fp: Tensor, positives: Tensor, negatives: Tensor, weight: Tensor) -> Tensor:
        """The weighted sum of every row over samples, then the weight of the samples of every row."""
        weight = weight.masked_fill(unweighable(weight), 0.0)
        looked = torch.where(positives + negatives > 0, weight, 0.0)
        exact = torch.where((positives == tp) & (fp == 0), looked, 0.0)
        values, weights = self._values(tp, fp, positives, negatives, weight)
        sums, weighed = torch.stack((looked, exact, weight, looked), -1).sum(-2).split(2, -1)
        return torch.cat(self.rows.flat(sample_sums=(sums, values), sample_weights=(weighed, weights)), -1)

    def _values(
        self, tp: Tensor, fp: Tensor, positives: Tensor, negatives: Tensor, weight: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The weighted sum of every row function over samples, and the weight of the samples that have a value."""
        if not self.row_values:
            nothing = tp.new_zeros((*tp.shape[:-1], 0))
            return nothing, nothing
        counts = Counts(tp=tp, fp=fp, fn=positives - tp, tn=negatives - fp)
        values = torch.stack([value(counts) for value in self.row_values], -1)
        weights = torch.ones_like(values) if weight is None else weight.unsqueeze(-1).expand(values.shape)
        weights = torch.where(values.isnan(), 0.0, weights)
        return torch.where(weights == 0, 0.0, values * weights).sum(-2), weights.sum(-2)

    # ---- reading

    def counts(self, totals: Totals) -> Counts:
        """One table per label, of shape (L,) or (N, L)."""
        if self.task.weighted and totals.reals is not None:
            return Counts(**{name: self.layout.reals.read(totals.reals, name) for name in self.weights.sizes})
        tp, fp, positives, negatives = (self.layout.integers.read(totals.integers, name) for name in MARGINALS)
        return Counts(tp=tp, fp=fp, fn=positives - tp, tn=negatives - fp)

    def sample_sums(self, totals: Totals, name: str) -> tuple[Tensor, Tensor]:
        """The sum of a row over samples, and the number of these samples."""
        assert totals.reals is not None  # there are rows
        cells, place = self.layout.reals, self.task.sample_sums.index(name)
        return cells.one(totals.reals, "sample_sums", place), cells.one(totals.reals, "sample_weights", place)

    def evidence(self, totals: Totals) -> Evidence:
        """The evidence of these totals."""
        rows = {name: self.sample_sums(totals, name) for name in self.task.sample_sums}
        return Evidence(self.task, self.counts(totals), sample_sums=rows)

    def ledger(self, totals: Totals) -> Ledger:
        integers = totals.integers.sum(0) if self.task.samplewise else totals.integers
        names = ("positives", "negatives", "ignored", "elements", "guessed", "updates")
        *classes, ignored, elements, guessed, updates = self.layout.integers.numbers(integers, *names)
        probabilities, logits = guessed or (0, 0)
        return Ledger(
            updates=sum(updates),
            ignored=sum(ignored),
            invalid=sum(elements) - sum(ignored) - sum(map(sum, classes)),
            guessed_logits=logits,
            guessed_probabilities=probabilities,
        )


def _added(sums: list[tuple[Array, Array | None] | None]) -> tuple[Array, Array | None] | None:
    """The sums over all blocks; None if a block has values that are not declared."""
    blocks = [block for block in sums if block is not None]
    if len(blocks) < len(sums):
        return None
    rows = [row for _, row in blocks if row is not None]
    return np.sum([columns for columns, _ in blocks], axis=0), np.sum(rows, axis=0) if rows else None
