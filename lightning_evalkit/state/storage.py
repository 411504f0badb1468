"""Stores totals between updates: summed in place, or row by row if every sample has its own result.

Only a batch is added to the state in place; everything else replaces the state, so a reference to the old one, such as
that of torchmetrics' ``Running``, keeps its values. A compiled step takes the state as an input, new or not. Both
storages use the attributes of a metric under the names that torchmetrics knows, so that a stock MetricCollection can
share them.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Protocol

import torch

from lightning_evalkit.counts import BatchTotals, Counter, Totals, real_dtype
from lightning_evalkit.state.synchronise import gathered, summed_over_ranks

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    Gather = Callable[..., list[Tensor]] | None
    States = dict[str, Any]


OWN = 2
"""The reference count of a state that only its metric holds: its attributes, and the counting call."""


class Storage(Protocol):
    """A monoid in the attributes of a metric."""

    reduction: str
    names: tuple[str, ...]

    def empty(self, device: torch.device) -> States:
        """The empty state, by state name."""

    def read(self, states: States) -> Totals:
        """The totals so far."""

    def copied(self, states: States) -> Totals:
        """The totals so far, in memory that no later update touches."""

    def write(self, states: States, totals: Totals) -> None:
        """Replace the state by these totals, which the metric owns from now on."""

    def add(self, states: States, totals: BatchTotals) -> None:
        """Add the totals of a batch."""

    def add_unheld(self, states: States, totals: BatchTotals) -> None:
        """Add the totals of a batch; replace the state if something else holds it."""

    def is_unheld(self, states: States) -> bool:
        """Whether a batch may be added later, because nothing else sees the state."""

    def updates(self, states: States) -> int:
        """The number of added batches."""

    def sum(self, held: States, added: States) -> States:
        """The sum of two states as a new one."""

    def moved(self, states: States, device: torch.device) -> States:
        """A copy of a state on a device, in the precision of that device."""

    def over_ranks(self, totals: Totals, group: Any, gather: Gather) -> Totals:
        """Merge the totals of all ranks."""


class _Named:
    def __init__(self, counter: Counter) -> None:
        # The declaration is part of the names: a stock MetricCollection merges metrics whose states have equal names
        # and, after the first batch, equal values. Unequal declarations can so never be merged, equal ones can.
        self.integers, self.reals = f"integers_{counter.task.key}", f"reals_{counter.task.key}"
        self.counter = counter
        reals = (self.reals,) if counter.layout.reals.width else ()
        self.names: tuple[str, ...] = (self.integers, *reals)
        self._seen_by = ("_defaults", *self.names)

    def moved(self, states: States, device: torch.device) -> States:
        """Tensor by tensor."""
        return {name: _moved(states[name], device) for name in self.names}


class SumStorage(_Named):
    """One tensor of sums, to which batches are added in place."""

    reduction = "sum"

    def empty(self, device: torch.device) -> States:
        """Zeros."""
        layout = self.counter.layout
        integers = torch.zeros(layout.integers.width, dtype=torch.int64, device=device)
        reals = torch.zeros(layout.reals.width, dtype=real_dtype(device), device=device)
        return dict(zip(self.names, (integers, reals), strict=False))

    def read(self, states: States) -> Totals:
        """The tensors themselves."""
        return Totals(states[self.integers], states.get(self.reals))

    def copied(self, states: States) -> Totals:
        """New tensors."""
        return Totals(*(states[name].clone() for name in self.names))

    def write(self, states: States, totals: Totals) -> None:
        """The tensors themselves."""
        states.update(zip(self.names, totals, strict=False))

    def add(self, states: States, totals: BatchTotals) -> None:
        """Add to the tensors."""
        totals.add_to(states[self.integers], states.get(self.reals))

    def add_unheld(self, states: States, totals: BatchTotals) -> None:
        """Add in place if possible: in a stock MetricCollection several metrics may hold one tensor, and each adds."""
        for name in self.names:
            if sys.getrefcount(states[name]) > OWN:
                states[name] = states[name].clone()
        self.add(states, totals)

    def is_unheld(self, states: States) -> bool:
        """Whether nothing but the metric holds the state, so that it may change later.

        Nor may anything hold the empty states, by whose names torchmetrics' ``ClasswiseWrapper`` reads the state.
        """
        for name in self._seen_by:  # noqa: SIM110  # a generator takes longer than the copies of a small batch
            if sys.getrefcount(states[name]) > OWN:
                return False
        return True

    def updates(self, states: States) -> int:
        """Read the number from the state, so that compiled updates count too."""
        return self.counter.ledger(self.read(states)).updates

    def sum(self, held: States, added: States) -> States:
        """New tensors."""
        return {name: held[name] + added[name] for name in self.names}

    def over_ranks(self, totals: Totals, group: Any, gather: Gather) -> Totals:
        """One all-reduce."""
        return summed_over_ranks(totals, group, gather)


class RowStorage(_Named):
    """A list of (N, width) tensors; ranks may hold different numbers of rows, or none."""

    reduction = "cat"

    def empty(self, device: torch.device) -> States:
        """Empty lists."""
        return {name: [] for name in self.names}

    def read(self, states: States) -> Totals:
        """Concatenate all rows into new tensors of the widest precision that a batch had."""
        device = states.get("_device", torch.device("cpu"))  # of the metric that has these attributes
        pairs = zip(self.counter.layout, (torch.int64, real_dtype(device)), strict=True)
        none = (torch.zeros((0, cells.width), dtype=kind, device=device) for cells, kind in pairs)
        return Totals(*(torch.cat(states[name] or [row]) for name, row in zip(self.names, none, strict=False)))

    def copied(self, states: States) -> Totals:
        """Read the rows, which is a copy."""
        return self.read(states)

    def write(self, states: States, totals: Totals) -> None:
        """New lists of these rows."""
        states.update((name, [total]) for name, total in zip(self.names, totals, strict=False))

    def add(self, states: States, totals: BatchTotals) -> None:
        """Keep the rows of a batch."""
        for place, name in enumerate(self.names):  # torch 2.7 compiles no zip of unequal lengths
            states[name].append(totals[place])

    def add_unheld(self, states: States, totals: BatchTotals) -> None:
        """Keep the rows of a batch in new lists."""
        states.update((name, [*states[name], total]) for name, total in zip(self.names, totals, strict=False))

    def is_unheld(self, states: States) -> bool:
        """Rows are never added later."""
        return False

    def updates(self, states: States) -> int:
        """One tensor of rows each."""
        return len(states[self.integers])

    def sum(self, held: States, added: States) -> States:
        """New lists."""
        return {name: [*held[name], *added[name]] for name in self.names}

    def over_ranks(self, totals: Totals, group: Any, gather: Gather) -> Totals:
        """A gather of rows, in the order of ranks: in the widest precision, as ranks may differ in theirs."""
        gather, (integers, reals, _) = gather or gathered, totals
        joined = torch.cat(gather(integers.long(), group))
        if reals is None:
            return Totals(joined)
        return Totals(joined, torch.cat(gather(reals.to(real_dtype(reals.device)), group)))


def _moved(state: Any, device: torch.device) -> Any:
    if isinstance(state, list):
        return [_moved(rows, device) for rows in state]
    return state.to(device, real_dtype(device) if state.is_floating_point() else state.dtype, copy=True)
