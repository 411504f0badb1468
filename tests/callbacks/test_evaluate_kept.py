"""What Evaluate keeps in checkpoints, draws, and reads from a configuration."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from evaluated import (
    ALL,
    BATCH,
    BATCHES,
    EPOCHS,
    ROWS,
    SHIFT,
    TESTING,
    TRAINING,
    VALIDATION,
    Plain,
    Saving,
    binary,
    board,
    cells,
    counted,
    expected,
    fit,
    loader,
    rows,
    tags,
    trainer,
)
from lightning.pytorch import LightningDataModule
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.loggers.logger import Logger
from sklearn import metrics as sklearn

from lightning_evalkit.callbacks import Evaluate, TensorBoardReport
from lightning_evalkit.errors import InputError
from lightning_evalkit.reports.drawing import CURVES
from lightning_evalkit.sinks import thumbnails

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lightning.pytorch import LightningModule, Trainer
    from torch.utils.data import DataLoader


# ---- checkpoints


class Resumable:
    """Goes on where it was, as Lightning asks of a loader that is saved within an epoch."""

    def __init__(self, seed: int) -> None:
        self.batches = list(zip(*(part.split(BATCH) for part in rows(seed)), strict=True))
        self.given = self.first = 0

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Any]:
        first, self.first = self.first, 0
        for place in range(first, len(self)):
            self.given = place + 1
            yield self.batches[place]

    def state_dict(self) -> dict[str, int]:
        return {"given": self.given}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.first = self.given = state["given"] % len(self)


class Noting(Callback):
    """The counts of every epoch of a stage, by step."""

    def __init__(self, evaluate: Evaluate) -> None:
        self.evaluate, self.seen = evaluate, {}

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.seen["train", trainer.global_step] = cells(self.evaluate.evaluation("train"))

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.seen["val", trainer.global_step] = cells(self.evaluate.evaluation("val"))


def resumed(path: Path | None, *callbacks: Callback, **options: Any) -> dict[tuple[str, int], list[int]]:
    evaluate = Evaluate(binary(), stages=("train", "val"))
    noting = Noting(evaluate)
    settings = {"num_sanity_val_steps": 0, "max_epochs": 2, "enable_checkpointing": bool(callbacks)}
    running = trainer(evaluate, noting, *callbacks, **(settings | options))
    running.fit(Plain(), Resumable(TRAINING), Resumable(VALIDATION), ckpt_path=path)
    return noting.seen


@pytest.mark.parametrize("options", [{}, {"val_check_interval": 4}], ids=["at the end", "within"])
def test_a_training_that_goes_on_counts_as_if_it_had_not_stopped(options: dict[str, Any], tmp_path: Path):
    whole = resumed(None, Saving(tmp_path), **options)
    assert [whole["train", (epoch + 1) * BATCHES] for epoch in (0, 1)] == [counted(TRAINING, epoch) for epoch in (0, 1)]
    assert len(whole) == 4
    paths = sorted(tmp_path.glob("*.ckpt"))
    assert len(paths) == 2 * BATCHES + 2 + 2
    for path in paths:
        again, (where, step) = resumed(path, **options), path.stem.split("-")
        assert again == {key: whole[key] for key in again}, path
        # What follows; of an epoch whose last batch was saved before its end, Lightning leaves the end out.
        after = {key for key in whole if key[1] > int(step)}
        assert set(again) == after | ({("train", int(step))} & set(whole) if where == "validation" else set()), path


def saved(folder: Path, evaluate: Evaluate) -> Path:
    """A checkpoint within the second epoch."""
    running = trainer(
        evaluate,
        Saving(folder),
        max_steps=BATCHES + 2,
        max_epochs=-1,
        num_sanity_val_steps=0,
        enable_checkpointing=True,
    )
    running.fit(Plain(), Resumable(TRAINING), Resumable(VALIDATION))
    return folder / f"batch-{BATCHES + 2}.ckpt"


def test_a_checkpoint_holds_tensors_only_and_what_was_counted(tmp_path: Path):
    evaluate = Evaluate(binary(curves=True), stages=ALL)
    path = saved(tmp_path, evaluate)
    state = torch.load(path, weights_only=True)["callbacks"][evaluate.state_key]
    assert {key.rpartition(".")[0] for key in state} == {"train.0", "val.0"}
    loaded = Evaluate(binary(curves=True), stages=ALL)
    loaded.load_state_dict(state)
    x, y = (part[: 2 * BATCH] for part in rows(TRAINING))
    (tn, fp), (fn, tp) = sklearn.confusion_matrix(y, x + SHIFT > 0).tolist()
    assert cells(loaded.evaluation("train")) == [tp, fp, fn, tn]
    assert cells(loaded.evaluation("val")) == counted(VALIDATION, 0)
    assert loaded.evaluation("val").compute() == evaluate.evaluation("val").compute()


def test_another_declaration_is_refused_by_training_and_not_by_a_test(tmp_path: Path):
    path = saved(tmp_path, Evaluate(binary(), stages=ALL))
    told = (
        "another declaration: thresholds=.*0.5.* in the checkpoint, .*0.3.* here.*another prefix, Evaluate begins anew"
    )
    running = trainer(Evaluate(binary(threshold=0.3), stages=ALL))
    with pytest.raises(InputError, match=told):
        running.fit(Plain(), Resumable(TRAINING), Resumable(VALIDATION), ckpt_path=path)
    evaluate = Evaluate(binary(threshold=0.3), stages=ALL)
    trainer(evaluate).test(Plain(), loader(TESTING), ckpt_path=path, verbose=False)
    assert sum(cells(evaluate.evaluation("test"))) == ROWS
    assert not evaluate.evaluation("train").tally.update_called


@pytest.mark.filterwarnings("ignore:Be aware that when using .ckpt_path.")  # of the state of another Evaluate
def test_a_checkpoint_without_counts_is_told(tmp_path: Path):
    path, evaluate = saved(tmp_path, Evaluate(binary())), Evaluate(binary(), stages=ALL)
    evaluate.evaluation("train").update(*rows(TESTING))  # of another run
    running = trainer(evaluate, max_epochs=2)
    with pytest.warns(UserWarning, match="counts only what remains of epoch 1: .* after 2 batches, and without"):
        running.fit(Plain(), Resumable(TRAINING), Resumable(VALIDATION), ckpt_path=path)
    assert sum(cells(evaluate.evaluation("train"))) == ROWS - 2 * BATCH


def test_several_dataloaders_go_through_a_checkpoint():
    first, second = Evaluate(binary()), Evaluate(binary())
    trainer(first).validate(Plain(), [loader(VALIDATION), loader(TESTING)], verbose=False)
    second.load_state_dict(first.state_dict())
    for place, seed in enumerate((VALIDATION, TESTING)):
        assert cells(second.evaluation("val", place)) == counted(seed, 0)
    assert second.evaluation("val", 1).compute().keys() == first.evaluation("val", 1).compute().keys()


# ---- drawing


class Pictures(Logger):
    """Keeps what Wandb's logger would send."""

    name = version = "pictures"

    def __init__(self) -> None:
        super().__init__()
        self.images: dict[tuple[str, int], Any] = {}
        self.metrics: dict[str, float] = {}

    def log_hyperparams(self, *_: Any, **__: Any) -> None:
        pass

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        self.metrics.update(metrics)

    def log_image(self, key: str, images: list[Any], step: int | None = None) -> None:
        (self.images[key, step],) = images


def test_figures_go_to_every_logger_that_shows_them_and_scalars_to_all(tmp_path: Path):
    pictures, table = Pictures(), CSVLogger(tmp_path, name="", version="table")
    evaluate = Evaluate(binary(curves=True), every_n_epochs=2)
    running = fit(evaluate, logger=[board(tmp_path), table, pictures])
    matrix = torch.tensor(np.array(counted(VALIDATION, 1))[[3, 1, 2, 0]].reshape(2, 2))
    drawn = thumbnails.counts(matrix, ("negative", "positive"), "val · epoch 1")
    assert np.array_equal(pictures.images["val/confusion_matrix", 2 * BATCHES - 1], drawn)
    assert set(pictures.images) == {
        (f"val/{what}", epoch * BATCHES - 1) for what in ("confusion_matrix", *CURVES) for epoch in (2, 3)
    }
    found = tags(tmp_path / "board")
    assert set(found["images"]) == {"val/confusion_matrix", *(f"val/{name}" for name in CURVES)}
    assert "val/pr_curve" in found["tensors"]
    with (tmp_path / "table" / "metrics.csv").open() as file:
        lines = [row for row in csv.DictReader(file) if row["val/f1"]]
    assert [float(row["val/f1"]) for row in lines] == [expected(VALIDATION, epoch)["f1"] for epoch in range(EPOCHS)]
    assert [int(row["step"]) for row in lines] == [epoch * BATCHES - 1 for epoch in (1, 2, 3)]
    assert {"val/f1", "val/auroc"} <= set(found["scalars"]) & set(pictures.metrics)
    assert running.callback_metrics["val/f1"] == pictures.metrics["val/f1"]


def test_scalars_alone_if_figures_are_not_wanted(tmp_path: Path):
    pictures = Pictures()
    fit(Evaluate(binary(), figures=False), logger=[board(tmp_path), pictures], max_epochs=1)
    assert (pictures.images, tags(tmp_path / "board")["images"]) == ({}, [])
    assert "val/f1" in pictures.metrics


@pytest.mark.parametrize("order", [1, -1])
def test_a_report_draws_for_it_and_nothing_twice(order: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    titles, draw = [], thumbnails.counts
    monkeypatch.setattr(thumbnails, "counts", lambda *given: titles.append(given[2]) or draw(*given))
    callbacks = [Evaluate(binary(), stages=ALL), TensorBoardReport(every_n_epochs=1, stages=ALL)][::order]
    running = fit(*callbacks, logger=board(tmp_path), max_epochs=2)
    running.test(Plain(), loader(TESTING), verbose=False)
    assert sorted(titles) == [
        "test",
        *(f"{stage} · epoch {epoch}" for stage in ("train", "val") for epoch in (0, 1)),
    ]
    found = tags(tmp_path / "board")
    assert set(found["images"]) == {f"{stage}/confusion_matrix" for stage in ALL}
    assert {"findings/val/explanation/text_summary", "custom_scalars__config__"} <= set(found["tensors"])


@pytest.mark.parametrize("order", [1, -1])
def test_other_loggers_are_drawn_to_beside_a_report(order: int, tmp_path: Path):
    pictures = Pictures()
    callbacks = [Evaluate(binary()), TensorBoardReport(figures=False)][::order]
    fit(*callbacks, logger=[board(tmp_path), pictures], max_epochs=1)
    assert set(pictures.images) == {("val/confusion_matrix", BATCHES - 1)}
    assert tags(tmp_path / "board")["images"] == []


def test_a_failure_to_draw_is_told_and_training_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def broken(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(thumbnails, "fitted", broken)
    with pytest.warns(UserWarning, match="Evaluate could not draw the confusion matrix under 'val/': OSError: disk"):
        running = fit(Evaluate(binary()), logger=board(tmp_path))
    assert running.current_epoch == EPOCHS


def test_a_development_run_draws_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(thumbnails, "fitted", lambda *_: pytest.fail("drawn"))
    evaluate = Evaluate(binary())
    fit(evaluate, logger=True, fast_dev_run=1)
    assert sum(cells(evaluate.evaluation("val"))) == BATCH


# ---- configured


class Sets(LightningDataModule):
    def train_dataloader(self) -> DataLoader[Any]:
        return loader(TRAINING)

    def val_dataloader(self) -> DataLoader[Any]:
        return loader(VALIDATION)


class Bare(Plain):
    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> Any:
        return self(batch[0])


CONFIGURATION = f"""
trainer:
  max_epochs: 1
  accelerator: cpu
  enable_progress_bar: false
  enable_model_summary: false
  logger: false
  enable_checkpointing: false
  callbacks:
    - class_path: lightning_evalkit.callbacks.Evaluate
      init_args:
        evaluation:
          class_path: lightning_evalkit.BinaryEvaluation
          init_args: {{inputs: logits, statistics: [accuracy, precision, recall, f1]}}
        stages: [train]
        prog_bar: [f1]
    - class_path: Evaluate
      init_args:
        evaluation:
          class_path: BinaryEvaluation
          init_args: {{inputs: logits, zero_division: 0.0, prefix: mine_}}
        take: evaluated.second_of_batch
model: {__name__}.Bare
data: {__name__}.Sets
"""


def test_the_command_line_configures_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from lightning_evalkit.cli.training import launched  # late: the processes below import this file

    monkeypatch.chdir(tmp_path)
    path = tmp_path / "run.yaml"
    path.write_text(CONFIGURATION)
    ended = launched(["fit", "--config", str(path)])
    values = {name: value.item() for name, value in ended.trainer.callback_metrics.items()}
    wanted = expected(TRAINING, 0, "train/") | expected(VALIDATION, 0, "val/mine_")
    assert {name: values[name] for name in wanted} == wanted
    assert set(ended.trainer.progress_bar_metrics) == {"train/f1"}
