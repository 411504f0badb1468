"""A user's own classes, named by import path, and calls of evalkit."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
import torch
import yaml
from lightning.pytorch import Callback, LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lightning_evalkit.cli import main
from lightning_evalkit.cli.training import launched
from lightning_evalkit.data import (
    MulticlassDataModule,
    MultilabelDataModule,
)

if TYPE_CHECKING:
    from lightning_evalkit.cli.training import EvalkitCLI


Capture = pytest.CaptureFixture[str]
OWN = __name__
BALANCED = ("--model", "BinaryClassifier", "--data", "BalancedDataModule")
IMBALANCED = ("--model", "BinaryClassifier", "--data", "ImbalancedDataModule", "--data.prevalence", "0.1")
LEARNING = (*IMBALANCED, "--data.prevalence=0.3", "--model.hidden=[8]", "--model.learning_rate=0.1")
"""Learns enough in two epochs for every statistic to be defined."""
SMALL = ("--data.train_size=200", "--data.val_size=101", "--data.test_size=100", "--data.batch_size=50")
TINY = ("--data.train_size=100", "--data.val_size=50", "--data.test_size=50")
SILENT = (
    "--trainer.accelerator=cpu",
    "--trainer.enable_progress_bar=false",
    "--trainer.enable_model_summary=false",
    "--trainer.callbacks=[{class_path: ModelCheckpoint, init_args: {save_on_exception: true}}]",
)
"""Without reports: drawing figures takes longer than these trainings."""


class Own(LightningModule):
    """Knows its width by itself."""

    def __init__(self, width: int = 3, rate: float = 0.1) -> None:
        super().__init__()
        self.layer, self.rate = nn.Linear(width, 1), rate
        self.save_hyperparameters()

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        features, target = batch
        return ((self.layer(features).squeeze(1) - target) ** 2).mean()

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("val_loss", self.training_step(batch, batch_idx))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), self.rate)


class Asking(Own):
    """Asks how many features there are."""

    def __init__(self, num_features: int, rate: float = 0.1) -> None:
        super().__init__(num_features, rate)


class OwnData(LightningDataModule):
    """Says nothing about itself."""

    def __init__(self, width: int = 3) -> None:
        super().__init__()
        self.width = width

    def train_dataloader(self) -> DataLoader[Any]:
        return DataLoader(TensorDataset(torch.ones(20, self.width), torch.ones(20)), batch_size=5)

    val_dataloader = train_dataloader


class Telling(OwnData):
    """Says how many features it has."""

    @property
    def num_features(self) -> int:
        return self.width


class NamedClasses(MulticlassDataModule):
    """Classes with names."""

    class_names: ClassVar[list[str]] = ["cat", "dog", "cow"]


class NamedLabels(MultilabelDataModule):
    """Labels with names."""

    label_names: ClassVar[list[str]] = ["wet", "old"]


class Net(nn.Module):
    """A network that a configuration describes."""

    def __init__(self, width: int, deep: int = 1) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(width, width) for _ in range(deep)), nn.Linear(width, 1))

    def forward(self, features: Tensor) -> Tensor:
        logits: Tensor = self.layers(features)
        return logits


class Interrupting(Callback):
    """Presses Ctrl-C in the middle of a stage, perhaps once and where all exceptions are caught."""

    def __init__(self, hook: str = "on_train_batch_start", after: int = 0, lost: bool = False) -> None:
        self.left, self.lost = after, lost
        setattr(self, hook, self._press)

    def _press(self, *_: Any) -> None:
        self.left -= 1
        if self.left < 0 and not self.lost:
            os.kill(os.getpid(), signal.SIGINT)
        elif self.left == -1:
            with suppress(BaseException):
                os.kill(os.getpid(), signal.SIGINT)


def fit(*arguments: str, epochs: int = 2, small: tuple[str, ...] = SMALL) -> EvalkitCLI:
    return launched(["fit", *arguments, *small, *SILENT, f"--trainer.max_epochs={epochs}"])


def numbers(ended: EvalkitCLI, stage: str = "") -> dict[str, float]:
    return {name: float(value) for name, value in ended.trainer.callback_metrics.items() if name.startswith(stage)}


def called(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    """The exit code, standard output and standard error of a call in this process."""
    try:
        code = main(arguments)
    except SystemExit as stopped:
        code = int(stopped.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


def written(name: str, content: Any) -> str:
    Path(name).write_text(content if isinstance(content, str) else yaml.safe_dump(content), encoding="utf-8")
    return name


class Run:
    """A training with a checkpoint, and its numbers."""

    def __init__(self, folder: Path) -> None:
        self.ended = fit(*LEARNING, f"--trainer.default_root_dir={folder}")
        self.log_dir = Path(self.ended.trainer.log_dir or "")
        self.configuration = self.log_dir / "config.yaml"
        [self.checkpoint] = (str(path) for path in self.log_dir.rglob("*.ckpt"))

    def replace(self, command: str, *arguments: str) -> EvalkitCLI:
        words = [command, *LEARNING, f"--ckpt_path={self.checkpoint}"]
        return launched([*words, *SMALL, *SILENT, *arguments])
