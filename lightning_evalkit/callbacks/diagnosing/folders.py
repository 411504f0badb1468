"""Finds the folders in which a run writes its results anyway."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning_evalkit.trainer import TrainerFn

if TYPE_CHECKING:
    from lightning_evalkit.trainer import Trainer


def result_folders(trainer: Trainer) -> list[Path]:
    """The folder of the first logger, and the folder of checkpoints if the run saves them elsewhere; may be empty.

    ``trainer.log_dir`` would be a collective.
    """
    logs = getattr(trainer.logger, "log_dir", None) or getattr(trainer.logger, "save_dir", None)
    saved = [getattr(each, "dirpath", None) for each in trainer.checkpoint_callbacks if _saves(each, trainer)]
    found = [Path(folder) for folder in (logs, *saved[:1]) if isinstance(folder, str) and "://" not in folder]
    return found if len(found) < 2 or found[0].resolve() not in found[1].resolve().parents else found[:1]


def _saves(callback: Any, trainer: Trainer) -> bool:
    """Whether a checkpoint was saved, or will be: Lightning saves in fit only, and never in a fast_dev_run."""
    if getattr(callback, "best_model_path", "") or getattr(callback, "last_model_path", ""):
        return True
    keeps = getattr(callback, "save_top_k", 1) != 0 or bool(getattr(callback, "save_last", False))
    fits = trainer.state.fn == TrainerFn.FITTING and not getattr(trainer, "fast_dev_run", False)
    return bool(keeps and fits)
