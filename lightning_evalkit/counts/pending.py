"""Small batches on the CPU are checked and copied at once, and counted together when something reads the state.

Counting a few hundred samples takes calls, not arithmetic: twenty batches take little longer than one. So a batch
becomes pending if a quick look shows that all its values are as declared, and counting it cannot fail. Any other batch
is counted alone, by the counter, which also says what is wrong with it.

Pending batches take at most as much memory as the state, or half a megabyte if that is more; then they are counted.
"""

from __future__ import annotations

import math
from collections import deque
from contextlib import suppress
from functools import partial
from itertools import accumulate, takewhile
from threading import RLock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from lightning_evalkit.counts.counter import call_all
from lightning_evalkit.counts.numpy_path import (
    BLOCK,
    Array,
    any_of,
    array_of,
    largest,
    smallest,
    within,
    within_unit,
    without_nan,
    zeros_and_ones,
)
from lightning_evalkit.inputs import Multiclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from lightning_evalkit.counts.counter import BatchTotals

LEAST_BYTES = 8 * BLOCK
COPY_BYTES = 512
"""The memory that a copy of a batch takes beside its numbers: two arrays, their memory blocks and a pair."""
FEW, FEW_SCORES = 4_096, 16_384
"""The elements of the largest batch that is worth a copy, if it is only cut, or if counting it takes more than that."""


class Batch(NamedTuple):
    """A copy of a batch, and its kind: the types of both, and whether scores were guessed to be probabilities."""

    scores: Array
    truth: Array
    kind: tuple[torch.dtype, torch.dtype, bool]


class PendingBatches:
    """Copies of batches of one kind that a counter will count as one."""

    _kind: tuple[torch.dtype, torch.dtype, bool]

    def __init__(self, counter: Any) -> None:
        self.counter, self.task = counter, counter.task
        self.classes, self._ignores = counter.task.classes if _is_multiclass(counter) else 0, bool(counter.task.ignored)
        # 0, 1 and few classes fit into a byte, an ignored number perhaps not.
        self._small = np.dtype(np.int8) if self.classes <= 128 and not self._ignores else None
        more = self.task.binning is not None or bool(self.classes) or bool(getattr(self.task, "sample_sums", False))
        self._largest = FEW_SCORES if more else FEW
        self._most_bytes: int = max(LEAST_BYTES, 8 * counter.layout.size)
        self._batches: dict[object, Batch] = {}
        self._bytes = 0
        self.lock = RLock()

    def __getstate__(self) -> dict[str, Any]:
        """A copy has a lock of its own."""
        return {**self.__dict__, "lock": None, "_batches": {object(): each for each in self._batches.values()}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, lock=RLock())

    def __len__(self) -> int:
        return len(self._batches)

    @property
    def is_full(self) -> bool:
        """Whether they should be counted before another is added."""
        return self._bytes > self._most_bytes

    def clear(self) -> None:
        """Forget all."""
        self._batches.clear()  # in place: whoever is counting them finds them gone

    # ---- adding

    def copied(self, preds: Tensor, target: Tensor) -> Batch | None:
        """A copy of a batch that can be added; None if it has to be counted alone, or after those that are there."""
        if not 0 < preds.numel() <= self._largest:
            return None
        preds, target, _ = self.task.arranged(preds, target, None)
        if self.classes and target.ndim != 1:
            return None
        scores, truth = array_of(preds), array_of(target)
        fine, probable = self._looked(scores, truth, preds.is_floating_point(), target.dtype)
        kind = (preds.dtype, target.dtype, probable)
        if not fine or (self._batches and kind != self._kind):
            return None
        return Batch(scores.copy(), truth.copy() if self._small is None else truth.astype(self._small), kind)

    def add(self, batch: Batch) -> None:
        """Add a batch: all or nothing, whenever the run is interrupted."""
        size = batch.scores.nbytes + batch.truth.nbytes + COPY_BYTES
        self._kind, self._bytes = batch.kind, self._bytes + size if self._batches else size
        self._batches[object()] = batch

    def _looked(self, scores: Array, truth: Array, real: bool, kind: torch.dtype) -> tuple[bool, bool]:
        """Whether all values are as declared, and whether the scores are guessed to be probabilities."""
        if self._ignores:
            used = ~any_of(truth, self.task.marks(kind))
            scores, truth = scores[used], truth[used]
        probable = self.task.inputs == "auto" and real and within_unit(scores)
        if not (probable or self._as_declared(scores, real)):
            return False, False
        return within(truth, self.classes) if self.classes else zeros_and_ones(truth) is not None, probable

    def _as_declared(self, scores: Array, real: bool) -> bool:
        inputs = self.task.inputs
        if inputs == "labels" or (inputs == "auto" and not real and self.task.binning is None):
            return within(scores, self.classes) if self.classes else zeros_and_ones(scores) is not None
        if not real:  # labels have no order
            return False
        if inputs == "probabilities":
            return within_unit(scores)
        if self.classes:  # NaN is the largest, and equal to nothing; a softmax of infinite logits is no number
            return not scores.size or (largest(scores) < math.inf and smallest(scores) > -math.inf)
        return without_nan(scores)

    # ---- counting

    def count_into(self, state: Callable[[], tuple[Tensor, Tensor | None]]) -> None:
        """Add all batches to a state, block by block, each once.

        Ctrl-C may be pressed and a handler of a signal may read the state anywhere: adding a block and forgetting its
        batches are one step. If a handler has counted a block meanwhile, the first call of that step raises.
        """
        while there := [*self._batches.items()]:
            keys, totals = self._next_block(there)
            look = partial(self._batches.__getitem__, keys[0])
            forget: Callable[[], object] = partial(deque, map(self._batches.pop, keys), 0)
            with suppress(KeyError):
                call_all([look, *totals.additions(*state()), forget])

    def _next_block(self, there: list[tuple[object, Batch]]) -> tuple[tuple[object, ...], BatchTotals]:
        """The keys of as many batches as make a block, and their totals."""
        kind = there[0][1].kind
        sizes = accumulate(batch.scores.size if batch.kind == kind else BLOCK for _, batch in there)
        keys, batches = zip(*there[: max(1, sum(1 for _ in takewhile(BLOCK.__ge__, sizes)))], strict=True)
        scores, truth, _ = zip(*batches, strict=True)
        with np.errstate(all="ignore"):  # an update that has passed cannot fail any more
            totals = self.counter.count_arranged(_joined(scores).to(kind[0]), _joined(truth), None, len(keys))
        return keys, totals


def pending_for(counter: Any) -> PendingBatches | None:
    """A place for batches, if the counter counts several as one.

    Guesses about scores stay with their batch: those that leave ignored samples out are left to the counter.
    """
    if not getattr(counter, "plain", False) or (counter.task.ignored and counter.task.inputs == "auto"):
        return None
    return None if _is_multiclass(counter) and counter.task.num_classes is None else PendingBatches(counter)


def _is_multiclass(counter: Any) -> bool:
    return isinstance(counter.task, Multiclass)


def _joined(parts: tuple[Array, ...]) -> Tensor:
    return torch.from_numpy(parts[0] if len(parts) == 1 else np.concatenate(parts))
