"""Diagnose in runs of other shapes: several ranks, anyone's script, two optimizers, half precision, compiled steps."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import misused
import pytest
import torch
from lightning.pytorch import Callback, LightningDataModule, LightningModule, Trainer
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.strategies import DDPStrategy
from misused import loader
from quiet import QUIET, quiet_trainer
from torch import Tensor
from torchmetrics import MetricCollection
from torchmetrics import classification as stock

import lightning_evalkit
from lightning_evalkit import autodiagnose, metrics
from lightning_evalkit.callbacks import Diagnose, ExactDistributedEvaluation

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*LeafSpec.*"),  # Lightning's own use of torch
    pytest.mark.filterwarnings("ignore:.*does not have many workers.*"),
    pytest.mark.filterwarnings("ignore:.*number of training batches.*"),
    pytest.mark.filterwarnings("ignore:.*sync_dist.*"),
]
REPOSITORY = Path(lightning_evalkit.__file__).parents[1]
# ---- healthy shapes


class Collections(misused.Steps, LightningModule):
    """A collection for each stage, made by clone."""

    def make(self) -> None:
        both = MetricCollection([stock.BinaryAccuracy(), stock.BinaryF1Score()])
        self.train_metrics, self.val_metrics = both.clone(prefix="train/"), both.clone(prefix="val/")

    def train_with(self, logits: Tensor, target: Tensor) -> None:
        self.train_metrics.update(logits.sigmoid(), target)
        self.log_dict(self.train_metrics, on_step=False, on_epoch=True)

    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        self.val_metrics.update(logits.sigmoid(), target)
        self.log_dict(self.val_metrics)
        self.log("val/loss", logits.square().mean(), sync_dist=True)


class TwoOptimizers(Collections):
    """As adversarial networks are trained, by hand."""

    def make(self) -> None:
        super().make()
        self.automatic_optimization = False

    def training_step(self, batch: Any, batch_idx: int) -> None:
        for optimizer in self.optimizers():
            optimizer.zero_grad()
            self.manual_backward(super().training_step(batch, batch_idx))
            optimizer.step()

    def configure_optimizers(self) -> Any:
        return [torch.optim.SGD(self.parameters(), rate) for rate in (0.1, 0.01)]


class OwnsMetrics(Callback):
    """A callback with a metric of its own."""

    def __init__(self) -> None:
        self.accuracy = stock.BinaryAccuracy()

    def on_validation_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, *_: Any) -> None:
        self.accuracy.update(pl_module.network(batch[0]).squeeze(-1).sigmoid(), batch[1])

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        pl_module.log("callback/accuracy", self.accuracy.compute())
        self.accuracy.reset()


class Data(LightningDataModule):
    def train_dataloader(self) -> Any:
        return loader()

    def val_dataloader(self) -> Any:
        return loader(seed=1)


SHAPES: dict[str, dict[str, Any]] = {
    "collections": {},
    "half precision": {"precision": "bf16-mixed"},
    "validation within the epoch": {"val_check_interval": 0.5},
    "accumulated gradients": {"accumulate_grad_batches": 2},
    "a metric in a callback": {"callbacks": [OwnsMetrics()]},
    "without a sanity check": {"num_sanity_val_steps": 0},
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", [Collections, TwoOptimizers])
def test_healthy_runs_stay_silent(shape: str, kind: type[Collections]) -> None:
    if kind is TwoOptimizers and shape == "accumulated gradients":
        pytest.skip("Lightning refuses it for manual optimisation")
    options = dict(SHAPES[shape])
    diagnose = Diagnose(hints=True)
    callbacks = [diagnose, *options.pop("callbacks", [])]
    Trainer(max_epochs=2, callbacks=callbacks, **QUIET, **options).fit(kind(), datamodule=Data())
    assert diagnose.diagnosis.issues == ()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [misused.Good, misused.Own])
def test_a_compiled_network_stays_silent(kind: type[misused.Steps]) -> None:
    made = misused.module(importlib.import_module("lightning.pytorch"), kind)
    made.network = torch.compile(made.network, backend="eager")
    diagnose = Diagnose(hints=True)
    Trainer(max_epochs=1, callbacks=[diagnose], **QUIET).fit(made, datamodule=Data())
    assert diagnose.diagnosis.issues == ()


# ---- several ranks


class OnRanks(misused.Good, LightningModule):
    """Padded repeats, a value of each rank, and a mean over ranks with unequal rows."""

    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        super().val_with(logits, target, loader)
        self.log("value", self.train_f1(logits.sigmoid(), target), sync_dist=True)


class OwnOnRanks(OnRanks):
    kit = metrics


def on_two_ranks(kind: type[OnRanks], folder: Path, *callbacks: Callback) -> list[str]:
    strategy = DDPStrategy(start_method="forkserver", process_group_backend="gloo")
    logger = CSVLogger(folder, name="", version="run")
    options: dict[str, Any] = {"devices": 2, "strategy": strategy, "logger": logger, "num_sanity_val_steps": 0}
    trainer = quiet_trainer(Diagnose(), *callbacks, max_epochs=1, limit_train_batches=0, **options)
    trainer.validate(kind(), loader(91, seed=1), verbose=False)
    written = folder / "run" / "diagnosis.json"
    return [each["fingerprint"] for each in json.loads(written.read_text())["issues"]] if written.exists() else []


@pytest.mark.slow
@pytest.mark.parametrize("kind", [OnRanks, OwnOnRanks])
def test_padded_repeats_and_values_of_ranks_are_found(kind: type[OnRanks], tmp_path: Path) -> None:
    found = on_two_ranks(kind, tmp_path / "padded")
    assert "EK106:val/0" in found
    assert "EK112:value" in found
    exact = on_two_ranks(kind, tmp_path / "exact", ExactDistributedEvaluation())
    assert "EK106:val/0" not in exact


# ---- no line of code

SCRIPT = """
import logging, sys, torch
from PACKAGE import LightningModule, Trainer
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.classification import BinaryF1Score

class Anyones(LightningModule):
    def __init__(self):
        super().__init__()
        self.network, self.f1 = torch.nn.Linear(2, 1), BinaryF1Score()

    def training_step(self, batch, number):
        return self.network(batch[0]).square().mean()

    def validation_step(self, batch, number):
        self.f1.update(self.network(batch[0]).squeeze(-1).sigmoid(), batch[1])

    def on_validation_epoch_end(self):
        self.log("f1", self.f1.compute())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

x = torch.randn(20, 2)
rows = DataLoader(TensorDataset(x, x[:, 0] > 0), 5)
quiet = dict(accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False)
Trainer(max_epochs=2, enable_checkpointing=False, **quiet).fit(Anyones(), rows, rows)
print("imported:", "lightning_evalkit.callbacks" in sys.modules)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that offers the entry points which pyproject.toml declares."""
    tomllib = pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli")
    declared = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["entry-points"]
    folder = tmp_path_factory.mktemp("installed")
    about = folder / "entry_points_of_the_work_tree-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: entry_points_of_the_work_tree\nVersion: 1\n")
    lines = [
        f"[{group}]\n" + "\n".join(f"tree_{k} = {v}" for k, v in named.items()) for group, named in declared.items()
    ]
    (about / "entry_points.txt").write_text("\n\n".join(lines) + "\n")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "asked"), [("lightning.pytorch", "1"), ("pytorch_lightning", "1"), ("pytorch_lightning", "")]
)
def test_a_script_that_does_not_know_this_package(package: str, asked: str, installed: Path, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.replace("PACKAGE", package))
    paths = os.pathsep.join([str(installed), str(REPOSITORY)])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", autodiagnose.VARIABLE: asked}
    done = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    assert ("EK104 error: f1 (BinaryF1Score) was not reset" in done.stdout) == bool(asked), done.stdout
    assert f"imported: {bool(asked)}" in done.stdout


def test_the_variable_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    for off in autodiagnose.OFF:
        monkeypatch.setenv(autodiagnose.VARIABLE, off)
        assert autodiagnose.callbacks() == []
    monkeypatch.delenv(autodiagnose.VARIABLE)
    assert autodiagnose.callbacks() == []
    for asked, strict in (("1", False), ("strict", True)):
        monkeypatch.setenv(autodiagnose.VARIABLE, asked)
        [diagnose] = autodiagnose.callbacks()
        assert isinstance(diagnose, Diagnose)
        assert diagnose.strict is strict


def test_asking_costs_no_import() -> None:
    """Without the variable nothing but this file is loaded."""
    source = (
        "import sys; from lightning_evalkit import autodiagnose as it; print(it.callbacks(), 'torch' in sys.modules)"
    )
    environment = {key: value for key, value in os.environ.items() if key != autodiagnose.VARIABLE}
    done = subprocess.run([sys.executable, "-c", source], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "False"]
