"""The summary of a run: question, expectation and finding of its experiment, numbers, files, the next command."""

from __future__ import annotations

import re
import shlex
import shutil
from textwrap import wrap
from typing import TYPE_CHECKING

from lightning_evalkit.cli.heads import as_number
from lightning_evalkit.diagnosis import Table
from lightning_evalkit.trainer import is_tensorboard

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lightning_evalkit.cli.heads import Head
    from lightning_evalkit.cli.training import EvalkitCLI

STAGES = ("train", "val", "test")
LOGGED = re.compile(rf"({'|'.join(STAGES)})[/_](.+)")
"""The stage and the name of a number, as val/loss or val_loss."""
MOST = 40
"""The most rows of the table; the loggers have all."""
INDENT = 12
WIDEST = 100


def show(ended: EvalkitCLI, command: str, measured: Mapping[str, float]) -> None:
    """Print the summary of a training, validation or test, on one process."""
    folder = ended.trainer.log_dir  # on every rank: it is a collective
    if ended.trainer.is_global_zero:
        parts = [*_about(ended.head, measured), *_numbers(measured), *_files(ended, folder, command)]
        print("\n" + "\n".join(parts), flush=True)


def _about(head: Head | None, measured: Mapping[str, float]) -> Iterator[str]:
    if head is not None:
        yield _entry("Question", head.question)
        yield _entry("Expected", head.expected)
        if finding := head.finding(measured):
            yield _entry("Found", finding)
        yield ""


def _entry(title: str, text: str) -> str:
    width = min(shutil.get_terminal_size().columns, WIDEST) - INDENT
    lines = wrap(text, max(width, INDENT), break_long_words=False, break_on_hyphens=False)
    return f"{title + ':':{INDENT}}" + f"\n{'':{INDENT}}".join(lines)


def _numbers(measured: Mapping[str, float]) -> Iterator[str]:
    """One row for each number, one column for each stage."""
    found: dict[str, dict[str, float]] = {}
    for logged, value in measured.items():
        stage, name = match.groups() if (match := LOGGED.fullmatch(logged)) else ("", logged)
        if stage in found.get(name, {}):  # val_loss beside val/loss
            stage, name = "", logged
        found.setdefault(name, {})[stage] = value
    stages = [stage for stage in (*STAGES, "") if any(stage in values for values in found.values())]
    rows = [
        (name, *(as_number(values[stage], ".4f") if stage in values else "" for stage in stages))
        for name, values in found.items()
    ]
    if rows:
        yield Table(("", *stages), tuple(rows[:MOST])).text()
        if len(rows) > MOST:
            yield f"and {len(rows) - MOST} more, which the loggers have."
        yield ""


def _files(ended: EvalkitCLI, folder: str | None, command: str) -> Iterator[str]:
    trainer = ended.trainer
    checkpoint = getattr(trainer.checkpoint_callback, "best_model_path", "") if command == "fit" else trainer.ckpt_path
    if checkpoint:
        yield _path("Checkpoint", str(checkpoint))
    elif command != "fit":
        yield _path("Checkpoint", "none: these are the numbers of an untrained model (--untrained)")
    if folder and not getattr(trainer, "fast_dev_run", False):
        yield _path("Run", folder)
    if any(map(is_tensorboard, trainer.loggers)):
        yield f"{'Curves:':{INDENT}}tensorboard --logdir {shlex.quote(trainer.default_root_dir)}"
    if following := _next(ended, folder, command, bool(checkpoint)):
        yield f"{'Next:':{INDENT}}{following}"


def _path(title: str, path: str) -> str:
    """Print a path unwrapped, so that it can be copied."""
    return f"{title + ':':{INDENT}}{path}"


def _next(ended: EvalkitCLI, folder: str | None, command: str, saved: bool) -> str:
    """A test unless there was one, else a prediction or a validation, as far as module and data can."""
    place = folder if command == "fit" and saved else ended.own.run
    done = {command, "test"} if ended.was_tested else {command}
    following = next((each for each in ("test", "predict", "validate") if each not in done and ended.can(each)), "")
    return f"evalkit {following} --run {shlex.quote(place)}" if following and place else ""
