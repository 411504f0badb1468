"""Going on within an epoch as if nothing had happened: what Lightning's loops leave out when a run was interrupted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lightning.pytorch import Callback
from lightning.pytorch.strategies import Strategy
from lightning.pytorch.utilities import rank_zero_warn

if TYPE_CHECKING:
    from collections.abc import Callable

    from lightning.pytorch import LightningModule, Trainer

BEGUN = {"ready": 1, "started": 1, "processed": 0, "completed": 0}
"""What Lightning writes of a validation that is at its first batch."""
ALONE: dict[str, Callable[..., Any]] = {
    "barrier": lambda *_, **__: None,
    "broadcast": lambda own, *_, **__: own,
    "reduce_boolean_decision": lambda own, *_, **__: own,
}
"""How a strategy answers what Lightning asks all processes while it saves, for a process that is left alone."""


class ExactResume(Callback):
    """Makes a training that goes on from a checkpoint within an epoch end with the numbers of one that never stopped.

    A validation that was running or due when the checkpoint was saved begins again: Lightning leaves it out, or gives
    it the first rows in the place of the last. A batch that was being worked on when the run was interrupted is given
    again by a ``TensorLoader``; loaders that cannot go on where they were are named in a warning. And when one process
    fails, a checkpoint is saved without waiting for it, as Lightning would for half an hour.

    This package's modules bring it along and ``evalkit`` gives it to any other, so it is for own modules with an own
    trainer: ``Trainer(callbacks=[ExactResume()])``.
    """

    def __init__(self) -> None:
        self._validated, self._positions = False, 0

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Begin a run, in which processes wait for each other."""
        self._validated, self._positions = False, 0
        for question in ALONE:
            vars(trainer.strategy).pop(question, None)

    # ---- training

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """See how many loaders have saved where they were."""
        loop = checkpoint.get("loops", {}).get("fit_loop", {}).get("state_dict", {})
        self._positions = len(loop.get("combined_loader", ()))

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Tell loaders who knows which batches are done, and name those that cannot go on."""
        for loader in loaders(trainer):
            if hasattr(loader, "read_by"):
                loader.read_by = trainer
        progress = batches(trainer)
        if unfinished(trainer) and progress.is_last_batch and progress.current.ready == progress.current.processed:
            self._end_epoch(trainer.fit_loop)
        elif unfinished(trainer) and progress.current.processed:
            self._name_unresumable(trainer)

    def _end_epoch(self, loop: Any) -> None:
        """Go to the end of an epoch that has no validation; Lightning would take one batch more."""
        if not loop.epoch_loop._should_check_val_fx(loop._data_fetcher):
            loop.epoch_loop.val_loop._has_run = True
            loop.epoch_loop._batches_that_stepped += 1

    def _name_unresumable(self, trainer: Trainer) -> None:
        named = [each for each in loaders(trainer) if not (self._positions and hasattr(each, "load_state_dict"))]
        if named:
            rank_zero_warn(
                f"the training goes on within epoch {trainer.current_epoch}, after its batch "
                f"{batches(trainer).current.processed}, but {' and '.join(map(_described, named))} begins anew: "
                "some rows are trained on and counted twice, others not at all. Resume from the end of an epoch, or "
                "with a loader that has state_dict and load_state_dict, as this package's TensorLoader."
            )

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        """What was validated is the past."""
        self._validated = False

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """The next epoch is a new one; Lightning forgets that after an epoch of which only the end was left."""
        trainer.fit_loop.epoch_loop.restarting = False

    # ---- validation

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin at the beginning: the rows that an interrupted validation had seen are in no count."""
        loop = trainer.fit_loop.epoch_loop.val_loop
        if loop.restarted_mid_evaluation and loop._data_fetcher is not None:
            loop.batch_progress.reset()
            loop._data_fetcher.fetched = 0

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Nothing is due."""
        self._validated = True

    # ---- checkpoints: what comes next, in words that Lightning has; it has none for what is due or half done

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Correct where the loops are."""
        progress, saved = batches(trainer).current, checkpoint["loops"]["fit_loop"]
        if unfinished(trainer) and progress.ready > progress.processed:
            steps = int(not trainer.fit_loop.epoch_loop._should_accumulate())
            saved["epoch_loop.state_dict"]["_batches_that_stepped"] -= steps  # as many will be added to it
        elif unfinished(trainer) and progress.processed and not self._validated:
            self._put_due(trainer.fit_loop, saved)

    def _put_due(self, loop: Any, saved: dict[str, Any]) -> None:
        validate = loop.epoch_loop._should_check_val_fx(loop._data_fetcher)
        if validate:
            begun = {"total": dict(BEGUN), "current": dict(BEGUN), "is_last_batch": False}
            saved["epoch_loop.val_loop.batch_progress"] = begun
        if validate or loop.epoch_loop.batch_progress.is_last_batch:
            for counts in (saved["epoch_loop.batch_progress"][part] for part in ("total", "current")):
                counts["completed"] = counts["processed"]

    # ---- failures

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Save without the others, who may be elsewhere or gone; not at all where it takes all of them to save."""
        if trainer.world_size == 1:
            return
        if saves_alone(trainer):
            vars(trainer.strategy).update(ALONE)
        else:
            for each in trainer.checkpoint_callbacks:
                vars(each)["save_on_exception"] = False


def unfinished(trainer: Trainer) -> bool:
    """Whether a training is within an epoch."""
    epochs: Any = trainer.fit_loop.epoch_progress.current
    return bool(epochs.started > epochs.processed)


def batches(trainer: Trainer) -> Any:
    """How far a training is in its epoch."""
    return trainer.fit_loop.epoch_loop.batch_progress


def loaders(trainer: Trainer) -> list[Any]:
    """What a training reads."""
    combined: Any = trainer.fit_loop._combined_loader
    return list(combined.flattened)


def saves_alone(trainer: Trainer) -> bool:
    """Whether one process has all that a checkpoint holds."""
    shared = any(hasattr(each, "consolidate_state_dict") for each in trainer.optimizers)
    return type(trainer.strategy).save_checkpoint is Strategy.save_checkpoint and not shared


def _described(loader: Any) -> str:
    data = getattr(loader, "dataset", None)
    return type(loader).__name__ if data is None else f"{type(loader).__name__} of {type(data).__name__}"
