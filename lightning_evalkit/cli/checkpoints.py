"""Reports unreadable checkpoints in one line, and rescues a training that can no longer write."""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from traceback import walk_tb
from typing import TYPE_CHECKING, Any

import torch
from jsonargparse import ArgumentError

from lightning_evalkit.cli.messages import WrongError, in_one_line
from lightning_evalkit.trainer import TrainerFn, begin_at, can_save_alone, failed_while_loading, last_saved

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lightning_evalkit.trainer import Trainer

NOT_THERE = (FileNotFoundError, IsADirectoryError, PermissionError)
"""Errors whose text names the path and the reason."""


@contextmanager
def read(path: Any) -> Iterator[None]:
    """Read a checkpoint; a damaged file may raise anything."""
    try:
        yield
    except (ArgumentError, *NOT_THERE):
        raise
    except Exception as wrong:
        raise WrongError(_unreadable(path, wrong)) from wrong


def model_of(path: Any) -> dict[str, Any]:
    """The configuration of a checkpoint's model; empty without saved hyperparameters."""
    saved = torch.load(path, map_location="cpu", weights_only=True).get("hyper_parameters", {})
    saved.pop("_instantiator", None)
    return {"class_path": saved.pop("_class_path"), "dict_kwargs": saved} if "_class_path" in saved else saved


def continue_from(trainer: Trainer, path: Any) -> None:
    """Log at the step of a checkpoint, so that a test stands at the end of the training's curves."""
    if path and Path(path).is_file():
        with read(path):
            begin_at(trainer, torch.load(path, map_location="cpu", weights_only=True, mmap=True))


@contextmanager
def rescuing(trainer: Trainer) -> Iterator[None]:
    """Distinguish a damaged checkpoint from other errors, and save a training that can no longer write."""
    try:
        yield
    except Exception as wrong:
        if _while_loading(wrong) and not isinstance(wrong, NOT_THERE):
            raise WrongError(_unreadable(trainer.ckpt_path, wrong)) from wrong
        refused = wrong if isinstance(wrong, OSError) else wrong.__cause__  # a logger raises its own error from it
        fitting = trainer.state.fn == TrainerFn.FITTING
        if isinstance(refused, OSError) and fitting and (trainer.global_step or not refused.filename):
            raise WrongError(f"{in_one_line(refused)}: {_rescued(trainer)}") from wrong
        raise


def _unreadable(path: Any, wrong: Exception) -> str:
    other = _of_another_network(str(wrong))
    if other:
        return (
            f"{path} is a checkpoint of another network: {other}. Leave out options of the network, which the "
            "checkpoint knows, or give those it was trained with."
        )
    reason = f"{type(wrong).__name__}: {in_one_line(wrong)}".partition(". ")[0].rstrip(":. ")
    return (
        f"{path} could not be loaded as a checkpoint of this model ({reason}). It may have been cut off or damaged, or "
        "be of something else: take another one."
    )


def _of_another_network(text: str) -> str:
    """The first weight that has another shape or is missing on one side."""
    shape = re.search(r"size mismatch for (\S+): .*?Size\((\[.*?\])\) from checkpoint, .*?Size\((\[.*?\])\)", text)
    if shape:
        return f"{shape[1]} has the shape {shape[2]} there, {shape[3]} here"
    missing = re.search(r'Missing key\(s\) in state_dict: "(.*?)"', text)
    if missing:
        return f"it has no {missing[1]}, which this model has"
    unexpected = re.search(r'Unexpected key\(s\) in state_dict: "(.*?)"', text)
    return f"it has {unexpected[1]}, which this model has not" if unexpected else ""


def _while_loading(wrong: Exception) -> bool:
    frames = (frame.f_code for frame, _ in walk_tb(wrong.__traceback__))
    return failed_while_loading([(code.co_filename, code.co_name) for code in frames])


def _rescued(trainer: Trainer) -> str:
    """Say where the training is saved: in its own checkpoint, or else, if it saves any, in a temporary folder."""
    folders = {trainer.default_root_dir, *(str(each.save_dir) for each in trainer.loggers if each.save_dir)}
    place, step = f"results are written to {' and '.join(sorted(folders))}", trainer.global_step
    saved = [last_saved(each) for each in trainer.checkpoint_callbacks] if step else []
    path = next((path for at, path in saved if at == step), "") or (_saved_elsewhere(trainer) if saved else "")
    return f"{place}. What was learnt is kept: --ckpt_path {path} resumes from step {step}." if path else f"{place}."


def _saved_elsewhere(trainer: Trainer) -> str:
    if trainer.world_size > 1 and not (trainer.is_global_zero and can_save_alone(trainer)):
        return ""
    try:
        path = Path(mkdtemp(prefix="evalkit-")) / f"step={trainer.global_step}.ckpt"
        trainer.save_checkpoint(path)
    except OSError:
        return ""
    return str(path)
