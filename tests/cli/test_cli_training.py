"""evalkit fit, validate, test and predict: configurations, checkpoints, interruptions, and every wrong use in one line.

Most calls are made in this process, as the command line is: importing Lightning takes longer than these trainings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
import yaml
from cli_classes import (
    BALANCED,
    IMBALANCED,
    LEARNING,
    OWN,
    SILENT,
    TINY,
    Asking,
    Capture,
    Own,
    Run,
    called,
    fit,
    numbers,
    written,
)
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn

from lightning_evalkit.callbacks import TensorBoardReport
from lightning_evalkit.cli.training import launched
from lightning_evalkit.data import (
    ImbalancedDataModule,
)
from lightning_evalkit.modules import BinaryClassifier, MulticlassClassifier, MultilabelClassifier

if TYPE_CHECKING:
    from lightning_evalkit.cli.training import EvalkitCLI


pytestmark = [
    # About the tiny trainings of these tests.
    pytest.mark.filterwarnings("ignore:The dirpath has changed from"),
    pytest.mark.filterwarnings("ignore:.* is 0/0"),
]

DRY = ("--trainer.accelerator=cpu", "--trainer.fast_dev_run=1", "--trainer.enable_model_summary=false")


# ---- calling


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every call in an empty folder of its own, away from the repository."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def printed(capsys: Capture, *arguments: str) -> dict[str, Any]:
    """The configuration that a command would run with."""
    code, out, err = called(capsys, *arguments, "--print_config")
    assert (code, err) == (0, "")
    configuration: dict[str, Any] = yaml.safe_load(out)
    return configuration


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run(tmp_path_factory.mktemp("run"))


# ---- what is run


def test_short_class_names_with_options():
    ended = launched(["fit", *IMBALANCED, *TINY, *DRY])
    assert isinstance(ended.model, BinaryClassifier)
    assert isinstance(ended.datamodule, ImbalancedDataModule)
    assert ended.datamodule.ready.train[1].sum() == 10  # of 100


OTHER: dict[str, dict[str, Any]] = {
    "model": {
        "hidden": [3, 2],
        "network": {"class_path": f"{OWN}.Net", "init_args": {"width": 5, "deep": 2}},
        "loss": "focal",
        "pos_weight": 2.5,
        "statistics": ["accuracy", "f1"],
        "worst": 0.125,
    },
    "data": {"test_prevalence": 0.75},
    "trainer": {"max_epochs": 3, "precision": "bf16-mixed", "gradient_clip_val": 0.5, "max_time": "00:00:01:00"},
}
"""Values for fields that have none by themselves, or none with an obvious neighbour."""


def changed(value: Any) -> Any:
    """Another value of the same kind."""
    return not value if isinstance(value, bool) else value + 1 if isinstance(value, int) else value / 2


def test_every_field_of_model_and_data_can_be_overridden(capsys: Capture):
    classes = ["--model=BinaryClassifier", "--data=ImbalancedDataModule"]
    before = printed(capsys, "fit", *classes)
    expected = {part: dict(OTHER[part]) for part in OTHER}
    for part in ("model", "data"):
        plain = {name: value for name, value in before[part]["init_args"].items() if name not in OTHER[part]}
        expected[part] |= {name: changed(value) for name, value in plain.items()}
    words = [(f"--{part}.{name}", value) for part, fields in expected.items() for name, value in fields.items()]
    texts = [f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in words]
    shown = printed(capsys, "fit", *classes, *texts, "--seed_everything=9")
    assert shown["model"]["init_args"] == expected["model"]
    assert shown["data"]["init_args"] == expected["data"]
    assert shown["trainer"] == before["trainer"] | expected["trainer"]
    assert shown["seed_everything"] == 9


def test_a_configuration_is_laid_over_the_base(capsys: Capture):
    own = {"model": "BinaryClassifier", "data": "BalancedDataModule", "trainer": {"max_epochs": 3}}
    shown = printed(capsys, "fit", "--config", written("own.yaml", own))
    assert shown["seed_everything"] == 0
    assert shown["trainer"]["log_every_n_steps"] == 10
    assert shown["trainer"]["max_epochs"] == 3
    kinds = [each["class_path"].rpartition(".")[2] for each in shown["trainer"]["callbacks"]]
    assert kinds == ["TensorBoardReport", "ModelCheckpoint"]
    assert shown["trainer"]["callbacks"][1]["init_args"]["save_on_exception"] is True
    shown = printed(capsys, "fit", "--config", "own.yaml", "--trainer.max_epochs=4")
    assert shown["trainer"]["max_epochs"] == 4, "an option beats the configuration before it"


def test_callbacks_with_a_plus_are_added_to_those_of_the_base(capsys: Capture):
    own = {"model": "BinaryClassifier", "data": "BalancedDataModule"}
    for key, kept in (("callbacks+", ["TensorBoardReport", "ModelCheckpoint"]), ("callbacks", [])):
        added = {"trainer": {key: [{"class_path": "LossReport"}]}}
        shown = printed(capsys, "fit", "--config", written("own.yaml", own | added))
        kinds = [each["class_path"].rpartition(".")[2] for each in shown["trainer"]["callbacks"]]
        assert kinds == [*kept, "LossReport"]


def test_several_configurations_are_laid_over_each_other(capsys: Capture):
    first = written("first.yaml", {"model": "BinaryClassifier", "data": "BalancedDataModule", "seed_everything": 5})
    second = written("second.yaml", {"trainer": {"max_epochs": 2}, "seed_everything": 6})
    shown = printed(capsys, "fit", f"--config={first}", "-c", second)
    assert (shown["seed_everything"], shown["trainer"]["max_epochs"]) == (6, 2)
    assert shown["data"]["class_path"].endswith("BalancedDataModule")


def test_callbacks_of_the_base_run(tmp_path: Path):
    words = ["fit", *BALANCED, *TINY, "--trainer.accelerator=cpu", "--trainer.max_epochs=1"]
    ended = launched([*words, "--trainer.enable_progress_bar=false", f"--trainer.default_root_dir={tmp_path}"])
    assert {TensorBoardReport, ModelCheckpoint} <= {type(each) for each in ended.trainer.callbacks}
    assert list(tmp_path.rglob("events.out.tfevents*"))
    assert list(tmp_path.rglob("*.ckpt"))


@pytest.mark.parametrize(
    "arguments",
    [
        IMBALANCED,
        ("--config", "multilabel_accuracy/meanings"),
        (*BALANCED, f"--model.network={OWN}.Net", "--model.network.width=16", "--optimizer=SGD", "--optimizer.lr=0.1"),
        (f"--model={OWN}.Asking", f"--data={OWN}.Telling", "--lr_scheduler=StepLR", "--lr_scheduler.step_size=1"),
    ],
    ids=["options", "experiment", "network", "own"],
)
def test_printed_configuration_gives_the_same_configuration(capsys: Capture, arguments: tuple[str, ...]):
    shown = printed(capsys, "fit", *arguments)
    assert {"model", "data", "trainer"} <= set(shown)
    assert printed(capsys, "fit", "--config", written("shown.yaml", shown)) == shown


@pytest.mark.parametrize("name", ["{}", "{}.yaml", "experiments/{}", "experiments/{}.yaml"])
def test_experiments_are_found_by_name_from_any_folder(capsys: Capture, name: str):
    shown = printed(capsys, "fit", "--config", name.format("accuracy_equals_f1/imbalanced"))
    assert shown["data"]["init_args"]["prevalence"] == 0.1
    assert shown["trainer"]["default_root_dir"] == "runs/accuracy_equals_f1/imbalanced"


def test_a_file_here_comes_before_an_experiment_of_that_name(capsys: Capture):
    Path("accuracy_equals_f1").mkdir()
    own = {"model": "BinaryClassifier", "data": "BalancedDataModule", "seed_everything": 77}
    written("accuracy_equals_f1/imbalanced.yaml", own)
    assert printed(capsys, "fit", "--config", "accuracy_equals_f1/imbalanced.yaml")["seed_everything"] == 77


# ---- linked arguments


def widths(ended: EvalkitCLI) -> tuple[int, int]:
    """Of the network's input and output."""
    layers = [each for each in ended.model.network.modules() if isinstance(each, nn.Linear)]
    return layers[0].in_features, layers[-1].out_features


def test_a_binary_model_is_told_the_number_of_features():
    ended = launched(["fit", *BALANCED, "--data.num_features=7", *TINY, *DRY])
    assert widths(ended) == (7, 1)


def test_a_multiclass_model_is_told_classes_and_their_names():
    words = [
        "--model=MulticlassClassifier",
        f"--data={OWN}.NamedClasses",
        "--data.num_classes=3",
        "--data.num_features=9",
    ]
    ended = launched(["fit", *words, "--model.per_class=true", *TINY, *DRY])
    assert isinstance(ended.model, MulticlassClassifier)
    assert widths(ended) == (9, 3)
    assert {f"val/recall/{name}" for name in ("cat", "dog", "cow")} <= set(numbers(ended))


def test_a_multilabel_model_is_told_labels_and_their_names():
    words = [
        "--model=MultilabelClassifier",
        f"--data={OWN}.NamedLabels",
        "--data.num_labels=2",
        "--data.num_features=9",
    ]
    ended = launched(["fit", *words, "--model.per_label=true", *TINY, *DRY])
    assert isinstance(ended.model, MultilabelClassifier)
    assert widths(ended) == (9, 2)
    assert {"val/accuracy/wet", "val/accuracy/old"} <= set(numbers(ended))


@pytest.mark.parametrize(
    ("arguments", "width"),
    [
        (("--model={}.Own", "--data={}.OwnData"), 3),
        (("--model={}.Own", "--data={}.Telling"), 3),
        (("--model={}.Asking", "--data={}.Telling", "--data.width=4"), 4),
        (("--model={}.Asking", "--model.num_features=5", "--data={}.OwnData", "--data.width=5"), 5),
    ],
    ids=["neither", "only data", "both", "only model"],
)
def test_own_classes_with_and_without_num_features(arguments: tuple[str, ...], width: int):
    ended = launched(["fit", *(each.format(OWN) for each in arguments), *DRY, "--trainer.callbacks=[]"])
    assert isinstance(ended.model, Own)
    assert ended.model.layer.in_features == width


def test_own_classes_in_a_configuration(tmp_path: Path):
    own = {
        "model": {"class_path": f"{OWN}.Asking", "init_args": {"rate": 0.05}},
        "data": {"class_path": f"{OWN}.Telling", "init_args": {"width": 6}},
        "trainer": {"max_epochs": 1, "callbacks": [{"class_path": "ModelCheckpoint"}]},
    }
    quiet = ["--trainer.accelerator=cpu", "--trainer.enable_progress_bar=false", "--trainer.enable_model_summary=false"]
    place = f"--trainer.default_root_dir={tmp_path}"
    ended = launched(["fit", "--config", written("own.yaml", own), *quiet, place])
    assert (ended.model.layer.in_features, ended.model.rate) == (6, 0.05)
    [checkpoint] = tmp_path.rglob("*.ckpt")
    again = Asking.load_from_checkpoint(checkpoint)
    assert again.layer.weight.equal(ended.model.layer.weight)


# ---- training


def test_the_saved_configuration_repeats_the_run(run: Run, tmp_path: Path):
    again = launched(["fit", "--config", str(run.configuration), f"--trainer.default_root_dir={tmp_path}"])
    assert numbers(again) == numbers(run.ended)
    assert len(numbers(again, "val/")) == len(numbers(again, "train/")) == 8
    for name, weights in run.ended.model.state_dict().items():
        assert again.model.state_dict()[name].equal(weights), name


def test_another_seed_gives_other_numbers(run: Run, tmp_path: Path):
    words = ["fit", "--config", str(run.configuration), f"--trainer.default_root_dir={tmp_path}"]
    assert numbers(launched([*words, "--seed_everything=1"])) != numbers(run.ended)


def test_optimizer_and_scheduler_are_used():
    options = ["--optimizer=SGD", "--optimizer.lr=0.5", "--lr_scheduler=ExponentialLR", "--lr_scheduler.gamma=0.5"]
    whole = ("--data.train_size=60", "--data.val_size=40", "--data.test_size=40", "--data.batch_size=60")
    first = launched(["fit", *BALANCED, *whole, *SILENT, "--trainer.max_epochs=0", *options])
    weights = [each.detach().double() for each in first.model.network.parameters()]
    features, target = (part.double() for part in first.datamodule.ready.train)
    ended = launched(["fit", *BALANCED, *whole, *SILENT, "--trainer.max_epochs=3", *options])
    # Three steps of gradient descent by hand: the rate is halved after each, and a batch is the whole split.
    for rate in (0.5, 0.25, 0.125):
        errors = (features @ weights[0].squeeze(0) + weights[1]).sigmoid() - target
        weights[0] = weights[0] - rate * (errors @ features / len(target))
        weights[1] = weights[1] - rate * errors.mean()
    for trained, expected in zip(ended.model.network.parameters(), weights, strict=True):
        torch.testing.assert_close(trained.detach().double(), expected, rtol=0, atol=1e-5)


def test_resuming_is_the_training_that_was_not_interrupted(run: Run, tmp_path: Path):
    whole = fit(*LEARNING, f"--trainer.default_root_dir={tmp_path / 'whole'}", epochs=4)
    resumed = run.replace("fit", "--trainer.max_epochs=4", f"--trainer.default_root_dir={tmp_path / 'resumed'}")
    assert resumed.trainer.current_epoch == 4
    assert resumed.trainer.global_step == 4 * 4  # 200 rows in batches of 50
    assert numbers(resumed) == numbers(whole)
    assert numbers(resumed) != numbers(run.ended)
