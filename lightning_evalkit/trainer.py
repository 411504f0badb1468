"""The one file that knows Lightning's insides, and both of its names.

``lightning.pytorch`` and ``pytorch_lightning`` are the same code under two names: a trainer, a logger or a module of
one is not an instance of the other's classes. Callbacks and modules ask here, and so work under either. Every private
name in use is listed in tests/support/private_names.py: a test looks each of them up, so that a release that removes
one fails with a sentence.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from packaging.version import Version

from lightning_evalkit.errors import required

with required("lightning"):
    from lightning.pytorch import Callback as Callback
    from lightning.pytorch import LightningDataModule as LightningDataModule
    from lightning.pytorch import LightningModule as LightningModule
    from lightning.pytorch import Trainer as Trainer
    from lightning.pytorch.trainer.states import RunningStage as RunningStage
    from lightning.pytorch.trainer.states import TrainerFn as TrainerFn

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
elif Version(version("lightning")) < Version("2.6"):
    from lightning_utilities.core import rank_zero

    _log = rank_zero.log
    from pytorch_lightning import Callback as _Other

    rank_zero.log = _log  # the import gave Lightning's messages to a logger of the other name

    class Callback(Callback, _Other):
        """The base of our callbacks: before 2.6 a trainer of pytorch_lightning refuses those of lightning.pytorch."""


TRAINERS = ("lightning.pytorch", "pytorch_lightning")
FABRICS = ("lightning.fabric", "lightning_fabric")


# ---- two names


def classes(module: str, name: str, packages: Collection[str] = TRAINERS) -> tuple[type, ...]:
    """The class of each of Lightning's packages that this process has imported, for ``isinstance``."""
    found = (sys.modules.get(f"{package}.{module}") for package in packages)
    return tuple(getattr(each, name) for each in found if each is not None)


def is_tensorboard(logger: object) -> bool:
    """Whether a logger writes TensorBoard's event files."""
    return isinstance(logger, classes("loggers.tensorboard", "TensorBoardLogger"))


def is_misconfiguration(exception: BaseException) -> bool:
    """Whether Lightning refuses how it is used."""
    return isinstance(exception, classes("utilities.exceptions", "MisconfigurationException", FABRICS))


def padded_samplers() -> tuple[type, ...]:
    """Lightning's samplers that share out rows to ranks in turn."""
    unrepeated = ("UnrepeatedDistributedSampler", "UnrepeatedDistributedSamplerWrapper")
    own = (each for name in unrepeated for each in classes("overrides.distributed", name))
    return (*classes("utilities.distributed", "DistributedSamplerWrapper", FABRICS), *own)


def callbacks_of(trainer: Trainer) -> list[Callback]:
    """The callbacks of a trainer, in the order in which they are called."""
    return list(getattr(trainer, "callbacks", ()))


# ---- what is logged


def logged_names(trainer: Trainer) -> Iterator[tuple[str, str]]:
    """Every name logged so far in this epoch, and the hook that logged it."""
    results: Any = trainer._results
    for logged in results.values():
        if not logged.has_reset:
            for name in {*results._forked_name(logged, on_step=False)}:
                yield name, logged.meta.fx.partition(".")[0]


def monitors_of(trainer: Trainer) -> list[tuple[str, str, str]]:
    """The callbacks that monitor a number, and its direction: (owner, name, "min" or "max")."""
    waiting = [(type(each).__name__, each) for each in callbacks_of(trainer)]
    found = [(name, getattr(each, "monitor", None), getattr(each, "mode", None)) for name, each in waiting]
    for config in trainer.lr_scheduler_configs if trainer.state.fn == "fit" else ():
        name = type(config.scheduler).__name__
        found.append((name, config.monitor, getattr(config.scheduler, "mode", None)))
    return [(owner, name, mode) for owner, name, mode in found if isinstance(name, str) and mode in ("min", "max")]


def results_of(trainer: Trainer) -> Any:
    """The collection that ``self.log`` adds to in the running loop; its ``update_metrics`` takes every value."""
    return trainer._results


def tag_of(logger: Any, name: str) -> str:
    """A name as a TensorBoardLogger writes it, with its prefix."""
    return f"{logger._prefix}{logger.LOGGER_JOIN_CHAR}{name}" if logger._prefix else name


def without_default_metric(logger: Any) -> None:
    """Stop a TensorBoardLogger from writing the placeholder ``hp_metric``."""
    logger._default_hp_metric = False


def logs_hyperparameters(module: LightningModule) -> bool:
    """Whether a module's hyperparameters go to the loggers."""
    return bool(module._log_hyperparams)


def hyperparameters_are_given() -> bool:
    """Whether the command line, or a checkpoint, constructs the module from saved hyperparameters."""
    from lightning.pytorch.core.mixins.hparams_mixin import _given_hyperparameters

    return bool(_given_hyperparameters.get())


# ---- where a run is


def steps_done(trainer: Trainer) -> int:
    """The step under which Lightning logs the scalars of validation and test."""
    return int(trainer.fit_loop.epoch_loop._batches_that_stepped)


def begin_at(trainer: Trainer, checkpoint: dict[str, Any]) -> None:
    """Log at the step at which a checkpoint was saved; Lightning restores it for a training only."""
    loop = checkpoint.get("loops", {}).get("fit_loop", {}).get("epoch_loop.state_dict", {})
    steps = loop.get("_batches_that_stepped", checkpoint.get("global_step", 0))
    trainer.fit_loop.epoch_loop._batches_that_stepped = int(steps)


def batches(trainer: Trainer) -> Any:
    """The progress of training in its epoch."""
    return trainer.fit_loop.epoch_loop.batch_progress


def is_mid_epoch(trainer: Trainer) -> bool:
    """Whether training is within an epoch."""
    epochs: Any = trainer.fit_loop.epoch_progress.current
    return bool(epochs.started > epochs.processed)


def validation_is_due(trainer: Trainer) -> bool:
    """Whether validation follows the batch that was just trained on."""
    loop: Any = trainer.fit_loop
    return bool(loop.epoch_loop._should_check_val_fx(loop._data_fetcher))


def accumulates(trainer: Trainer) -> bool:
    """Whether the optimizer waits for more batches."""
    return bool(trainer.fit_loop.epoch_loop._should_accumulate())


def end_epoch(trainer: Trainer) -> None:
    """Have the epoch loop end here, as if its last batch had just been trained on."""
    loop: Any = trainer.fit_loop.epoch_loop
    loop.val_loop._has_run = True
    loop._batches_that_stepped += 1


def forget_restart(trainer: Trainer) -> None:
    """Have the next epoch begin as a new one."""
    trainer.fit_loop.epoch_loop.restarting = False


def restart_validation(trainer: Trainer) -> None:
    """Have a validation that was interrupted begin with its first batch."""
    loop: Any = trainer.fit_loop.epoch_loop.val_loop
    if loop.restarted_mid_evaluation and loop._data_fetcher is not None:
        loop.batch_progress.reset()
        loop._data_fetcher.fetched = 0


# ---- dataloaders


def training_loaders(trainer: Trainer) -> list[Any]:
    """The loaders of training."""
    combined: Any = trainer.fit_loop._combined_loader
    return list(combined.flattened)


def evaluation_loaders(trainer: Trainer) -> list[Any]:
    """The loaders of the running validation or test."""
    loop: Any = trainer._evaluation_loop
    return list(loop._combined_loader.flattened)


def reads_in_turn(trainer: Trainer) -> bool:
    """Whether the running validation or test reads its dataloaders one after the other."""
    loop: Any = trainer._evaluation_loop
    return bool(loop._is_sequential)


def takes_iterator(trainer: Trainer) -> bool:
    """Whether the running validation or test hands its steps a ``dataloader_iter``."""
    loop: Any = trainer._evaluation_loop
    return isinstance(loop._data_fetcher, classes("loops.fetchers", "_DataLoaderIterDataFetcher"))


# ---- checkpoints

BEGUN = {"ready": 1, "started": 1, "processed": 0, "completed": 0}
"""Lightning's progress of a validation at its first batch."""
RESTORING = ("resume_start", "restore_model", "restore_callbacks", "restore_training_state")
"""Lightning's functions that read a checkpoint."""


def loader_states(checkpoint: dict[str, Any]) -> int:
    """The number of training loaders that have saved their position in a checkpoint."""
    loop = checkpoint.get("loops", {}).get("fit_loop", {}).get("state_dict", {})
    return len(loop.get("combined_loader", ()))


def take_back_steps(checkpoint: dict[str, Any], steps: int) -> None:
    """Lower the number of steps in a checkpoint, where a batch in progress will be counted again."""
    checkpoint["loops"]["fit_loop"]["epoch_loop.state_dict"]["_batches_that_stepped"] -= steps


def put_validation_next(checkpoint: dict[str, Any]) -> None:
    """Have a run resumed from this checkpoint begin with a validation."""
    begun = {"total": dict(BEGUN), "current": dict(BEGUN), "is_last_batch": False}
    checkpoint["loops"]["fit_loop"]["epoch_loop.val_loop.batch_progress"] = begun


def complete_batch(checkpoint: dict[str, Any]) -> None:
    """Have a run resumed from this checkpoint treat the last batch as completed."""
    progress = checkpoint["loops"]["fit_loop"]["epoch_loop.batch_progress"]
    for part in ("total", "current"):
        progress[part]["completed"] = progress[part]["processed"]


def last_saved(callback: Any) -> tuple[int, str]:
    """The step and the path that a ModelCheckpoint saved last."""
    known = vars(callback)
    return known.get("_last_global_step_saved", -1), known.get("_last_checkpoint_saved", "")


def failed_while_loading(traceback_files: Collection[tuple[str, str]]) -> bool:
    """Whether one of these frames, (file, function), is where Lightning reads a checkpoint."""
    return any(file.endswith("checkpoint_connector.py") and function in RESTORING for file, function in traceback_files)


def is_of_trainer(handler: object) -> bool:
    """Whether a handler of a signal is Lightning's own, which it takes away when a run has ended."""
    return isinstance(handler, classes("trainer.connectors.signal_connector", "_HandlersCompose"))


# ---- several processes

ALONE: dict[str, Callable[..., Any]] = {
    "barrier": lambda *_, **__: None,
    "broadcast": lambda own, *_, **__: own,
    "reduce_boolean_decision": lambda own, *_, **__: own,
}
"""Replacements for a strategy's collectives that let one process save alone."""


def save_alone(trainer: Trainer, alone: bool) -> None:
    """Have this process save a checkpoint without waiting for the others, or with them again."""
    for question in ALONE:
        vars(trainer.strategy).pop(question, None)
    if alone:
        vars(trainer.strategy).update(ALONE)


def can_save_alone(trainer: Trainer) -> bool:
    """Whether one process has everything that a checkpoint holds."""
    shared = any(hasattr(each, "consolidate_state_dict") for each in trainer.optimizers)
    strategies: tuple[Any, ...] = classes("strategies.strategy", "Strategy")
    return type(trainer.strategy).save_checkpoint in [each.save_checkpoint for each in strategies] and not shared
