"""The Evaluate callback: the numbers of scikit-learn and of an evaluation by hand, whatever the trainer does.

As in the tests of Lightning, parameters stay as they are and scores shift by epoch, so every epoch's numbers are known
from the whole data, and counts left over from before would show.
"""

from __future__ import annotations

import csv
import gc
import json
import re
import sys
import weakref
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from lightning.pytorch import LightningDataModule, LightningModule, Trainer
from lightning.pytorch.callbacks import Callback, Checkpoint, EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from lightning.pytorch.loggers.logger import Logger
from lightning.pytorch.strategies import DDPStrategy
from lightning.pytorch.utilities import CombinedLoader
from sklearn import metrics as sklearn
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit.callbacks import Evaluate, TensorBoardReport
from lightning_evalkit.data.loader import TensorLoader
from lightning_evalkit.errors import DeclarationError, InputError
from lightning_evalkit.evaluation.stages import StageEvaluations
from lightning_evalkit.modules import BinaryClassifier
from lightning_evalkit.sinks import figures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ROWS, BATCH, EPOCHS, SHIFT = 45, 8, 3, 0.4
BATCHES = -(-ROWS // BATCH)
TRAINING, VALIDATION, TESTING = 1, 2, 3
"""Seeds of the three sets."""
NAMES = {
    "accuracy": sklearn.accuracy_score,
    "precision": partial(sklearn.precision_score, zero_division=0.0),
    "recall": partial(sklearn.recall_score, zero_division=0.0),
    "f1": partial(sklearn.f1_score, zero_division=0.0),
}
ALL = ("train", "val", "test")
QUIET = {"accelerator": "cpu", "logger": False, "enable_progress_bar": False, "enable_model_summary": False}


def rows(seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(ROWS, generator=generator), torch.randint(0, 2, (ROWS,), generator=generator)


def loader(seed: int) -> DataLoader[Any]:
    return DataLoader(TensorDataset(*rows(seed)), batch_size=BATCH)


def expected(seed: int, epoch: int, prefix: str = "", suffix: str = "") -> dict[str, Any]:
    scores, target = rows(seed)
    decided = (scores + SHIFT * epoch > 0).long()
    values = {name: statistic(target, decided) for name, statistic in NAMES.items()}
    return {f"{prefix}{name}{suffix}": pytest.approx(value, abs=1e-6) for name, value in values.items()}


def counted(seed: int, epoch: int) -> list[int]:
    """True and false positives, false and true negatives."""
    scores, target = rows(seed)
    (tn, fp), (fn, tp) = sklearn.confusion_matrix(target, scores + SHIFT * epoch > 0).tolist()
    return [tp, fp, fn, tn]


def cells(evaluation: Any) -> list[int]:
    return [cell.item() for cell in evaluation.counts.cells]


def binary(**options: Any) -> BinaryEvaluation:
    return BinaryEvaluation(**({"inputs": "logits", "statistics": list(NAMES), "zero_division": 0.0} | options))


class Plain(LightningModule):
    """No metric anywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale + SHIFT * self.current_epoch

    def step(self, batch: Any) -> Any:
        x, target = batch
        logits = self(x)
        return {"loss": logits.square().mean(), "logits": logits, "target": target}

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return self.step(batch)

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> Any:
        return self.step(batch)

    def test_step(self, batch: Any, batch_idx: int) -> Any:
        return self.step(batch)

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.0)


class Witness(Callback):
    """Notes what Lightning reports at the end of each stage."""

    def __init__(self) -> None:
        self.seen: dict[str, list[dict[str, float]]] = {stage: [] for stage in ALL}

    def _note(self, trainer: Trainer, stage: str) -> None:
        if not trainer.sanity_checking:
            values = {name: value.item() for name, value in trainer.callback_metrics.items()}
            self.seen[stage].append({name: values[name] for name in values if name.startswith(f"{stage}/")})

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.current_epoch:
            self._note(trainer, "train")

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._note(trainer, "train")

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._note(trainer, "val")

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._note(trainer, "test")


def trainer(*callbacks: Callback, **options: Any) -> Trainer:
    settings = {"max_epochs": EPOCHS, "enable_checkpointing": False, "callbacks": [*callbacks]}
    return Trainer(**(QUIET | settings | options))


def fit(*callbacks: Callback, module: LightningModule | None = None, **options: Any) -> Trainer:
    fitting, sets = trainer(*callbacks, **options), (loader(TRAINING), loader(VALIDATION))
    fitting.fit(module or Plain(), *sets)
    return fitting


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


# ---- what a step returns


class Returning(Plain):
    def __init__(self, returned: Callable[[dict[str, Any], Any], Any]) -> None:
        super().__init__()
        self.returned = returned

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> Any:
        return self.returned(self.step(batch), batch)


def second_of_batch(outputs: Any, batch: Any) -> tuple[Tensor, Tensor]:
    return outputs, batch[1]


@torch.enable_grad()
def with_graph(outputs: dict[str, Any], batch: Any) -> dict[str, Any]:
    logits = outputs["logits"].detach().requires_grad_() * 1.0
    assert logits.grad_fn is not None
    return outputs | {"logits": logits}


KEYS: dict[str, tuple[dict[str, Any], dict[str, Any], Callable[..., Any]]] = {
    "preds": ({}, {}, lambda out, _: {"preds": out["logits"], "target": out["target"]}),
    "declared first": ({}, {}, lambda out, _: out | {"preds": -out["logits"], "probabilities": 0}),
    "probabilities": (
        {"inputs": "probabilities"},
        {},
        lambda out, _: out | {"probabilities": out["logits"].sigmoid()},
    ),
    "labels": ({"inputs": "labels"}, {}, lambda out, _: out | {"preds": (out["logits"] > 0).long()}),
    "keys": (
        {},
        {"preds_key": "scores", "target_key": "y"},
        lambda out, _: {"scores": out["logits"], "y": out["target"], "logits": None},
    ),
    "function": ({}, {"take": second_of_batch}, lambda out, _: out["logits"]),
    "graphs": ({"curves": True}, {}, with_graph),
    "unused weights": ({}, {}, lambda out, _: out | {"sample_weight": "none"}),
}


@pytest.mark.parametrize("case", KEYS)
def test_predictions_and_targets_are_found(case: str):
    declared, options, returned = KEYS[case]
    running = trainer(Evaluate(binary(**declared), **options), inference_mode=False)
    (values,) = running.validate(Returning(returned), loader(VALIDATION), verbose=False)
    assert {f"val/{name}": values[f"val/{name}"] for name in NAMES} == expected(VALIDATION, 0, "val/")
    assert not any(value.requires_grad for value in running.callback_metrics.values())


@pytest.mark.parametrize("key", ["sample_weight", "w"])
def test_weights_are_found(key: str):
    module = Returning(lambda out, batch: out | {key: batch[0].abs()})
    evaluate = Evaluate(binary(weighted=True), **({"weight_key": key} if key == "w" else {}))
    (values,) = trainer(evaluate).validate(module, loader(VALIDATION), verbose=False)
    x, y = rows(VALIDATION)
    for name, statistic in NAMES.items():
        assert values[f"val/{name}"] == pytest.approx(statistic(y, x > 0, sample_weight=x.abs()), abs=1e-6)


def test_a_function_may_give_weights_and_leave_batches_out():
    def take(outputs: Any, batch: Any) -> Any:
        return (outputs["logits"], batch[1], torch.full((len(batch[1]),), 2.0)) if len(batch[1]) == BATCH else None

    evaluate = Evaluate(binary(weighted=True), take=take)
    trainer(evaluate).validate(Plain(), loader(VALIDATION), verbose=False)
    x, y = (part[: ROWS - ROWS % BATCH] for part in rows(VALIDATION))
    (tn, fp), (fn, tp) = sklearn.confusion_matrix(y, x > 0).tolist()
    assert cells(evaluate.evaluation("val")) == [2.0 * cell for cell in (tp, fp, fn, tn)]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_precisions_are_counted(dtype: torch.dtype):
    evaluate = Evaluate(binary(curves=True))
    module = Returning(lambda out, _: out | {"logits": out["logits"].to(dtype)})
    trainer(evaluate).validate(module, loader(VALIDATION), verbose=False)
    x, y = rows(VALIDATION)
    assert cells(evaluate.evaluation("val")) == counted(VALIDATION, 0)
    area = sklearn.roc_auc_score(y, x.to(dtype).double())
    assert evaluate.evaluation("val").compute()["val/auroc"].item() == pytest.approx(area, abs=1e-3)


def test_a_model_in_low_precision_counts_exactly():
    evaluate = Evaluate(binary(), stages=ALL)
    fit(evaluate, precision="bf16-true", max_epochs=1)
    assert cells(evaluate.evaluation("train")) == counted(TRAINING, 0)
    assert evaluate.evaluation("train").tally.totals.integers.dtype == torch.int64


WRONG: dict[str, tuple[dict[str, Any], Any, str]] = {
    "nothing": ({}, None, "got None. Return {'loss': loss, 'logits': logits, 'target': target}"),
    "tensor": ({}, torch.ones(3), r"got tensor of shape \(3,\)"),
    "tuple": ({}, (torch.ones(3), 1), r"got a tuple of tensor of shape \(3,\), int"),
    "loss": ({}, {"loss": torch.ones(())}, r"got a dict with 'loss' \(tensor of shape \(\)\)"),
    "empty": ({}, {}, "got a dict with nothing"),
    "no target": ({}, {"logits": torch.ones(3)}, "the tensors 'logits' or 'preds' and 'target', because"),
    "a list": ({}, {"logits": [1.0], "target": torch.ones(1)}, r"'logits' \(list\), 'target' \(tensor"),
    "another meaning": (
        {},
        {"probabilities": torch.ones(3), "target": torch.ones(3)},
        r"is declared for inputs='logits'; got a dict with 'probabilities'",
    ),
    "no weights": (
        {"weighted": True},
        {"logits": torch.ones(3), "target": torch.ones(3)},
        "'target' and 'sample_weight', because .*take=f, where f.outputs, batch. gives .logits, target, sample_weight",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_step_that_returns_something_else_is_told_what_to_return(case: str):
    declared, returned, told = WRONG[case]
    module, evaluate = Returning(lambda *_: returned), Evaluate(binary(**declared))
    with pytest.raises(InputError, match="expected validation_step of Returning to return a dict with") as refused:
        trainer(evaluate, num_sanity_val_steps=1).fit(module, loader(TRAINING), loader(VALIDATION))
    assert re.search(told, str(refused.value))
    assert "preds_key, target_key and weight_key" in str(refused.value)


@pytest.mark.parametrize("given", [torch.ones(3), (torch.ones(3),), (torch.ones(3), [1, 0, 1]), {"preds": 1}])
def test_a_function_that_gives_something_else_is_told_what_to_give(given: Any):
    evaluate = Evaluate(binary(), take=lambda *_: given)
    told = r"expected take\(outputs, batch\) to give the tensors \(preds, target\) or .*, or None .*; got (a |tensor)"
    with pytest.raises(InputError, match=told):
        trainer(evaluate).validate(Plain(), loader(VALIDATION), verbose=False)


class LossOnly(Plain):
    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return self.step(batch)["loss"]


def test_a_training_step_may_return_its_loss_alone_unless_training_is_evaluated():
    evaluate = Evaluate(binary())
    fit(evaluate, module=LossOnly(), max_epochs=1)
    assert cells(evaluate.evaluation("val")) == counted(VALIDATION, 0)
    with pytest.raises(InputError, match=r"expected training_step of LossOnly .* got a dict with 'loss' \(tensor"):
        fit(Evaluate(binary(), stages=["train"]), module=LossOnly(), max_epochs=1)


class Skipping(Plain):
    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return self.step(batch) if batch_idx % 2 else None


@pytest.mark.filterwarnings("ignore:.training_step. returned .None.")
def test_a_batch_that_training_skips_is_not_counted():
    evaluate = Evaluate(binary(), stages=["train"])
    fit(evaluate, module=Skipping(), max_epochs=1)
    x, y = (torch.cat(part.split(BATCH)[1::2]) for part in rows(TRAINING))
    (tn, fp), (fn, tp) = sklearn.confusion_matrix(y, x > 0).tolist()
    assert cells(evaluate.evaluation("train")) == [tp, fp, fn, tn]


class Manual(Plain):
    """Two optimizers, stepped by hand."""

    def __init__(self, returns: bool) -> None:
        super().__init__()
        self.automatic_optimization, self.returns = False, returns
        self.other = nn.Parameter(torch.ones(()))

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        outputs = self.step(batch)
        for optimizer in self.optimizers():
            optimizer.zero_grad()
        self.manual_backward(outputs["loss"] * self.other)
        for optimizer in self.optimizers():
            optimizer.step()
        return outputs if self.returns else None

    def configure_optimizers(self) -> Any:
        return [torch.optim.SGD([each], lr=0.0) for each in (self.scale, self.other)]


def test_optimization_by_hand_with_two_optimizers():
    evaluate, witness = Evaluate(binary(), stages=["train"]), Witness()
    fit(evaluate, witness, module=Manual(returns=True))
    assert witness.seen["train"] == [expected(TRAINING, epoch, "train/") for epoch in range(EPOCHS)]
    with pytest.raises(InputError, match=r"expected training_step of Manual .* got a dict with nothing"):
        fit(Evaluate(binary(), stages=["train"]), module=Manual(returns=False))


class Iterating(Plain):
    def training_step(self, dataloader_iter: Any) -> Any:  # type: ignore[override]
        return self.step(next(dataloader_iter)[0])


def test_a_step_that_takes_an_iterator():
    evaluate, witness = Evaluate(binary(), stages=["train"]), Witness()
    with pytest.warns(UserWarning, match="dataloader_iter"):
        fit(evaluate, witness, module=Iterating(), max_epochs=2)
    assert witness.seen["train"] == [expected(TRAINING, epoch, "train/") for epoch in range(2)]


# ---- declarations


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"evaluation": BinaryEvaluation}, "expected an evaluation of this package, such as BinaryEvaluation"),
        ({"stages": "val"}, r"expected stages to be a list of names, got a text: write \['val'\]"),
        ({"stages": ["vall"]}, "'vall' in stages is not known: did you mean 'val'"),
        ({"stages": []}, r"expected different stages, at least one, got \[\]"),
        ({"stages": ["val", "val"]}, "expected different stages"),
        ({"prog_bar": ["acuracy"]}, "'acuracy' in prog_bar is not known: did you mean 'accuracy'"),
        ({"prog_bar": "f1"}, r"write \['f1'\]"),
        ({"every_n_epochs": 0}, "expected every_n_epochs to be a whole number from 1 on, got 0"),
        ({"take": second_of_batch, "target_key": "y"}, "a function, or keys of what the step returns; got both"),
    ],
)
def test_a_senseless_declaration_is_refused(options: dict[str, Any], told: str):
    with pytest.raises(DeclarationError, match=told):
        Evaluate(**({"evaluation": binary()} | options))


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


class Saving(Checkpoint):
    """After every batch, in validation and at the end of epochs; Lightning puts it behind other callbacks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _save(self, trainer: Trainer, where: str) -> None:
        trainer.save_checkpoint(self.folder / f"{where}-{trainer.global_step}.ckpt")

    def on_train_batch_end(self, trainer: Trainer, *_: Any) -> None:
        self._save(trainer, "batch")

    def on_validation_end(self, trainer: Trainer, *_: Any) -> None:
        self._save(trainer, "validation")

    def on_train_epoch_end(self, trainer: Trainer, *_: Any) -> None:
        self._save(trainer, "epoch")


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


def tags(folder: Path) -> dict[str, Any]:
    return EventAccumulator(str(folder), size_guidance={"images": 0, "scalars": 0, "tensors": 0}).Reload().Tags()


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


def board(folder: Path) -> TensorBoardLogger:
    return TensorBoardLogger(folder, name="", version="board", default_hp_metric=False)


def test_figures_go_to_every_logger_that_shows_them_and_scalars_to_all(tmp_path: Path):
    pictures, table = Pictures(), CSVLogger(tmp_path, name="", version="table")
    evaluate = Evaluate(binary(curves=True), every_n_epochs=2)
    running = fit(evaluate, logger=[board(tmp_path), table, pictures])
    matrix = torch.tensor(np.array(counted(VALIDATION, 1))[[3, 1, 2, 0]].reshape(2, 2))
    drawn = figures.confusion_matrix(matrix, ("negative", "positive"), "val/confusion_matrix · epoch 1")
    assert np.array_equal(pictures.images["val/confusion_matrix", 2 * BATCHES - 1], figures.pixels(drawn))
    assert set(pictures.images) == {
        (f"val/{what}", epoch * BATCHES - 1) for what in ("confusion_matrix", "curves") for epoch in (2, 3)
    }
    found = tags(tmp_path / "board")
    assert set(found["images"]) == {"val/confusion_matrix", "val/curves"}
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
    titles, draw = [], figures.confusion_matrix
    monkeypatch.setattr(figures, "confusion_matrix", lambda *given: titles.append(given[2]) or draw(*given))
    callbacks = [Evaluate(binary(), stages=ALL), TensorBoardReport()][::order]
    running = fit(*callbacks, logger=board(tmp_path), max_epochs=2)
    running.test(Plain(), loader(TESTING), verbose=False)
    assert sorted(titles) == [
        "test/confusion_matrix",
        *(f"{stage}/confusion_matrix · epoch {epoch}" for stage in ("train", "val") for epoch in (0, 1)),
    ]
    found = tags(tmp_path / "board")
    assert set(found["images"]) == {f"{stage}/confusion_matrix" for stage in ALL}
    assert {"val/explanation/text_summary", "custom_scalars__config__"} <= set(found["tensors"])


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

    monkeypatch.setattr(figures, "pixels", broken)
    with pytest.warns(UserWarning, match="Evaluate could not draw the confusion matrix under 'val/': OSError: disk"):
        running = fit(Evaluate(binary()), logger=board(tmp_path))
    assert running.current_epoch == EPOCHS


def test_a_development_run_draws_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(figures, "pixels", lambda *_: pytest.fail("drawn"))
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
        take: {__name__}.second_of_batch
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
    assert set(tags(tmp_path / "board")["images"]) >= {"val/confusion_matrix", "val/curves", "train/confusion_matrix"}
