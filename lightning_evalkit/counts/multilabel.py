"""Counting several yes-or-no predictions per sample: for each label as in a binary problem, and over samples.

Totals, for L labels: tp × L, fp × L, positives × L, negatives × L, ignored, elements, [batches guessed to be
probabilities, logits,] updates; as reals, where declared: tp × L, fp × L, fn × L, tn × L weighted (a difference of sums
would lose what is small beside them), sums over samples and their weights
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


class MultilabelCounter(EagerOrDeferred):
    """Counts a ``Multilabel`` declaration; see ``Counter`` for what the methods promise.

    The ``rows`` of the declaration are sums over samples: "samples" (those with a label to look at, of all),
    "exact_match" (those without an error, of the former), and behind these two a name for each of ``row_values``,
    functions of the counts of every sample over its labels, NaN where a sample has no value.
    """

    task: Multilabel

    def __init__(self, task: Multilabel, row_values: tuple[Callable[[Counts], Tensor], ...] = ()) -> None:
        self.task, self.row_values = task, row_values
        self.marginals = 4 * task.num_labels
        self.guesses = task.inputs == "auto"
        self.width = self.marginals + 1 + 2 * self.guesses + 2
        self.real_width = (self.marginals if task.weighted else 0) + 2 * len(task.sample_sums)
        self.plain = not task.weighted and not task.samplewise

    # ---- at once

    def _at_once(self, preds: Tensor, target: Tensor) -> Totals:
        score_kind = self.task.score_kind(preds)
        if score_kind == "auto":
            score_kind = "probabilities" if within_unit(array_of(preds)) else "logits"
        rows = max(BLOCK // self.task.num_labels, 1)
        blocks = [(preds, target)] if len(preds) <= rows else zip(preds.split(rows), target.split(rows), strict=True)
        sums = [self._block(scores, truth, score_kind) for scores, truth in blocks]
        if any(part is None for part in sums):
            raise InputError(self.task.complaint(preds, target, None))
        columns, reals = sums[0] if len(sums) == 1 else _added(sums)  # type: ignore[misc]
        elements, integers = target.numel(), np.empty(self.width, dtype=np.int64)
        integers[: columns.size], integers[columns.size], integers[-1] = columns, elements, 1
        if self.guesses:
            integers[-3:-1] = elements > 0 and score_kind == "probabilities", elements > 0 and score_kind == "logits"
        return Totals(torch.from_numpy(integers), torch.from_numpy(reals) if self.task.sample_sums else None)

    def _block(self, preds: Tensor, target: Tensor, score_kind: str) -> tuple[Array, Array] | None:
        """The sums over one block, up to the ignored, and over its samples; None for values that are not declared."""
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
        tp, predicted, positives = true_per_column(both), true_per_column(above), true_per_column(positive)
        looked = float(len(truth)) if used is None else true_per_column(used)
        ignored = 0 if used is None else used.size - np.count_nonzero(used)
        sums: list[Any] = [tp, predicted - tp, positives, looked - positives, [ignored]]
        columns: Array = np.concatenate(sums, dtype=np.float64)
        return columns, self._row_sums_of(both, above, positive, used)

    def _above(self, scores: Array, score_kind: str, kind: torch.dtype) -> Array | None:
        if score_kind == "labels":
            return ones_among(scores)
        if not (within_unit(scores) if score_kind == "probabilities" else without_nan(scores)):
            return None
        cuts = self.task.cuts(score_kind, kind)
        if len(cuts) == 1:
            return above_cuts(scores, cuts)[0]
        above: Array = scores > np.array(cuts, dtype=scores.dtype)  # which holds numbers of the type exactly
        return above

    def _row_sums_of(self, both: Array, above: Array, positive: Array, used: Array | None) -> Array:
        if not self.task.sample_sums:
            return np.zeros(0)
        wrong, samples = np.count_nonzero(true_per_row(above ^ positive)), len(above)
        looked = samples if used is None else np.count_nonzero(true_per_row(used))
        exact = looked - wrong  # an error is always looked at
        if not self.row_values:
            return np.array([looked, exact, samples, looked], dtype=np.float64)
        masks = (both, above, positive, np.ones_like(above) if used is None else used)
        tp, predicted, positives, labels = (torch.from_numpy(true_per_row(mask)).double() for mask in masks)
        values, weights = self._values(tp, predicted - tp, positives, labels - positives, None)
        sums: list[Any] = [[looked, exact], values.numpy(), [samples, looked], weights.numpy()]
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
        masks = torch.stack((above & positive, above & negative, positive, negative), -2)  # (..., 4, L)
        apart = torch.stack(
            (ignored, torch.ones_like(ignored)), -1
        )  # elements are summed: their number may be a symbol
        if weight is not None:  # what weighs nothing is not there, whatever its values
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
            tp, fp, positives, negatives = masks.sum(-1).to(real_dtype(masks.device)).unbind(-1)
            row_weight = torch.ones_like(tp) if weight is None else weight.select(-1, 0)
            reals.append(self._row_sums(tp, fp, positives, negatives, row_weight))
        return Totals(integers, torch.cat(reals, -1) if reals else None)

    def _decided(self, preds: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
        above, bad, probable = decided(self.task, preds, weight)
        if len(above) == 1:
            return above[0], bad, probable
        columns = [mask.select(-1, label) for label, mask in enumerate(above)]
        return torch.stack(columns, -1), bad, probable

    def _row_sums(self, tp: Tensor, fp: Tensor, positives: Tensor, negatives: Tensor, weight: Tensor) -> Tensor:
        """For every row its weighted sum over samples, then for every row the weight of the samples it is of."""
        weight = weight.masked_fill(unweighable(weight), 0.0)
        looked = torch.where(positives + negatives > 0, weight, 0.0)
        exact = torch.where((positives == tp) & (fp == 0), looked, 0.0)
        values, weights = self._values(tp, fp, positives, negatives, weight)
        kept = torch.stack((looked, exact, weight, looked), -1).sum(-2)
        return torch.cat((kept.narrow(-1, 0, 2), values, kept.narrow(-1, 2, 2), weights), -1)

    def _values(
        self, tp: Tensor, fp: Tensor, positives: Tensor, negatives: Tensor, weight: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """For every row function its weighted sum over samples, and the weight of the samples that have a value."""
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
        weighted = self.task.weighted and totals.reals is not None
        kept: Any = totals.reals if weighted else totals.integers
        parts = kept.narrow(-1, 0, self.marginals).unflatten(-1, (4, self.task.num_labels)).unbind(-2)
        if weighted:
            return Counts(*parts)
        tp, fp, positives, negatives = parts
        return Counts(tp=tp, fp=fp, fn=positives - tp, tn=negatives - fp)

    def sample_sums(self, totals: Totals, name: str) -> tuple[Tensor, Tensor]:
        """The sum of a row over samples, and over how many samples it is."""
        assert totals.reals is not None  # there are rows
        rows = len(self.task.sample_sums)
        place = totals.reals.shape[-1] - 2 * rows + self.task.sample_sums.index(name)
        return totals.reals.select(-1, place), totals.reals.select(-1, place + rows)

    def ledger(self, totals: Totals) -> Ledger:
        """The bookkeeping; samples counted one by one are a batch each."""
        integers = totals.integers.sum(0) if self.task.samplewise else totals.integers
        ignored, elements, *guessed, updates = integers.narrow(0, self.marginals, self.width - self.marginals).tolist()
        counted = int(integers.narrow(0, self.marginals // 2, self.marginals // 2).sum())
        probabilities, logits = guessed or (0, 0)
        return Ledger(
            updates=updates,
            ignored=ignored,
            invalid=elements - counted - ignored,
            guessed_logits=logits,
            guessed_probabilities=probabilities,
        )


def _added(sums: list[Any]) -> tuple[Array, Array]:
    columns, reals = (np.sum(parts, axis=0) for parts in zip(*sums, strict=True))
    return columns, reals
