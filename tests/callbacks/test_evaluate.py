"""The Evaluate callback: the numbers of scikit-learn and of an evaluation by hand, whatever the trainer does.

As in the tests of Lightning, parameters stay as they are and scores shift by epoch, so every epoch's numbers are known
from the whole data, and counts left over from before would show.
"""

from __future__ import annotations

import gc
import json
import sys
import weakref
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
import torch
from evaluated import (
    ALL,
    BATCH,
    BATCHES,
    EPOCHS,
    NAMES,
    ROWS,
    TESTING,
    TRAINING,
    VALIDATION,
    Plain,
    Saving,
    Witness,
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
from lightning.pytorch.callbacks import Callback, EarlyStopping, ModelCheckpoint
from lightning.pytorch.strategies import DDPStrategy
from lightning.pytorch.utilities import CombinedLoader
from sklearn import metrics as sklearn
from torch.utils.data import DataLoader, TensorDataset

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit.callbacks import Evaluate
from lightning_evalkit.data.loader import TensorLoader
from lightning_evalkit.errors import DeclarationError, InputError
from lightning_evalkit.evaluation.stages import StageEvaluations
from lightning_evalkit.modules import BinaryClassifier

if TYPE_CHECKING:
    from pathlib import Path

    from lightning.pytorch import LightningModule, Trainer


# ---- numbers


class ByHand(Plain):
    """The same numbers as a user of evaluations writes them."""

    def __init__(self) -> None:
        super().__init__()
        self.fitting, self.validating = binary(prefix="train/hand_"), binary(prefix="val/hand_")

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        outputs = self.step(batch)
        self.fitting.update(outputs["logits"], batch[1])
        return outputs

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> Any:
        outputs = self.step(batch)
        self.validating.update(outputs["logits"], batch[1])
        return outputs

    def on_train_epoch_end(self) -> None:
        self.log_dict(self.fitting.compute())
        self.fitting.reset()

    def on_validation_epoch_end(self) -> None:
        self.log_dict(self.validating.compute())
        self.validating.reset()


@pytest.mark.parametrize(
    "options",
    [{}, {"val_check_interval": 0.5}, {"accumulate_grad_batches": 4}, {"check_val_every_n_epoch": 2}],
    ids=["plain", "interval", "accumulation", "rarely"],
)
def test_every_epoch_is_that_of_scikit_learn_and_of_an_evaluation_by_hand(options: dict[str, Any]):
    evaluate, witness = Evaluate(binary(), stages=ALL), Witness()
    running = fit(evaluate, witness, module=ByHand(), num_sanity_val_steps=2, **options)
    for stage, seed in (("train", TRAINING), ("val", VALIDATION)):
        epochs = list(range(EPOCHS))
        if stage == "val" and options:
            epochs = {"val_check_interval": [0, 0, 1, 1, 2, 2], "check_val_every_n_epoch": [1]}.get(*options, epochs)
        assert [{n: v for n, v in each.items() if "hand" not in n} for each in witness.seen[stage]] == [
            expected(seed, epoch, f"{stage}/") for epoch in epochs
        ]
        for each in witness.seen[stage]:
            assert len(each) == 2 * len(NAMES)
            assert all(each[f"{stage}/{name}"] == each[f"{stage}/hand_{name}"] for name in NAMES)
        assert cells(evaluate.evaluation(stage)) == counted(seed, epochs[-1])
    assert evaluate.evaluation("val").explain().headline.startswith("accuracy and f1")
    assert running.current_epoch == EPOCHS


def test_test_and_validate_report_alone_and_before_a_training():
    evaluate = Evaluate(binary(), stages=ALL)
    running, module = trainer(evaluate, num_sanity_val_steps=2), Plain()
    for _ in range(2):
        assert running.validate(module, loader(VALIDATION), verbose=False) == [expected(VALIDATION, 0, "val/")]
        assert running.test(module, loader(TESTING), verbose=False) == [expected(TESTING, 0, "test/")]
    running.fit(module, loader(TRAINING), loader(VALIDATION))
    assert cells(evaluate.evaluation("val")) == counted(VALIDATION, EPOCHS - 1)
    assert cells(evaluate.evaluation("train")) == counted(TRAINING, EPOCHS - 1)
    assert cells(evaluate.evaluation("test")) == counted(TESTING, 0)


def test_each_dataloader_is_counted_apart_under_lightning_s_suffix():
    evaluate, witness = Evaluate(binary(postfix="_x")), Witness()
    running = trainer(evaluate, witness, num_sanity_val_steps=1, max_epochs=1)
    running.fit(Plain(), loader(TRAINING), [loader(VALIDATION), loader(TESTING)])
    first, second = (
        expected(seed, 0, "val/", f"_x/dataloader_idx_{place}") for place, seed in enumerate((VALIDATION, TESTING))
    )
    assert witness.seen["val"] == [first | second]
    assert [cells(evaluate.evaluation("val", place)) for place in (0, 1)] == [
        counted(VALIDATION, 0),
        counted(TESTING, 0),
    ]
    results = running.validate(Plain(), loader(VALIDATION), verbose=False)  # one again, after an epoch
    assert results == [expected(VALIDATION, 1, "val/", "_x")]
    with pytest.raises(InputError, match="expected one of 1 dataloaders, got dataloader_idx=1"):
        evaluate.evaluation("val", 1)


class Paired(Plain):
    def validation_step(self, batch: Any, batch_idx: int) -> Any:  # type: ignore[override]
        return self.step(batch["first"])


def test_dataloaders_that_are_combined_are_one():
    both = CombinedLoader({"first": loader(VALIDATION), "second": loader(TESTING)}, "min_size")
    results = trainer(Evaluate(binary())).validate(Paired(), both, verbose=False)
    assert results == [expected(VALIDATION, 0, "val/")]


def test_without_validation_nothing_is_asked():
    evaluate = Evaluate(binary())
    fit(evaluate, limit_val_batches=0)
    assert not evaluate.evaluation("val").tally.update_called
    with pytest.raises(InputError, match="expected an evaluated stage, 'val' or 'test', got 'train'"):
        evaluate.evaluation("train")


def test_the_sanity_check_is_left_out_even_if_nothing_follows():
    evaluate = Evaluate(binary())
    fit(evaluate, num_sanity_val_steps=2, max_steps=1, max_epochs=-1)
    assert not evaluate.evaluation("val").tally.update_called


# ---- those who monitor


class Scheduled(Plain):
    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return self(batch[0]).mean() * 0

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.5)
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="max", patience=0)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": plateau, "monitor": "val/precision"}}


def test_checkpoints_early_stopping_and_schedulers_can_monitor(tmp_path: Path):
    values = [expected(VALIDATION, epoch)["precision"].expected for epoch in range(20)]
    best = next(k for k in range(len(values) - 1) if values[k + 1] <= values[k])
    stopping = EarlyStopping("val/precision", mode="max", patience=1)
    keeping = ModelCheckpoint(tmp_path, monitor="val/precision", mode="max", filename="best")
    module = Scheduled()
    # Those that monitor come first in the list, and after it in their hooks.
    fit(stopping, keeping, Evaluate(binary()), module=module, enable_checkpointing=True, max_epochs=20)
    assert stopping.stopped_epoch == best + 1
    assert float(keeping.best_model_score) == pytest.approx(values[best], abs=1e-6)
    assert torch.load(keeping.best_model_path, weights_only=True)["epoch"] == best
    assert module.lr_schedulers().get_last_lr() == [pytest.approx(0.05)]


def test_names_without_slashes_are_file_names(tmp_path: Path):
    evaluation = MulticlassEvaluation(inputs="labels", num_classes=2, statistics=["accuracy", "f1/macro"])
    evaluate = Evaluate(
        evaluation, separator="_", take=lambda outputs, batch: ((outputs["logits"] > 0).long(), batch[1])
    )
    saving = ModelCheckpoint(tmp_path, filename="{val_f1_macro:.3f}", monitor="val_f1_macro")
    runner = fit(evaluate, saving, enable_checkpointing=True, max_epochs=1)
    assert {"val_accuracy", "val_f1_macro"} <= runner.callback_metrics.keys()
    assert not any("/" in name for name in runner.callback_metrics if name.startswith("val"))
    value = float(evaluate.evaluation("val").compute()["val/f1/macro"])
    assert [path.name for path in tmp_path.iterdir()] == [f"val_f1_macro={value:.3f}.ckpt"]


def test_a_separator_that_makes_two_names_one_is_refused():
    evaluation = MulticlassEvaluation(
        "labels", 3, class_names=["a_b", "a/b", "c"], statistics=["recall/a_b", "recall/a/b"]
    )
    taking = {"take": lambda outputs, batch: ((outputs["logits"] > 0).long(), batch[1])}
    with pytest.raises(InputError, match="with separator='_' two of them are logged under one"):
        trainer(Evaluate(evaluation, separator="_", **taking)).validate(Plain(), loader(VALIDATION), verbose=False)
    with pytest.raises(DeclarationError, match="expected a separator of names, such as '/' or '_', got ''"):
        Evaluate(evaluation, separator="")


def test_training_values_can_be_monitored_too():
    values = [expected(TRAINING, epoch)["precision"].expected for epoch in range(20)]
    best = next(k for k in range(len(values) - 1) if values[k + 1] <= values[k])
    stopping = EarlyStopping("train/precision", mode="max", patience=1, check_on_train_epoch_end=True)
    fit(stopping, Evaluate(binary(), stages=["train"]), max_epochs=20)
    assert stopping.stopped_epoch == best + 1


def test_the_progress_bar_shows_what_is_named():
    running = fit(Evaluate(binary(prefix="a_"), stages=ALL, prog_bar=["f1", "recall"]), max_epochs=1)
    shown = set(running.progress_bar_metrics)
    assert shown == {f"{stage}/a_{name}" for stage in ("train", "val") for name in ("f1", "recall")}


# ---- names


class Logging(Plain):
    def __init__(self, hook: str, name: str = "val/f1") -> None:
        super().__init__()
        self.hook, self.name = hook, name

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> Any:
        if self.hook == "validation_step":
            self.log(self.name, 0.5)
        return self.step(batch)

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        if self.hook == "training_step":
            self.log(self.name, 0.5, on_epoch=True)
        return self.step(batch)

    def on_validation_epoch_end(self) -> None:
        if self.hook == "on_validation_epoch_end" and not self.trainer.sanity_checking:
            self.log(self.name, 0.5)

    def on_train_epoch_end(self) -> None:
        if self.hook == "on_train_epoch_end":
            self.log(self.name, 0.5)


@pytest.mark.parametrize("hook", ["validation_step", "training_step", "on_validation_epoch_end", "on_train_epoch_end"])
def test_a_name_that_the_module_logs_too_is_refused(hook: str):
    name = "train/f1" if "train" in hook else "val/f1"
    told = f"{name}.*{hook}.*Evaluate logs it too: give its evaluation a prefix"
    with pytest.raises(Exception, match=told):
        fit(Evaluate(binary(), stages=ALL), module=Logging(hook, name), max_epochs=1)
    fit(Evaluate(binary(prefix="mine_"), stages=ALL), module=Logging(hook, name), max_epochs=1)


def test_a_name_with_the_suffix_of_a_dataloader_is_refused_too():
    running = trainer(Evaluate(binary()))
    with pytest.raises(InputError, match="'val/f1/dataloader_idx_0' was logged in validation_step"):
        running.validate(Logging("validation_step"), [loader(VALIDATION)] * 2, verbose=False)


def test_a_name_in_a_step_is_refused_in_the_sanity_check():
    module, started = Logging("validation_step"), []
    module.on_train_start = lambda: started.append(True)  # type: ignore[method-assign]
    with pytest.raises(InputError, match="'val/f1' was logged in validation_step, and Evaluate logs it too"):
        fit(Evaluate(binary()), module=module, num_sanity_val_steps=1)
    assert not started


@pytest.mark.filterwarnings("ignore:.* is 0/0")
def test_the_package_s_own_modules_need_a_prefix():
    data = [DataLoader(TensorDataset(x[:, None], y), batch_size=BATCH) for x, y in map(rows, (TRAINING, VALIDATION))]
    with pytest.raises(Exception, match="Evaluate logs it too"):
        trainer(Evaluate(binary()), max_epochs=1).fit(BinaryClassifier(num_features=1), *data)
    evaluate, module = Evaluate(BinaryEvaluation("logits", prefix="mine_")), BinaryClassifier(num_features=1)
    running = trainer(evaluate, max_epochs=1)
    running.fit(module, *data)
    assert evaluate.evaluation("val").counts == module.evaluation("val").counts
    assert running.callback_metrics["val/mine_f1"] == running.callback_metrics["val/f1"]


def test_several_have_prefixes_or_stages_of_their_own(tmp_path: Path):
    first, second = Evaluate(binary(prefix="a_")), Evaluate(binary(prefix="b_", threshold=0.9), stages=["val"])
    third, keeping = Evaluate(binary(), stages=["train"]), ModelCheckpoint(tmp_path, filename="last")
    running = fit(first, second, third, keeping, enable_checkpointing=True, max_epochs=1)
    assert {f"{start}f1" for start in ("val/a_", "val/b_", "train/")} <= set(running.callback_metrics)
    states = torch.load(tmp_path / "last.ckpt", weights_only=True)["callbacks"]
    assert {key: sorted({name.split(".")[0] for name in states[key]}) for key in states if "Evaluate" in key} == {
        first.state_key: ["val"],
        second.state_key: ["val"],
        third.state_key: ["train"],
    }
    with pytest.raises(RuntimeError, match="more than one stateful callback of type `Evaluate`"):
        trainer(Evaluate(binary()), Evaluate(binary()))
    with pytest.raises(InputError, match=r"'val/[a-z0-9]+' was logged in on_validation_epoch_end"):
        fit(Evaluate(binary()), Evaluate(binary(), stages=["val"]), max_epochs=1)


def test_other_tasks_report_their_classes_by_name():
    x, y = torch.randn(ROWS, 3), torch.randint(0, 3, (ROWS,))
    y[:3] = torch.arange(3)
    evaluation = MulticlassEvaluation("logits", 3, class_names=["cat", "dog", "cow"], per_class=True)
    (values,) = trainer(Evaluate(evaluation)).validate(
        Plain(), DataLoader(TensorDataset(x, y), batch_size=BATCH), verbose=False
    )
    recalls = sklearn.recall_score(y, x.argmax(1), average=None)
    assert [values[f"val/recall/{name}"] for name in ("cat", "dog", "cow")] == pytest.approx(recalls.tolist())
    labels = torch.randint(0, 2, (ROWS, 3))
    (values,) = trainer(Evaluate(MultilabelEvaluation("logits", 3))).validate(
        Plain(), DataLoader(TensorDataset(x, labels), batch_size=BATCH), verbose=False
    )
    assert values["val/exact_match"] == pytest.approx(sklearn.accuracy_score(labels, x > 0))


# ---- devices, inference mode, memory


def test_evaluations_follow_the_device_of_the_module():
    staged = StageEvaluations(binary(), ("train", "val"))
    staged.begin("val", 2, torch.device("meta"))
    staged.move("train", torch.device("meta"))
    assert list(staged) == ["train.0", "val.0", "val.1"]
    assert {each.tally.totals.integers.device.type for each in staged.values()} == {"meta"}


def test_no_state_is_born_in_inference_mode():
    evaluate = Evaluate(binary(curves=True))
    results = trainer(evaluate).test(Two(), [loader(TESTING), loader(VALIDATION)], verbose=False)
    assert len(results) == 2
    for place, seed in enumerate((TESTING, VALIDATION)):
        evaluation = evaluate.evaluation("test", place)
        assert not any(total.is_inference() for total in evaluation.tally.totals if total is not None)
        evaluation.update(*rows(seed))
        assert cells(evaluation) == [2 * cell for cell in counted(seed, 0)]


class Two(Plain):
    def test_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> Any:
        assert torch.is_inference_mode_enabled()
        return self.step(batch)


class Remembered(Plain):
    """Knows whether what it returned is still there."""

    def __init__(self) -> None:
        super().__init__()
        self.returned: list[Any] = []

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> Any:
        outputs = self.step(batch)
        self.returned.append(weakref.ref(outputs["logits"]))
        return outputs


def test_outputs_are_not_kept():
    module = Remembered()
    trainer(Evaluate(binary())).validate(module, loader(VALIDATION), verbose=False)
    gc.collect()
    assert [each() for each in module.returned] == [None] * BATCHES


# ---- configured


# ---- two processes


UNEVEN = 33
"""In batches of 16 the first of two ranks has 16 + 1 rows, and the second 16 + 0."""


def uneven(batch: int = 16) -> TensorLoader:
    return TensorLoader(tuple(part[:UNEVEN] for part in rows(VALIDATION)), batch)


class Scene(Callback):
    """Notes on each rank what is reported, what is saved, and every sum over ranks that this package asks for."""

    def __init__(self, folder: Path, evaluate: Evaluate) -> None:
        self.folder, self.evaluate, self.found, self.sums = folder, evaluate, {}, 0

    def setup(self, *_: Any, **__: Any) -> None:
        all_reduce = torch.distributed.all_reduce

        def counting(*args: Any, **kwargs: Any) -> Any:
            self.sums += sys._getframe(1).f_globals["__name__"].startswith("lightning_evalkit")
            return all_reduce(*args, **kwargs)

        torch.distributed.all_reduce = counting

    def on_validation_epoch_start(self, *_: Any) -> None:
        self.sums = 0

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.found["values"] = {name: value.item() for name, value in trainer.callback_metrics.items()}
        self.found["sums"] = self.sums

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.found["train"] = cells(self.evaluate.evaluation("train"))
        state = torch.load(self.folder / "batch-1.ckpt", weights_only=True)["callbacks"][self.evaluate.state_key]
        again = Evaluate(binary(curves=True), stages=ALL)
        again.load_state_dict(state)
        self.found["loaded"] = cells(again.evaluation("train"))
        self.found["own"] = again.evaluation("train").tally.update_count
        if trainer.is_global_zero:  # which asks alone, as where the other rank is no more
            again.on_exception(trainer, pl_module, KeyboardInterrupt())
            self.found["interrupted"] = again.state_dict()
        (self.folder / str(trainer.global_rank)).write_text(json.dumps(self.found))


@pytest.mark.slow
def test_two_processes_count_as_one(tmp_path: Path):
    evaluate = Evaluate(binary(curves=True), stages=ALL)
    running = trainer(
        evaluate,
        Scene(tmp_path, evaluate),
        Saving(tmp_path),
        max_epochs=1,
        devices=2,
        strategy=DDPStrategy(start_method="forkserver", process_group_backend="gloo", timeout=timedelta(seconds=60)),
        enable_checkpointing=True,
        num_sanity_val_steps=1,
        logger=board(tmp_path),
    )
    running.fit(ByHand(), uneven(11), uneven())
    x, y = (part[:UNEVEN] for part in rows(VALIDATION))
    (tn, fp), (fn, tp) = sklearn.confusion_matrix(y, x > 0).tolist()
    first, second = (json.loads((tmp_path / str(rank)).read_text()) for rank in range(2))
    assert first["values"] == second["values"]
    for name, statistic in NAMES.items():
        assert first["values"][f"val/{name}"] == pytest.approx(statistic(y, x > 0), abs=1e-6)
        assert first["values"][f"val/{name}"] == first["values"][f"val/hand_{name}"]
    assert first["values"]["val/auroc"] == pytest.approx(sklearn.roc_auc_score(y, x), abs=1e-4)
    assert first["sums"] == second["sums"] == 2  # one for each evaluation
    assert first["train"] == second["train"] == [tp, fp, fn, tn]
    batches = [part[rank::2][:11] for rank in range(2) for part in ((x > 0).long(), y)]
    (tn, fp), (fn, tp) = sklearn.confusion_matrix(torch.cat(batches[1::2]), torch.cat(batches[0::2])).tolist()
    assert first["loaded"] == second["loaded"] == [tp, fp, fn, tn]
    assert (first["own"], second["own"], first["interrupted"]) == (2, 0, {})
    assert set(tags(tmp_path / "board")["images"]) >= {"val/confusion_matrix", "val/roc", "val/reliability"}
