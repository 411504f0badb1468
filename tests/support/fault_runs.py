"""Runs that are interrupted and resumed, in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from lightning.pytorch import Callback, Trainer, seed_everything
from lightning.pytorch.callbacks import ModelCheckpoint
from quiet import quiet_trainer

from lightning_evalkit.data import ImbalancedDataModule
from lightning_evalkit.modules import BinaryClassifier

if TYPE_CHECKING:
    from pathlib import Path


EPOCHS, BATCHES = 3, 4


class StoppedError(Exception):
    """An interruption."""


class Stopping(Callback):
    """Raises in a hook when it comes for the so-manieth time, not in the sanity check."""

    def __init__(self, hook: str, times: int) -> None:
        self.left = times
        setattr(self, hook, self._stop)

    def _stop(self, trainer: Any, *_: Any) -> None:
        self.left -= not trainer.sanity_checking
        if self.left == 0:
            raise StoppedError


class Recording(Callback):
    """What is known at the end of each epoch, and where the loggers believe to be."""

    def __init__(self) -> None:
        self.epochs: dict[int, Any] = {}
        self.validations: list[Any] = []

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        assert trainer.current_epoch not in self.epochs, "an epoch ends once"
        counts = [int(cell) for cell in pl_module.evaluation("train").counts.cells]
        losses = [metric.compute().item() for metric in pl_module.train_evaluations[0].losses.values()]
        self.epochs[trainer.current_epoch] = counts, losses, trainer.fit_loop.epoch_loop._batches_that_stepped

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        if not trainer.sanity_checking:
            counts = [int(cell) for cell in pl_module.evaluation("val").counts.cells]
            self.validations.append((trainer.global_step, counts))


def trainer(*callbacks: Callback, **options: Any) -> Trainer:
    return quiet_trainer(*callbacks, **{"max_epochs": EPOCHS, **options})


def started(**options: Any) -> tuple[BinaryClassifier, ImbalancedDataModule]:
    """The same model and data every time."""
    seed_everything(0, verbose=False)
    data = ImbalancedDataModule(prevalence=0.4, train_size=40, val_size=25, test_size=10, batch_size=10, num_features=4)
    return BinaryClassifier(num_features=4, learning_rate=0.1, **options), data


def saving(folder: Path, **options: Any) -> ModelCheckpoint:
    return ModelCheckpoint(folder, **{"save_last": True, "save_on_exception": True, **options})


def interrupted(folder: Path, stopping: Stopping, checkpoint: ModelCheckpoint, **options: Any) -> Recording:
    """The first half of a run."""
    recording = Recording()
    with pytest.raises(StoppedError):
        trainer(recording, stopping, checkpoint, enable_checkpointing=True, **options).fit(*started())
    assert (folder / "last.ckpt").is_file()
    return recording
