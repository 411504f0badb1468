"""Counting by group: the counts of any declaration for each of many groups, in one state.

A batch becomes events, each an amount at a column in the row of a group. Only the rows of groups that occur are
touched, in place: an update costs as much for ten groups as for 100,000.

Totals: for every group the columns of its task (as its own counter has them, without the ledger), then ignored,
invalid, updates; as reals, where declared: for every group the reals of its task
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from lightning_evalkit.counts.binary import BinaryCounter
from lightning_evalkit.counts.counter import Ledger, Totals, is_deferred
from lightning_evalkit.counts.counts import real_dtype
from lightning_evalkit.counts.decisions import checked, decided, unweighable
from lightning_evalkit.counts.multiclass import MulticlassCounter
from lightning_evalkit.counts.multilabel import MultilabelCounter
from lightning_evalkit.errors import DeclarationError, InputError
from lightning_evalkit.inputs import Binary, Declaration

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts.counts import Counts

LARGEST_STATE = 2 * 2**30
"""Bytes of one copy of the state."""


class Batch(NamedTuple):
    """Tensors of one shape, as the task arranges targets; ``wrong`` are elements whose group or weight is."""

    preds: Tensor
    target: Tensor
    weight: Tensor | None
    group: Tensor
    wrong: Tensor


class Event(NamedTuple):
    """Amounts, or whether there is one, at columns of the rows of groups."""

    group: Tensor
    column: Any
    amount: Tensor


class Events(NamedTuple):
    """What a batch adds up to; elements that are neither used nor ignored are not what was declared."""

    used: Tensor
    ignored: Tensor
    integers: list[Event]
    reals: list[Event]


# ---- what a task tells apart; its own counter reads the sums, as if each group were one sample


class BinaryEvents(BinaryCounter):
    """An element has a class, and is above thresholds."""

    def __init__(self, counter: BinaryCounter) -> None:
        super().__init__(counter.task)
        self.columns = self.marginals

    def events(self, batch: Batch) -> Events:
        """For each element one of its class, and one for each threshold that it is above."""
        above, bad, _ = decided(self.task, batch.preds)
        ignored, positive, negative = _classes(self.task, batch, bad)
        used, side, thresholds = positive | negative, negative.long(), len(above)
        cells = [Event(batch.group, side * thresholds + place, mask & used) for place, mask in enumerate(above)]
        cells.append(Event(batch.group, side + 2 * thresholds, used))
        return Events(used, ignored, cells, _weighed(cells, batch.weight))

    def sizes(self, integers: Tensor) -> Tensor:
        """The elements of each group."""
        return integers.narrow(-1, self.marginals - 2, 2).sum(-1)


class MulticlassEvents(MulticlassCounter):
    """An element has a target and a prediction."""

    def __init__(self, counter: MulticlassCounter) -> None:
        super().__init__(counter.task)
        self.columns = self.kept

    def events(self, batch: Batch) -> Events:
        """For each element its cell of the matrix, or right, target and prediction; and whether it is a hit."""
        label, good = self._decided(batch.preds, batch.target)
        truth, ignored = batch.target.long(), _ignored(self.task, batch.target)
        used = good & (truth.clamp(0, self.classes - 1) == truth) & (batch.wrong | ignored).logical_not()
        unused = self.cells if self.task.matrix else self.classes
        cells = [
            Event(batch.group, torch.where(used, code, 0) + part * self.classes, code != unused)
            for part, code in enumerate(self._codes(truth, label.long(), used).unbind())
        ]
        for place, k in enumerate(self.task.hits):
            hit = self._among(batch.preds, batch.target, k)
            cells.append(Event(batch.group, self.cells + place, hit & used))
        return Events(used, ignored, cells, _weighed(cells, batch.weight))

    def sizes(self, integers: Tensor) -> Tensor:
        """The elements of each group."""
        first, length = (0, self.cells) if self.task.matrix else (self.classes, self.classes)
        return integers.narrow(-1, first, length).sum(-1)


class MultilabelEvents(MultilabelCounter):
    """A label of a sample has a class and a prediction, and a sample has values of its own."""

    def __init__(self, counter: MultilabelCounter) -> None:
        super().__init__(counter.task, counter.row_values)
        self.columns = self.marginals + 1  # behind those of labels the number of samples, which no label tells

    def events(self, batch: Batch) -> Events:
        """For each label of a sample its class, and whether it is predicted; for each sample that it is there."""
        above, bad, _ = self._decided(batch.preds)
        ignored, positive, negative = _classes(self.task, batch, bad)
        used, labels = positive | negative, self.task.num_labels
        column = negative * labels + torch.arange(labels, device=used.device)
        cells = [Event(batch.group, column, above & used), Event(batch.group, column + 2 * labels, used)]
        sample = Event(batch.group.select(-1, 0), self.marginals, used.any(-1))
        rows = self._row_events(batch, above & positive, above & negative, positive, negative)
        return Events(used, ignored, [*cells, sample], _weighed(cells, batch.weight) + rows)

    def _row_events(self, batch: Batch, *masks: Tensor) -> list[Event]:
        """The sums over samples, of each sample by itself."""
        if not self.task.rows:
            return []
        kind = real_dtype(batch.target.device)
        tp, fp, positives, negatives = (mask.sum(-1, keepdim=True).to(kind) for mask in masks)
        weight = torch.ones_like(tp) if batch.weight is None else batch.weight.narrow(-1, 0, 1)
        weight = weight.masked_fill(batch.wrong.narrow(-1, 0, 1), 0.0)
        values = self._row_sums(tp, fp, positives, negatives, weight)
        columns = torch.arange(self.real_width - values.shape[-1], self.real_width, device=values.device)
        return [Event(batch.group.narrow(-1, 0, 1), columns, values)]

    def sizes(self, integers: Tensor) -> Tensor:
        """The samples of each group that have a label to look at."""
        return integers.select(-1, self.marginals)


EVENTS: dict[type, Any] = {
    BinaryCounter: BinaryEvents,
    MulticlassCounter: MulticlassEvents,
    MultilabelCounter: MultilabelEvents,
}


def _ignored(task: Declaration, target: Tensor) -> Tensor:
    ignored = torch.zeros_like(target, dtype=torch.bool)
    for index in task.ignored:
        ignored = ignored | (target == index)
    return ignored


def _classes(task: Declaration, batch: Batch, bad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Which elements are ignored, positive and negative; what is not as declared is none of these."""
    ignored, truth = _ignored(task, batch.target), checked(batch.target, bad | batch.wrong)
    used = ignored.logical_not()
    return ignored, (truth == 1) & used, (truth == 0) & used


def _weighed(cells: list[Event], weight: Tensor | None) -> list[Event]:
    if weight is None:
        return []
    return [event._replace(amount=torch.where(event.amount, weight, 0.0)) for event in cells]


# ---- any task by group


@dataclass(frozen=True, repr=False)
class Sliced(Declaration):
    """A declaration whose samples belong to groups, numbered from 0."""

    of: Declaration = field(default_factory=Binary)
    num_groups: int = 1

    def described(self) -> dict[str, Any]:
        """The declaration of the task, with the number of groups."""
        return {**self.of.described(), "num_groups": self.num_groups}

    def __repr__(self) -> str:
        return f"{self.of} in {self.num_groups} groups"

    def arranged_groups(self, target: Tensor, groups: Tensor) -> Tensor:
        """The group of every element of the target."""
        if groups.is_floating_point() or groups.is_complex():
            raise InputError(f"expected groups to be numbers of groups (integers), got {groups.dtype}.")
        if groups.shape != target.shape[:1]:
            raise InputError(
                f"expected one group for every sample, shape {tuple(target.shape[:1])}, got {tuple(groups.shape)}: "
                "flatten samples whose elements belong to different groups."
            )
        return groups.long().reshape(groups.shape + (1,) * (target.ndim - 1)).expand(target.shape)

    def complaint_about_groups(self, groups: Tensor, wrong: Tensor) -> str:
        """Which groups there are not."""
        place = int(wrong.flatten().nonzero()[0])
        return (
            f"expected every group to be a number from 0 to {self.num_groups - 1}, got "
            f"{int(groups.flatten()[place])} at position {place} ({int(wrong.sum())} of {wrong.numel()} values are "
            "wrong); declare a larger num_groups, or leave samples without a group out."
        )


class SliceCounter:
    """Adds the samples of each group to a row of its own."""

    def __init__(self, counter: Any, num_groups: int) -> None:
        of = counter.task
        self.task = Sliced(of.inputs, of.ignore_index, of.weighted, of=of, num_groups=num_groups)
        self.each = EVENTS[type(counter)](counter)
        self.width, self.real_width = num_groups * self.each.columns + 3, num_groups * self.each.real_width
        if 8 * (self.width + self.real_width) > LARGEST_STATE:
            raise DeclarationError(self._too_large())

    def _too_large(self) -> str:
        numbers = self.each.columns + self.each.real_width
        return (
            f"expected a state of at most {LARGEST_STATE / 2**30:g} GiB, got {self.task.num_groups:,} groups with "
            f"{numbers:,} numbers each, {8 * (self.width + self.real_width) / 2**30:.1f} GiB: declare fewer groups, "
            "classes, labels or thresholds, or no confusion matrix."
        )

    def add(
        self, totals: Totals, preds: Tensor, target: Tensor, groups: Tensor, sample_weight: Tensor | None
    ) -> None:
        """Add a batch to totals. Raises for bad values on the CPU; elsewhere they are counted as invalid."""
        spread = self.task.arranged_groups(target, groups)
        preds, truth, weight = self.task.of.arranged(preds, target, sample_weight)
        group = self.task.of.arranged(preds, spread, sample_weight)[1]
        with torch.no_grad():
            batch = self._batch(preds, truth, weight, group)
            events = self.each.events(batch)
            if not is_deferred(preds):
                self._refuse_invalid(batch, events, group)
            self._add(totals, events)
