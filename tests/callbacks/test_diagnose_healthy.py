"""Diagnose has nothing to say of healthy modules: fifteen of them, in runs of many shapes."""

from __future__ import annotations

import json
from itertools import product
from typing import TYPE_CHECKING, Any

import healthy
import pytest
import torch
from healthy import MODULES, Data
from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.strategies import DDPStrategy

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
    "metrics in a callback": {"callbacks": [healthy.OwnsMetrics]},
    "the callback Evaluate": {"callbacks": [lambda: Evaluate(BinaryEvaluation("logits", curves=True))]},
}


def loaders(kind: type) -> int:
    return 2 if kind is healthy.SeveralLoaders else 1


def silent(diagnose: Diagnose) -> None:
    """No issue, and not even a hint about the run."""
    assert diagnose.diagnosis.issues == ()
    assert [finding for finding in diagnose.diagnosis.findings if finding.code < "EK200"] == []


def test_there_are_at_least_twelve() -> None:
    assert len({*MODULES}) >= 12


def cases() -> Iterator[Any]:
    """Every module in every shape of a run that fits it."""
    for kind, (shape, options) in product(MODULES, SHAPES.items()):
        fits = (shape == "the callback Evaluate") == (kind is healthy.Returns)
        for_a_classifier = kind not in (healthy.SeveralLoaders, healthy.TwoNetworks)
        if fits and (for_a_classifier or "callbacks" not in options):
            for first in (True, False) if "callbacks" in options else (True,):
                order = "Diagnose first" if first else "Diagnose last"
                yield pytest.param(kind, shape, first, id=f"{kind.__name__}, {shape}, {order}")


@pytest.mark.parametrize(("kind", "shape", "first"), [*cases()])
def test_healthy_runs_stay_silent(kind: type, shape: str, first: bool, recwarn: Any) -> None:
    options = dict(SHAPES[shape])
    diagnose, others = Diagnose(hints=True), [made() for made in options.pop("callbacks", [])]
    callbacks = [diagnose, *others] if first else [*others, diagnose]
    trainer = Trainer(max_epochs=3, logger=False, callbacks=callbacks, **QUIET, **options)
    made, data = kind(), Data(loaders(kind))
    trainer.fit(made, datamodule=data)
    silent(diagnose)
    assert diagnose.diagnosis.passed or kind is healthy.Returns
    trainer.test(made, datamodule=data, verbose=False)
    silent(diagnose)
    assert not [str(each.message) for each in recwarn if "Diagnose could not" in str(each.message)]


@pytest.mark.parametrize("kind", [healthy.CollectionPerStage, healthy.OwnEvaluations])
def test_checkpoints_and_early_stopping_in_the_right_direction(kind: type, tmp_path: Path) -> None:
    name = "val/BinaryF1Score" if kind is healthy.CollectionPerStage else "val/f1"
    waiting = [EarlyStopping(name, mode="max", patience=5), ModelCheckpoint(tmp_path, monitor=name, mode="max")]
    diagnose = Diagnose(hints=True)
    options = {**QUIET, "enable_checkpointing": True}
    trainer = Trainer(max_epochs=3, logger=False, callbacks=[diagnose, *waiting], **options)
    trainer.fit(kind(), datamodule=Data())
    silent(diagnose)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [healthy.CollectionPerStage, healthy.ByHand, healthy.OwnEvaluations])
def test_a_compiled_module_stays_silent(kind: type) -> None:
    made: Any = kind()
    made.network = torch.compile(made.network, backend="eager")
    diagnose = Diagnose(hints=True)
    Trainer(max_epochs=2, logger=False, callbacks=[diagnose], **QUIET).fit(made, datamodule=Data())
    silent(diagnose)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [healthy.ByHand, healthy.SyncedLosses, healthy.OwnEvaluations])
def test_two_processes_stay_silent(kind: type, tmp_path: Path) -> None:
    strategy: Any = DDPStrategy(start_method="forkserver", process_group_backend="gloo")
    logger = CSVLogger(tmp_path, name="", version="run")
    callbacks = [Diagnose(hints=True), ExactDistributedEvaluation()]
    trainer = Trainer(max_epochs=2, devices=2, strategy=strategy, logger=logger, callbacks=callbacks, **QUIET)
    trainer.fit(kind(), datamodule=Data())
    written = tmp_path / "run" / "diagnosis.json"
    found = json.loads(written.read_text()) if written.exists() else {"issues": [], "tips": []}
    assert found["issues"] == []
    assert [each for each in found["tips"] if each["code"] < "EK200"] == []
