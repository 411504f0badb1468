"""Small batches on the CPU are checked and copied at once, and counted together when something reads the state.

Counting a few hundred samples takes calls, not arithmetic: twenty batches take little longer than one. So a batch
becomes pending if a quick look shows that all its values are as declared, and counting it cannot fail. Any other batch
is counted alone, by the counter, which also says what is wrong with it.

Pending batches take at most as much memory as the state, or half a megabyte if that is more; then they are counted.
"""

from __future__ import annotations

import math
from itertools import accumulate, takewhile
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

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
    from collections.abc import Iterator

    from torch import Tensor

    from lightning_evalkit.counts.counter import BatchTotals

LEAST_BYTES = 8 * BLOCK
COPY_BYTES = 512
"""The memory that a copy of a batch takes beside its numbers: two arrays, their memory blocks and a pair."""
FEW, FEW_SCORES = 4_096, 16_384
"""The elements of the largest batch that is worth a copy, if it is only cut, or if counting it takes more than that."""


class PendingBatches:
    """Copies of batches of one kind that a counter will count as one."""

    def __init__(self, counter: Any) -> None:
        self.counter, self.task = counter, counter.task
        self.classes, self._ignores = counter.task.classes if _is_multiclass(counter) else 0, bool(counter.task.ignored)
        # 0, 1 and few classes fit into a byte, an ignored number perhaps not.
        self._small = np.dtype(np.int8) if self.classes <= 128 and not self._ignores else None
        more = self.task.binning is not None or bool(self.classes) or bool(getattr(self.task, "sample_sums", False))
        self._largest = FEW_SCORES if more else FEW
        self._most_bytes: int = max(LEAST_BYTES, 8 * counter.layout.size)
        self.lock = RLock()
        self.clear()

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy has no batches, and a lock of its own."""
        return PendingBatches, (self.counter,)

    def __len__(self) -> int:
        return len(self._batches)

    @property
    def is_full(self) -> bool:
        """Whether they should be counted before another is added."""
        return self._bytes > self._most_bytes

    def clear(self) -> None:
        """Forget all."""
        self._batches: list[tuple[Array, Array]] = []
        self._kind: tuple[Any, ...] = ()
        self._bytes = 0

    # ---- adding

    def add(self, preds: Tensor, target: Tensor) -> bool:
        """Add a copy of a batch; False if it has to be counted alone, or after those that are there."""
        if not 0 < preds.numel() <= self._largest:
            return False
        preds, target, _ = self.task.arranged(preds, target, None)
        if self.classes and target.ndim != 1:
            return False
        scores, truth = array_of(preds), array_of(target)
        fine, probable = self._looked(scores, truth, preds.is_floating_point(), target.dtype)
        kind = (preds.dtype, target.dtype, probable)
        if not fine or (self._batches and kind != self._kind):
            return False
        scores, truth = scores.copy(), truth.copy() if self._small is None else truth.astype(self._small)
        self._kind = kind
        self._batches.append((scores, truth))  # both or none, whenever the run is interrupted
        self._bytes += scores.nbytes + truth.nbytes + COPY_BYTES
        return True

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

    def counted(self) -> Iterator[BatchTotals]:
        """The totals of as many batches at a time as make a block; they are forgotten when the next are asked for."""
        while self._batches:
            batches = self._next_block()
            scores, truth = map(_joined, zip(*self._batches[:batches], strict=True))
            yield self.counter.count_arranged(scores.to(self._kind[0]), truth, None, batches)
            del self._batches[:batches]
        self.clear()

    def _next_block(self) -> int:
        sizes = accumulate(scores.size for scores, _ in self._batches)
        return max(1, sum(1 for _ in takewhile(BLOCK.__ge__, sizes)))


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
