"""In a LightningModule: right epoch values however they are logged, one update per batch, one collective per epoch.

The model's parameters stay as they are (the learning rate is zero) and its scores shift by epoch, so the expected
values of every epoch come from scikit-learn on the whole data, and counts left over from before would show.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.distributed as dist
from lightning import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback, EarlyStopping, ModelCheckpoint
from lightning.pytorch.strategies import DDPStrategy
from quiet import QUIET
from sklearn import metrics as sklearn
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lightning_evalkit import BinaryEvaluation

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS, BATCH, EPOCHS = 48, 8, 3
SHIFT = 0.4
NAMES = {
    "accuracy": sklearn.accuracy_score,
    "f1": partial(sklearn.f1_score, zero_division=0.0),
    "recall": partial(sklearn.recall_score, zero_division=0.0),
    "precision": partial(sklearn.precision_score, zero_division=0.0),
}


def data(seed: int, rows: int = ROWS) -> TensorDataset:
    generator = torch.Generator().manual_seed(seed)
    return TensorDataset(torch.randn(rows, generator=generator), torch.randint(0, 2, (rows,), generator=generator))


def loader(seed: int) -> DataLoader[Any]:
    return DataLoader(data(seed), batch_size=BATCH)


TRAINING, VALIDATION, TESTING = 1, 2, 3
"""Seeds of the three sets."""


def expected(seed: int, epoch: int, rows: slice = slice(None)) -> dict[str, float]:
    scores, target = data(seed).tensors
    decided = (scores + SHIFT * epoch > 0).long()[rows]
    return {name: pytest.approx(statistic(target[rows], decided), abs=1e-6) for name, statistic in NAMES.items()}


def of(values: dict[str, float], prefix: str, suffix: str = "") -> dict[str, float]:
    """The values under a prefix, by statistic."""
    return {name: values[f"{prefix}{name}{suffix}"] for name in NAMES if f"{prefix}{name}{suffix}" in values}


def evaluation(prefix: str, **options: Any) -> BinaryEvaluation:
    return BinaryEvaluation("logits", statistics=list(NAMES), prefix=prefix, zero_division=0.0, **options)


class Shifted(LightningModule):
    """Scores are the feature plus a shift by epoch; every way of logging is used beside the others."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.fitting = evaluation("fit/")
        self.in_step, self.single, self.at_end = evaluation("step/"), evaluation("single/"), evaluation("end/")
        self.testing = evaluation("test/")

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale + SHIFT * self.current_epoch

    def training_step(self, batch: tuple[Tensor, Tensor], _: int) -> Tensor:
        x, y = batch
        scores = self(x)
        self.fitting(scores, y)
        self.log_dict(self.fitting, on_step=True, on_epoch=True)
        return nn.functional.binary_cross_entropy_with_logits(scores, y.float())

    def validation_step(self, batch: tuple[Tensor, Tensor], _: int) -> None:
        x, y = batch
        scores = self(x)
        self.in_step.update(scores, y)
        self.log_dict(self.in_step)
        self.single.update(scores, y)
        self.log("single/f1", self.single["f1"])
        self.at_end.update(scores, y)

    def on_validation_epoch_end(self) -> None:
        self.log_dict(self.at_end.compute())
        self.at_end.reset()

    def test_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        x, y = batch
        self.testing.update(self(x), y)
        self.log_dict(self.testing)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.0)


class Witness(Callback):
    """Notes what Lightning reports, and how often each evaluation was updated."""

    def __init__(self) -> None:
        self.steps: list[dict[str, float]] = []
        self.fits: list[dict[str, float]] = []
        self.validations: list[dict[str, float]] = []
        self.updates: list[list[int]] = []

    def on_train_batch_end(self, trainer: Trainer, *_: Any) -> None:
        self.steps.append(reported(trainer))

    def on_train_epoch_start(self, trainer: Trainer, module: Shifted) -> None:  # type: ignore[override]
        assert not module.fitting.tally.update_called
        if trainer.current_epoch:
            self.fits.append(reported(trainer))

    def on_train_end(self, trainer: Trainer, _: LightningModule) -> None:
        self.fits.append(reported(trainer))

    def on_validation_epoch_start(self, trainer: Trainer, module: Shifted) -> None:  # type: ignore[override]
        assert not any(each.tally.update_called for each in (module.in_step, module.single, module.at_end))

    def on_validation_batch_end(self, trainer: Trainer, module: Shifted, *_: Any) -> None:  # type: ignore[override]
        self.updates.append([each.tally.update_count for each in (module.in_step, module.single, module.at_end)])

    def on_validation_end(self, trainer: Trainer, module: LightningModule) -> None:
        if not trainer.sanity_checking:
            self.validations.append(reported(trainer))


def reported(trainer: Trainer) -> dict[str, float]:
    return {name: value.item() for name, value in trainer.callback_metrics.items()}


@pytest.fixture(scope="module")
def witness() -> Witness:
    """One training with all ways of logging; the tests look at what was seen."""
    seen = Witness()
    trainer = Trainer(max_epochs=EPOCHS, num_sanity_val_steps=2, callbacks=[seen], **QUIET)
    trainer.fit(Shifted(), loader(TRAINING), loader(VALIDATION))
    return seen


def test_log_dict_in_a_validation_step_gives_epoch_values(witness: Witness) -> None:
    assert [of(values, "step/") for values in witness.validations] == [expected(VALIDATION, e) for e in range(EPOCHS)]


def test_one_entry_may_be_logged(witness: Witness) -> None:
    assert [of(values, "single/") for values in witness.validations] == [
        {"f1": expected(VALIDATION, epoch)["f1"]} for epoch in range(EPOCHS)
    ]


def test_logging_once_per_epoch_gives_the_same(witness: Witness) -> None:
    for values in witness.validations:
        assert of(values, "end/") == of(values, "step/")
        assert len(of(values, "end/")) == len(NAMES)


def test_every_batch_is_one_update(witness: Witness) -> None:
    batches = ROWS // BATCH
    sanity_check = [[number] * 3 for number in (1, 2)]
    assert witness.updates == sanity_check + [[n + 1] * 3 for n in range(batches)] * EPOCHS


def test_log_dict_in_a_training_step_gives_step_and_epoch_values(witness: Witness) -> None:
    assert [of(values, "fit/", "_epoch") for values in witness.fits] == [expected(TRAINING, e) for e in range(EPOCHS)]
    batches = [slice(start, start + BATCH) for start in range(0, ROWS, BATCH)]
    steps = [expected(TRAINING, epoch, batch) for epoch in range(EPOCHS) for batch in batches]
    assert [of(values, "fit/", "_step") for values in witness.steps] == steps


def test_log_dict_in_a_test_step_gives_epoch_values() -> None:
    trainer, module = Trainer(**QUIET), Shifted()
    for _ in range(2):
        results = trainer.test(module, loader(TESTING), verbose=False)
        assert [of(values, "test/") for values in results] == [expected(TESTING, 0)]
        assert not module.testing.tally.update_called


def test_log_dict_in_validate_gives_epoch_values() -> None:
    trainer, module = Trainer(**QUIET), Shifted()
    for _ in range(2):
        results = trainer.validate(module, loader(VALIDATION), verbose=False)
        assert of(results[0], "step/") == of(results[0], "end/") == expected(VALIDATION, 0)


# ---- callbacks that watch a value


@pytest.mark.parametrize("monitor", ["step/accuracy", "single/f1", "end/precision"])
def test_early_stopping_and_checkpoints_can_monitor_a_value(monitor: str, tmp_path: Path) -> None:
    values = [expected(VALIDATION, epoch)[monitor.split("/")[1]].expected for epoch in range(20)]
    best = next(k for k in range(len(values) - 1) if values[k + 1] <= values[k])
    stopping = EarlyStopping(monitor, mode="max", patience=1)
    keeping = ModelCheckpoint(tmp_path, monitor=monitor, mode="max", filename="best")
    trainer = Trainer(**{**QUIET, "enable_checkpointing": True}, max_epochs=20, callbacks=[stopping, keeping])
    trainer.fit(Shifted(), loader(TRAINING), loader(VALIDATION))
    assert stopping.stopped_epoch == best + 1
    assert float(keeping.best_model_score) == pytest.approx(values[best], abs=1e-6)
    assert float(stopping.best_score) == pytest.approx(values[best], abs=1e-6)


# ---- checkpoints


class Storage(Shifted):
    def __init__(self) -> None:
        super().__init__()
        self.in_step.persistent(True)


def test_a_persistent_state_goes_through_a_checkpoint(tmp_path: Path) -> None:
    module = Storage()
    trainer = Trainer(max_epochs=1, **QUIET)
    trainer.fit(module, loader(TRAINING), loader(VALIDATION))
    scores, target = data(VALIDATION).tensors
    module.in_step.update(scores[:30], target[:30])
    trainer.save_checkpoint(tmp_path / "run.ckpt")
    saved = torch.load(tmp_path / "run.ckpt", weights_only=True)["state_dict"]
    assert set(saved) == {"scale", "in_step.integers", "in_step.declaration"}
    loaded = Storage.load_from_checkpoint(tmp_path / "run.ckpt")
    assert loaded.in_step.counts == module.in_step.counts
    loaded.in_step.update(scores[30:], target[30:])
    assert of({name: v.item() for name, v in loaded.in_step.compute().items()}, "step/") == expected(VALIDATION, 0)


def test_a_state_that_is_not_persistent_is_not_in_a_checkpoint(tmp_path: Path) -> None:
    trainer, module = Trainer(max_epochs=1, **QUIET), Shifted()
    trainer.fit(module, loader(TRAINING), loader(VALIDATION))
    module.in_step.update(*data(VALIDATION).tensors)
    trainer.save_checkpoint(tmp_path / "run.ckpt")
    assert set(torch.load(tmp_path / "run.ckpt", weights_only=True)["state_dict"]) == {"scale"}


# ---- precision

LARGE = 3000


class Weighing(LightningModule):
    """Counts thousands of samples, of which bfloat16 could count 256."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 1)
        self.plain = BinaryEvaluation("logits", statistics=["accuracy"], prefix="plain/")
        self.weighted = BinaryEvaluation("logits", statistics=["accuracy"], prefix="weighted/", weighted=True)
        self.seen: list[Any] = []

    def validation_step(self, batch: tuple[Tensor, ...], _: int) -> None:
        x, y, weight = batch
        self.plain.update(x, y)
        self.weighted.update(x, y, weight)
        self.log_dict(self.plain)
        self.seen.append((x.dtype, self.layer.weight.dtype, torch.get_default_dtype()))

    def on_validation_epoch_end(self) -> None:
        self.log_dict(self.weighted.compute())
        self.seen.append((self.plain.counts.exact().cells, self.weighted.counts.exact().cells))
        self.weighted.reset()


def test_counts_are_exact_in_low_precision() -> None:
    x = torch.where(torch.arange(LARGE) % 3 == 0, 1.0, -1.0)
    y, weight = torch.arange(LARGE) % 2, torch.full((LARGE,), 257)
    batches = DataLoader(TensorDataset(x, y, weight), batch_size=500)
    trainer, module = Trainer(precision="bf16-true", **QUIET), Weighing()
    (values,) = trainer.validate(module, batches, verbose=False)
    assert module.seen[0] == (torch.bfloat16,) * 3
    cells = (500, 500, 1000, 1000)  # of six in a row: one is predicted positive and is, one is and is not, two and two
    assert module.seen[-1] == (cells, tuple(257.0 * cell for cell in cells))
    assert values == {"plain/accuracy": 0.5, "weighted/accuracy": 0.5}


# ---- two processes


class CollectiveWitness(Callback):
    """Notes, on each rank, which modules call a collective during validation, and what is reported."""

    def __init__(self, folder: str) -> None:
        self.folder, self.callers, self.epochs = folder, [], []

    def setup(self, *_: Any, **__: Any) -> None:
        for name in ("all_reduce", "all_gather", "all_gather_object", "barrier", "broadcast"):
            setattr(dist, name, self._noting(name, getattr(dist, name)))

    def _noting(self, name: str, collective: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            caller = sys._getframe(1).f_globals["__name__"]
            self.callers.append(f"{caller.split('.')[0]}:{name}")
            return collective(*args, **kwargs)

        return call

    def on_validation_epoch_start(self, *_: Any) -> None:
        self.callers.clear()

    def on_validation_end(self, trainer: Trainer, module: LightningModule) -> None:
        if not trainer.sanity_checking:
            ours = [call for call in self.callers if call.startswith(("lightning_evalkit", "torchmetrics"))]
            self.epochs.append({"collectives": ours, "values": reported(trainer)})
        Path(self.folder, str(trainer.global_rank)).write_text(json.dumps(self.epochs))


@pytest.mark.slow
def test_two_processes_report_the_values_of_one(witness: Witness, tmp_path: Path) -> None:
    """Three evaluations are computed per epoch, each by one collective; the rows divide evenly between the ranks."""
    trainer = Trainer(
        max_epochs=EPOCHS,
        devices=2,
        strategy=DDPStrategy(start_method="forkserver", process_group_backend="gloo", timeout=timedelta(seconds=60)),
        callbacks=[CollectiveWitness(str(tmp_path))],
        **QUIET,
    )
    trainer.fit(Shifted(), loader(TRAINING), loader(VALIDATION))
    assert of(reported(trainer), "fit/", "_epoch") == of(witness.fits[-1], "fit/", "_epoch")
    for rank in range(2):
        epochs = json.loads((tmp_path / str(rank)).read_text())
        assert [epoch["collectives"] for epoch in epochs] == [["lightning_evalkit:all_reduce"] * 3] * EPOCHS
        for epoch, alone in zip(epochs, witness.validations, strict=True):
            validated = {name: value for name, value in alone.items() if not name.startswith("fit/")}
            assert {name: epoch["values"][name] for name in validated} == validated
