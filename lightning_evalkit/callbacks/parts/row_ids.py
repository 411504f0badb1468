"""Numbers the rows of an epoch: a row has the same id in every run that reads the same data in order.

Loaders that do not shuffle give rank r of W the rows r, r + W, …, as Lightning's sampler and ``TensorLoader`` do, so
the ids do not depend on batch size or number of ranks. A loader that shuffles has positions as ids. They distinguish
samples but do not identify them, so two states are paired only if their targets come in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from lightning_evalkit.ranks import rank_and_world_size

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.evaluation.base import Evaluation

KEYS = ("sample", "cluster")


class RowIds:
    """Numbers the rows of each stage and dataloader."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int], int] = {}

    def begin(self, stage: str) -> None:
        """Start an epoch."""
        self._seen = {key: seen for key, seen in self._seen.items() if key[0] != stage}

    def ids(
        self, evaluation: Evaluation, stage: str, dataloader_idx: int, target: Tensor, outputs: Any = None
    ) -> dict[str, Any]:
        """The ids that the step returns, or else the row numbers, for an evaluation with buckets."""
        if evaluation.tally.counter.task.buckets is None:
            return {}
        given = {name: outputs[name] for name in KEYS if name in outputs} if isinstance(outputs, Mapping) else {}
        return given or {"sample": self._next(stage, dataloader_idx, target)}

    def _next(self, stage: str, dataloader_idx: int, target: Tensor) -> Tensor:
        """The numbers of the next rows, one for each target."""
        first, (rank, ranks) = self._seen.get((stage, dataloader_idx), 0), rank_and_world_size()
        self._seen[stage, dataloader_idx] = first + len(target)
        return torch.arange(first, first + len(target), device=target.device) * ranks + rank
