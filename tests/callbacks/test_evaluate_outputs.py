"""What steps return to Evaluate, and how it is declared."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import torch
from evaluated import (
    ALL,
    BATCH,
    EPOCHS,
    NAMES,
    ROWS,
    TRAINING,
    VALIDATION,
    Plain,
    Witness,
    binary,
    cells,
    counted,
    expected,
    fit,
    loader,
    rows,
    second_of_batch,
    trainer,
)
from sklearn import metrics as sklearn
from torch import nn

from lightning_evalkit import BinaryEvaluation
from lightning_evalkit.callbacks import Evaluate
from lightning_evalkit.errors import DeclarationError, InputError

if TYPE_CHECKING:
    from collections.abc import Callable


# ---- what a step returns


class Returning(Plain):
    def __init__(self, returned: Callable[[dict[str, Any], Any], Any]) -> None:
        super().__init__()
        self.returned = returned

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> Any:
        return self.returned(self.step(batch), batch)


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
        ({"every_n_epochs": 0}, "expected every_n_epochs to be a whole number from 1 on, or None, got 0"),
        ({"take": second_of_batch, "target_key": "y"}, "a function, or keys of what the step returns; got both"),
    ],
)
def test_a_senseless_declaration_is_refused(options: dict[str, Any], told: str):
    with pytest.raises(DeclarationError, match=told):
        Evaluate(**({"evaluation": binary()} | options))
