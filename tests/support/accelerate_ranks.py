"""Run by ``accelerate launch``: an evaluation in an Accelerate loop; what each process reports is written to a file.

accelerate launch --multi_gpu --num_processes 2 accelerate_ranks.py FOLDER
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from ranks import leave_and_end, recorded
from torch.utils.data import DataLoader, Dataset, IterableDataset, SubsetRandomSampler

from lightning_evalkit import MulticlassEvaluation
from lightning_evalkit.errors import InputError
from lightning_evalkit.integrations.accelerate import AcceleratorMetrics

if TYPE_CHECKING:
    from collections.abc import Iterator

LENGTHS = (1, 2, 3, 4, 5, 7, 8, 9, 13, 16)
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "usual": {},
    "split": {"split_batches": True},
    "dispatched": {"dispatch_batches": True},
    "uneven": {"even_batches": False},
}


def row(number: int) -> dict[str, torch.Tensor]:
    """Its label is its number modulo 3, and the class that is predicted its number modulo 4, at most 2."""
    logits = torch.zeros(3)
    logits[min(number % 4, 2)] = 2.0 + number
    return {"logits": logits, "labels": torch.tensor(number % 3)}


class Numbers(Dataset):
    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        return row(number)


class Stream(IterableDataset):
    """Rows in turn; a length that is hidden is not known to the loader."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        return map(row, range(self.length))


class SizedStream(Stream):
    def __len__(self) -> int:
        return self.length


def confusion(accelerator: Accelerator, loader: DataLoader, prepare: bool = True) -> list[list[int]]:
    """Which row was counted how often: every cell is hit by known rows."""
    evaluation = MulticlassEvaluation("logits", 3, confusion_matrix=True, statistics=["accuracy"], zero_division=0.0)
    metrics = AcceleratorMetrics(evaluation, accelerator)
    for batch in accelerator.prepare(loader) if prepare else loader:
        metrics.update(batch["logits"], batch["labels"])
    metrics.compute()
    return metrics.evaluation.confusion_matrix.tolist()


def scenes() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, options in CONFIGURATIONS.items():
        accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(**options))
        for length in LENGTHS:
            if name == "dispatched" and length == 1:
                continue  # Accelerate itself cannot share out a single row
            found[f"{name} {length}"] = confusion(accelerator, DataLoader(Numbers(length), batch_size=2))
    sharded = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(dispatch_batches=False))
    for length in (3, 8, 9):
        found[f"stream {length}"] = confusion(sharded, DataLoader(SizedStream(length), batch_size=2))
    sampler = SubsetRandomSampler([1, 3, 4, 6, 8])
    found["subset"] = confusion(sharded, DataLoader(Numbers(12), batch_size=2, sampler=sampler))
    dropped = DataLoader(Numbers(9), batch_size=2, drop_last=True)
    found["dropped"] = confusion(sharded, dropped)
    return found | together(sharded)


def together(accelerator: Accelerator) -> dict[str, Any]:
    """What is said, the collectives, and two evaluations one after the other."""
    found: dict[str, Any] = {}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        confusion(accelerator, DataLoader(Stream(3), batch_size=2))
    found["said"] = [str(each.message) for each in said if "data set with a length" in str(each.message)]
    try:
        found["refused"] = str(confusion(accelerator, DataLoader(Numbers(4), batch_size=2), prepare=False))
    except InputError as refused:
        found["refused"] = str(refused)
    metrics = AcceleratorMetrics(MulticlassEvaluation("logits", 3, statistics=["accuracy"]), accelerator)
    loader = accelerator.prepare(DataLoader(Numbers(9), batch_size=2))
    values = []
    for _ in range(2):
        for batch in loader:
            metrics.update(batch["logits"], batch["labels"])
        with recorded() as collectives:
            values.append(metrics.compute())
        found["collectives"] = collectives
    found["values"] = values
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    accelerator = Accelerator(cpu=True)
    rank, world = accelerator.process_index, accelerator.num_processes
    numbers = {"world": world, **scenes()}
    Path(sys.argv[1], f"accelerate_{rank}.json").write_text(json.dumps(numbers), encoding="utf-8")
    accelerator.end_training()
    leave_and_end()
