"""Warns that rows read by several ranks are counted several times, unless something removes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.utils.data import DataLoader, DistributedSampler

from lightning_evalkit.callbacks.exact_distributed import ExactDistributedEvaluation
from lightning_evalkit.callbacks.exact_distributed.loaders import sampler_of
from lightning_evalkit.ranks import warn_on_rank_zero
from lightning_evalkit.trainer import callbacks_of, evaluation_loaders

if TYPE_CHECKING:
    from lightning_evalkit.trainer import Trainer


class RepeatedRows:
    """Warns once for each stage of a run."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._said: set[str] = set()

    def look(self, trainer: Trainer) -> None:
        """Warn if the running validation or test reads rows of its data sets more than once."""
        stage = "test" if trainer.testing else "validation"
        if trainer.world_size == 1 or trainer.sanity_checking or stage in self._said:
            return
        if any(isinstance(each, ExactDistributedEvaluation) for each in callbacks_of(trainer)):
            return
        limits = trainer.num_test_batches if trainer.testing else trainer.num_val_batches
        pairs = zip(evaluation_loaders(trainer), limits, strict=False)  # loaders read side by side have one limit
        repeats = sum(repeated(loader, limit) for loader, limit in pairs)
        if repeats:
            self._said.add(stage)
            rows = "row" if repeats == 1 else "rows"
            warn_on_rank_zero(
                f"{self._owner} counts {repeats} {rows} of {stage} more than once: Lightning repeats rows of data that "
                f"{trainer.world_size} ranks cannot share out evenly. Add ExactDistributedEvaluation() to the "
                "trainer's callbacks to have every row counted once.",
            )


def repeated(loader: object, limit: float) -> int:
    """The number of rows read that a padded sampler appended; 0 if the loader stops before them."""
    sampler = sampler_of(loader) if isinstance(loader, DataLoader) else None
    if not isinstance(sampler, DistributedSampler) or limit < len(loader):  # type: ignore[arg-type]
        return 0
    rows: int = len(sampler.dataset)  # type: ignore[arg-type]  # a sampler asks for it too
    return max(0, len(sampler) * sampler.num_replicas - rows)
