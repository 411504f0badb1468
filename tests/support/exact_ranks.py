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
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ranks
import torch
import torch.distributed as dist
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy
from lightning.pytorch.utilities import CombinedLoader
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.utils.data import BatchSampler, DataLoader, Dataset, DistributedSampler, IterableDataset, Sampler
from torchmetrics import CatMetric, MaxMetric, MeanMetric, MetricCollection
from torchmetrics.classification import BinaryAUROC, BinaryF1Score, BinaryRecall, BinaryStatScores, MulticlassPrecision
from torchmetrics.regression import CosineSimilarity, SpearmanCorrCoef
from torchmetrics.retrieval import RetrievalMAP
from torchmetrics.text import ROUGEScore
from torchmetrics.wrappers import ClasswiseWrapper, MultioutputWrapper
from versions import has

from lightning_evalkit import BinaryEvaluation
from lightning_evalkit.callbacks import Evaluate, LossReport, ThresholdTuning
from lightning_evalkit.callbacks.exact_distributed import ExactDistributedEvaluation
from lightning_evalkit.callbacks.parts.method_patch import MethodPatch
from lightning_evalkit.data import TensorLoader
from lightning_evalkit.metrics import BinaryAUROC as OwnAUROC
from lightning_evalkit.metrics import BinaryStatScores as OwnStatScores
from lightning_evalkit.modules import BinaryClassifier

if has("torch", "2.6"):
    from torch.distributed.fsdp import fully_shard
else:
    from torch.distributed._composable.fsdp import fully_shard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WORLDS = (4, 3, 2, 1)
LENGTHS = range(1, 41)
FEATURES = 3
PATIENCE = timedelta(minutes=3)
"""A quarter of what all scenes may take on a busy machine; a single collective may take ``ranks.PATIENCE``."""

# About Lightning itself, the machine, and values that are meant not to be joined.
EXPECTED = (
    ".*isinstance.treespec, LeafSpec.. is deprecated",
    "The '[a-z_]+_dataloader' does not have many workers",
    "The number of training batches .* is smaller than the logging interval",
    "It is recommended to use `self.log",
    "Consider setting `persistent_workers=True`",
    "Your `[a-z]+_dataloader`'s sampler has shuffling enabled",
    ".*Metric `.*` will save all targets and predictions in the buffer",
)


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
            dist.destroy_process_group()


def _scenes(rank: int, world: int) -> dict[str, Any]:
    """What a rank returned from every scene, up to one that failed: others wait for it no longer than for one."""
    results: dict[str, Any] = {}
    for name, scene in SCENES.items():
        if world in WHERE.get(name, WORLDS):
            results[name] = ranks._played(scene, rank, world)
            if isinstance(results[name], str):
                break
    return results


# ---- what is evaluated


def data(length: int) -> tuple[Tensor, Tensor, Tensor]:
    """Features, targets and the number of each row."""
    generator = torch.Generator().manual_seed(11)
    x = torch.randn(100, FEATURES, generator=generator, dtype=torch.float64)
    y = torch.randint(0, 2, (100,), generator=generator)
    return x[:length], y[:length], torch.arange(length)


class Table(Dataset[tuple[Tensor, ...]]):
    """Rows of the data, by number or by the name of the number."""

    def __init__(self, length: int) -> None:
        self.tensors = data(length)

    def __len__(self) -> int:
        return len(self.tensors[0])

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[int(index)] for tensor in self.tensors)


def loader(length: int, batch_size: int | None, **options: Any) -> DataLoader[Any]:
    return DataLoader(Table(length), batch_size=batch_size, **options)


def network() -> nn.Module:
    """With statistics of its own that every row passes through."""
    generator = torch.Generator().manual_seed(3)
    normalise, linear = nn.BatchNorm1d(FEATURES), nn.Linear(FEATURES, 1)
    normalise.running_mean, normalise.running_var = torch.rand((2, FEATURES), generator=generator)
    linear.weight.data, linear.bias.data = torch.randn((1, FEATURES), generator=generator), torch.zeros(1)
    return nn.Sequential(normalise, linear).double()


class Kept(nn.Module):
    """An evaluation, sums and lists of torchmetrics."""

    def __init__(self) -> None:
        super().__init__()
        self.evaluation = BinaryEvaluation("logits", zero_division=0.0)
        self.stock, self.rows = BinaryStatScores(), CatMetric()

    def update(self, logits: Tensor, y: Tensor, number: Tensor) -> None:
        self.evaluation.update(logits, y)
        self.stock.update(logits.sigmoid(), y)
        self.rows.update(number)

    def read(self) -> dict[str, Any]:
        tp, fp, tn, fn, _ = self.stock.compute().tolist()
        rows = self.rows.compute().reshape(-1).long().tolist()
        found = {"counts": ranks.cells(self.evaluation), "stock": [tp, fp, fn, tn], "rows": sorted(rows)}
        for metric in (self.evaluation, self.stock, self.rows):
            metric.reset()
        return found


class Counted(LightningModule):
    """Counts by hand and logs plain values, the same in validation and test."""

    def __init__(self, loaders: int = 1) -> None:
        super().__init__()
        self.network = network()
        self.kept = nn.ModuleList(Kept() for _ in range(loaders))
        self.seen: list[Any] = []
        self.trained: list[int] = []
        self.forwards = 0

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        self.trained += batch[2].tolist()
        return self.network(batch[0]).mean()

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        x, y, number = batch
        logits = self.network(x)[:, 0]
        self.forwards += 1
        self.kept[dataloader_idx].update(logits, y, number)
        self.log_loss(binary_cross_entropy_with_logits(logits, y.double(), reduction="none"))

    def log_loss(self, losses: Tensor) -> None:
        self.log("loss", losses.mean(), sync_dist=True)

    def test_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        self.validation_step(batch, batch_idx, dataloader_idx)

    def on_validation_epoch_end(self) -> None:
        self.seen.append([each.read() for each in self.kept])

    def on_test_epoch_end(self) -> None:
        self.on_validation_epoch_end()

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.0)


def trainer(world: int, *callbacks: Callback, exact: bool = True, **options: Any) -> Trainer:
    options.setdefault("strategy", DDPStrategy(process_group_backend="gloo"))
    return Trainer(
        accelerator="cpu",
        devices=world,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[ExactDistributedEvaluation(), *callbacks] if exact else [*callbacks],
        **{"enable_checkpointing": False, **options},
    )


@ranks.contextmanager
def listening() -> Iterator[list[str]]:
    """What is said meanwhile, apart from what is expected of others."""
    said: list[str] = []
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        for words in EXPECTED:
            warnings.filterwarnings("ignore", words)
        yield said
    said += [str(each.message) for each in heard if not issubclass(each.category, DeprecationWarning)]


def result(module: Counted, running: Trainer) -> list[dict[str, Any]]:
    """What the last epoch counted and logged, by loader."""
    several = len(module.kept) > 1
    ends = [f"/dataloader_idx_{place}" if several else "" for place in range(len(module.kept))]
    losses = [running.callback_metrics[f"loss{end}"].item() for end in ends]
    return [{**counted, "loss": loss} for counted, loss in zip(module.seen[-1], losses, strict=True)]


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


# ---- scenes: metrics


def texts(batch: Any) -> tuple[list[str], list[str]]:
    return [f"a {y} cat sat" for y in batch[1]], [f"the {y} cat {number}" for y, number in zip(*batch[1:], strict=True)]


def scores(batch: Any) -> tuple[Tensor, Tensor]:
    return batch[0][:, 0].sigmoid(), batch[1]


def pairs(batch: Any) -> tuple[Tensor, Tensor]:
    return batch[0][:, :2].float(), batch[0][:, 1:].float()


METRICS: dict[str, tuple[Callable[[], Any], Callable[[Any], tuple[Any, ...]]]] = {
    "list": (BinaryAUROC, scores),
    "collection": (lambda: MetricCollection([BinaryAUROC(), BinaryF1Score(), BinaryRecall()]), scores),
    "single_list": (CosineSimilarity, pairs),
    "list_per_batch": (lambda: RetrievalMAP(empty_target_action="skip"), lambda batch: (*scores(batch), batch[2] // 3)),
    "list_per_row": (lambda: ROUGEScore(rouge_keys="rouge1"), texts),
    "list_of_numbers": (CatMetric, lambda batch: (batch[0].sum(), )),
    "inside": (lambda: MultioutputWrapper(SpearmanCorrCoef(), 2), pairs),
    "renamed": (lambda: ClasswiseWrapper(MulticlassPrecision(3, average=None)), lambda batch: (batch[0], batch[1])),
    "composed": (lambda: BinaryF1Score() + BinaryAUROC(), scores),
    "largest": (MaxMetric, lambda batch: (batch[0],)),
    "mean": (MeanMetric, lambda batch: (batch[0][:, 0],)),
    "weighed": (MeanMetric, lambda batch: (batch[0].mean(), len(batch[0]))),
    "on_step": (lambda: BinaryAUROC(dist_sync_on_step=True), scores),
    "own": (lambda: BinaryEvaluation("probabilities", zero_division=0.0, curves=True, resolution=64), scores),
    "own_list": (lambda: OwnAUROC(), scores),
    "own_rows": (lambda: OwnStatScores(multidim_average="samplewise"), lambda batch: (batch[0], (batch[0] > 1).long())),
    "own_on_step": (lambda: BinaryEvaluation("probabilities", zero_division=0.0, dist_sync_on_step=True), scores),
    "own_in_stock": (lambda: MetricCollection([OwnAUROC(), BinaryF1Score()]), scores),
}  # fmt: skip
UPDATED = ("composed", "inside")
"""Metrics whose forward does not give the value of a batch, or not of one row."""


class Measured(LightningModule):
    """Metrics of all kinds, updated or called."""

    def __init__(self, called: bool) -> None:
        super().__init__()
        self.called = called
        self.metrics = nn.ModuleDict({name: build() for name, (build, _) in METRICS.items()})

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        for name, metric in self.metrics.items():
            given = METRICS[name][1](batch)
            metric(*given) if self.called and name not in UPDATED else metric.update(*given)

    def on_validation_epoch_end(self) -> None:
        self.values = {name: plain(metric.compute()) for name, metric in self.metrics.items()}


def plain(computed: Any) -> Any:
    """Numbers, those of rows in order."""
    if isinstance(computed, dict):
        return {name: plain(value) for name, value in computed.items()}
    return sorted(computed.tolist()) if computed.ndim else computed.item()


def measured(rank: int, world: int) -> Any:
    found = {}
    for called in (False, True):
        for length, size in ((1, 1), (2 * world + 1, 1), (2 * world + 1, 2)):
            module = Measured(called)
            trainer(world).validate(module, loader(length, size), verbose=False)
            found[called, length, size] = module.values
    return found


class Holding(Callback):
    """Metrics of its own, where Lightning does not look for any."""

    def __init__(self) -> None:
        self.evaluations = {"val": BinaryEvaluation("probabilities", zero_division=0.0)}
        self.rows = [CatMetric()]

    def on_validation_batch_end(self, trainer: Trainer, pl_module: Any, outputs: Any, batch: Any, *_: Any) -> None:
        self.evaluations["val"].update(*scores(batch))
        self.rows[0].update(batch[2])

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.found = {"counts": ranks.cells(self.evaluations["val"]), "rows": sorted(self.rows[0].compute().tolist())}
        pl_module.log("counted", float(sum(self.found["counts"])), sync_dist=True)


def held(rank: int, world: int) -> Any:
    """Callbacks before and after the one that makes them exact."""
    before, after = Holding(), Holding()
    running = trainer(world, before, ExactDistributedEvaluation(), after, exact=False)
    running.validate(Counted(), loader(2 * world + 1, 1), verbose=False)
    return [before.found, after.found, running.callback_metrics["counted"].item()]


class Pairs(Table):
    """Features and targets alone."""

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        x, y, _ = super().__getitem__(index)
        return x, y


def classified(rank: int, world: int) -> Any:
    """A module of this package, with two loaders that are not."""
    module = BinaryClassifier(network=network(), statistics=["accuracy"], worst=0.5)
    running, loaders = trainer(world), [DataLoader(Pairs(length), batch_size=1) for length in (1, 7)]
    with listening() as said:
        running.validate(module, loaders, verbose=False)
    values = {name: value.item() for name, value in running.callback_metrics.items()}
    return {
        "values": values,
        "counts": [ranks.cells(module.evaluation("val", place)) for place in (0, 1)],
        "said": said,
    }


class Returning(LightningModule):
    """Leaves counting to the callbacks of this package."""

    def validation_step(self, batch: Any, batch_idx: int) -> dict[str, Tensor]:
        return {"logits": batch[0][:, 0], "target": batch[1]}

    def test_step(self, batch: Any, batch_idx: int) -> dict[str, Tensor]:
        return self.validation_step(batch, batch_idx)


def called_back(rank: int, world: int) -> Any:
    """The callbacks that evaluate, choose a threshold and profile the loss."""
    evaluate = Evaluate(BinaryEvaluation("logits", zero_division=0.0, curves=True, resolution=64))
    tuning = ThresholdTuning(BinaryEvaluation("logits", zero_division=0.0, curves=True, resolution=64))
    running, found = trainer(world, evaluate, tuning, LossReport()), {}
    for length, size in ((7, 1), (13, 4)):
        with listening() as said:
            running.validate(Returning(), loader(length, size), verbose=False)
            values = {name: value.item() for name, value in running.callback_metrics.items()}
            running.test(Returning(), loader(length, size), verbose=False)
        values |= {name: value.item() for name, value in running.callback_metrics.items()}
        found[length] = {"values": values, "counts": ranks.cells(evaluate.evaluation("test")), "said": said}
    return found


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
    "named": named,
    "together": together,
    "interrupted": interrupted,
    "copied": copied,
    "alone": alone,
    "sharded": sharded,
}
WHERE: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("fitted", "sampled", "limited", "repeated", "logged", "emptied", "measured", "held"), (2, 3)),
    **dict.fromkeys(("worked", "named", "together", "interrupted", "copied", "sharded"), (2,)),
    **dict.fromkeys(("classified", "called_back"), (1, 2, 3)),
    "alone": (1,),
}
"""The worlds in which a scene is played, if not in all."""
