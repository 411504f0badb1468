"""Folders of runs: finds the configuration and checkpoint of one, and removes those of a failed call."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import yaml  # type: ignore[import-untyped]
from lightning.pytorch.loggers import TensorBoardLogger

from lightning_evalkit.cli import checkpoints
from lightning_evalkit.cli.messages import WrongError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lightning_evalkit.trainer import Trainer

CONFIGURATION = "config.yaml"
"""The configuration of a training; a test in the same folder saves another file with its own options."""
SHOWN = 5
"""How many runs an error names."""


def configuration_of(command: str) -> str:
    """The name under which a command saves its configuration."""
    return CONFIGURATION if command == "fit" else f"config_{command}.yaml"


class Run(NamedTuple):
    """The configuration and the newest checkpoint of a run."""

    configuration: Path
    newest: Path

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return self.configuration.parent

    def arguments(self) -> list[str]:
        """The options that use both; options after them override them."""
        return [f"--config={self.configuration}", f"--ckpt_path={best_of(self.newest)}"]


def found(folder: str) -> Run:
    """The run of a folder, or the last of several runs of one experiment in it."""
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise WrongError(f"expected --run to name the folder of a run, got {folder!r}, which is no folder.")
    places = _runs_in(path)
    runs = [Run(place / CONFIGURATION, newest) for place in places if (newest := _newest(place)) is not None]
    if not runs:
        what = "a checkpoint" if places else f"a {CONFIGURATION}"
        raise WrongError(f"expected {folder} to be the folder of a run that was trained, but it is without {what}.")
    groups = sorted({str(_experiment(run.configuration.parent)) for run in runs})
    if len(groups) > 1:
        more = f" and {len(groups) - SHOWN} more" if len(groups) > SHOWN else ""
        raise WrongError(f"{folder} has several runs, expected one: --run {', '.join(groups[:SHOWN])}{more}.")
    return max(runs, key=lambda run: _age(run.newest))


def _runs_in(folder: Path) -> list[Path]:
    """The folder itself, or else its versions, or else every run below it."""
    patterns = (CONFIGURATION, f"version_*/{CONFIGURATION}", f"**/{CONFIGURATION}")
    found = ([each.parent for each in folder.glob(pattern)] for pattern in patterns)
    return next((places for places in found if places), [])


def with_short_run_names(options: dict[str, Any]) -> dict[str, Any]:
    """Options of a trainer with Lightning's default logger, whose runs are called version_0, without lightning_logs."""
    if options.get("logger") not in (None, True) or options.get("barebones"):
        return options
    try:
        logger = TensorBoardLogger(options.get("default_root_dir") or ".", name="")
    except ModuleNotFoundError:  # then Lightning writes CSV files
        return options
    return options | {"logger": logger}


def _experiment(folder: Path) -> Path:
    """The folder of all versions of a run."""
    return folder.parent if folder.name.startswith("version_") else folder


def _age(path: Path) -> int:
    return path.stat().st_mtime_ns


def _newest(folder: Path) -> Path | None:
    """The newest checkpoint, in the folder of the run or in the one its configuration names."""
    content = yaml.safe_load((folder / CONFIGURATION).read_text(encoding="utf-8"))
    elsewhere = [Path(place) for place in _folders(content)]
    saved = [path for place in (folder, *elsewhere) for path in place.rglob("*.ckpt")]
    return max(saved, key=_age, default=None)


def _folders(content: Any) -> Iterator[str]:
    """The folders of a configuration's checkpoint callbacks, as far as it names them."""
    callbacks = ((content or {}).get("trainer") or {}).get("callbacks") if isinstance(content, dict) else None
    for each in callbacks if isinstance(callbacks, list) else ():
        place = (each.get("init_args") or {}).get("dirpath") if isinstance(each, dict) else None
        if place:
            yield place


def best_of(newest: Path) -> Path:
    """The best checkpoint according to the last saved state of a monitoring ModelCheckpoint; else the newest."""
    with checkpoints.read(newest):
        states = torch.load(newest, weights_only=True, map_location="cpu", mmap=True).get("callbacks", {})
    for state in states.values():
        if isinstance(state, dict) and state.get("monitor") and state.get("best_model_path"):
            best = Path(state["best_model_path"])
            for path in (best, newest.with_name(best.name)):  # the folder may have been moved
                if path.is_file():
                    return path
    return newest


@contextmanager
def removed_after_failure(trainer: Trainer) -> Iterator[None]:
    """Remove the loggers' folders after a failed call without a step or a checkpoint."""
    before = {str(path) for root in map(_root, trainer.loggers) if root for path in (root, *root.glob("*"))}
    steps = trainer.global_step
    try:
        yield
    except Exception:
        if trainer.is_global_zero and trainer.global_step == steps:
            for logger in trainer.loggers:
                _remove(getattr(logger, "log_dir", None), before)
        raise


def _root(logger: Any) -> Path | None:
    """The folder in which a logger creates its folders."""
    root = getattr(logger, "root_dir", None)
    return Path(root) if isinstance(root, str) else None


def _remove(folder: Any, before: set[str]) -> None:
    made = isinstance(folder, str) and folder not in before and Path(folder).is_dir()
    if made and not any(Path(folder).rglob("*.ckpt")):
        shutil.rmtree(folder, ignore_errors=True)
