"""The interface of counters: batches become two flat tensors that can be added and read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch

from lightning_evalkit.counts.deferral import is_deferred
from lightning_evalkit.counts.histogram import histogram
from lightning_evalkit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from lightning_evalkit.counts.layout import Layout
    from lightning_evalkit.inputs import Declaration


class Totals(NamedTuple):
    """Sums over batches: exact integers, and sums of reals if there are weights."""

    integers: Tensor
    reals: Tensor | None = None
    increments: Tensor | None = None
    """Sparse form of one batch: each index adds 1 to that integer, in addition to ``integers``."""

    def dense(self, width: int) -> Totals:
        """The same totals with all integers written out."""
        if self.increments is None:
            return self
        integers = histogram(self.increments, width)
        integers.narrow(0, 0, len(self.integers)).add_(self.integers)
        return Totals(integers, self.reals)


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

    def count(self, preds: Tensor, target: Tensor, sample_weight: Tensor | None, /) -> Totals:
        """The totals of one batch. Raises for bad values on the CPU; elsewhere they are counted as invalid."""

    def ledger(self, totals: Totals) -> Ledger:
        """The bookkeeping in these totals (reads from the device)."""


class EagerOrDeferred:
    """Counts at once where reading values is free (on the CPU), and deferred elsewhere.

    A subclass declares when plain counting at once is enough (``plain``) and defines both ways of counting.
    """

    task: Any
    plain: bool

    def count(self, preds: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> Totals:
        """The totals of one batch; (N, width) where samples are counted one by one."""
        return self.count_arranged(*self.task.arranged(preds, target, sample_weight))

    def count_arranged(self, preds: Tensor, target: Tensor, weight: Tensor | None) -> Totals:
        """The totals of one batch that the declaration has arranged."""
        deferred = is_deferred(preds)
        if self.plain and not deferred:
            return self._at_once(preds, target)
        with torch.no_grad():
            totals = self._deferred(preds, target, weight)
        if not deferred and self.ledger(totals).invalid:
            raise InputError(self.task.complaint(preds, target, weight))
        return totals

    def _at_once(self, preds: Tensor, target: Tensor) -> Totals:
        """Check the values of a batch on the CPU, raise for bad ones, and count."""
        raise NotImplementedError

    def _deferred(self, preds: Tensor, target: Tensor, weight: Tensor | None) -> Totals:
        """Count a batch without reading values; bad samples are missing from the sums."""
        raise NotImplementedError

    def ledger(self, totals: Totals) -> Ledger:
        """The bookkeeping in these totals; samples counted one by one are a batch each."""
        raise NotImplementedError
