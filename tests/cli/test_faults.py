"""Runs that are interrupted, loaders that cannot go on, damaged files, full disks: what was counted and learnt is kept.

A run that is interrupted and resumed is compared with one that never was: epoch by epoch, to the integer and the last
bit of the loss. Which interruptions there are is what Lightning's loops do: before, in and after a batch, at the last
batch of an epoch, in validation, after it, and where no validation is due.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
import torch
from fault_runs import BATCHES, EPOCHS, Recording, StoppedError, Stopping, interrupted, saving, started, trainer
from lightning.pytorch import Callback, LightningModule, seed_everything
from torch import Tensor

from lightning_evalkit import BinaryEvaluation
from lightning_evalkit.callbacks import Evaluate, ThresholdTuning
from lightning_evalkit.data import TensorLoader
from lightning_evalkit.modules import BinaryClassifier, MulticlassClassifier
from lightning_evalkit.modules.classifier import COUNTED

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    # About the tiny trainings of these tests.
    pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty"),
    pytest.mark.filterwarnings("ignore:The dirpath has changed from"),
    pytest.mark.filterwarnings("ignore:Be aware that when using `ckpt_path`, callbacks used to create the checkpoint"),
    pytest.mark.filterwarnings("ignore:You defined a `validation_step` but have no `val_dataloader`"),
    pytest.mark.filterwarnings("ignore:.* is 0/0"),
]


@cache
def never_stopped(**options: Any) -> Recording:
    """Once, however many tests ask."""
    recording = Recording()
    trainer(recording, **options).fit(*started())
    return recording


AT_STEPS: dict[str, Any] = {"save_on_exception": False, "every_n_train_steps": 1}
PLACES: dict[str, tuple[str, int, dict[str, Any], dict[str, Any]]] = {
    "before a batch": ("on_train_batch_start", 3, {}, {}),
    "in a batch that was counted": ("on_before_optimizer_step", 6, {}, {}),
    "in the first batch of an epoch": ("on_before_optimizer_step", 5, {}, {}),
    "in the last batch of an epoch": ("on_before_optimizer_step", 8, {}, {}),
    "after a batch": ("on_train_batch_end", 2, {}, {}),
    "after the last batch of an epoch": ("on_train_batch_end", 4, {}, {}),
    "after the last batch of all": ("on_train_batch_end", 12, {}, {}),
    "before validation": ("on_validation_start", 2, {}, {}),
    "in the first batch of validation": ("on_validation_batch_start", 1, {}, {}),
    "in the last batch of validation": ("on_validation_batch_end", 6, {}, {}),
    "at the end of validation": ("on_validation_epoch_end", 3, {}, {}),
    "in a validation within the epoch": ("on_validation_batch_start", 5, {}, {"val_check_interval": 2}),
    "without validation": ("on_train_batch_end", 4, {}, {"limit_val_batches": 0}),
    "where none is due": ("on_train_batch_end", 4, {}, {"check_val_every_n_epoch": 2}),
    "with fewer batches": ("on_train_batch_end", 3, {}, {"limit_train_batches": 3}),
    "on the same batches": ("on_train_batch_end", 3, {}, {"overfit_batches": 3}),
    "saved by steps": ("on_train_batch_start", 7, AT_STEPS, {}),
    "saved by steps at the end of an epoch": ("on_train_epoch_start", 2, AT_STEPS, {}),
    "saved by steps before a validation": ("on_validation_batch_start", 2, AT_STEPS, {"val_check_interval": 2}),
    "saved after validation": (
        "on_train_batch_start",
        7,
        {"save_on_exception": False, "every_n_train_steps": 0, "every_n_epochs": 1},
        {"val_check_interval": 2},
    ),
    "saved after an epoch": ("on_train_batch_start", 7, {"save_on_exception": False}, {}),
}


@pytest.mark.filterwarnings("ignore:.*val_dataloader. has .shuffle=True")
@pytest.mark.parametrize(("hook", "times", "saved", "options"), PLACES.values(), ids=PLACES)
def test_a_resumed_run_ends_like_one_that_never_stopped(
    hook: str, times: int, saved: dict[str, Any], options: dict[str, Any], tmp_path: Path
) -> None:
    whole = never_stopped(**options)
    assert sorted(whole.epochs) == list(range(EPOCHS))
    before = interrupted(tmp_path, Stopping(hook, times), saving(tmp_path, **saved), **options)
    after = Recording()
    trainer(after, **options).fit(*started(), ckpt_path=tmp_path / "last.ckpt")
    assert {**before.epochs, **after.epochs} == whole.epochs
    assert after.epochs, "the interruption was before the end"
    assert after.validations == whole.validations[len(whole.validations) - len(after.validations) :]
    assert {step for step, _ in before.validations + after.validations} == {step for step, _ in whole.validations}


def test_it_may_be_interrupted_again_and_again(tmp_path: Path) -> None:
    """In every batch, after it was counted; and in turn once more while the batch that was given again is in work."""
    whole, found, path = never_stopped(max_epochs=2), Recording(), None
    for times in [2, 1] * 2 * BATCHES:
        callbacks = found, Stopping("on_before_optimizer_step", times), saving(tmp_path)
        try:
            trainer(*callbacks, max_epochs=2, enable_checkpointing=True).fit(*started(), ckpt_path=path)
        except StoppedError:
            path = tmp_path / "last.ckpt"
        else:
            break
    assert found.epochs == whole.epochs
    assert found.validations == whole.validations


class Watching(Callback):
    """What callbacks that count by themselves have at the end of each epoch."""

    def __init__(self) -> None:
        self.evaluate = Evaluate(
            BinaryEvaluation(inputs="logits", curves=True, prefix="again/"), stages=("train", "val"), figures=False
        )
        self.tuning = ThresholdTuning(BinaryEvaluation(inputs="logits"))
        self.epochs: dict[int, Any] = {}

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        values = [self.evaluate.evaluation(stage).compute() for stage in ("train", "val")]
        numbers = [{name: value.item() for name, value in each.items()} for each in values]
        self.epochs[trainer.current_epoch] = numbers, self.tuning.threshold


@pytest.mark.parametrize(
    "place", ["after the last batch of an epoch", "in the last batch of validation", "after a batch"]
)
def test_callbacks_that_count_and_tune_go_on_too(place: str, tmp_path: Path) -> None:
    hook, times, *_ = PLACES[place]
    whole, before, after = Watching(), Watching(), Watching()
    trainer(whole.evaluate, whole.tuning, whole).fit(*started())
    stopped = [before.evaluate, before.tuning, before, Stopping(hook, times), saving(tmp_path)]
    with pytest.raises(StoppedError):
        trainer(*stopped, enable_checkpointing=True).fit(*started())
    trainer(after.evaluate, after.tuning, after).fit(*started(), ckpt_path=tmp_path / "last.ckpt")
    assert {**before.epochs, **after.epochs} == whole.epochs
    assert len({threshold for _, threshold in whole.epochs.values()}) > 1, "there is something to restore"


@pytest.mark.parametrize("kind", ["binary", "multiclass"])
def test_histograms_go_on_too_and_take_no_room(kind: str, tmp_path: Path) -> None:
    """A histogram has up to 65,536 bins of 8 bytes for every class and target; empty ones are not written."""

    def begun() -> tuple[LightningModule, TensorLoader]:
        seed_everything(0, verbose=False)
        rows = torch.randn(64, 4), torch.arange(64) % (2 if kind == "binary" else 3)
        options: dict[str, Any] = {"num_features": 4, "curves": True, "worst": 0.1}
        model = BinaryClassifier(**options) if kind == "binary" else MulticlassClassifier(num_classes=3, **options)
        return model, TensorLoader(rows, 16, shuffle=True)

    def fitted(*callbacks: Callback, path: Path | None = None) -> dict[str, float]:
        running = trainer(*callbacks, max_epochs=1, enable_checkpointing=bool(callbacks))
        running.fit(*begun(), ckpt_path=path)
        return {name: value.item() for name, value in running.callback_metrics.items()}

    whole = fitted()
    with pytest.raises(StoppedError):
        fitted(Stopping("on_train_batch_end", 3), saving(tmp_path))
    assert fitted(path=tmp_path / "last.ckpt") == whole
    assert {"train/auroc", "train/loss_of_worst"} <= {name.removesuffix("/macro") for name in whole}
    saved = torch.load(tmp_path / "last.ckpt", weights_only=True)
    dense = sum(each.to_dense().nbytes for each in saved[COUNTED].values() if isinstance(each, Tensor))
    assert (tmp_path / "last.ckpt").stat().st_size < 60_000 < dense


def test_a_finished_epoch_leaves_no_counts(tmp_path: Path) -> None:
    running = trainer(saving(tmp_path), enable_checkpointing=True)
    running.fit(*started())
    running.save_checkpoint(tmp_path / "after.ckpt")
    for name in ("last.ckpt", "after.ckpt"):
        assert COUNTED not in torch.load(tmp_path / name, weights_only=True)


def test_counts_of_an_epoch_are_for_its_training_alone(tmp_path: Path) -> None:
    interrupted(tmp_path, Stopping("on_train_batch_end", 6), saving(tmp_path))
    path = tmp_path / "last.ckpt"
    assert COUNTED in torch.load(path, weights_only=True)
    model, data = started()
    running = trainer()
    running.test(model, data, ckpt_path=path, verbose=False)
    running.validate(model, data, ckpt_path=path, verbose=False)
    assert not model.evaluation("train").tally.update_called
    assert int(sum(model.evaluation("test").counts.cells)) == 10
    loaded = BinaryClassifier.load_from_checkpoint(path)
    recording = Recording()
    trainer(recording, max_epochs=1).fit(loaded, data)
    assert sum(recording.epochs[0][0]) == 40, "a new training counts from nothing"


def test_an_object_that_was_used_before_goes_on_like_a_new_one(tmp_path: Path) -> None:
    whole = never_stopped()
    interrupted(tmp_path, Stopping("on_train_batch_end", 6), saving(tmp_path))
    model, data = started()
    trainer(max_epochs=1).fit(model, data)
    after = Recording()
    trainer(after).fit(model, data, ckpt_path=tmp_path / "last.ckpt")
    assert after.epochs == {epoch: whole.epochs[epoch] for epoch in (1, 2)}


@pytest.mark.parametrize("threshold", [0.5, 0.3])
def test_a_checkpoint_without_usable_counts_says_what_is_missing(threshold: float, tmp_path: Path) -> None:
    """Of an older version; or of another declaration, whose counts are not those that are asked for."""
    interrupted(tmp_path, Stopping("on_train_batch_end", 6), saving(tmp_path))
    saved = torch.load(tmp_path / "last.ckpt", weights_only=True)
    if threshold == 0.5:
        del saved[COUNTED]
    torch.save(saved, tmp_path / "older.ckpt")
    model, data = started(threshold=threshold)
    trainer(max_epochs=1).fit(model, data)  # whose counts are not those of the checkpoint either
    after = Recording()
    why = "it was saved without" if threshold == 0.5 else r"thresholds=\[0.5\] in the checkpoint, \[0.3\] here"
    said = rf"train/… of epoch 1 leaves out its first 2 batches, of which the checkpoint has no counts: .*{why}"
    with pytest.warns(UserWarning, match=said):
        trainer(after).fit(model, data, ckpt_path=tmp_path / "older.ckpt")
    assert [sum(after.epochs[epoch][0]) for epoch in (1, 2)] == [20, 40]


def test_an_epoch_of_which_nothing_was_counted_reports_nothing(tmp_path: Path) -> None:
    """Undefined values would end a training that stops early."""
    interrupted(tmp_path, Stopping("on_validation_batch_start", 2), saving(tmp_path))
    saved = torch.load(tmp_path / "last.ckpt", weights_only=True)
    del saved[COUNTED]
    torch.save(saved, tmp_path / "older.ckpt")
    running = trainer(max_epochs=1)
    with pytest.warns(UserWarning, match="leaves out its first 4 batches"):
        running.fit(*started(), ckpt_path=tmp_path / "older.ckpt")
    assert {name.partition("/")[0] for name in running.callback_metrics} == {"val"}


def test_a_validation_that_has_ended_is_not_run_again(tmp_path: Path) -> None:
    hook, times, saved, options = PLACES["saved after validation"]
    before = interrupted(tmp_path, Stopping(hook, times), saving(tmp_path, **saved), **options)
    after = Recording()
    trainer(after, **options).fit(*started(), ckpt_path=tmp_path / "last.ckpt")
    assert before.validations + after.validations == never_stopped(**options).validations
