"""Counts by group: the counts of any task for each of many groups, in one state.

Only the rows of groups that occur in a batch are touched, in place: an update costs as much for ten groups as for
100,000.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lightning_evalkit.counts.counter import Ledger, Totals
from lightning_evalkit.counts.decisions import guesses
from lightning_evalkit.counts.deferral import is_deferred
from lightning_evalkit.counts.grouped import EVENTS, Event, batch_of
from lightning_evalkit.counts.layout import Cells, Layout
from lightning_evalkit.errors import InputError
from lightning_evalkit.inputs import Declaration
from lightning_evalkit.inputs.declaration import checked_number, refuse_large

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts.counts import Counts
    from lightning_evalkit.counts.evidence import Evidence


@dataclass(frozen=True, repr=False)
class Sliced(Declaration):
    """A declaration whose samples belong to groups, numbered from 0."""

    of: Any = field(kw_only=True)
    num_groups: int = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        checked_number("num_groups", self.num_groups, least=1)

    def described(self) -> dict[str, Any]:
        """Describe the task, the number of groups, and their names."""
        return {**self.of.described(), "num_groups": self.num_groups, "group_names": self.names}

    def __repr__(self) -> str:
        return f"{self.of} in {self.num_groups} groups"

    def names_of_values(self, argument: str) -> tuple[str, ...] | None:
        """Groups may be called by name, and so may classes."""
        if argument == "groups":
            return self.names or tuple(map(str, range(self.num_groups)))
        named: tuple[str, ...] | None = self.of.names_of_values(argument)
        return named

    def arranged(
        self, preds: Tensor, target: Tensor, groups: Tensor, sample_weight: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
        """The tensors as the task arranges them, and the group of every element as if it were a target."""
        scores, truth, weight = self.of.arranged(preds, target, sample_weight)
        self._refuse_groups(groups, target)
        spread = groups.long().reshape(groups.shape + (1,) * (target.ndim - groups.ndim)).expand(target.shape)
        return scores, truth, weight, self.of.arranged(preds, spread, sample_weight)[1]

    def _refuse_groups(self, groups: Tensor, target: Tensor) -> None:
        if groups.is_floating_point() or groups.is_complex():
            raise InputError(f"expected groups to be numbers of groups (integers), got {groups.dtype}.")
        if groups.device != target.device:
            raise InputError(f"expected groups on the device of target, got {groups.device} and {target.device}.")
        if groups.shape != target.shape[:1]:
            raise InputError(
                f"expected one group for every sample, shape {tuple(target.shape[:1])}, got {tuple(groups.shape)}: "
                "flatten samples whose elements belong to different groups."
            )

    def complaint(self, preds: Tensor, target: Tensor, weight: Tensor | None, group: Tensor) -> str:
        """What is wrong with the values of a batch."""
        wrong = (group < 0) | (group >= self.num_groups)
        wrong = wrong & self.left_out(target).logical_not()
        if weight is not None:
            wrong = wrong & (weight != 0)
        if not bool(wrong.any()):
            said: str = self.of.complaint(preds, target, weight)
            return said
        of_samples = wrong.unsqueeze(-1).flatten(1).any(1)  # all its elements are in its group
        return (
            f"expected every group to be a number from 0 to {self.num_groups - 1}, got {int(group[wrong][0])} at "
            f"position {int(of_samples.nonzero()[0])} ({int(of_samples.sum())} of {len(of_samples)} values are wrong); "
            "declare a larger num_groups, or leave samples without a group out."
        )


class SliceCounter:
    """Adds the samples of every group to a separate row; ``each`` reads the rows."""

    def __init__(self, counter: Any, num_groups: int, group_names: tuple[str, ...] | None = None) -> None:
        task = counter.task
        self.task = Sliced(
            task.inputs, task.ignore_index, task.weighted, of=task, num_groups=num_groups, names=group_names
        )
        self.each = EVENTS[type(counter)](counter)
        integers, reals = (cells.repeated("groups", num_groups) for cells in self.each.layout)
        self.guesses = task.inputs == "auto"
        self.books = Cells(guessed=2 * self.guesses, ignored=1, invalid=1, updates=1)
        self.layout = Layout(integers + self.books, reals)
        refuse_large(self.layout.size, f"{num_groups:,} groups with {self.each.layout.size:,} numbers each")

    # ---- adding

    def add(self, totals: Totals, preds: Tensor, target: Tensor, groups: Tensor, sample_weight: Tensor | None) -> None:
        """Add a batch to totals. Raises for bad values on the CPU; elsewhere they are counted as invalid."""
        arranged = self.task.arranged(preds, target, groups, sample_weight)
        if self.each.plain and not is_deferred(preds):
            self._add_at_once(totals, *arranged)
        else:
            with torch.no_grad():
                self._add(totals, *arranged)

    def _add_at_once(self, totals: Totals, preds: Tensor, target: Tensor, weight: Tensor | None, group: Tensor) -> None:
        found = self.each.places(preds, target, group, self.task.num_groups)
        if found is None:
            raise InputError(self.task.complaint(preds, target, weight, group))
        memory = totals.integers.numpy()
        for numbers in found.places:
            if len(numbers) < len(memory):
                np.add.at(memory, numbers, 1)
            else:
                memory += np.bincount(numbers, minlength=len(memory))
        guessed = [target.numel() > 0 and found.score_kind == kind for kind in ("probabilities", "logits")]
        books = self.books.flat(guessed=guessed, ignored=(found.ignored,), invalid=(0,), updates=(1,))
        memory[-self.books.width :] += np.array(books, dtype=np.int64)

    def _add(self, totals: Totals, preds: Tensor, target: Tensor, weight: Tensor | None, group: Tensor) -> None:
        batch = batch_of(preds, target, weight, group, self.task.num_groups)
        events = self.each.events(batch)
        ignored, invalid = events.ignored, (events.used | events.ignored).logical_not()
        if batch.there is not None:  # a weight of 0 removes a sample, whatever its values
            ignored, invalid = ignored & batch.there, invalid & batch.there
        if not is_deferred(preds) and bool(invalid.any()):
            raise InputError(self.task.complaint(preds, target, weight, group))
        _scatter(totals.integers, self.each.layout.integers.width, events.integers)
        if totals.reals is not None:
            _scatter(totals.reals, self.each.layout.reals.width, events.reals)
        number = ignored.sum()
        guessed = guesses(events.probable, preds, number.unsqueeze(0), weight).unbind() if self.guesses else ()
        books = {"ignored": (number,), "invalid": (invalid.sum(),), "updates": (torch.ones_like(number),)}
        self._books(totals).add_(torch.stack(self.books.flat(guessed=guessed, **books)))

    # ---- reading

    def _books(self, totals: Totals) -> Tensor:
        """The bookkeeping of all groups together, which follows the rows."""
        return totals.integers.narrow(0, self.layout.integers.width - self.books.width, self.books.width)

    def by_group(self, totals: Totals) -> Totals:
        """The rows, (G, columns): totals that ``each`` reads as if every group were a sample."""
        shape = (self.task.num_groups, -1)
        integers = totals.integers.narrow(0, 0, self.layout.integers.width - self.books.width).view(shape)
        return Totals(integers, None if totals.reals is None else totals.reals.view(shape))

    def evidence(self, totals: Totals) -> Evidence:
        """The evidence of the task with the groups as first dimension."""
        evidence: Evidence = self.each.evidence(self.by_group(totals))
        return evidence

    def counts(self, totals: Totals) -> Counts:
        """The counts of the task with the groups as first dimension."""
        counts: Counts = self.each.counts(self.by_group(totals))
        return counts

    def sizes(self, totals: Totals) -> Tensor:
        """How many samples every group has."""
        sizes: Tensor = self.each.sizes(self.by_group(totals).integers)
        return sizes

    def ledger(self, totals: Totals) -> Ledger:
        """The bookkeeping of all groups together."""
        names = ("guessed", "ignored", "invalid", "updates")
        guessed, *others = self.books.numbers(self._books(totals), *names)
        probabilities, logits = guessed or (0, 0)
        ignored, invalid, updates = map(sum, others)
        return Ledger(updates, ignored, invalid, logits, probabilities)


def _scatter(totals: Tensor, columns: int, events: list[Event]) -> None:
    for group, column, amount in events:
        places = (group * columns + column).flatten()
        totals.index_add_(0, places, amount.flatten().to(totals.dtype))
