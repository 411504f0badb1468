"""Weights everywhere: whole ones equal repetition, 0 equals removal, and nobody ignores them in silence."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lightning.pytorch import LightningModule
from quiet import quiet_trainer
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit.callbacks import Evaluate, LossReport, PriorCorrection, ThresholdTuning
from lightning_evalkit.callbacks import TemperatureScaling as ScalingCallback
from lightning_evalkit.errors import DeclarationError, InputError
from lightning_evalkit.evaluation import Slices
from lightning_evalkit.metrics import BinaryCalibrationError, LossProfile, MulticlassCalibrationError
from lightning_evalkit.modules import BinaryClassifier, MulticlassClassifier, MultilabelClassifier
from lightning_evalkit.rescaling import TemperatureScaling, VectorScaling

pytestmark = [
    pytest.mark.filterwarnings("ignore::lightning_evalkit.errors.UndefinedWarning"),
    pytest.mark.filterwarnings("ignore:.*is at the end of what is looked at:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*a larger scale would always have a lower loss:UserWarning"),
    pytest.mark.filterwarnings("ignore:nothing was counted:UserWarning"),
]

CLASSES, ROWS = 3, 60
TASKS: dict[str, dict[str, int]] = {
    "binary": {},
    "classes": {"num_classes": CLASSES},
    "labels": {"num_labels": CLASSES},
}
every_task = pytest.mark.parametrize("task", TASKS)


def batch(task: str, seed: int = 0, rows: int = ROWS, behind: tuple[int, ...] = ()) -> tuple[Tensor, Tensor, Tensor]:
    """Logits that are twice too large, targets, and whole weights; where these are 0 the targets are wrong."""
    generator = torch.Generator().manual_seed(seed)
    shape = (rows, *behind) if task == "binary" else (rows, CLASSES, *behind)
    true = torch.randn(shape, generator=generator)
    weights = torch.randint(0, 4, (rows,), generator=generator)
    wrong = (weights == 0).view(-1, *[1] * len(behind))
    if task == "classes":
        chances = true.movedim(1, -1).flatten(0, -2).softmax(1)
        target = torch.multinomial(chances, 1, generator=generator).view(rows, *behind)
        return true * 2, torch.where(wrong, true.argmin(1), target), weights
    target = (torch.rand(shape, generator=generator) < true.sigmoid()).long()
    wrong = wrong if task == "binary" else wrong.unsqueeze(1)
    return true * 2, torch.where(wrong, (true < 0).long(), target), weights


def repeated(*given: Tensor) -> tuple[Tensor, ...]:
    """The rows as often as their weight, the last of what is given, says."""
    *parts, weights = given
    return tuple(part.repeat_interleave(weights, 0) for part in parts)


def agree(one: Any, other: Any) -> None:
    assert one.keys() == other.keys()
    for name in one:
        first, second = (torch.as_tensor(each[name]).double() for each in (one, other))
        torch.testing.assert_close(
            first, second, rtol=1e-4, atol=1e-6, equal_nan=True, msg=lambda m, n=name: f"{n}: {m}"
        )


shapes = st.sampled_from([(), (4,), (2, 3)])
seeds = st.integers(0, 10_000)


# ---- without a trainer


@every_task
@given(seed=seeds, behind=shapes)
def test_calibration(task: str, seed: int, behind: tuple[int, ...]) -> None:
    given = batch(task, seed, behind=behind)
    for kind in (TemperatureScaling, VectorScaling):
        one = kind(**TASKS[task]).fit(*given[:2], given[2].double())
        other = kind(**TASKS[task]).fit(*repeated(*given))
        agree(dict(one.named_buffers(recurse=False)), dict(other.named_buffers(recurse=False)))


@every_task
def test_a_score_that_is_no_number_is_not_there_if_it_weighs_nothing(task: str) -> None:
    logits, target, weights = batch(task)
    broken = logits.masked_fill((weights == 0).view(-1, *[1] * (logits.ndim - 1)), torch.nan)
    for kind in (TemperatureScaling, VectorScaling):
        one, other = (kind(**TASKS[task]).fit(each, target, weights.double()) for each in (broken, logits))
        agree(dict(one.named_buffers(recurse=False)), dict(other.named_buffers(recurse=False)))
    with pytest.raises(InputError, match="expected every preds to be a number, got nan"):
        TemperatureScaling(**TASKS[task]).fit(broken, target, weights + 1)


def test_nothing_that_weighs_anything_is_nothing_to_fit_to() -> None:
    logits, target, weights = batch("binary")
    for kind in (TemperatureScaling, VectorScaling):
        with pytest.raises(InputError, match="got none that weighs more than 0"):
            kind().fit(logits, target, weights * 0)
    wide, answers, _ = batch("labels")
    one_label = torch.ones_like(answers).index_fill(1, torch.tensor([1]), 0)
    with pytest.raises(InputError, match="expected samples of label 1 to fit to, got none"):
        VectorScaling(num_labels=CLASSES).fit(wide, answers, one_label)


@every_task
@given(seed=seeds, behind=shapes)
def test_loss_profile_and_its_hardest_samples(task: str, seed: int, behind: tuple[int, ...]) -> None:
    given = batch(task, seed, behind=behind)
    numbers = torch.arange(ROWS)
    one, other = LossProfile(**TASKS[task], weighted=True, hardest=5), LossProfile(**TASKS[task], hardest=500)
    one.update(*given[:2], numbers, sample_weight=given[2])
    other.update(*repeated(*given[:2], numbers, given[2]))
    agree(one.compute(), other.compute())
    first, second = one.profile(), other.profile()
    for name in ("samples", "accuracy", "histogram", "wrong", "carried"):
        assert getattr(first, name) == pytest.approx(getattr(second, name), rel=1e-6)
    once = list(dict.fromkeys((each.sample, each.group, round(each.loss, 5)) for each in other.hardest()))
    assert [round(each.loss, 5) for each in one.hardest()] == [loss for *_, loss in once[:5]]
    assert {each.sample for each in one.hardest()} <= {*numbers[given[2] > 0].tolist()}


def evaluation(task: str, **options: Any) -> Any:
    kinds = {"binary": BinaryEvaluation, "classes": MulticlassEvaluation, "labels": MultilabelEvaluation}
    return kinds[task]("logits", **TASKS[task], **options)


@every_task
@given(seed=seeds)
def test_calibration_in_numbers(task: str, seed: int) -> None:
    given = batch(task, seed)
    one, other = evaluation(task, curves=True, weighted=True), evaluation(task, curves=True)
    one.update(*given[:2], given[2])
    other.update(*repeated(*given))
    agree(one.compute(), other.compute())
    if task == "labels":
        return
    made: Any = BinaryCalibrationError if task == "binary" else MulticlassCalibrationError
    for norm in ("l1", "l2", "max"):
        first, second = (made(**TASKS[task], norm=norm, weighted=weighted) for weighted in (True, False))
        first.update(*given[:2], given[2])
        second.update(*repeated(*given))
        torch.testing.assert_close(first.compute(), second.compute(), rtol=1e-4, atol=1e-6)


@every_task
@given(seed=seeds)
def test_slices(task: str, seed: int) -> None:
    logits, target, weights = batch(task, seed)
    groups = torch.arange(ROWS) % 4
    one, other = (Slices(evaluation(task, weighted=weighted), 4) for weighted in (True, False))
    one.update(logits, target, groups, weights)
    other.update(*repeated(logits, target, groups, weights))
    agree(one.compute(), other.compute())


# ---- in a run


class Fixed(torch.nn.Module):
    """Features are the logits."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = torch.nn.Parameter(torch.ones(()))

    def forward(self, features: Tensor) -> Tensor:
        return features * self.factor


class Own(LightningModule):
    """Somebody's module, which returns the weights of its batches under a name of its own."""

    key = "sample_weight"

    def __init__(self) -> None:
        super().__init__()
        self.network = Fixed()

    def forward(self, features: Tensor) -> Tensor:
        return self.network(features)

    def validation_step(self, batch: Any, batch_idx: int) -> dict[str, Tensor]:
        features, target, *weight = batch
        return {"logits": self(features), "target": target, **dict(zip((self.key,), weight, strict=False))}

    test_step = validation_step


class Named(Own):
    key = "w"


def module(task: str, weighted: bool) -> Any:
    kinds: Any = {"binary": BinaryClassifier, "classes": MulticlassClassifier, "labels": MultilabelClassifier}
    return kinds[task](network=Fixed(), **TASKS[task], weighted=weighted, curves=True, worst=0.1)


def run(made: Any, callbacks: list[Any], data: tuple[Tensor, ...]) -> dict[str, float]:
    trainer = quiet_trainer(*callbacks)
    loader = DataLoader(TensorDataset(*data), batch_size=16)
    found = dict(trainer.validate(made, loader, verbose=False)[0])
    if any(isinstance(each, ThresholdTuning) for each in callbacks):
        found |= trainer.test(made, loader, verbose=False)[0]
    return found


def learners(task: str, weighted: bool, **keys: Any) -> list[Any]:
    """Every callback that counts; those with an evaluation are declared by that."""
    told: dict[str, Any] = {**TASKS[task], **keys, "weighted": weighted or None}
    counting = Evaluate(evaluation(task, weighted=weighted, curves=True, prefix="own/"), **keys)
    found = [counting, ScalingCallback(**told), LossReport(**told), PriorCorrection(pos_weight=2.0)]
    if task != "classes":
        found.append(ThresholdTuning(evaluation(task, weighted=weighted), **keys))
    return found


@every_task
@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("whose", ["package", "own", "named"])
def test_callbacks(task: str, vector: bool, whose: str) -> None:
    keys = {"weight_key": "w"} if whose == "named" else {}
    given, found = batch(task, rows=200), []
    for weighted, data in ((True, given), (False, repeated(*given))):
        made = module(task, weighted) if whose == "package" else {"own": Own, "named": Named}[whose]()
        callbacks = learners(task, weighted, **keys if weighted else {})
        if vector:
            told = {**TASKS[task], **keys, "weighted": weighted or None}
            callbacks[1] = ScalingCallback(**told, vector=True)
        found.append(run(made, callbacks, data))
    agree(*found)
    assert len(found[0]) > 10


@every_task
def test_a_weighted_module_needs_no_second_word(task: str) -> None:
    """Its declaration is theirs, and all of a run state one loss."""
    given = batch(task, rows=200)
    scaling, report = ScalingCallback(**TASKS[task]), LossReport(**TASKS[task])
    found = run(module(task, True), [scaling, report], given)
    expected = TemperatureScaling(**TASKS[task]).fit(*repeated(*given))
    assert float(scaling.correction.temperature) == pytest.approx(float(expected.temperature), rel=1e-4)
    name = "val/log_loss/macro" if task == "labels" else "val/log_loss"
    assert found["val/log_loss@raw"] == pytest.approx(found[name], rel=1e-5)
    assert found["val/log_loss@raw"] == pytest.approx(found["val/loss"], rel=1e-5)
    whole = found["val/loss/refinement"] + found["val/loss/calibration"]
    assert whole == pytest.approx(found["val/loss"], rel=1e-5)
    own = LossProfile(**TASKS[task], worst=0.01, weighted=True)
    own.update(*given[:2], sample_weight=given[2])
    assert found["val/loss/loss_of_worst"] == pytest.approx(float(own.compute()["loss_of_worst"]), rel=1e-5)


def three(outputs: Any, batch: Any) -> Any:
    return outputs["logits"], outputs["target"], batch[2]


def two(outputs: Any, batch: Any) -> Any:
    return outputs["logits"], outputs["target"]


def unweighted() -> BinaryEvaluation:
    return BinaryEvaluation("logits")


class Counting(Named):
    """A module with a weighted evaluation of its own, which returns no weights that a callback would look for."""

    def __init__(self) -> None:
        super().__init__()
        self.val = BinaryEvaluation("logits", weighted=True)

    def validation_step(self, batch: Any, batch_idx: int) -> dict[str, Tensor]:
        found = super().validation_step(batch, batch_idx)
        self.val.update(*found.values())
        return found


SAY, DECLARE = r"say weighted=True to use them, or weighted=False", r"declare its evaluation with weighted=True"
UNTOLD: dict[str, tuple[Any, Any, str]] = {
    "scaling": (Own, lambda: [ScalingCallback()], rf"returns 'sample_weight', but TemperatureScaling was not .* {SAY}"),
    "report": (Own, lambda: [LossReport()], rf"returns 'sample_weight', but LossReport was not told .* {SAY}"),
    "tuning": (Own, lambda: [ThresholdTuning(unweighted())], rf"'sample_weight', but ThresholdTuning was .* {DECLARE}"),
    "evaluate": (Own, lambda: [Evaluate(unweighted())], rf"returns 'sample_weight', but Evaluate was not .* {DECLARE}"),
    "beside a module": (
        lambda: module("binary", True),
        lambda: [ThresholdTuning(unweighted())],
        rf"BinaryClassifier counts with weights, but ThresholdTuning was not told of any weights: {DECLARE}",
    ),
    "evaluate beside a module": (
        lambda: module("binary", True),
        lambda: [Evaluate(BinaryEvaluation("logits", prefix="own/"))],
        rf"returns 'sample_weight', but Evaluate was not told of any weights: {DECLARE}",
    ),
    "taken": (Named, lambda: [ScalingCallback(take=three)], rf"take\(outputs, batch\) gives weights, but .* {SAY}"),
    "not taken": (
        Named,
        lambda: [ScalingCallback(take=two, weighted=True)],
        r"expected take\(outputs, batch\) to give \(preds, target, sample_weight\), because TemperatureScaling counts",
    ),
    "not taken of a module": (
        lambda: module("binary", True),
        lambda: [LossReport(take=two)],
        r"to give \(preds, target, sample_weight\), because LossReport counts with weights",
    ),
    "not returned": (
        Named,
        lambda: [LossReport(weighted=True)],
        "'logits' or 'preds' and 'target' and 'sample_weight'",
    ),
    "beside a metric": (Counting, lambda: [LossReport()], rf"Counting counts with weights \(in val.*{SAY}"),
    "beside a callback": (
        Named,
        lambda: [Evaluate(BinaryEvaluation("logits", weighted=True), weight_key="w"), ScalingCallback()],
        rf"Evaluate counts with weights, but TemperatureScaling was not told of any weights: {SAY}",
    ),
    "beside another": (
        Named,
        lambda: [LossReport(weighted=True, weight_key="w"), ThresholdTuning(unweighted())],
        rf"LossReport counts with weights, but ThresholdTuning was not told of any weights: {DECLARE}",
    ),
}


@pytest.mark.parametrize("name", UNTOLD)
def test_weights_of_which_a_callback_was_not_told_are_not_ignored(name: str) -> None:
    made, callbacks, words = UNTOLD[name]
    with pytest.raises(InputError, match=words):
        run(made(), callbacks(), batch("binary"))


@pytest.mark.parametrize("whose", ["own", "package"])
def test_weights_are_left_out_where_that_is_said(whose: str) -> None:
    logits, target, weights = batch("binary", rows=200)
    made = module("binary", True) if whose == "package" else Own()
    plain = module("binary", False) if whose == "package" else Own()
    left_out = [
        ScalingCallback(weighted=False),
        LossReport(weighted=False),
        Evaluate(BinaryEvaluation("logits", prefix="own/", curves=True), weight_key=None),
        ThresholdTuning(unweighted(), weight_key=None),
    ]
    taking = ScalingCallback(weighted=False, take=three)
    found = run(made, left_out, (logits, target, weights))
    expected = run(plain, [*learners("binary", False)[:3], ThresholdTuning(unweighted())], (logits, target))
    counted = [name for name in expected if "@" in name or "own/" in name or "val/loss/" in name]
    assert len(counted) > 10
    agree({name: found[name] for name in counted}, {name: expected[name] for name in counted})
    run(Own(), [taking], (logits, target, weights))
    assert torch.equal(taking.correction.temperature, left_out[0].correction.temperature)


def test_a_key_of_weights_that_are_declared_cannot_be_left_out() -> None:
    with pytest.raises(DeclarationError, match="expected weight_key to name the weights, because weights are declared"):
        Evaluate(BinaryEvaluation("logits", weighted=True), weight_key=None)
