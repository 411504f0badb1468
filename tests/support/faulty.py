"""Runs on several processes under torchrun; callbacks that break a run on purpose, and one that writes down its counts.

Processes that are started by these tests import this file.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from itertools import takewhile
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback

torch.set_num_threads(1)

SUPPORT = Path(__file__).parent
REPOSITORY = SUPPORT.parents[1]
EXPERIMENT = "experiments/distributed/two_nodes.yaml"
PATIENCE = 300.0
"""Seconds until a run hangs; on two free cores the longest takes thirty."""
SMALL = (
    "--data.train_size=200",
    "--data.val_size=101",
    "--data.test_size=20",
    "--trainer.accelerator=cpu",
    "--trainer.logger=false",
    "--trainer.enable_progress_bar=false",
    "--trainer.enable_model_summary=false",
    "--trainer.max_epochs=3",
)
"""Ten batches in each epoch, and validation rows that two processes cannot share evenly."""

Line = dict[str, Any]


# ---- runs


def documented() -> list[list[str]]:
    """The commands for several processes in the first lines of the experiment."""
    lines = (REPOSITORY / EXPERIMENT).read_text(encoding="utf-8").splitlines()
    comment = takewhile(lambda line: line.startswith("#"), lines)
    return [shlex.split(line.partition("$ ")[2]) for line in comment if "$ " in line]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Run:
    """A command as a process, whose children end with it."""

    def __init__(self, words: list[str], folder: Path, **environment: str) -> None:
        beside = Path(sys.executable).parent
        paths = {
            "PATH": f"{beside}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join([str(SUPPORT), str(REPOSITORY)]),
        }
        self.process = subprocess.Popen(
            words,
            cwd=folder,
            env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", **paths, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )

    def ended(self) -> tuple[int, str]:
        """Its code and all that was printed; one that hangs fails."""
        try:
            out, _ = self.process.communicate(timeout=PATIENCE)
        finally:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
        return self.process.returncode, out


def callbacks(*more: str, **saving: Any) -> str:
    """An option: these, one that reports into the folder of the run, and one that saves there."""
    options = {"dirpath": ".", "save_last": True, "save_on_exception": True, **saving}
    own = ["{class_path: faulty.Reporting}", json.dumps({"class_path": "ModelCheckpoint", "init_args": options})]
    return f"--trainer.callbacks=[{', '.join([*more, *own])}]"


def reported(folder: Path) -> list[list[Line]]:
    """What each rank has written, epoch by epoch."""
    files = sorted(folder.glob("rank_*.jsonl"))
    return [[json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] for file in files]


# ---- callbacks


def cells(module: Any, stage: str) -> list[int]:
    return [int(cell) for cell in module.evaluation(stage).counts.cells]


class Reporting(Callback):
    """Adds a line to the file of its rank after every epoch."""

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        line = {
            "epoch": trainer.current_epoch,
            "steps": trainer.fit_loop.epoch_loop._batches_that_stepped,
            "ranks": trainer.world_size,
            "train": cells(pl_module, "train"),
            "val": cells(pl_module, "val"),
            "loss": float(trainer.callback_metrics["val/loss"]),
        }
        with Path(f"rank_{trainer.global_rank}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


class Killing(Callback):
    """The process of a rank dies in the second validation batch of an epoch, as if the machine had taken it away.

    ``plan`` has a rank and an epoch for the first start, for the first restart, and so on.
    """

    def __init__(self, plan: list[list[int]]) -> None:
        self.plan = plan

    def on_validation_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int, *_: Any) -> None:
        start = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
        now = [trainer.global_rank, trainer.current_epoch]
        if not trainer.sanity_checking and batch_idx == 1 and start < len(self.plan) and self.plan[start] == now:
            os.kill(os.getpid(), signal.SIGKILL)


class Terminated(Callback):
    """Gets SIGTERM while it saves, as from torchrun, which has seen another process fail."""

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)


class Spoiling(Callback):
    """One rank gets targets that are none."""

    def __init__(self, rank: int) -> None:
        self.rank = rank

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if trainer.global_rank == self.rank and batch_idx == 3:
            batch[1].fill_(7)
