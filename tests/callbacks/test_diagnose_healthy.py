"""Diagnose has nothing to say of healthy modules: fifteen of them, in runs of many shapes."""

from __future__ import annotations

import importlib
import json
from itertools import product
from typing import TYPE_CHECKING, Any

import healthy
import pytest
import torch
from healthy import MODULES, Data, made
from lightning import pytorch as lightning
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.strategies import DDPStrategy
from misused import KITS

from lightning_evalkit import BinaryEvaluation
from lightning_evalkit.callbacks import Diagnose, Evaluate, ExactDistributedEvaluation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*LeafSpec.*"),  # Lightning's own use of torch
    pytest.mark.filterwarnings("ignore:.*does not have many workers.*"),
    pytest.mark.filterwarnings("ignore:.*number of training batches.*"),
    pytest.mark.filterwarnings("ignore:.*was called before the.*"),
    pytest.mark.filterwarnings("ignore:.*sync_dist.*"),
]
QUIET: dict[str, Any] = {
    "accelerator": "cpu",
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "enable_checkpointing": False,
}
SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "mixed precision": {"precision": "bf16-mixed"},
    "validation within the epoch": {"val_check_interval": 0.5},
    "without a sanity check": {"num_sanity_val_steps": 0},
    "metrics in a callback": {"callbacks": [lambda *where: made(healthy.OwnsMetrics, *where)]},
    "the callback Evaluate": {"callbacks": [lambda *_: Evaluate(BinaryEvaluation("logits", curves=True))]},
}
PACKAGES = ("lightning.pytorch", "pytorch_lightning")
WITHOUT_SINGLE_METRICS = (healthy.SyncedLosses, healthy.OwnEvaluations, healthy.Returns)


def loaders(kind: type) -> int:
    return 2 if kind is healthy.SeveralLoaders else 1


def silent(diagnose: Diagnose) -> None:
    """No issue, and not even a hint about the run."""
    assert diagnose.diagnosis.issues == ()
    assert [finding for finding in diagnose.diagnosis.findings if finding.code < "EK200"] == []


def test_there_are_at_least_twelve() -> None:
    assert len({*MODULES}) >= 12


def cases() -> Iterator[Any]:
    """Every module in every shape of a run that fits it, with both kits of metrics.

    Under the other name of Lightning the shape of the run makes no difference.
    """
    for kind, (shape, options), kit, package in product(MODULES, SHAPES.items(), KITS, PACKAGES):
        if (kit == "own" and kind in WITHOUT_SINGLE_METRICS) or (package != PACKAGES[0] and shape in list(SHAPES)[1:4]):
            continue
        fits = (shape == "the callback Evaluate") == (kind is healthy.Returns)
        for_a_classifier = kind not in (healthy.SeveralLoaders, healthy.TwoNetworks)
        if fits and (for_a_classifier or "callbacks" not in options):
            for first in (True, False) if "callbacks" in options else (True,):
                order = "Diagnose first" if first else "Diagnose last"
                name = f"{kind.__name__}, {shape}, {order}, {kit}, {package}"
                yield pytest.param(kind, shape, first, kit, package, id=name)


@pytest.mark.parametrize(("kind", "shape", "first", "kit", "package"), [*cases()])
def test_healthy_runs_stay_silent(
    kind: type, shape: str, first: bool, kit: str, package: str, recwarn: pytest.WarningsRecorder
) -> None:
    options, where = dict(SHAPES[shape]), (importlib.import_module(package), kit)
    diagnose, others = Diagnose(hints=True), [make(*where) for make in options.pop("callbacks", [])]
    callbacks = [diagnose, *others] if first else [*others, diagnose]
    trainer = where[0].Trainer(max_epochs=3, logger=False, callbacks=callbacks, **QUIET, **options)
    module, data = made(kind, *where), made(Data, *where, loaders(kind))
    trainer.fit(module, datamodule=data)
    silent(diagnose)
    assert diagnose.diagnosis.passed or kind is healthy.Returns
    trainer.test(module, datamodule=data, verbose=False)
    silent(diagnose)
    assert not [str(each.message) for each in recwarn if "Diagnose could not" in str(each.message)]


@pytest.mark.parametrize("kit", KITS)
@pytest.mark.parametrize("kind", [healthy.CollectionPerStage, healthy.OwnEvaluations])
def test_checkpoints_and_early_stopping_in_the_right_direction(kind: type, kit: str, tmp_path: Path) -> None:
    name = "val/BinaryF1Score" if kind is healthy.CollectionPerStage else "val/f1"
    waiting = [EarlyStopping(name, mode="max", patience=5), ModelCheckpoint(tmp_path, monitor=name, mode="max")]
    diagnose = Diagnose(hints=True)
    options = {**QUIET, "enable_checkpointing": True}
    trainer = Trainer(max_epochs=3, logger=False, callbacks=[diagnose, *waiting], **options)
    trainer.fit(made(kind, lightning, kit), datamodule=made(Data, lightning))
    silent(diagnose)


@pytest.mark.slow
@pytest.mark.parametrize("kit", KITS)
@pytest.mark.parametrize("kind", [healthy.CollectionPerStage, healthy.ByHand, healthy.OwnEvaluations])
def test_a_compiled_module_stays_silent(kind: type, kit: str) -> None:
    module = made(kind, lightning, kit)
    module.network = torch.compile(module.network, backend="eager")
    diagnose, data = Diagnose(hints=True), made(Data, lightning)
    Trainer(max_epochs=2, logger=False, callbacks=[diagnose], **QUIET).fit(module, datamodule=data)
    silent(diagnose)


class ByHand(healthy.ByHand, LightningModule): ...  # other processes find a module by the name of its class


class OwnByHand(ByHand):
    kit = KITS["own"]


class SyncedLosses(healthy.SyncedLosses, LightningModule): ...


class OwnEvaluations(healthy.OwnEvaluations, LightningModule): ...


@pytest.mark.slow
@pytest.mark.parametrize("kind", [ByHand, OwnByHand, SyncedLosses, OwnEvaluations])
def test_two_processes_stay_silent(kind: type, tmp_path: Path) -> None:
    strategy: Any = DDPStrategy(start_method="forkserver", process_group_backend="gloo")
    logger = CSVLogger(tmp_path, name="", version="run")
    callbacks = [Diagnose(hints=True), ExactDistributedEvaluation()]
    trainer = Trainer(max_epochs=2, devices=2, strategy=strategy, logger=logger, callbacks=callbacks, **QUIET)
    trainer.fit(kind(), *(healthy.loader(rows, seed=seed) for rows, seed in ((320, 0), (90, 1))))
    written = tmp_path / "run" / "diagnosis.json"
    found = json.loads(written.read_text()) if written.exists() else {"issues": [], "tips": []}
    assert found["issues"] == []
    assert [each for each in found["tips"] if each["code"] < "EK200"] == []
