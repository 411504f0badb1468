"""Classifiers in real trainers: the loss of an epoch as one batch, every stage and dataloader counted apart.

Expected losses come from torch's own functions on the whole split in float64 (the focal loss from its definition),
expected statistics from scikit-learn on the same logits.
"""

from __future__ import annotations

import copy
import io
import math
import os
import pickle
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pytest
import ranks
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback, EarlyStopping, ModelCheckpoint
from lightning.pytorch.cli import LightningCLI
from lightning.pytorch.strategies import DDPStrategy
from sklearn import metrics as sklearn
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from lightning_evalkit.data import TensorLoader
from lightning_evalkit.errors import DeclarationError, InputError, UndefinedWarning
from lightning_evalkit.metrics import MeanLoss, WorstLossShare
from lightning_evalkit.modules import BinaryClassifier, MulticlassClassifier, MultilabelClassifier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lightning_evalkit.modules.classifier import Classifier

pytestmark = [
    # About the tiny trainers of these tests.
    pytest.mark.filterwarnings("ignore:You defined a `validation_step` but have no `val_dataloader`"),
]

ROWS, FEATURES = 71, 5
STAGES = ("train", "val", "test")
STILL = 1e-12
"""A learning rate that moves nothing, so that an epoch of training has one loss."""
QUIET: dict[str, Any] = {
    "accelerator": "cpu",
    "logger": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "enable_checkpointing": False,
    "num_sanity_val_steps": 0,
}


# ---- what is expected


@dataclass(frozen=True)
class Case:
    """A classifier, the loss of all its rows at once, and the statistics of scikit-learn."""

    task: str
    loss: Callable[[Tensor, Tensor, Tensor], Tensor]
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def weighted(self) -> bool:
        return bool(self.options.get("weighted", False))

    def build(self, **options: Any) -> Classifier:
        torch.manual_seed(3)
        made = {"learning_rate": STILL, **self.options, **options}
        if "network" not in made:
            made["num_features"] = FEATURES
        if self.task == "binary":
            return BinaryClassifier(**made).double()
        if self.task == "multiclass":
            return MulticlassClassifier(num_classes=4, **made).double()
        return MultilabelClassifier(num_labels=3, **made).double()

    def rows(self, seed: int, number: int = ROWS) -> tuple[Tensor, ...]:
        """Features, target and, where declared, weights, of which some are 0."""
        generator = torch.Generator().manual_seed(seed)
        shape = {"binary": (number,), "multiclass": (number,), "multilabel": (number, 3)}[self.task]
        x = torch.randn(number, FEATURES, generator=generator, dtype=torch.float64)
        target = torch.randint(0, 4 if self.task == "multiclass" else 2, shape, generator=generator)
        weight = torch.randint(0, 5, (number,), generator=generator).double() / 2
        weight[0] = 0.5  # a single row weighs something
        return (x, target, weight) if self.weighted else (x, target)

    def logits(self, module: Classifier, x: Tensor) -> Tensor:
        with torch.no_grad():
            logits = module.network(x)
        return logits.reshape(-1) if self.task == "binary" else logits

    def expected_loss(self, module: Classifier, rows: tuple[Tensor, ...]) -> float:
        x, target, *weight = rows
        return float(self.loss(self.logits(module, x), target, weight[0] if weight else torch.ones(len(x)).double()))

    def decided(self, module: Classifier, x: Tensor) -> np.ndarray[Any, Any]:
        logits = self.logits(module, x)
        return (logits.argmax(1) if self.task == "multiclass" else (logits > 0).long()).numpy()

    def expected_statistics(self, module: Classifier, rows: tuple[Tensor, ...]) -> dict[str, float]:
        x, target, *weight = rows
        given = {"sample_weight": weight[0].numpy()} if weight else {}
        decided = self.decided(module, x)
        return {name: float(statistic(target.numpy(), decided, **given)) for name, statistic in SKLEARN[self.task]}

    def expected_cells(self, module: Classifier, rows: tuple[Tensor, ...]) -> list[Any]:
        """True and false positives, false and true negatives; of every class or label where there are several."""
        x, target, *weight = rows
        truth, said = target.numpy(), self.decided(module, x)
        if self.task == "multiclass":
            truth, said = (np.eye(4, dtype=int)[labels] for labels in (truth, said))
        share = weight[0].numpy() if weight else np.ones(len(x), dtype=int)
        share = share if truth.ndim == 1 else share[:, None]
        masks = (truth & said, (1 - truth) & said, truth & (1 - said), (1 - truth) & (1 - said))
        return [(mask * share).sum(0).tolist() for mask in masks]


def yes_no(z: Tensor, y: Tensor, w: Tensor, pos_weight: Any = None) -> Tensor:
    """Torch's own; its mean over labels first, then over samples by their weights."""
    positive = None if pos_weight is None else torch.tensor(pos_weight).double()
    if bool((w == 1).all()):
        return binary_cross_entropy_with_logits(z, y.double(), pos_weight=positive)
    w = w if z.ndim == 1 else w.unsqueeze(1).expand(z.shape)
    total = binary_cross_entropy_with_logits(z, y.double(), weight=w, pos_weight=positive, reduction="sum")
    return total / w.sum()


def one_of_many(z: Tensor, y: Tensor, w: Tensor, weight: list[float] | None = None) -> Tensor:
    """Torch's own; with sample weights the class weights are multiplied by them."""
    classes = None if weight is None else torch.tensor(weight).double()
    if bool((w == 1).all()):
        return cross_entropy(z, y, weight=classes)
    share = w if classes is None else w * classes[y]
    return (cross_entropy(z, y, reduction="none") * share).sum() / share.sum()


def focal(z: Tensor, y: Tensor, w: Tensor, gamma: float = 2.0, pos_weight: float = 1.0) -> Tensor:
    """-(1 - p)^gamma log p of the probability p of what is true."""
    p = torch.where(y == 1, z.sigmoid(), 1 - z.sigmoid())
    values = -((1 - p) ** gamma) * p.log() * torch.where(y == 1, pos_weight, 1.0)
    values = values if values.ndim == 1 else values.mean(1)
    return (values * w).sum() / w.sum()


def focal_of_many(z: Tensor, y: Tensor, w: Tensor, gamma: float, weight: list[float]) -> Tensor:
    p = z.softmax(1).gather(1, y.unsqueeze(1)).squeeze(1)
    share = w * torch.tensor(weight).double()[y]
    return (-((1 - p) ** gamma) * p.log() * share).sum() / share.sum()


def samples_jaccard(truth: Any, said: Any, sample_weight: Any = None) -> float:
    """By its definition, because scikit-learn's cannot leave out the samples where it is 0/0."""
    both, either = (truth & said).sum(1), (truth | said).sum(1)
    weight = (np.ones(len(truth)) if sample_weight is None else sample_weight)[either > 0]
    return float((both[either > 0] / either[either > 0] * weight).sum() / weight.sum())


SKLEARN: dict[str, list[tuple[str, Callable[..., float]]]] = {
    "binary": [
        ("accuracy", sklearn.accuracy_score),
        ("balanced_accuracy", sklearn.balanced_accuracy_score),
        ("precision", sklearn.precision_score),
        ("recall", sklearn.recall_score),
        ("specificity", partial(sklearn.recall_score, pos_label=0)),
        ("f1", sklearn.f1_score),
        ("mcc", sklearn.matthews_corrcoef),
    ],
    "multiclass": [
        ("accuracy", sklearn.accuracy_score),
        ("balanced_accuracy", sklearn.balanced_accuracy_score),
        ("precision/macro", partial(sklearn.precision_score, average="macro")),
        ("recall/macro", partial(sklearn.recall_score, average="macro")),
        ("f1/macro", partial(sklearn.f1_score, average="macro")),
        ("mcc", sklearn.matthews_corrcoef),
    ],
    "multilabel": [
        ("exact_match", sklearn.accuracy_score),
        ("hamming_accuracy", lambda *both, **given: 1 - sklearn.hamming_loss(*both, **given)),
        ("f1/micro", partial(sklearn.f1_score, average="micro")),
        ("f1/macro", partial(sklearn.f1_score, average="macro")),
        ("f1/samples", partial(sklearn.f1_score, average="samples", zero_division=np.nan)),
        ("jaccard/samples", samples_jaccard),
    ],
}
CLASSES, LABELS = [0.25, 1.0, 3.5, 8.0], [0.5, 1.0, 6.25]
CASES = {
    "binary": Case("binary", yes_no),
    "binary_pos_weight": Case("binary", partial(yes_no, pos_weight=3.5), {"pos_weight": 3.5}),
    "binary_focal": Case("binary", focal, {"loss": "focal"}),
    "binary_focal_pos_weight": Case(
        "binary",
        partial(focal, gamma=0.5, pos_weight=3.5),
        {"loss": "focal", "focal_gamma": 0.5, "pos_weight": 3.5},
    ),
    "binary_weighted": Case("binary", partial(yes_no, pos_weight=0.25), {"weighted": True, "pos_weight": 0.25}),
    "multiclass": Case("multiclass", one_of_many),
    "multiclass_class_weights": Case("multiclass", partial(one_of_many, weight=CLASSES), {"class_weights": CLASSES}),
    "multiclass_focal": Case(
        "multiclass",
        partial(focal_of_many, gamma=1.5, weight=CLASSES),
        {"loss": "focal", "focal_gamma": 1.5, "class_weights": CLASSES, "weighted": True},
    ),
    "multiclass_weighted": Case("multiclass", one_of_many, {"weighted": True}),
    "multiclass_weighted_class_weights": Case(
        "multiclass", partial(one_of_many, weight=CLASSES), {"class_weights": CLASSES, "weighted": True}
    ),
    "multilabel": Case("multilabel", yes_no),
    "multilabel_pos_weight": Case("multilabel", partial(yes_no, pos_weight=2.5), {"pos_weight": 2.5}),
    "multilabel_pos_weights": Case("multilabel", partial(yes_no, pos_weight=LABELS), {"pos_weight": LABELS}),
    "multilabel_focal": Case("multilabel", focal, {"loss": "focal", "weighted": True}),
    "multilabel_weighted": Case(
        "multilabel", partial(yes_no, pos_weight=LABELS), {"pos_weight": LABELS, "weighted": True}
    ),
}
TASKS = ["binary", "multiclass", "multilabel"]
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
every_task = pytest.mark.parametrize("case", [CASES[task] for task in TASKS], ids=TASKS)


def loader(rows: tuple[Tensor, ...], size: int = 16) -> DataLoader[Any]:
    return DataLoader(TensorDataset(*rows), batch_size=size)


def trainer(**options: Any) -> Trainer:
    return Trainer(**{**QUIET, "max_epochs": 1, **options})


def exact_loss(module: Classifier, stage: str, place: int = 0) -> float:
    """The mean before it is given in single precision."""
    kept = getattr(module, f"{stage}_kept")[place]
    reals = next(each for each in kept.modules() if type(each) is MeanLoss).global_totals.reals
    return float(reals[0] / reals[1])


def values(running: Trainer, stage: str) -> dict[str, float]:
    found = {name: value.item() for name, value in running.callback_metrics.items() if name.startswith(f"{stage}/")}
    return {name.removeprefix(f"{stage}/"): value for name, value in found.items()}


def near(number: Any) -> Any:
    return pytest.approx(number, rel=1e-6, abs=1e-6, nan_ok=True)


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


class Witness(Callback):
    """What each evaluation had counted when an epoch ends, and for validation what was reported."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, list[int], dict[str, float]]] = []

    def on_train_epoch_end(self, running: Trainer, module: LightningModule) -> None:
        self._note("train", running, module)

    def on_validation_end(self, running: Trainer, module: LightningModule) -> None:
        self._note("sanity" if running.sanity_checking else "val", running, module)

    def _note(self, stage: str, running: Trainer, module: Any) -> None:
        self.seen.append((stage, samples(module, "val" if stage == "sanity" else stage), values(running, stage)))


def samples(module: Classifier, stage: str) -> list[int]:
    """How many samples every evaluation of a stage has counted."""
    evaluations = [kept.evaluation for kept in getattr(module, f"{stage}_kept")]
    return [int(sum(cell.sum() for cell in each.counts.cells)) if counted(each) else 0 for each in evaluations]


def counted(evaluation: Any) -> bool:
    return bool(evaluation.tally.update_called)


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
        assert not any(counted(each.evaluation) for each in getattr(module, f"{stage}_kept")[number:])


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


class Flat(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(FEATURES, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x).squeeze(1)


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


# ---- words of errors

DECLARED_WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "neither network nor features": (
        BinaryClassifier,
        r"expected num_features, to build a network with, or a network; got neither\.",
    ),
    "no features": (
        lambda: BinaryClassifier(num_features=0),
        r"expected layers of at least one unit, got \[0, 1\]\.",
    ),
    "no hidden units": (
        lambda: MultilabelClassifier(num_labels=3, num_features=2, hidden=(4, 0)),
        r"expected layers of at least one unit, got \[2, 4, 0, 3\]\.",
    ),
    "learning rate": (
        lambda: BinaryClassifier(num_features=2, learning_rate=0.0),
        r"expected a learning_rate above 0, got 0\.0\.",
    ),
    "learning rate NaN": (
        lambda: BinaryClassifier(num_features=2, learning_rate=math.nan),
        r"expected a learning_rate above 0, got nan\.",
    ),
    "loss": (
        lambda: BinaryClassifier(num_features=2, loss="hinge"),  # type: ignore[arg-type]
        r"expected loss 'cross_entropy' or 'focal' and a focal_gamma of at least 0, got 'hinge' and 2\.0\.",
    ),
    "focal gamma": (
        lambda: BinaryClassifier(num_features=2, loss="focal", focal_gamma=-1.0),
        r"a focal_gamma of at least 0, got 'focal' and -1\.0\.",
    ),
    "focal gamma NaN": (
        lambda: BinaryClassifier(num_features=2, loss="focal", focal_gamma=math.nan),
        r"a focal_gamma of at least 0, got 'focal' and nan\.",
    ),
    "pos_weight": (
        lambda: BinaryClassifier(num_features=2, pos_weight=0.0),
        r"expected weights of a loss above 0 and finite, got 0\.0\.",
    ),
    "pos_weight infinite": (
        lambda: MultilabelClassifier(num_labels=2, num_features=2, pos_weight=[1.0, math.inf]),
        r"expected weights of a loss above 0 and finite, got \[1\.0, inf\]\.",
    ),
    "class weights NaN": (
        lambda: MulticlassClassifier(num_classes=2, num_features=2, class_weights=[1.0, math.nan]),
        r"expected weights of a loss above 0 and finite, got \[1\.0, nan\]\.",
    ),
    "number of class weights": (
        lambda: MulticlassClassifier(num_classes=3, num_features=2, class_weights=[1.0, 2.0]),
        r"expected 3 class_weights, one per class, got 2\.",
    ),
    "number of pos_weights": (
        lambda: MultilabelClassifier(num_labels=3, num_features=2, pos_weight=[1.0, 2.0]),
        r"expected one pos_weight, or 3, one per label, got 2\.",
    ),
}


@pytest.mark.parametrize(("build", "said"), DECLARED_WRONG.values(), ids=DECLARED_WRONG)
def test_a_wrong_declaration_is_refused(build: Callable[[], Any], said: str) -> None:
    with pytest.raises(DeclarationError, match=f"{said}$"):
        build()


X, Y = torch.zeros(4, FEATURES).double(), torch.tensor([0, 1, 0, 1])


@pytest.mark.parametrize(
    ("case", "batch", "said"),
    [
        ("binary", (X,), r"expected batches of \(features, target\), got 1 parts\."),
        ("binary", X, r"expected batches of \(features, target\), got Tensor\."),
        ("binary", {"x": X}, r"expected batches of \(features, target\), got dict\."),
        (
            "binary",
            (X, Y, Y),
            r"expected batches of \(features, target\), got 3 parts: a third part are weights, declare weighted=True\.",
        ),
        ("binary_weighted", (X, Y), r"expected batches of \(features, target, sample_weight\), got 2 parts\."),
        ("binary", (X, Y.unsqueeze(1)), r"target .*\(4, 1\)"),
        ("binary", (X, Y[:3]), r"\(3,\)"),
        ("binary", (X, Y + 1), r"expected every target to be 0 or 1, got 2"),
        ("binary", (X, Y * 0.5), r"expected every target to be 0 or 1, got 0\.5"),
        ("multiclass", (X, Y + 3), r"expected .*targets? .*got 4"),
        ("multiclass", (X, Y - 1), r"expected .*targets? .*got -1"),
        ("multiclass", (X, Y.double()), r"expected targets to be class numbers \(integers\), got torch.float64"),
        ("multiclass", (X, Y.unsqueeze(1)), r"call target\.squeeze\(-1\)"),
        ("multilabel", (X, Y), r"\(4,\)"),
        ("multilabel", (X, torch.full((4, 3), 2)), r"0 or 1, got 2"),
        ("binary_weighted", (X, Y, -torch.ones(4)), r"sample_weight.*got -1"),
        ("binary_weighted", (X, Y, torch.ones(4, 1)), r"expected sample_weight to have the shape of target, \(4,\)"),
        ("multilabel_weighted", (X, torch.zeros(4, 3), torch.ones(4, 3)), r"expected one sample_weight per sample"),
    ],
)
def test_a_wrong_batch_is_refused(case: str, batch: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        CASES[case].build().training_step(batch, 0)


def test_a_wrong_stage_is_refused() -> None:
    with pytest.raises(InputError, match=r"expected a stage, 'train', 'val' or 'test', got 'validate'\.$"):
        CASES["binary"].build().evaluation("validate")


# ---- checkpoints


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (BinaryClassifier, {"pos_weight": 9.9, "threshold": (0.2, 0.8), "statistics": ["f1", "accuracy"]}),
        (
            MulticlassClassifier,
            {"num_classes": 4, "class_weights": CLASSES, "class_names": ["a", "b", "c", "d"]},
        ),
        (
            MultilabelClassifier,
            {"num_labels": 3, "pos_weight": LABELS, "threshold": (0.1, 0.5, 0.9), "loss": "focal"},
        ),
    ],
)
def test_a_checkpoint_gives_the_module_back(kind: type[Classifier], options: dict[str, Any], tmp_path: Path) -> None:
    made = {**options, "num_features": FEATURES, "hidden": (8, 6), "learning_rate": 0.1}
    module, running, file = kind(**made), trainer(), tmp_path / "run.ckpt"  # type: ignore[arg-type]
    task = {BinaryClassifier: "binary", MulticlassClassifier: "multiclass", MultilabelClassifier: "multilabel"}[kind]
    x, target = CASES[task].rows(0)
    rows = x.float(), target
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedWarning)
        running.fit(module, loader(rows), loader(rows))
    running.save_checkpoint(file)
    saved = torch.load(file, weights_only=True)
    assert {key: saved["hyper_parameters"][key] for key in made} == made
    assert "network" not in saved["hyper_parameters"]
    assert set(saved["state_dict"]) == {f"network.{name}" for name in module.network.state_dict()}
    loaded = kind.load_from_checkpoint(file)
    assert loaded.hparams == module.hparams
    assert torch.equal(loaded(rows[0]), module(rows[0]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedWarning)
        found = [trainer().validate(each, loader(rows), verbose=False)[0] for each in (module, loaded)]
    assert found[0] == pytest.approx(found[1], abs=0, rel=0, nan_ok=True)
    other = kind.load_from_checkpoint(file, learning_rate=0.5)
    assert other.learning_rate == 0.5


def test_a_network_of_ones_own_is_given_again(tmp_path: Path) -> None:
    case, file = CASES["binary_pos_weight"], tmp_path / "run.ckpt"
    module, running = case.build(network=Flat()), trainer()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        running.fit(module, loader(case.rows(0)))
    assert not [each for each in said if "hyperparameter" in str(each.message) or "nn.Module" in str(each.message)]
    running.save_checkpoint(file)
    assert torch.load(file, weights_only=True)["hyper_parameters"]["pos_weight"] == 3.5
    loaded = BinaryClassifier.load_from_checkpoint(file, network=Flat())
    x = case.rows(1)[0].float()
    assert torch.equal(loaded(x), module.float()(x))
    with pytest.raises(DeclarationError, match="or a network; got neither"):
        BinaryClassifier.load_from_checkpoint(file)


def test_a_network_that_the_command_line_describes_is_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["evalkit"])
    monkeypatch.setenv("JSONARGPARSE_DEPRECATION_WARNINGS", "off")  # of what Lightning calls there
    described = ["--model.network=torch.nn.Linear", f"--model.network.in_features={FEATURES}"]
    described += ["--model.network.out_features=1", "--model.pos_weight=3.5"]
    quiet = [f"--trainer.{name}={str(value).lower()}" for name, value in {**QUIET, "max_epochs": 1}.items()]
    cli = LightningCLI(
        BinaryClassifier, run=False, save_config_callback=None, seed_everything_default=1, args=described + quiet
    )
    x, target = CASES["binary"].rows(0)
    cli.trainer.fit(cli.model, loader((x.float(), target)))
    cli.trainer.save_checkpoint(tmp_path / "run.ckpt")
    torch.load(tmp_path / "run.ckpt", weights_only=True)
    loaded = BinaryClassifier.load_from_checkpoint(tmp_path / "run.ckpt")
    assert isinstance(loaded.network, nn.Linear)
    assert torch.equal(loaded(x.float()), cli.model(x.float()))
    assert loaded.hparams.pos_weight == 3.5


@every_task
def test_training_goes_on_from_a_checkpoint_as_if_it_had_not_ended(case: Case, tmp_path: Path) -> None:
    rows = case.rows(0), case.rows(1)
    found = []
    for parts in ((4,), (2, 4)):
        module, file = case.build(learning_rate=0.05), None
        for epochs in parts:
            running = trainer(max_epochs=epochs)
            running.fit(module, *map(loader, rows), ckpt_path=file, weights_only=True)
            file = tmp_path / f"{epochs}_of_{len(parts)}.ckpt"
            running.save_checkpoint(file)
            module = case.build(learning_rate=0.05) if epochs != parts[-1] else module
        found.append({**values(running, "train"), **values(running, "val")})
    assert found[0] == found[1]


# ---- callbacks and schedulers


class Decaying(BinaryClassifier):
    """One whose learning rate falls when validation does not improve."""

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=self.learning_rate)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.5, threshold=1e-6)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "monitor": "val/loss"}}


def separable(rows: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, FEATURES, generator=generator)
    return x, (x[:, 0] + 0.5 * torch.randn(rows, generator=generator) > 0).long()


def test_callbacks_watch_what_is_reported(tmp_path: Path) -> None:
    keeping = ModelCheckpoint(tmp_path, monitor="val/f1", mode="max", filename="best")
    stopping, witness = EarlyStopping(monitor="val/loss", patience=1), Witness()
    running = trainer(
        max_epochs=60, callbacks=[keeping, stopping, witness], enable_checkpointing=True, num_sanity_val_steps=2
    )
    module = BinaryClassifier(num_features=FEATURES, learning_rate=0.5)
    running.fit(module, loader(separable(64, 0), 8), loader(separable(64, 1), 8))
    reported = [found for stage, _, found in witness.seen if stage == "val"]
    losses = [found["loss"] for found in reported]
    assert len(losses) < 60
    assert losses[-1] >= losses[-2] >= min(losses)
    assert stopping.best_score.item() == min(losses)
    assert keeping.best_model_score.item() == max(found["f1"] for found in reported)
    best = BinaryClassifier.load_from_checkpoint(keeping.best_model_path)
    (again,) = trainer().validate(best, loader(separable(64, 1)), verbose=False)
    assert again["val/f1"] == near(keeping.best_model_score.item())


def test_a_plateau_of_the_loss_lowers_the_learning_rate() -> None:
    witness = Witness()
    module, running = Decaying(num_features=FEATURES, learning_rate=8.0), trainer(max_epochs=8, callbacks=[witness])
    running.fit(module, loader(separable(64, 0), 8), loader(separable(64, 1), 8))
    losses = [found["loss"] for stage, _, found in witness.seen if stage == "val"]
    rate, best = 8.0, math.inf
    for loss in losses:
        rate, best = (rate, loss) if loss < best * (1 - 1e-6) else (rate / 2, best)
    assert rate < 8.0
    assert running.optimizers[0].param_groups[0]["lr"] == rate


def test_the_default_optimizer_learns() -> None:
    module, running = (
        BinaryClassifier(num_features=FEATURES, hidden=(8,)),
        trainer(max_epochs=15, check_val_every_n_epoch=15),
    )
    running.fit(module, loader(separable(256, 0)), loader(separable(256, 1)))
    assert values(running, "val")["accuracy"] > 0.8
    assert values(running, "train")["loss"] < 0.5


# ---- precision


class Copying(nn.Module):
    """Gives its first features as they are, after a layer that has to be there to be cast."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.layer, self.number, self.seen = nn.Linear(FEATURES, number), number, set[torch.dtype]()

    def forward(self, x: Tensor) -> Tensor:
        made = self.layer(x)
        self.seen.add(made.dtype)
        return made * 0 + x[:, : self.number].to(made.dtype)


@pytest.mark.filterwarnings("ignore:You passed .Trainer.accelerator='cpu', precision='16-mixed'")
@every_task
@pytest.mark.parametrize("precision", ["bf16-mixed", "bf16-true", "16-mixed", "32-true"])
def test_counts_are_exact_in_low_precision(case: Case, precision: Any) -> None:
    """Logits that bfloat16 can hold, and thousands of rows, which it cannot count."""
    outputs = {"binary": 1, "multiclass": 4, "multilabel": 3}[case.task]
    module = case.build(network=Copying(outputs), statistics=None).float()
    _, target = case.rows(0, 3_000)
    x = torch.randint(-32, 32, (3_000, FEATURES)) / 4 + torch.arange(FEATURES) / 16
    double = copy.deepcopy(module).double()
    running = trainer(precision=precision)
    running.fit(module, loader((x, target), 256), loader((x, target), 256))
    assert module.network.seen == {torch.float32 if precision == "32-true" else torch.bfloat16}
    for stage in ("train", "val"):
        assert ranks.cells(module.evaluation(stage)) == case.expected_cells(double, (x.double(), target))
        assert exact_loss(module, stage) == pytest.approx(case.expected_loss(double, (x.double(), target)), rel=1e-5)
    assert values(running, "val")["loss"] == near(exact_loss(module, "val"))
    probabilities = torch.cat(running.predict(module, loader((x,), 256)))
    assert probabilities.dtype == torch.float32


@pytest.mark.parametrize(
    ("task", "options"),
    [
        ("binary", {"pos_weight": 9.9}),
        ("multiclass", {"class_weights": [0.1, 0.7, 1.01, 3.3]}),
        ("multilabel", {"pos_weight": [0.1, 9.9, 101.0]}),
    ],
)
def test_weights_of_a_loss_are_not_rounded_in_low_precision(task: str, options: dict[str, Any]) -> None:
    loss = {
        "binary": partial(yes_no, pos_weight=9.9),
        "multiclass": partial(one_of_many, weight=[0.1, 0.7, 1.01, 3.3]),
        "multilabel": partial(yes_no, pos_weight=[0.1, 9.9, 101.0]),
    }
    case = Case(task, loss[task], options)
    module = case.build(network=Copying({"binary": 1, "multiclass": 4, "multilabel": 3}[task])).float()
    _, target = case.rows(0)
    x = torch.randint(-64, 64, (ROWS, FEATURES)) / 8
    double = copy.deepcopy(module).double()
    trainer(precision="bf16-true").validate(module, loader((x, target)), verbose=False)
    assert exact_loss(module, "val") == pytest.approx(case.expected_loss(double, (x.double(), target)), rel=1e-5)


# ---- compiled


@pytest.fixture
def _no_graph_of_another_test() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.slow
@pytest.mark.usefixtures("_no_graph_of_another_test")
@pytest.mark.parametrize("name", ["binary_pos_weight", "binary_weighted", "multiclass_focal", "multilabel_pos_weights"])
def test_a_step_is_one_graph(name: str) -> None:
    from torch._dynamo.testing import CompileCounter  # late: ranks load this file

    case, graphs = CASES[name], CompileCounter()
    module, eager = case.build(), case.build()
    step = torch.compile(lambda batch: module.step("train", batch)["loss"], backend=graphs, fullgraph=True)
    for seed in range(5):
        loss = step(case.rows(seed, 16))
        loss.backward()
        assert loss.item() == pytest.approx(eager.step("train", case.rows(seed, 16))["loss"].item(), rel=1e-12)
    assert graphs.frame_count == 1
    assert ranks.cells(module.evaluation("train")) == ranks.cells(eager.evaluation("train"))
    assert exact_loss(module, "train") == pytest.approx(exact_loss(eager, "train"), rel=1e-12)


@pytest.mark.slow
@pytest.mark.usefixtures("_no_graph_of_another_test")
@pytest.mark.parametrize(
    ("task", "backend"), [("binary", "aot_eager"), ("multiclass", "eager"), ("multilabel", "eager")]
)
def test_a_compiled_module_is_evaluated_as_an_eager_one(task: str, backend: str) -> None:
    case = CASES[task]
    compiled = torch.compile(case.build(), backend=backend)
    running, rows = trainer(), (case.rows(0, 64), case.rows(1, 64))
    running.fit(compiled, *(loader(each) for each in rows))
    module = running.lightning_module
    for stage, each in zip(("train", "val"), rows, strict=True):
        assert values(running, stage)["loss"] == near(case.expected_loss(module, each))
        assert ranks.cells(module.evaluation(stage)) == case.expected_cells(module, each)


# ---- on a graphics card


@pytest.mark.gpu
@every_case
def test_a_graphics_card_evaluates_as_the_processor(case: Case) -> None:
    module, running = case.build(), trainer(accelerator="gpu", devices=1)
    running.fit(module, loader(case.rows(0), 7), [loader(case.rows(1), 7), loader(case.rows(2), 64)])
    reported = values(running, "val")
    assert module.evaluation("val", 1).tally.totals.integers.is_cuda
    module.cpu()
    for place in range(2):
        rows = case.rows(place + 1)
        assert reported[f"loss/dataloader_idx_{place}"] == near(case.expected_loss(module, rows))
        assert ranks.cells(module.evaluation("val", place)) == case.expected_cells(module, rows)


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["16-mixed", "bf16-mixed", "bf16-true"])
@every_task
def test_a_graphics_card_counts_exactly_in_low_precision(case: Case, precision: Any) -> None:
    module = case.build(network=Copying({"binary": 1, "multiclass": 4, "multilabel": 3}[case.task])).float()
    _, target = case.rows(0, 3_000)
    x = torch.randint(-32, 32, (3_000, FEATURES)) / 4 + torch.arange(FEATURES) / 16
    double = copy.deepcopy(module).double()
    running = trainer(accelerator="gpu", devices=1, precision=precision)
    running.validate(module, loader((x, target), 256), verbose=False)
    assert ranks.cells(module.evaluation("val").cpu()) == case.expected_cells(double, (x.double(), target))
    assert values(running, "val")["loss"] == pytest.approx(case.expected_loss(double, (x.double(), target)), rel=1e-5)


# ---- several processes

PAIR = 2
DEFINED = {"binary": ["accuracy"], "multiclass": ["accuracy"], "multilabel": ["exact_match", "hamming_accuracy"]}
"""What has a value for a single row."""
SHARED = [
    *(("binary_pos_weight", length) for length in (1, 2, 3, 5, 257)),
    *(("binary_weighted", length) for length in (1, 5)),
    *(("multiclass_class_weights", length) for length in (2, 257)),
    *(("multilabel_pos_weights", length) for length in (1, 3)),
]
"""A case and a number of rows, which the ranks cannot always share out evenly."""


def normalised(task: str) -> nn.Module:
    return nn.Sequential(nn.BatchNorm1d(FEATURES), nn.Linear(FEATURES, {"binary": 1, "multiclass": 4}.get(task, 3)))


class Trained:
    """A fit with a validation in every epoch, then a test, on rows that the ranks cannot share out evenly."""

    def __init__(self, name: str, length: int) -> None:
        self.name, self.length = name, length

    def build(self) -> Classifier:
        case = CASES[self.name]
        torch.manual_seed(1)
        network = normalised(case.task)
        return case.build(network=network, statistics=DEFINED[case.task], learning_rate=0.1)

    def __call__(self, rank: int, world: int) -> Any:
        case, module, size = CASES[self.name], self.build(), 2 if self.length < 100 else 64
        running = trainer(devices=world, strategy=DDPStrategy(process_group_backend="gloo"), num_sanity_val_steps=2)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            running.fit(module, TensorLoader(case.rows(0, 23), 4, True), TensorLoader(case.rows(1, self.length), size))
            seen = [self._seen("val", running, module)]
            running.test(module, TensorLoader(case.rows(2, self.length), size), verbose=False)
            seen.append(self._seen("test", running, module))
        words = [str(each.message) for each in said if "LeafSpec" not in str(each.message)]
        return {"seen": seen, "said": words, "weights": module.state_dict()}

    def _seen(self, stage: str, running: Trainer, module: Classifier) -> dict[str, Any]:
        with ranks.recorded() as collectives:
            cells, loss = ranks.cells(module.evaluation(stage)), exact_loss(module, stage)
        return {"values": values(running, stage), "cells": cells, "loss": loss, "collectives": collectives}


def lost_nothing(rank: int, world: int) -> Any:
    """A loss that every rank adds to in its own way, one of them not at all."""
    metric = MeanLoss()
    for batch in range(rank):
        metric.update(torch.arange(1.0 + batch) + rank, torch.arange(1.0 + batch) + 1)
    with ranks.recorded() as first:
        value = metric.compute().item()
    with ranks.recorded() as again:
        metric.compute()
    metric.reset()
    metric.update(torch.full((rank + 1,), 0.1, dtype=torch.float64))
    return {"value": value, "first": first, "again": again, "count": metric.global_totals.integers.tolist()}


def plain_loaders(rank: int, world: int) -> Any:
    """DataLoaders with two of them in validation: Lightning pads, but the ranks keep in step."""
    warnings.simplefilter("ignore")
    case = CASES["binary"]
    module = case.build(statistics=["accuracy"])
    running = trainer(devices=world, strategy=DDPStrategy(process_group_backend="gloo"))
    sets = [case.rows(1, 12 * world), case.rows(2, 6 * world)]
    running.fit(module, loader(case.rows(0), 4), [loader(rows, 4) for rows in sets])
    return [ranks.cells(module.evaluation("val", place)) for place in range(2)]


def quoted_names(rank: int, world: int) -> Any:
    """Lightning's advice to join ranks, which are joined already, quotes names in its own way."""
    module = CASES["multiclass"].build(class_names=["it's", '"b"', "c", "d"], per_class=True)
    running = trainer(devices=world, strategy=DDPStrategy(process_group_backend="gloo"))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        running.validate(module, TensorLoader(CASES["multiclass"].rows(1), 16), verbose=False)
    return [str(each.message) for each in said if "It is recommended" in str(each.message)]


SCENES: ranks.Scenes = {
    "quoted_names": quoted_names,
    **{f"{name}-{length}": Trained(name, length) for name, length in SHARED},
    "lost_nothing": lost_nothing,
    "plain_loaders": plain_loaders,
}


def two_processes(scenes: ranks.Scenes) -> ranks.Found:
    """Play the scenes on two ranks; Lightning takes too long to import for more of them."""
    with tempfile.TemporaryDirectory() as folder:
        context = torch.multiprocessing.start_processes(
            process, args=(folder,), nprocs=PAIR, join=False, start_method="forkserver"
        )
        deadline = time.monotonic() + 3 * ranks.PATIENCE.total_seconds()
        try:
            while not context.join(timeout=1):
                assert time.monotonic() < deadline, "the ranks did not finish."
        finally:
            for each in context.processes:
                each.kill()
        results = [torch.load(f"{folder}/{rank}", weights_only=False) for rank in range(PAIR)]
    return {PAIR: {scene: [each[scene] for each in results] for scene in scenes}}


def process(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    os.environ.update(LOCAL_RANK=str(rank), NODE_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT="1")
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    meeting = f"file://{folder}/meeting"
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=PAIR, timeout=ranks.PATIENCE)
    torch.save({name: ranks._played(scene, rank, PAIR) for name, scene in SCENES.items()}, f"{folder}/{rank}")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> ranks.Found:
    """What every rank returned; the processes run once for all tests, also where tests run in several processes."""
    folder = tmp_path_factory.getbasetemp()
    folder = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "modules_on_ranks"
    folder.mkdir(exist_ok=True)
    with mock.patch.object(ranks, "run", two_processes):
        return ranks.run_once(SCENES, folder)


def played(found: ranks.Found, scene: str) -> list[Any]:
    failed = [result for result in found[PAIR][scene] if isinstance(result, str)]
    assert not failed, "\n".join(failed)
    return found[PAIR][scene]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "length"), SHARED)
def test_ranks_evaluate_as_one_process(found: ranks.Found, name: str, length: int) -> None:
    case, results = CASES[name], played(found, f"{name}-{length}")
    module = Trained(name, length).build()
    for result in results:
        module.load_state_dict(results[0]["weights"])
        module.eval()
        assert result["said"] == []
        for seed, seen in enumerate(result["seen"], start=1):
            rows = case.rows(seed, length)
            assert seen["cells"] == case.expected_cells(module, rows)
            assert seen["collectives"] == []
            loss = case.expected_loss(module, rows)
            assert seen["loss"] == pytest.approx(loss, rel=1e-12, nan_ok=True)
            wanted = {name: value for name, value in SKLEARN[case.task] if name in DEFINED[case.task]}
            given_weight = {"sample_weight": rows[2].numpy()} if case.weighted else {}
            said = case.decided(module, rows[0])
            expected = {name: float(of(rows[1].numpy(), said, **given_weight)) for name, of in wanted.items()}
            assert seen["values"] == {"loss": near(loss), **{key: near(value) for key, value in expected.items()}}


@pytest.mark.slow
def test_losses_of_all_ranks_are_added_by_one_collective(found: ranks.Found) -> None:
    pairs = [(loss + rank, loss + 1) for rank in range(PAIR) for batch in range(rank) for loss in range(batch + 1)]
    mean = sum(loss * weight for loss, weight in pairs) / sum(weight for _, weight in pairs)
    for result in played(found, "lost_nothing"):
        assert result["value"] == near(mean)
        assert result["first"] == ["all_reduce"]
        assert result["again"] == []
        assert result["count"] == [sum(range(1, PAIR + 1)), PAIR]


@pytest.mark.slow
def test_ranks_keep_several_dataloaders_apart(found: ranks.Found) -> None:
    case = CASES["binary"]
    for result in played(found, "plain_loaders"):
        expected = [case.rows(1, 12 * PAIR), case.rows(2, 6 * PAIR)]
        assert result == [case.expected_cells(case.build(), rows) for rows in expected]


@pytest.mark.slow
def test_no_name_makes_lightning_advise_to_join_ranks(found: ranks.Found) -> None:
    assert played(found, "quoted_names") == [[]] * PAIR


# ---- the mean of losses

numbers = st.lists(
    st.tuples(st.integers(-1_000, 1_000), st.integers(0, 16), st.integers(0, 3)), min_size=1, max_size=30
)
"""Losses in eighths, weights in quarters, and the batch of each: sums without rounding."""


def added(triples: list[tuple[float, float]], metric: MeanLoss | None = None) -> MeanLoss:
    metric = metric or MeanLoss()
    metric.update(*torch.tensor(triples, dtype=torch.float64).reshape(-1, 2).unbind(1))
    return metric


def sums(metric: MeanLoss) -> list[Any]:
    return metric.totals.reals.tolist()


@given(numbers)
def test_a_mean_does_not_depend_on_order_batches_or_merging(drawn: list[tuple[int, int, int]]) -> None:
    pairs = [(loss / 8, weight / 4) for loss, weight, _ in drawn]
    whole = added(pairs)
    expected = [sum(loss * weight for loss, weight in pairs), sum(weight for _, weight in pairs)]
    assert sums(whole) == sums(added(pairs[::-1])) == expected
    batched, merged = MeanLoss(), MeanLoss()
    for place in range(4):
        part = [pair for pair, (*_, batch) in zip(pairs, drawn, strict=True) if batch == place]
        added(part, batched)
        merged.merge_state(added(part))
    assert sums(batched) == sums(merged) == expected
    there = sum(weight > 0 for _, weight in pairs)  # what weighs nothing is not
    assert batched.totals.integers.tolist() == merged.totals.integers.tolist() == [there, 4]
    mean = expected[0] / expected[1] if expected[1] else math.nan
    assert whole.compute().item() == pytest.approx(mean, rel=1e-6, nan_ok=True)


@given(numbers)
def test_a_weight_is_a_number_of_repetitions(drawn: list[tuple[int, int, int]]) -> None:
    repeated = [(loss / 8, 1.0) for loss, weight, _ in drawn for _ in range(weight)]
    weighted = [(loss / 8, float(weight)) for loss, weight, _ in drawn]
    assert sums(added(weighted)) == sums(added(repeated))
    plain = MeanLoss()
    plain.update(torch.tensor([loss for loss, _ in repeated], dtype=torch.float64))
    assert sums(plain) == sums(added(weighted))


@pytest.mark.parametrize("lost", [1e30, math.inf, -math.inf, math.nan])
def test_what_weighs_nothing_is_not_there(lost: float) -> None:
    assert sums(added([(2.0, 1.0), (lost, 0.0), (4.0, 3.0)])) == [14.0, 4.0]


@pytest.mark.parametrize("lost", [math.inf, -math.inf, math.nan])
def test_losses_that_are_no_numbers_show(lost: float) -> None:
    metric = added([(2.0, 1.0), (lost, 1.0)])
    added([(2.0, 1.0)], metric)
    assert metric.compute().item() == pytest.approx(lost, nan_ok=True)
    metric.reset()
    assert added([(2.0, 1.0)], metric).compute().item() == 2.0


def test_a_loss_that_is_no_number_shows_in_an_epoch() -> None:
    class Breaking(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.where(x[:, 0] > 0, math.inf, 0.5) * x[:, 1]

    case, running = CASES["binary"], trainer()
    module, rows = case.build(network=Breaking()), case.rows(1)
    running.validate(module, loader(rows), verbose=False)
    assert math.isnan(case.expected_loss(module, rows))  # infinity less infinity, in torch too
    assert math.isnan(values(running, "val")["loss"])


def test_many_small_losses_are_all_added() -> None:
    """A float32 sum of a hundred thousand tenths is off by more than 1e-5; sums of 2**24 ones stop growing."""
    metric = MeanLoss()
    for _ in range(100):
        metric.update(torch.full((1_000,), 0.1))
    assert metric.totals.reals[0].item() == pytest.approx(1e5 * float(torch.tensor(0.1)), rel=1e-12)
    metric.update(torch.ones(2), torch.tensor([2.0**24, 1.0]))
    assert metric.totals.reals[1].item() == 1e5 + 2**24 + 1


@pytest.mark.parametrize(
    "cast",
    [
        lambda metric: metric.to(torch.bfloat16),
        lambda metric: metric.half(),
        lambda metric: metric.bfloat16(),
        lambda metric: metric.set_dtype(torch.float16),
        lambda metric: nn.ModuleList([metric]).to(torch.bfloat16)[0],
    ],
)
def test_a_cast_does_not_touch_the_sums(cast: Callable[[MeanLoss], MeanLoss]) -> None:
    metric = cast(added([(1.001, 257.0)]))
    for _ in range(300):
        metric.update(torch.ones(1, dtype=torch.bfloat16))
    assert metric.totals.reals.dtype == torch.float64
    assert sums(metric) == [pytest.approx(1.001 * 257 + 300, rel=1e-12), 557.0]


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_losses_of_any_precision_and_shape_are_added(kind: torch.dtype) -> None:
    metric = MeanLoss()
    metric.update(torch.full((2, 3), 0.5, dtype=kind), torch.ones(2, 3, dtype=torch.int64))
    metric.update(torch.tensor(4.0, dtype=kind))
    metric.update(torch.zeros(0, dtype=kind))
    assert sums(metric) == [7.0, 7.0]
    assert metric.compute() == torch.tensor(1.0)
    assert metric.compute().dtype == torch.float32


@pytest.mark.parametrize(
    ("given_losses", "said"),
    [
        ((torch.ones(3, dtype=torch.int64),), r"expected losses of a floating-point type, got torch\.int64\.$"),
        (
            (torch.ones(3), torch.ones(2)),
            r"expected a weight for every loss, shape \(3,\) on cpu, got \(2,\) on cpu: "
            r"use the loss function's reduction='none'\.$",
        ),
        ((torch.tensor(1.0), torch.ones(2)), r"shape \(\) on cpu, got \(2,\) on cpu"),
        ((torch.ones(3), torch.ones(3, 1)), r"shape \(3,\) on cpu, got \(3, 1\) on cpu"),
        ((torch.ones(3), torch.ones(3, device="meta")), r"shape \(3,\) on cpu, got \(3,\) on meta"),
        (
            (torch.ones(3, device="meta"),),
            r"expected tensors on cpu, where the metric is, got meta: call \.to",
        ),
    ],
)
def test_wrong_losses_are_refused_and_change_nothing(given_losses: tuple[Tensor, ...], said: str) -> None:
    metric = added([(2.0, 1.0)])
    before = sums(metric), metric.update_count
    with pytest.raises(InputError, match=said):
        metric.update(*given_losses)
    assert (sums(metric), metric.update_count) == before
    assert metric.compute().item() == 2.0


def test_losses_are_not_counted() -> None:
    with pytest.raises(InputError, match=r"losses are added up, not counted: an evaluation has counts\.$"):
        _ = added([(2.0, 1.0)]).counts


def test_a_mean_of_nothing_is_undefined_and_says_so() -> None:
    with pytest.warns(UserWarning, match="``compute`` method of MeanLoss was called before any ``update``"):
        assert math.isnan(MeanLoss().compute().item())


def test_forward_gives_the_batch_and_keeps_the_sum() -> None:
    metric = added([(2.0, 1.0)])
    assert metric(torch.tensor([5.0, 7.0]), torch.tensor([1.0, 3.0])).item() == 6.5
    assert sums(metric) == [28.0, 5.0]


def test_no_graph_is_kept_alive() -> None:
    metric, losses = MeanLoss(), torch.ones(3, requires_grad=True)
    metric.update(losses * 2)
    assert not metric.totals.reals.requires_grad
    with torch.inference_mode():
        metric.update(torch.ones(3))
    metric.update(torch.ones(3))
    assert sums(metric) == [12.0, 9.0]


def test_sums_go_through_copies_and_checkpoints() -> None:
    metric = added([(2.0, 1.0), (4.0, 3.0)])
    for duplicate in (copy.deepcopy(metric), metric.clone(), pickle.loads(pickle.dumps(metric))):
        added([(1.0, 1.0)], duplicate)
        assert sums(duplicate) == [15.0, 5.0]
    assert metric.state_dict() == {}
    metric.persistent(True)
    file, loaded = io.BytesIO(), MeanLoss()
    torch.save(metric.state_dict(), file)
    file.seek(0)
    loaded.load_state_dict(torch.load(file, weights_only=True))
    assert sums(loaded) == sums(metric) == [14.0, 4.0]
    assert loaded.compute().item() == 3.5


@pytest.mark.slow
@pytest.mark.usefixtures("_no_graph_of_another_test")
def test_losses_are_added_in_one_graph() -> None:
    from torch._dynamo.testing import CompileCounter

    metric, graphs = MeanLoss(), CompileCounter()

    @partial(torch.compile, fullgraph=True, backend=graphs)
    def step(losses: Tensor, weights: Tensor) -> None:
        metric.update(losses, weights)

    for number in range(20):
        step(torch.full((8,), float(number)), torch.ones(8))
        metric.compute()
    assert graphs.frame_count == 1
    assert sums(metric) == [8.0 * sum(range(20)), 160.0]


def test_a_lower_loss_is_better() -> None:
    assert MeanLoss.higher_is_better is False


# ---- the share of the worst


def carried(losses: Tensor, weights: Tensor, worst: float) -> tuple[float, float]:
    """The share of the loss that the worst carry, sample by sample, and how far a histogram may be off.

    Where the share ends within a bin, its losses are taken to be equal: they are within 1/128 of each other.
    """
    left, taken, last = worst * float(weights.sum()), 0.0, 0.0
    for place in losses.argsort(descending=True).tolist():
        part = min(left, float(weights[place]))
        if part > 0:
            taken, left, last = taken + part * float(losses[place]), left - part, float(losses[place])
    total = float((losses * weights).sum())
    return taken / total, worst * float(weights.sum()) * last / 128 / total


@pytest.mark.parametrize("worst", [0.001, 0.01, 0.3, 1.0])
@pytest.mark.parametrize("spread", [0.1, 3.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_worst_carry_their_share(worst: float, spread: float, weighted: bool) -> None:
    losses = (torch.randn(1_000) * spread).exp()
    weights = torch.randint(0, 4, (1_000,)).double() if weighted else torch.ones(1_000).double()
    metric, other = WorstLossShare(worst), WorstLossShare(worst)
    for part in range(0, 500, 125):
        metric.update(losses[part : part + 125], weights[part : part + 125])
    other.update(losses[500:], weights[500:])
    metric.merge_state(other)
    share, uncertain = carried(losses.double(), weights, worst)
    assert metric.compute().item() == pytest.approx(share, abs=uncertain + 1e-6)
    mean = float((losses.double() * weights).sum() / weights.sum())
    assert metric.counter.mean(metric.totals).item() == pytest.approx(mean, rel=1e-12)


def test_an_outlier_carries_the_loss() -> None:
    """Two of three samples are predicted with 0.9, one with 0.1: it carries ln 10 of ln 10 - 2 ln 0.9."""
    metric = WorstLossShare(worst=1 / 3)
    metric.update(-torch.tensor([0.9, 0.1, 0.9]).double().log())
    assert metric.compute().item() == pytest.approx(math.log(10) / (math.log(10) + 2 * -math.log(0.9)), rel=1e-6)


@every_task
def test_a_module_reports_the_share_of_the_worst(case: Case) -> None:
    module, running, rows = case.build(worst=0.1), trainer(), case.rows(1)
    running.validate(module, [loader(rows, 7), loader(rows, 64)], verbose=False)
    found = module.loss(module.arranged(case.logits(module, rows[0])), rows[1])
    share, uncertain = carried(found.values, found.weights, 0.1)
    for place in range(2):
        reported = values(running, "val")[f"loss_of_worst/dataloader_idx_{place}"]
        assert reported == pytest.approx(share, abs=uncertain + 1e-6)
    assert "loss_of_worst" not in values(running, "train")


@pytest.mark.parametrize("worst", [0.0, -0.1, 1.5, math.nan])
def test_a_share_of_more_than_all_or_of_nothing_is_refused(worst: float) -> None:
    said = rf"expected worst, a share of the samples, to be a number in \(0, 1\], got {worst}\.$"
    with pytest.raises(DeclarationError, match=said):
        WorstLossShare(worst)
    with pytest.raises(DeclarationError, match=said):
        BinaryClassifier(num_features=2, worst=worst)
