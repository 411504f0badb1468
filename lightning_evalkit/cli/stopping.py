"""Ends a run of Lightning when it was asked to by Ctrl-C or SIGTERM, and says so to the command line."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities.exceptions import SIGTERMException

from lightning_evalkit.cli.signals import ended_by

if TYPE_CHECKING:
    from collections.abc import Iterator


class EndInTime(Callback):
    """Ends a run that did not hear Ctrl-C, and a prediction after the batch in which SIGTERM arrived.

    The exception of Ctrl-C is lost in code that catches all exceptions, as fsspec's ``exists`` does, by which Lightning
    looks for checkpoints. SIGTERM ends all other stages of Lightning by itself.
    """

    def __init__(self) -> None:
        self._pressed = False

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Note Ctrl-C from now on, unless somebody else handles it."""
        self._pressed = False
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._interrupt)

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Leave Ctrl-C to Python again."""
        if signal.getsignal(signal.SIGINT) == self._interrupt:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _interrupt(self, number: int, frame: Any) -> None:
        self._pressed = True
        signal.default_int_handler(number, frame)

    def _end_if_pressed(self, *_: Any, **__: Any) -> None:
        if self._pressed:
            raise KeyboardInterrupt

    on_train_batch_start = on_validation_batch_start = on_test_batch_start = _end_if_pressed
    on_predict_batch_start = _end_if_pressed

    def on_predict_batch_end(self, trainer: Trainer, *_: Any) -> None:
        """End if SIGTERM arrived in this batch."""
        end_if_asked(trainer)


def end_if_asked(trainer: Trainer) -> None:
    """End if SIGTERM arrived in the last batch of a stage, where Lightning does not look for it."""
    if trainer.received_sigterm:
        raise SIGTERMException


@contextmanager
def interruptible() -> Iterator[None]:
    """Restore interrupts: Lightning turns Ctrl-C into ``sys.exit(1)``, may ignore further ones, and SIGTERM into 0."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    except SIGTERMException as stopped:
        raise ended_by(signal.SIGTERM) from stopped
    except SystemExit as stopped:
        if isinstance(stopped.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from stopped
        raise
    finally:
        if signal.getsignal(signal.SIGINT) is not before:
            signal.signal(signal.SIGINT, before)
