"""A run on two ranks, in a process of its own: metrics that one rank computes alone, and what is written about it.

python some_ranks.py KIND PACKAGE FOLDER
"""

from __future__ import annotations

import importlib
import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import misused
from torchmetrics import MeanMetric

from lightning_evalkit import BinaryEvaluation, metrics
from lightning_evalkit.callbacks import Diagnose

if TYPE_CHECKING:
    from torch import Tensor


class OnEveryRank(misused.Steps):
    """Every rank computes, and one shows the number."""

    def make(self) -> None:
        self.f1, self.loss = self.kit.BinaryF1Score(), MeanMetric()

    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        self.f1.update(logits.sigmoid(), target)
        self.loss.update(logits.square().mean())
        self.log("loss", self.loss)
        self.log("val/size", logits.abs().mean(), sync_dist=True)

    def end(self) -> None:
        value = self.f1.compute()
        if self.trainer.is_global_zero:
            print("computed again from the cache:", float(self.f1.compute()), float(value))
        self.f1.reset()


class UnderACondition(OnEveryRank):
    """Seen in the source, before anything hangs."""

    def end(self) -> None:
        if self.trainer.is_global_zero:
            print("computed:", float(self.f1.compute()))
        self.f1.reset()


class Hidden(OnEveryRank):
    """Not seen in the source: found while the rank waits."""

    def end(self) -> None:
        metric = self.f1
        if self.trainer.is_global_zero:
            print("computed:", float(metric.compute()))
        self.f1.reset()


class OwnUnderACondition(UnderACondition):
    """With a metric of this package."""

    kit = metrics


class OwnHidden(Hidden):
    """With a metric of this package."""

    kit = metrics


class HiddenOwn(Hidden):
    """With an evaluation of this package."""

    def make(self) -> None:
        self.f1, self.loss = BinaryEvaluation("probabilities"), MeanMetric()

    def end(self) -> None:
        metric = self.f1
        if self.trainer.is_global_zero:
            print("computed:", metric.compute())


def main(kind: str, package: str, folder: str) -> None:
    lightning = importlib.import_module(package)
    strategies, loggers = (importlib.import_module(f"{package}.{part}") for part in ("strategies", "loggers"))
    options: dict[str, Any] = {
        "strategy": strategies.DDPStrategy(process_group_backend="gloo", timeout=timedelta(seconds=60)),
        "logger": loggers.CSVLogger(folder, name="", version="run"),
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "enable_checkpointing": False,
    }
    trainer = lightning.Trainer(
        max_epochs=2, accelerator="cpu", devices=2, num_sanity_val_steps=0, callbacks=[Diagnose(hints=True)], **options
    )
    made = misused.module(lightning, globals()[kind])
    trainer.fit(made, misused.loader(96), misused.loader(96, seed=1))
    Path(folder, "ended").touch()


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    main(*sys.argv[1:])
