"""Classifiers in real trainers: the loss of an epoch as one batch, every stage and dataloader counted apart.

Expected losses come from torch's own functions on the whole split in float64 (the focal loss from its definition),
expected statistics from scikit-learn on the same logits."""

from __future__ import annotations

import copy
import pickle
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
import ranks
import torch
from classifiers import (
    CASES,
    FEATURES,
    ROWS,
    SKLEARN,
    STILL,
    TASKS,
    Case,
    Flat,
    Witness,
    counted,
    every_task,
    exact_loss,
    focal,
    loader,
    near,
    samples,
    trainer,
    values,
    yes_no,
)
from lightning.pytorch import Trainer
from torch import Tensor, nn

from lightning_evalkit.errors import InputError, UndefinedWarning
from lightning_evalkit.modules import BinaryClassifier, MulticlassClassifier

if TYPE_CHECKING:
    from collections.abc import Callable


pytestmark = [
    # About the tiny trainers of these tests.
    pytest.mark.filterwarnings("ignore:You defined a `validation_step` but have no `val_dataloader`"),
]

STAGES = ("train", "val", "test")


# ---- an epoch is one batch


SINGLE = ["binary_pos_weight", "multiclass_weighted_class_weights", "multilabel_pos_weights"]
OF_SIZES = {7: CASES, 64: list(CASES)[1::2], ROWS: TASKS, 1: SINGLE}
"""Batches of which the first two sizes leave a last one of one and of seven rows."""


@pytest.mark.parametrize(("name", "size"), [(name, size) for size, names in OF_SIZES.items() for name in names])
def test_every_epoch_is_evaluated_as_one_batch(name: str, size: int) -> None:
    case = CASES[name]
    module, running = case.build(), trainer()
    split = {stage: case.rows(seed) for seed, stage in enumerate(STAGES)}
    running.fit(module, loader(split["train"], size), loader(split["val"], size))
    reported = {stage: values(running, stage) for stage in ("train", "val")}
    running.test(module, loader(split["test"], size), verbose=False)
    reported["test"] = values(running, "test")
    for stage in STAGES:
        loss = case.expected_loss(module, split[stage])
        assert exact_loss(module, stage) == pytest.approx(loss, rel=1e-9)
        statistics = case.expected_statistics(module, split[stage])
        assert reported[stage] == {"loss": near(loss), **{name: near(value) for name, value in statistics.items()}}
        counts = ranks.cells(module.evaluation(stage))
        assert counts == case.expected_cells(module, split[stage])


@every_task
def test_a_batch_is_trained_on_its_own_loss(case: Case) -> None:
    """What is minimised is what torch would minimise: the loss and its gradient."""
    module, rows = case.build(), case.rows(0)
    step = module.training_step(rows, 0)
    step["loss"].backward()
    gradient = next(module.network.parameters()).grad.clone()
    module.zero_grad()
    logits = module.network(rows[0])
    expected = case.loss(logits.reshape(-1) if case.task == "binary" else logits, rows[1], torch.ones(ROWS).double())
    expected.backward()
    assert step["loss"].item() == pytest.approx(expected.item(), rel=1e-12)
    torch.testing.assert_close(gradient, next(module.network.parameters()).grad)
    assert torch.equal(step["logits"], module(rows[0]))
    assert torch.equal(step["target"], rows[1])
    assert not step["logits"].requires_grad


@every_task
def test_the_three_stages_share_one_step(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    module, asked = case.build(), []
    monkeypatch.setattr(type(module), "step", lambda self, *given: asked.append(given))
    for method in (module.training_step, module.validation_step, module.test_step):
        method("a batch", 0)
    module.validation_step("a batch", 0, 2)
    module.test_step("a batch", 0, 3)
    stages = [("train",), ("val", 0), ("test", 0), ("val", 2), ("test", 3)]
    assert asked == [(stage, "a batch", *place) for stage, *place in stages]


def test_accumulated_gradients_do_not_scale_the_reported_loss() -> None:
    case = CASES["binary_pos_weight"]
    module, rows = case.build(), case.rows(0)
    trainer(accumulate_grad_batches=3).fit(module, loader(rows, 7))
    assert exact_loss(module, "train") == pytest.approx(case.expected_loss(module, rows), rel=1e-9)


def test_a_batch_in_which_nothing_weighs_trains_on_nothing() -> None:
    case = CASES["binary_weighted"]
    module, (x, target, _) = case.build(), case.rows(0)
    step = module.training_step((x, target, torch.zeros(ROWS)), 0)
    step["loss"].backward()
    assert step["loss"].item() == 0
    assert all(not parameter.grad.any() for parameter in module.network.parameters())


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("task", TASKS)
def test_a_sample_that_is_surely_right_has_a_focal_gradient(task: str, gamma: float) -> None:
    module = Case(task, focal, {"loss": "focal", "focal_gamma": gamma}).build()
    logits = torch.tensor({"binary": [900.0], "multiclass": [[900.0, 0, 0, 0]], "multilabel": [[900.0] * 3]}[task])
    logits.requires_grad_()
    target = torch.tensor({"binary": [1], "multiclass": [0], "multilabel": [[1] * 3]}[task])
    module.loss(logits, target).mean().backward()
    assert not logits.grad.any()


@every_task
def test_extreme_logits_have_finite_losses(case: Case) -> None:
    module, (_, target) = case.build(), case.rows(0, 6)
    logits = torch.full((6, {"binary": 1, "multiclass": 4, "multilabel": 3}[case.task]), 1e4)
    logits[:3] *= -1
    found = module.loss(module.arranged(logits), target)
    assert found.values.isfinite().all()
    if case.task != "multiclass":  # whose equal logits are a guess, however large
        assert found.values.tolist() == near(
            (1e4 * ((logits > 0) != (target.view(6, -1) == 1)).double().mean(1)).tolist()
        )


@pytest.mark.parametrize("kind", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("task", [*TASKS, "multiclass_class_weights"])
def test_targets_may_be_of_any_integer_type(task: str, kind: torch.dtype) -> None:
    case = CASES[task]
    module, (x, target) = case.build(), case.rows(0)
    step = module.step("val", (x, target.to(kind)))
    assert step["loss"].item() == near(case.expected_loss(module, (x, target)))
    assert ranks.cells(module.evaluation("val")) == case.expected_cells(module, (x, target))


@pytest.mark.parametrize("kind", [torch.bool, torch.float32, torch.float64])
@pytest.mark.parametrize("task", ["binary", "multilabel"])
def test_yes_and_no_may_be_of_any_type(task: str, kind: torch.dtype) -> None:
    case = CASES[task]
    module, (x, target) = case.build(), case.rows(0)
    step = module.step("val", (x, target.to(kind)))
    assert step["loss"].item() == near(case.expected_loss(module, (x, target)))


# ---- evaluations are never shared


def test_a_fit_counts_every_epoch_and_stage_apart() -> None:
    case, witness = CASES["binary"], Witness()
    module = case.build()
    running = trainer(max_epochs=2, num_sanity_val_steps=1, val_check_interval=0.5, callbacks=[witness])
    running.fit(module, loader(case.rows(0, 40), 10), loader(case.rows(1, 30), 10))
    assert [(stage, number) for stage, number, _ in witness.seen] == [
        ("sanity", [10]),
        *[("val", [30]), ("val", [30]), ("train", [40])] * 2,
    ]
    expected = near(case.expected_loss(module, case.rows(1, 30)))
    assert [reported["loss"] for stage, _, reported in witness.seen if stage == "val"] == [expected] * 4
    assert module.evaluation("train") is not module.evaluation("val") is not module.evaluation("test")


def test_evaluations_can_be_read_after_training() -> None:
    case = CASES["binary"]
    module, running = case.build(), trainer()
    running.fit(module, loader(case.rows(0)), loader(case.rows(1)))
    module.evaluation("train").explain()
    finding = str(module.evaluation("val").explain("accuracy", "f1"))
    assert finding == str(module.evaluation().explain())
    tp, fp, fn, tn = case.expected_cells(module, case.rows(1))
    assert module.evaluation("val").counts.exact().cells == (tp, fp, fn, tn)
    assert module.evaluation("val").confusion_matrix.tolist() == [[tn, fp], [fn, tp]]
    assert not counted(module.evaluation("test"))


def test_a_second_fit_and_a_validation_begin_anew() -> None:
    case = CASES["multiclass_class_weights"]
    module = case.build()
    for number in (40, 24):
        trainer().fit(module, loader(case.rows(0, number)), loader(case.rows(1, number)))
        assert samples(module, "train") == samples(module, "val") == [4 * number]
    (found,) = trainer().validate(module, loader(case.rows(2)), verbose=False)
    assert found["val/loss"] == near(case.expected_loss(module, case.rows(2)))
    assert samples(module, "val") == [4 * ROWS]
    assert samples(module, "train") == [4 * 24]


@every_task
@pytest.mark.parametrize("stage", ["val", "test"])
def test_every_dataloader_has_an_evaluation_of_its_own(case: Case, stage: str) -> None:
    module = case.build()
    sets = [case.rows(seed, number) for seed, number in ((1, 33), (2, 50), (3, 71))]
    run = Trainer.validate if stage == "val" else Trainer.test
    running = trainer()
    for number in (2, 3, 1, 2):  # more than before, fewer, and more again
        run(running, module, [loader(rows) for rows in sets[:number]], verbose=False)
        reported = values(running, stage)
        names = [f"/dataloader_idx_{place}" if number > 1 else "" for place in range(number)]
        for rows, name in zip(sets, names, strict=False):
            statistics = {"loss": case.expected_loss(module, rows), **case.expected_statistics(module, rows)}
            assert {key: reported[key + name] for key in statistics} == near(statistics)
        assert len(reported) == number * (1 + len(SKLEARN[case.task]))
        for place in range(number):
            cells = ranks.cells(module.evaluation(stage, place))
            assert cells == case.expected_cells(module, sets[place])
        assert not any(counted(each.evaluation) for each in getattr(module, f"{stage}_evaluations")[number:])


def test_the_suffix_is_the_one_that_lightning_gives() -> None:
    class Logs(BinaryClassifier):
        def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> Any:
            self.log("val/by_lightning", 1.0)
            return super().validation_step(batch, batch_idx, dataloader_idx)

    case, running = CASES["binary"], trainer()
    module = Logs(num_features=FEATURES, learning_rate=STILL).double()
    running.validate(module, [loader(case.rows(1)), loader(case.rows(2))], verbose=False)
    suffixes = {name.removeprefix("by_lightning") for name in values(running, "val") if name.startswith("by_")}
    assert suffixes == {name.removeprefix("loss") for name in values(running, "val") if name.startswith("loss")}


def test_two_validation_loaders_during_training_and_their_sanity_check() -> None:
    case, witness = CASES["binary"], Witness()
    module, running = case.build(), trainer(max_epochs=2, num_sanity_val_steps=1, callbacks=[witness])
    sets = [case.rows(1, 33), case.rows(2, 50)]
    running.fit(module, loader(case.rows(0)), [loader(rows) for rows in sets])
    assert [(stage, number) for stage, number, _ in witness.seen] == [
        ("sanity", [16, 16]),
        *[("val", [33, 50]), ("train", [ROWS])] * 2,
    ]
    losses = {f"loss/dataloader_idx_{n}": case.expected_loss(module, rows) for n, rows in enumerate(sets)}
    assert {name: values(running, "val")[name] for name in losses} == near(losses)


def test_a_sanity_check_does_not_use_up_the_warning_of_an_undefined_number() -> None:
    """Its first rows may lack a class that the split has; what it reports is thrown away by Lightning."""
    case = CASES["binary"]
    module = case.build(statistics=["recall"])
    x, target = case.rows(1)
    order = target.argsort()
    x, target = x[order], target[order]
    running = trainer(num_sanity_val_steps=1)
    running.fit(module, loader((x, target)), loader((x, target), 8))
    with pytest.warns(UndefinedWarning, match="recall is NaN"):
        running.validate(module, loader((x, torch.zeros_like(target))), verbose=False)


def test_a_bad_batch_is_not_counted() -> None:
    case = CASES["multiclass"]
    module, (x, target) = case.build(), case.rows(0)
    module.step("val", (x, target))
    before = samples(module, "val"), exact_loss(module, "val")
    for bad in (target + 1, target - 1, target[:-1]):
        with pytest.raises(InputError):
            module.step("val", (x, bad))
    assert (samples(module, "val"), exact_loss(module, "val")) == before


def test_a_copy_of_a_module_counts_for_itself() -> None:
    case = CASES["binary"]
    module = case.build()
    module.step("val", case.rows(0))
    for duplicate in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        duplicate.step("val", case.rows(1))
        assert samples(duplicate, "val") == [2 * ROWS]
    assert samples(module, "val") == [ROWS]


# ---- predictions


@every_task
def test_predictions_are_probabilities(case: Case) -> None:
    module, rows = case.build(), case.rows(1)
    logits = case.logits(module, rows[0]).float()
    expected = logits.softmax(1) if case.task == "multiclass" else logits.sigmoid()
    for given_rows in (rows, rows[:1]):
        found = trainer().predict(module, loader(given_rows, 7))
        torch.testing.assert_close(torch.cat(found), expected)
    torch.testing.assert_close(module.predict_step(rows[0]).detach(), expected)
    if case.task == "multiclass":
        torch.testing.assert_close(torch.cat(found).sum(1), torch.ones(ROWS))


def test_two_dataloaders_can_be_predicted() -> None:
    module, sets = CASES["binary"].build(), [CASES["binary"].rows(seed, 20 + seed) for seed in (1, 2)]
    found = trainer().predict(module, [loader(rows, 7) for rows in sets])
    assert [len(torch.cat(each)) for each in found] == [21, 22]


@pytest.mark.parametrize("pos_weight", [0.2, 1.0, 9.0])
def test_a_corrected_shift_is_taken_out_of_predictions_and_not_of_the_loss(pos_weight: float) -> None:
    """Identity 7: a loss with pos_weight w learns logits that are ln w too high."""
    case = Case("binary", partial(yes_no, pos_weight=pos_weight), {"pos_weight": pos_weight, "threshold": 0.3})
    module, running, rows = case.build(correct_shift=True, statistics=["accuracy"]), trainer(), case.rows(1)
    running.validate(module, loader(rows), verbose=False)
    odds = case.logits(module, rows[0]).exp().numpy() / pos_weight
    said, truth = odds / (1 + odds) > 0.3, rows[1].numpy() == 1
    cells = [(said & truth).sum(), (said & ~truth).sum(), (~said & truth).sum(), (~said & ~truth).sum()]
    assert ranks.cells(module.evaluation("val")) == cells
    assert exact_loss(module, "val") == pytest.approx(case.expected_loss(module, rows), rel=1e-7)
    found = torch.cat(running.predict(module, loader(rows)))
    assert found.tolist() == near((odds / (1 + odds)).tolist())


# ---- networks


class Constant(nn.Module):
    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.shape, self.level = shape, nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        return self.level.expand(len(x), *self.shape)


@pytest.mark.parametrize("network", [Flat, partial(nn.Linear, FEATURES, 1)], ids=["(N,)", "(N, 1)"])
def test_a_network_of_ones_own_may_give_one_logit_in_two_ways(network: Callable[[], nn.Module]) -> None:
    case = CASES["binary"]
    module, running, rows = case.build(network=network()), trainer(), case.rows(1)
    running.validate(module, loader(rows), verbose=False)
    assert module(rows[0]).shape == (ROWS,)
    assert values(running, "val")["loss"] == near(case.expected_loss(module, rows))


@pytest.mark.parametrize(
    ("task", "shape", "said"),
    [
        (
            "binary",
            (2,),
            r"a network that gives one logit per sample, \(N,\) or \(N, 1\), got \(9, 2\): several are for Multi",
        ),
        ("binary", (1, 1), r"one logit per sample, \(N,\) or \(N, 1\), got \(9, 1, 1\)"),
        ("multiclass", (3,), r"expected a network that gives a logit per class, \(N, 4\), got \(9, 3\)\."),
        ("multiclass", (), r"a logit per class, \(N, 4\), got \(9,\)"),
        ("multiclass", (4, 2), r"a logit per class, \(N, 4\), got \(9, 4, 2\)"),
        ("multilabel", (2,), r"expected a network that gives a logit per label, \(N, 3\), got \(9, 2\)\."),
        ("multilabel", (), r"a logit per label, \(N, 3\), got \(9,\)"),
    ],
)
def test_a_network_of_the_wrong_shape_is_refused(task: str, shape: tuple[int, ...], said: str) -> None:
    module = CASES[task].build(network=Constant(*shape))
    with pytest.raises(InputError, match=said):
        module.training_step(CASES[task].rows(0, 9), 0)
    with pytest.raises(InputError, match=said):
        module.predict_step(torch.zeros(9, FEATURES))


@pytest.mark.parametrize("hidden", [(), (8,), (8, 3)])
def test_hidden_widths_make_a_multilayer_perceptron(hidden: tuple[int, ...]) -> None:
    module = MulticlassClassifier(num_classes=4, num_features=FEATURES, hidden=hidden)
    shapes = [tuple(layer.weight.shape) for layer in module.network if isinstance(layer, nn.Linear)]
    widths = [FEATURES, *hidden, 4]
    assert shapes == [(after, before) for before, after in pairwise(widths)]
    assert sum(isinstance(layer, nn.ReLU) for layer in module.network) == len(hidden)
    assert isinstance(module.network[-1], nn.Linear)
