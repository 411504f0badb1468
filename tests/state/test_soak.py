"""Long runs: memory does not grow with updates, and updates inside forked workers count as anywhere."""

from __future__ import annotations

import gc
import os
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit import metrics as own
from lightning_evalkit.evaluation import Slices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.slow

SCORES, TARGET = torch.rand(8), torch.randint(0, 2, (8,))
MANY, ONE_OF, LABELS = torch.rand(8, 3), torch.randint(0, 3, (8,)), torch.randint(0, 2, (8, 3))
P = "probabilities"
SOAKED: dict[str, tuple[Callable[[], Any], tuple[torch.Tensor, ...], int]] = {
    "evaluation": (lambda: BinaryEvaluation(P, zero_division=0.0), (SCORES, TARGET), 100_000),
    "weighted": (lambda: BinaryEvaluation(P, weighted=True, zero_division=0.0), (SCORES, TARGET, SCORES), 3_000),
    "curves": (lambda: BinaryEvaluation(P, curves=True, zero_division=0.0), (SCORES, TARGET), 3_000),
    "classes": (lambda: MulticlassEvaluation(P, 3, zero_division=0.0), (MANY, ONE_OF), 3_000),
    "labels": (lambda: MultilabelEvaluation(P, 3, zero_division=0.0), (MANY, LABELS), 3_000),
    "slices": (lambda: Slices(BinaryEvaluation(P), 2), (SCORES, TARGET, TARGET), 3_000),
    "loss": (own.MeanLoss, (SCORES,), 3_000),
}
EPOCHS = 20
LARGEST_GROWTH = 4 * 2**20
"""Forty bytes for each of 100,000 updates."""


def resident() -> int:
    """The bytes of this process in memory."""
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as numbers:
        return int(numbers.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def _objects_of_other_tests_out_of_sight() -> None:
    """Collections look at the objects of one test only, not at a million that other tests still hold."""
    gc.collect()
    gc.freeze()


@pytest.mark.usefixtures("_objects_of_other_tests_out_of_sight")
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="memory is read as Linux tells it")
@pytest.mark.parametrize("kind", SOAKED)
def test_memory_does_not_grow_with_updates(kind: str) -> None:
    build, batch, updates = SOAKED[kind]
    metric = build()

    def epoch() -> None:
        for _ in range(updates // EPOCHS):
            metric.update(*batch)
        metric(*batch)
        metric.compute()
        metric.reset()

    for _ in range(2):  # caches and pools fill once
        epoch()
    sizes, objects = [resident()], len(gc.get_objects())
    for _ in range(EPOCHS - 1):
        epoch()
        sizes.append(resident())
    # What leaks grows in most epochs; what other tests of this process have left may be taken up in one.
    assert median(after - before for before, after in pairwise(sizes)) < LARGEST_GROWTH / EPOCHS
    assert len(gc.get_objects()) - objects < 1_000


class CountingDataset(IterableDataset[Any]):
    """Counts its batches in the process that loads them."""

    def __init__(self, evaluation: BinaryEvaluation) -> None:
        self.evaluation = evaluation

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        assert worker is not None  # loaded by a process of its own
        for seed in range(worker.id, 20, worker.num_workers):
            self.evaluation.update(*batch_of(seed))
        yield self.evaluation


def batch_of(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(16, generator=generator), torch.randint(0, 2, (16,), generator=generator)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("curves", [False, True], ids=["counts", "curves"])
def test_updates_inside_forked_workers_count(curves: bool) -> None:
    """Two workers share a dataset; the process that forked them keeps its own state until theirs are merged."""
    evaluation, alone = (BinaryEvaluation(P, curves=curves) for _ in range(2))
    evaluation.update(*batch_of(99))
    before = evaluation.tally.totals.integers.clone()
    loader = DataLoader(
        CountingDataset(evaluation), batch_size=None, num_workers=2, multiprocessing_context="fork", timeout=240
    )
    parts = list(loader)
    assert torch.equal(evaluation.tally.totals.integers, before)
    merged = BinaryEvaluation(P, curves=curves)
    for part in parts:
        merged.merge_state(part)
    for seed in (*range(20), 99, 99):  # each worker began with what was counted before
        alone.update(*batch_of(seed))
    assert torch.equal(merged.tally.totals.integers, alone.tally.totals.integers)
    merged.update(*batch_of(1))
