"""Real trainers on ranks that talk through gloo: what each of them counted, logged and said.

Processes are started once, from a server that has imported Lightning already, and form worlds of 4, 3, 2 and 1 ranks
one after the other; each scene returns plain values, and the tests look at those.
"""

from __future__ import annotations

import copy
import logging
import os
import pickle
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ranks
import torch
import torch.distributed as dist
from exact_metrics import (
    called_back,
    classified,
    held,
    measured,
    padded,
    scores,
    streamed,
)
from exact_trainers import (
    FEATURES,
    LENGTHS,
    PATIENCE,
    WORLDS,
    Counted,
    Table,
    data,
    listening,
    loader,
    result,
    trainer,
)
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from lightning.pytorch.strategies import ModelParallelStrategy
from lightning.pytorch.utilities import CombinedLoader
from torch import Tensor, nn
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, IterableDataset, Sampler
from torchmetrics import MeanMetric
from versions import has

from lightning_evalkit.callbacks.parts.method_patch import MethodPatch
from lightning_evalkit.data import TensorLoader

if has("torch", "2.6"):
    from torch.distributed.fsdp import fully_shard
else:
    from torch.distributed._composable.fsdp import fully_shard

if TYPE_CHECKING:
    from collections.abc import Iterator

# ---- starting ranks


def run(scenes: ranks.Scenes) -> ranks.Found:
    """Play every scene in every world; what each rank returned, by world and scene."""
    with tempfile.TemporaryDirectory() as folder:
        context = torch.multiprocessing.start_processes(
            _process, args=(folder,), nprocs=max(WORLDS), join=False, start_method="forkserver"
        )
        deadline = time.monotonic() + 4 * PATIENCE.total_seconds()
        try:
            while not context.join(timeout=1):
                assert time.monotonic() < deadline, "the ranks did not finish."
        finally:
            for process in context.processes:
                process.kill()
        found = {world: [ranks._loaded(folder, world, rank) for rank in range(world)] for world in WORLDS}
    return {
        world: {scene: [each.get(scene, "not played") for each in results] for scene in scenes}
        for world, results in found.items()
    }


def _process(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")  # where nobody listens
    os.environ.update(LOCAL_RANK=str(rank), NODE_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT="1", FOLDER=folder)
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    for world in WORLDS:  # the largest first, so that no rank has to wait for others
        if rank < world:
            meeting = f"file://{folder}/meeting_of_{world}"
            dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=world, timeout=ranks.PATIENCE)
            torch.save(_scenes(rank, world), Path(folder) / f"{rank}_of_{world}")
            ranks.leave()


def _scenes(rank: int, world: int) -> dict[str, Any]:
    """What a rank returned from every scene, up to one that failed: others wait for it no longer than for one."""
    results: dict[str, Any] = {}
    for name, scene in SCENES.items():
        if world in WHERE.get(name, WORLDS):
            results[name] = ranks._played(scene, rank, world)
            if isinstance(results[name], str):
                break
    return results


# ---- scenes


def grid(rank: int, world: int) -> Any:
    """Every length with several sizes of batches, each a loader of one validation."""
    running, module, found = trainer(world), Counted(2), {}
    with listening() as said:
        for length in LENGTHS:
            module.forwards = 0
            loaders = [loader(length, size, drop_last=drop) for size, drop in layouts(length, world)]
            running.validate(module, loaders, verbose=False)
            found[length] = {"loaders": result(module, running), "forwards": module.forwards}
    return {"found": found, "said": said}


def layouts(length: int, world: int) -> list[tuple[int, bool]]:
    """Two sizes of batches, and whether an incomplete one is dropped.

    The first leaves the last row of a rank alone in a batch; the second changes with the length.
    """
    each = -(-length // world)
    alone, size = 1 if length <= 20 else max(each - 1, 1), 2 + length % 4
    return [(alone, alone == 1 and length % 3 == 0), (size, length % 5 == 0 and size <= each)]


def counted(rank: int, world: int, loaders: list[Any], *callbacks: Callback, **options: Any) -> Any:
    """One validation of these loaders."""
    running, module = trainer(world, *callbacks, **options), Counted(len(loaders))
    with listening() as said:
        running.validate(module, loaders, verbose=False)
    return {"loaders": result(module, running), "forwards": module.forwards, "said": said}


def fitted(rank: int, world: int) -> Any:
    """A sanity check, two epochs with validation and a checkpoint, then a test of that."""
    keeping = ModelCheckpoint(f"{os.environ['FOLDER']}/{world}", monitor="loss/dataloader_idx_0")
    options = {"max_epochs": 2, "num_sanity_val_steps": 2, "enable_checkpointing": True}
    running, module = trainer(world, keeping, **options), Counted(2)
    loaders = [loader(2 * world + 1, 2), loader(3 * world - 1, 1, shuffle=True)]
    with listening() as said:
        running.fit(module, loader(6 * world - 1, 2), loaders)
        found = {"fit": result(module, running), "epochs": module.seen, "trained": module.trained}
        module.seen, module.forwards = [], 0
        running.test(module, loaders, ckpt_path="best", verbose=False)
    weights = {name: value.clone() for name, value in module.network.state_dict().items()}
    return {**found, "test": result(module, running), "forwards": module.forwards, "weights": weights, "said": said}


# ---- scenes: samplers and loaders


class Backwards(Sampler[Any]):
    """Rows from the last to the first, by number or by name."""

    def __init__(self, length: int, kind: type = int) -> None:
        self.length, self.kind = length, kind

    def __iter__(self) -> Iterator[Any]:
        return map(self.kind, reversed(range(self.length)))

    def __len__(self) -> int:
        return self.length


AGAIN = [3, 3, 0, 5, 5, 5, 1]
"""Rows that are drawn with replacement; the first of them fills up the last round."""


class Sorted(BatchSampler):
    """Reads all rows before it gives the first batch, in another order."""

    def __iter__(self) -> Iterator[list[int]]:
        rows = sorted(self.sampler, key=lambda row: row * 7 % 5)
        return iter([rows[first : first + self.batch_size] for first in range(0, len(rows), self.batch_size)])


class Blocks(Table):
    """Two rows as one entry, for a loader that takes entries as batches."""

    def __len__(self) -> int:
        return super().__len__() // 2

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[2 * index : 2 * index + 2] for tensor in self.tensors)


def sampled(rank: int, world: int) -> Any:
    table = Table(7)
    return counted(rank, world, [
        loader(7, 1, sampler=Backwards(7)),
        loader(7, 2, sampler=Backwards(7, str)),
        loader(7, 1, sampler=Backwards(7, str)),
        loader(7, 2, sampler=AGAIN),
        DataLoader(table, batch_sampler=Sorted(Backwards(7), 2, False)),
        DataLoader(table, batch_sampler=Sorted(Backwards(7), 1, False)),
        DataLoader(Blocks(14), batch_size=None),
        loader(7, 2, sampler=DistributedSampler(table, shuffle=True, seed=4)),
        loader(7, 1, sampler=DistributedSampler(table, shuffle=False, drop_last=True)),
        loader(7, 4, shuffle=True),
    ])  # fmt: skip


class Peeping(Callback):
    """Looks at the loader while it is read, as one does to draw an example."""

    def on_validation_batch_end(self, trainer: Trainer, *_: Any) -> None:
        next(iter(trainer.val_dataloaders[0].batch_sampler))


def worked(rank: int, world: int) -> Any:
    """Batches made ahead by workers, while somebody else looks at the loader."""
    options = {"num_workers": 2, "persistent_workers": True}
    return [counted(rank, world, [loader(7, size, **options)], Peeping())["loaders"][0] for size in (1, 3)]


def limited(rank: int, world: int) -> Any:
    sizes = (1, 2)
    return {
        limit: counted(rank, world, [loader(4 * world + 1, size) for size in sizes], limit_val_batches=limit)["loaders"]
        for limit in (2, 5, 0.5, 1.0)
    }


def repeated(rank: int, world: int) -> Any:
    """What Lightning counts by itself."""
    return counted(rank, world, [loader(2 * world + 1, 2)], exact=False)["loaders"][0]


# ---- scenes: what is logged


class Logged(LightningModule):
    """Logs the numbers of rows in every way that Lightning has."""

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        number = batch[2].double()
        for joined in (False, True):
            self.log(f"mean_{joined}", number.mean(), sync_dist=joined)
            self.log(f"sized_{joined}", number.mean(), sync_dist=joined, batch_size=len(number))
            self.log(f"both_{joined}", number.mean(), sync_dist=joined, on_step=True, on_epoch=True)
            self.log(f"sum_{joined}", number.sum(), sync_dist=joined, reduce_fx="sum")
            self.log(f"max_{joined}", number.max(), sync_dist=joined, reduce_fx="max")
            self.log(f"min_{joined}", number.min(), sync_dist=joined, reduce_fx="min")


def logged(rank: int, world: int) -> Any:
    found = {}
    for length, size in ((1, 1), (2 * world + 1, 1), (2 * world + 1, 2)):
        running = trainer(world)
        running.validate(Logged(), loader(length, size), verbose=False)
        found[length, size] = {name: value.item() for name, value in running.callback_metrics.items()}
    return found


class Empty(Logged):
    """Logs what there is to log of a batch without rows."""

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("mean", batch[2].double().mean(), sync_dist=True)


def emptied(rank: int, world: int) -> Any:
    """This package's own loader may give a batch without rows, the mean of which is NaN."""
    running = trainer(world)
    with listening() as said:
        running.validate(Empty(), TensorLoader(data(world + 1), 1), verbose=False)
    return {"mean": running.callback_metrics["mean"].item(), "said": said}


# ---- scenes: what is said


class Summarised(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.summary, self.weighed, self.rowwise = MeanMetric(), MeanMetric(), MeanMetric()

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        values = batch[0][:, 0]
        self.summary(values.mean())
        self.weighed.update(values.mean(), weight=len(values))
        self.rowwise.update(values.flatten())


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter([tuple(row) for row in zip(*data(4), strict=True)])


class Strange(DistributedSampler[Any]):
    """Shares out rows in blocks."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.rank * self.num_samples, (self.rank + 1) * self.num_samples))


class Plain:
    """Batches that come from nowhere in particular."""

    def __iter__(self) -> Iterator[Any]:
        return iter([data(4)])


def named(rank: int, world: int) -> Any:
    table = Table(4)
    loaders: dict[str, tuple[Any, bool]] = {
        "metric": (loader(4, 2), True),
        "iterable": (DataLoader(Stream(), batch_size=2), True),
        "derived": (DataLoader(table, sampler=Strange(table), batch_size=2), True),
        "unshared": (DataLoader(table, batch_size=2), False),
        "plain": (Plain(), True),
        "shuffled": (TensorLoader(data(4), 2, shuffle=True), True),
        "own": (TensorLoader(data(4), 2), True),
    }
    found = {}
    for name, (each, shared) in loaders.items():
        running = trainer(world, use_distributed_sampler=shared)
        module = Summarised() if name == "metric" else Logged()
        with listening() as said:
            running.validate(module, each, verbose=False)
            running.validate(module, each, verbose=False)
        found[name] = said
    return found


class Paired(LightningModule):
    def validation_step(self, batch: Any, batch_idx: int) -> None:
        pass


class Fetching(LightningModule):
    def validation_step(self, dataloader_iter: Iterator[Any]) -> None:
        next(dataloader_iter)


def together(rank: int, world: int) -> Any:
    """Loaders that are read side by side give one batch between them, and a step may fetch its batches itself."""
    with listening() as side_by_side:
        loaders = CombinedLoader([loader(3, 1), loader(5, 1)], "min_size")
        trainer(world).validate(Paired(), loaders, verbose=False)
    with listening() as fetching:
        trainer(world).validate(Fetching(), loader(3, 1), verbose=False)
    return side_by_side, fetching


# ---- scenes: nothing is left behind


def replaced(running: Trainer, module: nn.Module) -> list[str]:
    """Whatever still stands in for something."""
    loops = (running.validate_loop, running.test_loop, running.fit_loop.epoch_loop.val_loop)
    owners = [running.strategy, *(loop._results for loop in loops), *module.modules()]
    return [
        f"{type(owner).__name__}.{name}"
        for owner in owners
        for name, value in vars(owner).items()
        if isinstance(value, MethodPatch)
    ]


class Failing(Counted):
    """Fails in its last batch, or copies itself in every batch."""

    fails = True

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        super().validation_step(batch, batch_idx, dataloader_idx)
        self.standing = replaced(self.trainer, self)
        if self.fails and batch_idx == 2:
            raise ZeroDivisionError("in the last batch")


def interrupted(rank: int, world: int) -> Any:
    running, module, filters = trainer(world), Failing(), [*warnings.filters]
    loaders = loader(2 * world + 1, 1)
    try:
        running.validate(module, loaders, verbose=False)
    except ZeroDivisionError:
        found = {"standing": module.standing, "after_failure": replaced(running, module)}
    found["filters"] = [each for each in warnings.filters if each not in filters]
    module.fails = False
    for metric in (module.kept[0].evaluation, module.kept[0].stock, module.kept[0].rows):
        metric.reset()
    running.validate(module, loaders, verbose=False)
    return {**found, "loaders": result(module, running), "after": replaced(running, module)}


class Copying(Counted):
    """Copies itself and goes on with the copy, in every batch."""

    def on_validation_batch_end(self, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        for duplicate in (copy.deepcopy(self.kept[0]), pickle.loads(pickle.dumps(self.kept[0]))):
            before = duplicate.stock.tp + duplicate.stock.tn + duplicate.stock.fp + duplicate.stock.fn
            duplicate.stock(*scores(batch))
            after = duplicate.stock.tp + duplicate.stock.tn + duplicate.stock.fp + duplicate.stock.fn
            self.grown.append(int(after - before) - len(batch[0]))


def copied(rank: int, world: int) -> Any:
    running, module = trainer(world), Copying()
    module.grown = []
    running.validate(module, loader(2 * world + 1, 1), verbose=False)
    return {"loaders": result(module, running), "grown": module.grown}


def alone(rank: int, world: int) -> Any:
    """One rank, where nothing is to do."""
    running, module, mine = trainer(world), Failing(), loader(5, 2)
    module.fails = False
    with listening() as said:
        running.validate(module, mine, verbose=False)
        running.validate(Summarised(), DataLoader(Stream(), batch_size=2), verbose=False)
    return {"standing": module.standing, "sampler": type(mine.batch_sampler).__name__, "said": said}


# ---- scenes: a module in pieces


class Sharded(Counted):
    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(FEATURES, 4), nn.ReLU(), nn.Linear(4, 1)).double()
        for place, parameter in enumerate(self.network.parameters()):
            parameter.data = torch.cos(torch.arange(parameter.numel()) + place).view_as(parameter).double()

    def configure_model(self) -> None:
        for part in (self.network[0], self.network[2], self.network):
            fully_shard(part, mesh=self.device_mesh["data_parallel"])


def sharded(rank: int, world: int) -> Any:
    found = {}
    for length, size in ((1, 1), (5, 1), (7, 3)):
        strategy = ModelParallelStrategy(data_parallel_size=world, tensor_parallel_size=1, process_group_backend="gloo")
        running, module = trainer(world, strategy=strategy), Sharded()
        with listening() as said:
            running.validate(module, loader(length, size), verbose=False)
        kinds = {type(parameter).__name__ for parameter in module.parameters()}
        found[length] = {"loaders": result(module, running), "forwards": module.forwards, "kinds": kinds, "said": said}
    return found


SCENES: ranks.Scenes = {
    "grid": grid,
    "fitted": fitted,
    "sampled": sampled,
    "worked": worked,
    "limited": limited,
    "repeated": repeated,
    "logged": logged,
    "emptied": emptied,
    "measured": measured,
    "held": held,
    "classified": classified,
    "called_back": called_back,
    "padded": padded,
    "streamed": streamed,
    "named": named,
    "together": together,
    "interrupted": interrupted,
    "copied": copied,
    "alone": alone,
    "sharded": sharded,
}
WHERE: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("fitted", "sampled", "limited", "repeated", "logged", "emptied", "measured", "held"), (2, 3)),
    **dict.fromkeys(("worked", "padded", "streamed", "named", "together", "interrupted", "copied", "sharded"), (2,)),
    **dict.fromkeys(("classified", "called_back"), (1, 2, 3)),
    "alone": (1,),
}
"""The worlds in which a scene is played, if not in all."""
