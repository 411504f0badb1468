"""The interface of counters: batches become two flat tensors that can be added and read."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import torch

from lightning_evalkit.counts.deferral import is_deferred
from lightning_evalkit.counts.histogram import histogram
from lightning_evalkit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from lightning_evalkit.counts.layout import Layout
    from lightning_evalkit.counts.numpy_path import Array
    from lightning_evalkit.inputs import Declaration


class Totals(NamedTuple):
    """Sums over batches: exact integers, and sums of reals if there are weights."""

    integers: Tensor
    reals: Tensor | None = None
    increments: Tensor | None = None
    """Sparse form of one batch: each index adds 1 to that integer, in addition to ``integers``."""

    def add_to(self, integers: Tensor, reals: Tensor | None) -> None:
        """Add these totals to a state in place."""
        if self.increments is None:
            _add_in_place(integers, self.integers)
        else:  # at the increments only, instead of passing over the whole state
            integers.narrow(0, 0, len(self.integers)).add_(self.integers)
            if integers.device.type == "mps":  # only newer releases add int64 by index
                integers.add_(histogram(self.increments, len(integers)))
            else:  # integer sums do not depend on the order
                integers.index_add_(0, self.increments, torch.ones_like(self.increments))
        if self.reals is not None and reals is not None:
            _add_in_place(reals, self.reals)

    def additions(self, integers: Tensor, reals: Tensor | None) -> list[Callable[[], object]]:
        """The calls that add these totals to a state in place."""
        return [partial(self.add_to, integers, reals)]

    def tensors(self) -> Totals:
        """The totals themselves."""
        return self

    def dense(self, width: int) -> Totals:
        """The same totals with all integers written out."""
        if self.increments is None:
            return self
        integers = histogram(self.increments, width)
        integers.narrow(0, 0, len(self.integers)).add_(self.integers)
        return Totals(integers, self.reals)


class ArrayTotals(NamedTuple):
    """The totals of one batch that was counted at once, as NumPy adds them to a state: without making tensors."""

    integers: Array
    reals: Array | None = None
    increments: Array | None = None

    def add_to(self, integers: Tensor, reals: Tensor | None) -> None:
        """Add these totals to a state on the CPU in place, all of them even if Ctrl-C is pressed."""
        call_all(self.additions(integers, reals))

    def additions(self, integers: Tensor, reals: Tensor | None) -> list[Callable[[], object]]:
        """The calls of NumPy that add these totals to a state on the CPU in place."""
        memory = integers.numpy()
        leading = memory if self.increments is None else memory[: len(self.integers)]
        calls: list[Callable[[], object]] = [partial(np.add, leading, self.integers, leading)]
        if self.increments is not None:
            calls.append(partial(np.add.at, memory, self.increments, 1))
        if self.reals is not None and reals is not None:
            memory = reals.numpy()
            calls.append(partial(np.add, memory, self.reals, memory))
        return calls

    def tensors(self) -> Totals:
        """The same totals as tensors."""
        others = (None if part is None else torch.from_numpy(part) for part in (self.reals, self.increments))
        return Totals(torch.from_numpy(self.integers), *others)

    def dense(self, width: int) -> Totals:
        """The same totals as tensors with all integers written out."""
        return self.tensors().dense(width)


BatchTotals = Totals | ArrayTotals


def call_all(calls: list[Callable[[], object]]) -> None:
    """Call functions that are written in C one after the other, in C: Python handles no signal between them."""
    deque(map(_CALL, calls), maxlen=0)


_CALL: Any = partial.__call__


def _add_in_place(state: Tensor, batch: Tensor) -> None:
    """Add with NumPy on the CPU, which skips torch's dispatcher."""
    if state.is_cpu and not torch.compiler.is_compiling():
        memory = state.numpy()
        memory += batch.numpy()
    else:
        state.add_(batch)


def in_a_row(parts: Sequence[Tensor]) -> Tensor | None:
    """Concatenate tensors along the last dimension; None if there are none."""
    return torch.cat(tuple(parts), -1) if len(parts) > 1 else parts[0] if parts else None


@dataclass(frozen=True)
class Ledger:
    """The bookkeeping of a state as Python integers."""

    updates: int
    ignored: int
    invalid: int
    guessed_logits: int
    guessed_probabilities: int


class Counter(Protocol):
    """Turns batches of one declaration into totals of its layout."""

    @property
    def task(self) -> Declaration:
        """The declared meaning of tensors."""

    @property
    def layout(self) -> Layout:
        """The layout of its totals."""

    def count(self, preds: Tensor, target: Tensor, sample_weight: Tensor | None, /) -> BatchTotals:
        """The totals of one batch. Raises for bad values on the CPU; elsewhere they are counted as invalid."""

    def ledger(self, totals: Totals) -> Ledger:
        """The bookkeeping in these totals (reads from the device)."""


class EagerOrDeferred:
    """Counts at once where reading values is free (on the CPU), and deferred elsewhere.

    A subclass declares when plain counting at once is enough (``plain``) and defines both ways of counting.
    """

    task: Any
    plain: bool

    def count(self, preds: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> BatchTotals:
        """The totals of one batch; (N, width) where samples are counted one by one."""
        return self.count_arranged(*self.task.arranged(preds, target, sample_weight))

    def count_arranged(self, preds: Tensor, target: Tensor, weight: Tensor | None, batches: int = 1) -> BatchTotals:
        """The totals of one batch that the declaration has arranged, or of several that are counted as one.

        Several were on the CPU, and their values are as declared.
        """
        deferred = batches == 1 and is_deferred(preds)
        if self.plain and not deferred:
            return self._at_once(preds, target, batches)
        with torch.no_grad():
            totals = self._deferred(preds, target, weight)
        if not deferred and self.ledger(totals).invalid:
            raise InputError(self.task.complaint(preds, target, weight))
        return totals

    def _at_once(self, preds: Tensor, target: Tensor, batches: int) -> ArrayTotals:
        """Check the values of a batch on the CPU, raise for bad ones, and count."""
        raise NotImplementedError

    def _deferred(self, preds: Tensor, target: Tensor, weight: Tensor | None) -> Totals:
        """Count a batch without reading values; bad samples are missing from the sums."""
        raise NotImplementedError

    def ledger(self, totals: Totals) -> Ledger:
        """The bookkeeping in these totals; samples counted one by one are a batch each."""
        raise NotImplementedError
