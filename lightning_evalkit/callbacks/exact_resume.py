"""Resumes mid-epoch as if the run had never stopped: what Lightning's loops leave out."""

from __future__ import annotations

import signal
import threading
from time import monotonic
from typing import TYPE_CHECKING, Any

from torchmetrics.utilities import rank_zero_warn

from lightning_evalkit.trainer import (
    Callback,
    accumulates,
    batches,
    can_save_alone,
    complete_batch,
    end_epoch,
    forget_restart,
    is_mid_epoch,
    is_of_trainer,
    loader_states,
    put_validation_next,
    restart_validation,
    save_alone,
    take_back_steps,
    training_loaders,
    validation_is_due,
)

if TYPE_CHECKING:
    from lightning_evalkit.trainer import LightningModule, Trainer

GRACE = 30.0
"""Seconds for saving where another process has failed; torchrun kills after as many."""


class ExactResume(Callback):
    """Makes a run that resumes within an epoch end with the numbers of one that never stopped.

    A validation that was running or due when the checkpoint was saved begins again; Lightning skips it, or gives it the
    first rows in place of the last. A ``TensorLoader`` yields a batch in progress again; a warning names loaders that
    cannot resume where they were. When one process fails, the others save a checkpoint at once; Lightning waits for it
    for half an hour.

    This package's modules bring it along and ``evalkit`` adds it to every run. Add it yourself for your own module and
    trainer: ``Trainer(callbacks=[ExactResume()])``.
    """

    def __init__(self) -> None:
        self._validated, self._positions = False, 0

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Begin a run in which processes wait for each other."""
        self._validated, self._positions = False, 0
        save_alone(trainer, False)

    # ---- training

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Note how many loaders saved their position."""
        self._positions = loader_states(checkpoint)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Tell loaders who knows which batches are done, and name those that cannot resume."""
        for loader in training_loaders(trainer):
            if hasattr(loader, "read_by"):
                loader.read_by = trainer
        progress = batches(trainer)
        if not is_mid_epoch(trainer):
            return
        if progress.is_last_batch and progress.current.ready == progress.current.processed:
            if not validation_is_due(trainer):  # Lightning would train on one batch more
                end_epoch(trainer)
        elif progress.current.processed:
            self._name_unresumable(trainer)

    def _name_unresumable(self, trainer: Trainer) -> None:
        loaders = training_loaders(trainer)
        named = [each for each in loaders if not (self._positions and hasattr(each, "load_state_dict"))]
        if named:
            rank_zero_warn(
                f"the run resumes within epoch {trainer.current_epoch}, after its batch "
                f"{batches(trainer).current.processed}, but {' and '.join(map(_described, named))} begins anew: "
                "some rows are trained on and counted twice, others not at all. Resume from the end of an epoch, or "
                "with a loader that has state_dict and load_state_dict, as this package's TensorLoader.",
                UserWarning,
            )

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self._validated = False

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Start a new epoch; Lightning forgets to if it resumed at the end of one."""
        forget_restart(trainer)

    # ---- validation

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Start again: no count holds the rows that an interrupted validation had seen."""
        restart_validation(trainer)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._validated = True

    # ---- checkpoints: what comes next, in Lightning's own terms; it has none for what is due or half done

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Correct the saved progress of the loops."""
        progress = batches(trainer).current
        if not is_mid_epoch(trainer):
            return
        if progress.ready > progress.processed:
            take_back_steps(checkpoint, int(not accumulates(trainer)))  # as many will be added to it
        elif progress.processed and not self._validated:
            due = validation_is_due(trainer)
            if due:
                put_validation_next(checkpoint)
            if due or batches(trainer).is_last_batch:
                complete_batch(checkpoint)

    # ---- failures

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Save from this rank alone; skip if the strategy needs every rank."""
        if trainer.world_size == 1:
            return
        if can_save_alone(trainer):
            _survive_sigterm()
            save_alone(trainer, True)
        else:
            for each in trainer.checkpoint_callbacks:
                vars(each)["save_on_exception"] = False


def _survive_sigterm() -> None:
    """Let SIGTERM, from a launcher that has seen another process fail, not disturb the saving.

    Lightning's handler would tell the other processes first, and hang or raise where one of them is gone. Lightning
    restores the handlers that were there before its own after the saving.
    """
    handler = signal.getsignal(signal.SIGTERM)
    until = monotonic() + GRACE

    def put_off(number: int, frame: Any) -> None:
        if monotonic() > until and callable(handler):
            handler(number, frame)

    if is_of_trainer(handler) and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, put_off)


def _described(loader: Any) -> str:
    data = getattr(loader, "dataset", None)
    return type(loader).__name__ if data is None else f"{type(loader).__name__} of {type(data).__name__}"
