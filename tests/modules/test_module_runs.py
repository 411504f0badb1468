"""Modules in a trainer: words of errors, checkpoints, other callbacks, precisions, compiled and on a graphics card."""

from __future__ import annotations

import copy
import math
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import ranks
import torch
from classifiers import (
    CASES,
    CLASSES,
    FEATURES,
    LABELS,
    QUIET,
    ROWS,
    Case,
    Flat,
    Witness,
    every_task,
    exact_loss,
    loader,
    near,
    one_of_many,
    trainer,
    values,
    yes_no,
)
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.cli import LightningCLI
from torch import Tensor, nn
from versions import STRICT, compiles, since

from lightning_evalkit.errors import DeclarationError, InputError, UndefinedWarning
from lightning_evalkit.modules import BinaryClassifier, MulticlassClassifier, MultilabelClassifier

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lightning_evalkit.modules.classifier import Classifier


pytestmark = [
    # About the tiny trainers of these tests.
    pytest.mark.filterwarnings("ignore:You defined a `validation_step` but have no `val_dataloader`"),
]


# ---- what is expected


every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


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
            running.fit(module, *map(loader, rows), ckpt_path=file, **STRICT)
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


@compiles
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


returns_views = since("torch", "2.7", "2.5 breaks the graph of a step, and its AOTAutograd cannot hand on the logits")


@pytest.mark.slow
@pytest.mark.usefixtures("_no_graph_of_another_test")
@pytest.mark.parametrize(
    ("task", "backend"),
    [pytest.param("binary", "aot_eager", marks=returns_views), ("multiclass", "eager"), ("multilabel", "eager")],
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
