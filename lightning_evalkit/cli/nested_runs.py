"""Runs inside other commands: the same code as ``evalkit fit``, silent, and returning its numbers."""

from __future__ import annotations

import logging
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lightning.pytorch import Callback, LightningModule, Trainer

from lightning_evalkit.cli.training import EvalkitCLI, launched, measured_by
from lightning_evalkit.errors import UndefinedWarning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

QUIET = (
    "--trainer.enable_progress_bar=false",
    "--trainer.enable_model_summary=false",
    "--trainer.num_sanity_val_steps=0",
)


class Ticking(Callback):
    """Reports the progress of a training as a share."""

    def __init__(self, tell: Callable[[float], None]) -> None:
        self.tell = tell

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        epochs = trainer.max_epochs or 0
        if epochs > 0:
            self.tell((trainer.current_epoch + 1) / epochs)


def fitted(arguments: Sequence[str], tell: Callable[[float], None]) -> tuple[EvalkitCLI, dict[str, float]]:
    """Train, test if there is test data, and return the run with the last value of every logged number."""
    with _quiet():
        done = launched(["fit", *arguments, *QUIET], extra=[Ticking(tell)])
        measured = measured_by(done.trainer)
        measured |= done.test_too()
    return done, measured


def tested(arguments: Sequence[str]) -> tuple[EvalkitCLI, dict[str, float]]:
    """Test a checkpoint."""
    with _quiet():
        done = launched(["test", *arguments, *QUIET, "--verbose=false"])
    return done, measured_by(done.trainer)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Lightning's messages about every single run, which would bury the table."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UndefinedWarning)
        warnings.filterwarnings("ignore", module="lightning")
        try:
            for logger in loggers:
                logger.setLevel(logging.ERROR)
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
