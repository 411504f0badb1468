"""Finds the counts of runs: in the files of ``KeepCounts``, in checkpoints, or in a saved evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lightning_evalkit.errors import InputError

if TYPE_CHECKING:
    from lightning_evalkit.evaluation.base import Evaluation

SAVED = ("*.ckpt", "*.pt", "*.pth")
KEPT = "counts_*.pt"
"""The files of ``KeepCounts``, one for each stage; a test has its own folder next to that of its training."""
HOW_TO_SAVE = (
    "evalkit fit, validate and test keep those of modules with a method evaluation(stage, dataloader_idx), as those of "
    "this package, and so does the callback KeepCounts in a program of yours; for any other module a checkpoint keeps "
    "those of the callback Evaluate, and torch.save(evaluation.state_dict(), 'evaluation.pt') one that is persistent()"
)


class Saved(NamedTuple):
    """An evaluation and the file it comes from."""

    evaluation: Evaluation
    file: Path


def saved_in(given: str) -> dict[str, Saved]:
    """Return the evaluations by name, such as "test.0", of a file or of the newest file in a folder.

    For files of ``KeepCounts``, it reads the newest file of each stage.
    """
    path = Path(given).expanduser()
    for file in [path] if path.is_file() else sorted(_files(path), key=_age):
        found = _read(file)
        if found and file != path and file.match(KEPT):
            newest = {each.name: each for each in sorted(path.rglob(KEPT), key=_age, reverse=True)}
            return {name: each for kept in newest.values() for name, each in _read(kept).items()}
        if found:
            return found
    if not path.exists():
        raise InputError(f"expected a checkpoint, the folder of a run or a saved evaluation, got {given!r}: not there.")
    raise InputError(f"{given} holds no evaluation that has counted: {HOW_TO_SAVE}.")


def _files(folder: Path) -> list[Path]:
    return [path for kind in SAVED for path in folder.rglob(kind)]


def _age(path: Path) -> int:
    return -path.stat().st_mtime_ns


def _read(file: Path) -> dict[str, Saved]:
    from lightning_evalkit.evaluation.saved import saved_evaluations

    try:
        return {name: Saved(each, file) for name, each in saved_evaluations(file).items()}
    except (OSError, InputError):
        raise
    except Exception as wrong:  # a damaged or foreign file may raise anything
        raise InputError(
            f"{file}: expected a checkpoint or a saved evaluation, but it cannot be read ({type(wrong).__name__})."
        ) from wrong
