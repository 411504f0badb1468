"""Data, modules and trainers of which every rank evaluates a part."""

from __future__ import annotations

import warnings
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import ranks
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.strategies import DDPStrategy
from quiet import quiet_trainer
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.utils.data import DataLoader, Dataset
from torchmetrics import CatMetric
from torchmetrics.classification import BinaryStatScores
from versions import has

from lightning_evalkit import BinaryEvaluation
from lightning_evalkit.callbacks.exact_distributed import ExactDistributedEvaluation

if has("torch", "2.6"):
    pass
else:
    pass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lightning.pytorch.callbacks import Callback

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
    added = [ExactDistributedEvaluation()] if exact else []
    return quiet_trainer(*added, *callbacks, devices=world, **options)


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
