"""Warns that rows read by several ranks are counted several times, unless something removes them.

How often Lightning repeats rows follows from the sampler. An iterable data set shares its rows out as it likes: if all
ranks counted the same, each has read all rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

import torch
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset

from lightning_evalkit.callbacks.exact_distributed import ExactDistributedEvaluation
from lightning_evalkit.callbacks.exact_distributed.loaders import sampler_of
from lightning_evalkit.ranks import warn_on_rank_zero
from lightning_evalkit.trainer import callbacks_of, evaluation_loaders

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lightning_evalkit.evaluation.base import Evaluation
    from lightning_evalkit.trainer import Trainer


class RepeatedRows:
    """Warns once for each stage of a run."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._said: set[str] = set()

    def look(self, trainer: Trainer) -> None:
        """Warn if the running validation or test reads rows of its data sets more than once."""
        stage = _stage(trainer)
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

    def compare(self, trainer: Trainer, evaluations: Sequence[Evaluation]) -> None:
        """Warn if all ranks counted the same of an iterable data set; a collective, for such data alone."""
        stage, ranks = _stage(trainer), trainer.world_size
        if ranks == 1 or stage in self._said or not any(map(_is_iterable, evaluation_loaders(trainer))):
            return
        marks = torch.tensor([_mark(each, trainer.global_rank) for each in evaluations])
        found = trainer.strategy.all_gather(marks.to(trainer.strategy.root_device))
        if bool((found == found[0]).all(0).any()):
            self._said.add(stage)
            warn_on_rank_zero(
                f"{self._owner} counted the same on all {ranks} ranks in {stage}, as if each had read all rows of an "
                f"iterable data set: then every row counts {ranks} times. Have it share out its rows, such as "
                "islice(rows, rank, None, world_size) with torch.distributed.get_rank() and get_world_size(), or use "
                "a data set with a length and an index, which Lightning shares out.",
            )


def _stage(trainer: Trainer) -> str:
    return "test" if trainer.testing else "validation"


def _is_iterable(loader: object) -> bool:
    return isinstance(getattr(loader, "dataset", None), IterableDataset)


def _mark(evaluation: Evaluation, rank: int) -> int:
    """A number that is equal for equal counts; nothing equals that of a rank without any."""
    tally = evaluation.tally
    return crc32(tally.totals.integers.cpu().numpy().tobytes()) if tally.update_called else -1 - rank


def repeated(loader: object, limit: float) -> int:
    """The number of rows read that a padded sampler appended; 0 if the loader stops before them."""
    sampler = sampler_of(loader) if isinstance(loader, DataLoader) else None
    if not isinstance(sampler, DistributedSampler) or limit < len(loader):  # type: ignore[arg-type]
        return 0
    rows: int = len(sampler.dataset)  # type: ignore[arg-type]  # a sampler asks for it too
    return max(0, len(sampler) * sampler.num_replicas - rows)
