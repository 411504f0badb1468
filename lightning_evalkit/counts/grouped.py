"""Turns a batch into events for the counts of groups: each adds an amount at a column of a group's row.

Rows have only the columns that a task distinguishes, and an element of a batch adds to very few of them. The counter of
the task reads the sums as if every group were one sample.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from lightning_evalkit.counts.binary import BinaryCounter
from lightning_evalkit.counts.counts import Counts, real_dtype
from lightning_evalkit.counts.decisions import checked, decided, read_at_once, unweighable
from lightning_evalkit.counts.layout import Cells, Layout
from lightning_evalkit.counts.multiclass import MulticlassCounter
from lightning_evalkit.counts.multilabel import MultilabelCounter
from lightning_evalkit.counts.numpy_path import Array, any_of, array_of, ones_among, within

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts.counter import Totals
    from lightning_evalkit.inputs import Declaration


class Batch(NamedTuple):
    """Tensors as the task arranges them, with the group of every element.

    ``wrong`` marks elements that may not count, ``there`` those with a weight above 0, if there are weights.
    """

    preds: Tensor
    target: Tensor
    weight: Tensor | None
    group: Tensor
    wrong: Tensor
    there: Tensor | None


class Event(NamedTuple):
    """Amounts, or masks, at columns of the rows of groups."""

    group: Tensor
    column: Any
    amount: Tensor


class Events(NamedTuple):
    """The events of a batch; elements with weight that are neither used nor ignored are invalid."""

    used: Tensor
    ignored: Tensor
    integers: list[Event]
    reals: list[Event]
    probable: Tensor | None = None
    """Whether the scores were guessed to be probabilities, of shape (1,)."""


class Places(NamedTuple):
    """On the CPU: the cells to increment, the number of ignored elements, and the kind of scores."""

    places: list[Array]
    ignored: int
    score_kind: str


class BinaryEvents(BinaryCounter):
    """Four columns for each threshold: not above it and positive, negative; above it and positive, negative."""

    def __init__(self, counter: BinaryCounter) -> None:
        super().__init__(counter.task)
        tables = Cells(tables=4 * len(self.task.thresholds))
        self.layout = Layout(tables, tables if self.task.weighted else Cells())

    def places(self, preds: Tensor, target: Tensor, group: Tensor, groups: int) -> Places | None:
        """The increments of a batch on the CPU; None for a bad value."""
        read, score_kind, given = read_at_once(self.task, preds)
        scores, truth, row = array_of(read), array_of(target), array_of(group)
        elements = truth.size
        if self.ignores:
            used = ~any_of(truth, self.task.marks(target.dtype))
            scores, truth, row = scores[used], truth[used], row[used]
        positive, above = ones_among(truth), self._above(scores, score_kind, preds.dtype)
        if positive is None or above is None or not within(row, groups):
            return None
        negative, places = np.logical_not(positive).view(np.uint8), []
        for place, mask in enumerate(above):
            found = row * self.layout.integers.width
            found += (mask.view(np.uint8) << 1) | negative
            places.append(found + 4 * place if place else found)
        return Places(places, elements - truth.size, given)

    def events(self, batch: Batch) -> Events:
        """One of four cells for each element at every threshold."""
        above, bad, probable = decided(self.task, batch.preds, batch.weight)
        ignored, positive, negative = _classes(self.task, batch, bad)
        used = positive | negative
        cells = [Event(batch.group, _cell(mask, negative) + 4 * place, used) for place, mask in enumerate(above)]
        return Events(used, ignored, cells, _weighed(cells, batch.weight), probable)

    def counts(self, totals: Totals) -> Counts:
        """The counts, of shape (G, T)."""
        return _read_cells(totals.integers if totals.reals is None else totals.reals)

    def sizes(self, integers: Tensor) -> Tensor:
        """The elements of each group."""
        return integers.narrow(-1, 0, 4).sum(-1)


class MulticlassEvents(MulticlassCounter):
    """The columns of the task: right, missed and wrongly predicted for every class, or the matrix; and hits."""

    def __init__(self, counter: MulticlassCounter) -> None:
        super().__init__(counter.task)
        self.layout, self.plain = Layout(self.tables + Cells(hits=len(self.task.hits)), self.layout.reals), False

    def events(self, batch: Batch) -> Events:
        """The cell of each element in the matrix, or right, missed and wrongly predicted; and whether it is a hit."""
        ahead = self._ahead(batch.preds, batch.target)
        label, good = self._decided(batch.preds, batch.target, ahead)
        truth, ignored = batch.target.long(), self.task.left_out(batch.target)
        used = good & (truth.clamp(0, self.classes - 1) == truth) & (batch.wrong | ignored).logical_not()
        parts = self._codes(truth, label.long(), used)
        unused = self.tables.width // len(parts)
        pairs = [(code + part * self.classes, code != unused) for part, code in enumerate(parts.unbind())]
        cells = [Event(batch.group, column * there, there) for column, there in pairs]
        for place, k in enumerate(self.task.hits):
            cells.append(Event(batch.group, self.tables.width + place, (ahead < k) & used))
        return Events(used, ignored, cells, _weighed(cells, batch.weight))

    def _weighs_few(self) -> bool:
        return False  # a matrix for each of many groups would be large


class MultilabelEvents(MultilabelCounter):
    """Four columns for each label as in a binary problem, and one for samples, whose number no label gives."""

    def __init__(self, counter: MultilabelCounter) -> None:
        super().__init__(counter.task, counter.row_values)
        tables = Cells(tables=4 * self.task.num_labels)
        self.layout = Layout(tables + Cells(samples=1), (tables if self.task.weighted else Cells()) + self.rows)
        self.plain = False

    def events(self, batch: Batch) -> Events:
        """One of four cells for each label of a sample, and one for the sample."""
        above, bad, _ = self._decided(batch.preds, batch.weight)
        ignored, positive, negative = _classes(self.task, batch, bad)
        used = positive | negative
        first = 4 * torch.arange(self.task.num_labels, device=used.device)
        cells = [Event(batch.group, _cell(above, negative) + first, used)]
        sample = Event(batch.group.select(-1, 0), self.layout.integers.begins["samples"], used.any(-1))
        rows = self._row_events(batch, above, positive, negative) if self.task.sample_sums else []
        return Events(used, ignored, [*cells, sample], _weighed(cells, batch.weight) + rows)

    def _row_events(self, batch: Batch, above: Tensor, positive: Tensor, negative: Tensor) -> list[Event]:
        """The values of each sample that are summed over samples."""
        masks, kind = (above & positive, above & negative, positive, negative), real_dtype(above.device)
        tp, fp, positives, negatives = (mask.sum(-1, keepdim=True).to(kind) for mask in masks)
        weight = torch.ones_like(tp) if batch.weight is None else batch.weight.narrow(-1, 0, 1)
        weight = weight.masked_fill(batch.wrong.narrow(-1, 0, 1), 0.0)
        values = self._row_sums(tp, fp, positives, negatives, weight)
        last = self.layout.reals.width
        columns = torch.arange(last - self.rows.width, last, device=values.device)
        return [Event(batch.group.narrow(-1, 0, 1), columns, values)]

    def counts(self, totals: Totals) -> Counts:
        """The counts, of shape (G, L)."""
        if self.task.weighted and totals.reals is not None:
            return _read_cells(self.layout.reals.read(totals.reals, "tables"))
        return _read_cells(self.layout.integers.read(totals.integers, "tables"))

    def sizes(self, integers: Tensor) -> Tensor:
        """The number of samples with a used label, by group."""
        return self.layout.integers.one(integers, "samples")


EVENTS: dict[type, Any] = {
    BinaryCounter: BinaryEvents,
    MulticlassCounter: MulticlassEvents,
    MultilabelCounter: MultilabelEvents,
}
"""The events class of each task's counter."""


def batch_of(preds: Tensor, target: Tensor, weight: Tensor | None, group: Tensor, groups: int) -> Batch:
    """A batch with all groups in range; elements with another group or an invalid weight are marked wrong."""
    inside, there = group.clamp(0, groups - 1), None
    wrong = inside != group
    if weight is not None:
        weight = weight.to(real_dtype(weight.device))
        there = weight != 0
        wrong = wrong | unweighable(weight) | there.logical_not()
    return Batch(preds, target, weight, inside, wrong, there)


def _classes(task: Declaration, batch: Batch, bad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Which elements are ignored, positive and negative; invalid ones are none of these."""
    ignored = task.left_out(batch.target)
    truth = checked(batch.target, bad | batch.wrong | ignored)
    return ignored, truth == 1, truth == 0


def _cell(above: Tensor, negative: Tensor) -> Tensor:
    return 2 * above + negative


def _read_cells(kept: Tensor) -> Counts:
    fn, tn, tp, fp = kept.unflatten(-1, (-1, 4)).unbind(-1)
    return Counts(tp=tp, fp=fp, fn=fn, tn=tn)


def _weighed(cells: list[Event], weight: Tensor | None) -> list[Event]:
    if weight is None:
        return []
    return [Event(group, column, torch.where(amount, weight, 0.0)) for group, column, amount in cells]
