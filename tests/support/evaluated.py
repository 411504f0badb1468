"""Modules, loaders and trainers for tests of Evaluate."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback, Checkpoint
from lightning.pytorch.loggers import TensorBoardLogger
from quiet import quiet_trainer
from sklearn import metrics as sklearn
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lightning_evalkit import BinaryEvaluation

if TYPE_CHECKING:
    from pathlib import Path


ROWS, BATCH, EPOCHS, SHIFT = 45, 8, 3, 0.4
BATCHES = -(-ROWS // BATCH)
TRAINING, VALIDATION, TESTING = 1, 2, 3
"""Seeds of the three sets."""
NAMES = {
    "accuracy": sklearn.accuracy_score,
    "precision": partial(sklearn.precision_score, zero_division=0.0),
    "recall": partial(sklearn.recall_score, zero_division=0.0),
    "f1": partial(sklearn.f1_score, zero_division=0.0),
}
ALL = ("train", "val", "test")


def rows(seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(ROWS, generator=generator), torch.randint(0, 2, (ROWS,), generator=generator)


def loader(seed: int) -> DataLoader[Any]:
    return DataLoader(TensorDataset(*rows(seed)), batch_size=BATCH)


def expected(seed: int, epoch: int, prefix: str = "", suffix: str = "") -> dict[str, Any]:
    scores, target = rows(seed)
    decided = (scores + SHIFT * epoch > 0).long()
    values = {name: statistic(target, decided) for name, statistic in NAMES.items()}
    return {f"{prefix}{name}{suffix}": pytest.approx(value, abs=1e-6) for name, value in values.items()}


def counted(seed: int, epoch: int) -> list[int]:
    """True and false positives, false and true negatives."""
    scores, target = rows(seed)
    (tn, fp), (fn, tp) = sklearn.confusion_matrix(target, scores + SHIFT * epoch > 0).tolist()
    return [tp, fp, fn, tn]


def cells(evaluation: Any) -> list[int]:
    return [cell.item() for cell in evaluation.counts.cells]


def binary(**options: Any) -> BinaryEvaluation:
    return BinaryEvaluation(**({"inputs": "logits", "statistics": list(NAMES), "zero_division": 0.0} | options))


class Plain(LightningModule):
    """No metric anywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale + SHIFT * self.current_epoch

    def step(self, batch: Any) -> Any:
        x, target = batch
        logits = self(x)
        return {"loss": logits.square().mean(), "logits": logits, "target": target}

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return self.step(batch)

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> Any:
        return self.step(batch)

    def test_step(self, batch: Any, batch_idx: int) -> Any:
        return self.step(batch)

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.0)


class Witness(Callback):
    """Notes what Lightning reports at the end of each stage."""

    def __init__(self) -> None:
        self.seen: dict[str, list[dict[str, float]]] = {stage: [] for stage in ALL}

    def _note(self, trainer: Trainer, stage: str) -> None:
        if not trainer.sanity_checking:
            values = {name: value.item() for name, value in trainer.callback_metrics.items()}
            self.seen[stage].append({name: values[name] for name in values if name.startswith(f"{stage}/")})

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.current_epoch:
            self._note(trainer, "train")

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._note(trainer, "train")

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._note(trainer, "val")

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._note(trainer, "test")


def trainer(*callbacks: Callback, **options: Any) -> Trainer:
    return quiet_trainer(*callbacks, **{"max_epochs": EPOCHS, **options})


def fit(*callbacks: Callback, module: LightningModule | None = None, **options: Any) -> Trainer:
    fitting, sets = trainer(*callbacks, **options), (loader(TRAINING), loader(VALIDATION))
    fitting.fit(module or Plain(), *sets)
    return fitting


class Saving(Checkpoint):
    """After every batch, in validation and at the end of epochs; Lightning puts it behind other callbacks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _save(self, trainer: Trainer, where: str) -> None:
        trainer.save_checkpoint(self.folder / f"{where}-{trainer.global_step}.ckpt")

    def on_train_batch_end(self, trainer: Trainer, *_: Any) -> None:
        self._save(trainer, "batch")

    def on_validation_end(self, trainer: Trainer, *_: Any) -> None:
        self._save(trainer, "validation")

    def on_train_epoch_end(self, trainer: Trainer, *_: Any) -> None:
        self._save(trainer, "epoch")


def tags(folder: Path) -> dict[str, Any]:
    return EventAccumulator(str(folder), size_guidance={"images": 0, "scalars": 0, "tensors": 0}).Reload().Tags()


def board(folder: Path) -> TensorBoardLogger:
    return TensorBoardLogger(folder, name="", version="board", default_hp_metric=False)


def second_of_batch(outputs: Any, batch: Any) -> tuple[Tensor, Tensor]:
    return outputs, batch[1]
