"""evalkit fit, validate, test and predict: configurations, checkpoints, interruptions, and every wrong use in one line.

Most calls are made in this process, as the command line is: importing Lightning takes longer than these trainings.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
import torch
import yaml
from lightning.pytorch import Callback, LightningDataModule, LightningModule
from lightning.pytorch.callbacks import ModelCheckpoint
from sklearn import metrics as sklearn
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lightning_evalkit.callbacks import ExactResume, TensorBoardReport
from lightning_evalkit.cli import main
from lightning_evalkit.cli.training import launched
from lightning_evalkit.data import (
    BalancedDataModule,
    ImbalancedDataModule,
    MulticlassDataModule,
    MultilabelDataModule,
)
from lightning_evalkit.modules import BinaryClassifier, MulticlassClassifier, MultilabelClassifier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lightning_evalkit.cli.training import EvalkitCLI

pytestmark = [
    # About the tiny trainings of these tests.
    pytest.mark.filterwarnings("ignore:The dirpath has changed from"),
    pytest.mark.filterwarnings("ignore:.* is 0/0"),
]

Capture = pytest.CaptureFixture[str]
OWN = __name__
BALANCED = ("--model", "BinaryClassifier", "--data", "BalancedDataModule")
IMBALANCED = ("--model", "BinaryClassifier", "--data", "ImbalancedDataModule", "--data.prevalence", "0.1")
LEARNING = (*IMBALANCED, "--data.prevalence=0.3", "--model.hidden=[8]", "--model.learning_rate=0.1")
"""Learns enough in two epochs for every statistic to be defined."""
SMALL = ("--data.train_size=200", "--data.val_size=101", "--data.test_size=100", "--data.batch_size=50")
TINY = ("--data.train_size=100", "--data.val_size=50", "--data.test_size=50")
SILENT = (
    "--trainer.accelerator=cpu",
    "--trainer.enable_progress_bar=false",
    "--trainer.enable_model_summary=false",
    "--trainer.callbacks=[{class_path: ModelCheckpoint, init_args: {save_on_exception: true}}]",
)
"""Without reports: drawing figures takes longer than these trainings."""
DRY = ("--trainer.accelerator=cpu", "--trainer.fast_dev_run=1", "--trainer.enable_model_summary=false")


# ---- a user's own classes, named by import path


class Own(LightningModule):
    """Knows its width by itself."""

    def __init__(self, width: int = 3, rate: float = 0.1) -> None:
        super().__init__()
        self.layer, self.rate = nn.Linear(width, 1), rate
        self.save_hyperparameters()

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        features, target = batch
        return ((self.layer(features).squeeze(1) - target) ** 2).mean()

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("val_loss", self.training_step(batch, batch_idx))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), self.rate)


class Asking(Own):
    """Asks how many features there are."""

    def __init__(self, num_features: int, rate: float = 0.1) -> None:
        super().__init__(num_features, rate)


class OwnData(LightningDataModule):
    """Says nothing about itself."""

    def __init__(self, width: int = 3) -> None:
        super().__init__()
        self.width = width

    def train_dataloader(self) -> DataLoader[Any]:
        return DataLoader(TensorDataset(torch.ones(20, self.width), torch.ones(20)), batch_size=5)

    val_dataloader = train_dataloader


class Telling(OwnData):
    """Says how many features it has."""

    @property
    def num_features(self) -> int:
        return self.width


class NamedClasses(MulticlassDataModule):
    """Classes with names."""

    class_names: ClassVar[list[str]] = ["cat", "dog", "cow"]


class NamedLabels(MultilabelDataModule):
    """Labels with names."""

    label_names: ClassVar[list[str]] = ["wet", "old"]


class Net(nn.Module):
    """A network that a configuration describes."""

    def __init__(self, width: int, deep: int = 1) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(width, width) for _ in range(deep)), nn.Linear(width, 1))

    def forward(self, features: Tensor) -> Tensor:
        logits: Tensor = self.layers(features)
        return logits


class Interrupting(Callback):
    """Presses Ctrl-C in the middle of a stage."""

    def __init__(self, hook: str = "on_train_batch_start", after: int = 0) -> None:
        self.left = after
        setattr(self, hook, self._press)

    def _press(self, *_: Any) -> None:
        self.left -= 1
        if self.left < 0:
            os.kill(os.getpid(), signal.SIGINT)


# ---- calling


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every call in an empty folder of its own, away from the repository."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fit(*arguments: str, epochs: int = 2, small: tuple[str, ...] = SMALL) -> EvalkitCLI:
    return launched(["fit", *arguments, *small, *SILENT, f"--trainer.max_epochs={epochs}"])


def numbers(ended: EvalkitCLI, stage: str = "") -> dict[str, float]:
    return {name: float(value) for name, value in ended.trainer.callback_metrics.items() if name.startswith(stage)}


def called(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    """The exit code, standard output and standard error of a call in this process."""
    try:
        code = main(arguments)
    except SystemExit as stopped:
        code = int(stopped.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


def printed(capsys: Capture, *arguments: str) -> dict[str, Any]:
    """The configuration that a command would run with."""
    code, out, err = called(capsys, *arguments, "--print_config")
    assert (code, err) == (0, "")
    configuration: dict[str, Any] = yaml.safe_load(out)
    return configuration


def written(name: str, content: Any) -> str:
    Path(name).write_text(content if isinstance(content, str) else yaml.safe_dump(content), encoding="utf-8")
    return name


class Run:
    """A training with a checkpoint, and its numbers."""

    def __init__(self, folder: Path) -> None:
        self.ended = fit(*LEARNING, f"--trainer.default_root_dir={folder}")
        self.log_dir = Path(self.ended.trainer.log_dir or "")
        self.configuration = self.log_dir / "config.yaml"
        [self.checkpoint] = (str(path) for path in self.log_dir.rglob("*.ckpt"))

    def replace(self, command: str, *arguments: str) -> EvalkitCLI:
        words = [command, *LEARNING, f"--ckpt_path={self.checkpoint}"]
        return launched([*words, *SMALL, *SILENT, *arguments])


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


# ---- checkpoints


def test_validate_gives_the_numbers_of_the_training(run: Run):
    assert numbers(run.replace("validate"), "val/") == numbers(run.ended, "val/")


def test_test_gives_the_numbers_of_scikit_learn(run: Run):
    measured = numbers(run.replace("test"))
    features, target = run.ended.datamodule.ready.test
    model = BinaryClassifier.load_from_checkpoint(run.checkpoint).eval()
    with torch.no_grad():
        called_positive = (model(features) > 0).int()
    assert measured["test/accuracy"] == pytest.approx(sklearn.accuracy_score(target, called_positive), abs=1e-6)
    assert measured["test/f1"] == pytest.approx(sklearn.f1_score(target, called_positive), abs=1e-6)
    assert measured["test/recall"] == pytest.approx(sklearn.recall_score(target, called_positive), abs=1e-6)


@pytest.mark.parametrize("command", ["validate", "test", "predict"])
def test_other_commands_read_the_saved_configuration(run: Run, command: str, tmp_path: Path):
    place = f"--trainer.default_root_dir={tmp_path}"
    ended = launched([command, "--config", str(run.configuration), f"--ckpt_path={run.checkpoint}", place])
    weights = torch.load(run.checkpoint, weights_only=True)["state_dict"]["network.0.weight"]
    assert ended.model.network[0].weight.equal(weights)


def test_options_beat_what_the_checkpoint_says(run: Run):
    """A checkpoint carries hyperparameters; whoever asks for another threshold gets another threshold."""
    features, target = run.ended.datamodule.ready.test
    with torch.no_grad():
        probabilities = run.ended.model.eval()(features).sigmoid()
    threshold = float(probabilities.quantile(0.8))
    measured = numbers(run.replace("test", f"--model.threshold={threshold}", "--model.statistics=[accuracy, recall]"))
    assert set(measured) == {"test/loss", "test/accuracy", "test/recall"}
    expected = sklearn.recall_score(target, (probabilities > threshold).int())
    assert measured["test/recall"] == pytest.approx(expected, abs=1e-6)
    assert measured["test/recall"] != pytest.approx(numbers(run.replace("test"))["test/recall"], abs=1e-6)


def test_what_is_not_said_comes_from_the_checkpoint(run: Run):
    """The hidden layer need not be repeated."""
    ended = launched(["test", *LEARNING[:7], f"--ckpt_path={run.checkpoint}", *SMALL, *SILENT])
    assert numbers(ended) == numbers(run.replace("test"))


@pytest.mark.parametrize("callbacks", [(), ("--trainer.callbacks=ModelCheckpoint",)], ids=["the base's", "own"])
def test_no_checkpoint_is_saved_where_none_is_wanted(callbacks: tuple[str, ...], tmp_path: Path):
    quick = (*TINY, *SILENT[:3], "--trainer.max_epochs=1", f"--trainer.default_root_dir={tmp_path}")
    ended = launched(["fit", *BALANCED, *quick, *callbacks, "--trainer.enable_checkpointing=false"])
    assert ended.trainer.checkpoint_callbacks == []
    assert ended.trainer.global_step > 0
    assert [*tmp_path.rglob("*.ckpt")] == []
    assert any(isinstance(each, ExactResume) for each in ended.trainer.callbacks)


@pytest.mark.parametrize(
    ("network", "layers"),
    [
        (("--model.network=torch.nn.Linear", "--model.network.in_features=16", "--model.network.out_features=1"), 1),
        ((f"--model.network={OWN}.Net", "--model.network.width=16", "--model.network.deep=2"), 3),
    ],
    ids=["torch's", "own"],
)
def test_a_described_network_is_built_again_from_a_checkpoint(network: tuple[str, ...], layers: int, tmp_path: Path):
    ended = fit(*BALANCED, *network, f"--trainer.default_root_dir={tmp_path}", small=TINY)
    [checkpoint] = tmp_path.rglob("*.ckpt")
    plain = torch.load(checkpoint, weights_only=True)["hyper_parameters"]
    assert plain["network"]["class_path"] == network[0].partition("=")[2]
    again = BinaryClassifier.load_from_checkpoint(checkpoint)
    assert sum(isinstance(each, nn.Linear) for each in again.modules()) == layers
    features = ended.datamodule.ready.test[0]
    assert again.eval()(features).equal(ended.model.eval()(features))


# ---- processes and signals


def started(*arguments: str, folder: Path) -> subprocess.Popen[str]:
    """The command as a process that listens to Ctrl-C, whoever started this one."""
    return subprocess.Popen(
        [sys.executable, "-m", "lightning_evalkit.cli", *arguments],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def ended_with(process: subprocess.Popen[str], timeout: float = 120) -> tuple[int, str, str]:
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        process.kill()
    return process.returncode, out, err


def waited_for(process: subprocess.Popen[str], ready: Callable[[], object], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not ready() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    assert process.poll() is None, process.communicate()
    assert ready()


@pytest.mark.slow
def test_two_processes_count_as_one_does(run: Run, tmp_path: Path):
    """101 validation rows cannot be shared out evenly: counting one twice would change every number."""
    two = ("--trainer.devices=2", "--trainer.strategy=ddp", f"--trainer.default_root_dir={tmp_path}")
    words = [*LEARNING, f"--ckpt_path={run.checkpoint}", *SMALL, *SILENT, *two]
    code, out, err = ended_with(started("validate", *words, "--verbose=true", folder=tmp_path))
    assert code == 0, err
    assert "GLOBAL_RANK: 1, MEMBER: 2/2" in err
    table = {name: float(value) for name, value in re.findall(r"(val/\w+)\s*│\s*([-\d.e]+)", out)}
    assert table == pytest.approx(numbers(run.ended, "val/"), abs=1e-6)


@pytest.mark.slow
# It may be interrupted anywhere in an epoch, also behind its last batch.
@pytest.mark.filterwarnings("ignore:You're resuming from a checkpoint that ended before the epoch ended")
@pytest.mark.filterwarnings("ignore:The ``compute`` method of .* was called before any ``update``")
def test_an_interrupted_training_leaves_a_checkpoint_to_go_on_from(tmp_path: Path):
    place = f"--trainer.default_root_dir={tmp_path}"
    words = (*IMBALANCED, *SMALL, *SILENT[:-1], place, "--trainer.max_epochs=1000000")
    process = started("fit", *words, folder=tmp_path)
    waited_for(process, lambda: list(tmp_path.rglob("*.ckpt")))
    process.send_signal(signal.SIGINT)
    code, _, err = ended_with(process)
    assert code == 130, err
    assert "Traceback" not in err
    assert err.splitlines()[-1] == "evalkit fit: interrupted; what was done so far is kept."
    newest = max(tmp_path.rglob("*.ckpt"), key=lambda path: torch.load(path, weights_only=True)["global_step"])
    epoch = torch.load(newest, weights_only=True)["epoch"]
    resumed = fit(*IMBALANCED, f"--ckpt_path={newest}", place, epochs=epoch + 2)
    assert resumed.trainer.current_epoch == epoch + 2


@pytest.fixture
def own_handler() -> Iterator[Any]:
    """Something to be restored."""
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield signal.default_int_handler
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("command", "hook", "after"),
    [
        ("fit", "on_train_batch_start", 5),
        ("fit", "on_validation_batch_start", 0),
        ("test", "on_test_batch_start", 0),
        ("predict", "on_predict_batch_start", 0),
    ],
)
def test_control_c_is_code_130_and_one_line(
    capsys: Capture, own_handler: Any, command: str, hook: str, after: int, tmp_path: Path
):
    callback = f"{{class_path: {OWN}.Interrupting, init_args: {{hook: {hook}, after: {after}}}}}"
    saving = "{class_path: ModelCheckpoint, init_args: {save_on_exception: true}}"
    words = [*BALANCED, *TINY, "--data.batch_size=50", *SILENT[:-1], f"--trainer.default_root_dir={tmp_path}"]
    words += [] if command == "fit" else ["--untrained"]
    code, _, err = called(capsys, command, *words, f"--trainer.callbacks=[{callback}, {saving}]")
    assert code == 130
    assert err == f"evalkit {command}: interrupted; what was done so far is kept.\n"
    assert signal.getsignal(signal.SIGINT) is own_handler, "the next Ctrl-C works too"
    assert bool(list(tmp_path.rglob("*.ckpt"))) is (hook == "on_train_batch_start"), "what was learnt is kept"


# ---- wrong use

ALMOST = "model: BinaryClassifier\ndata: BalancedDataModule\n"


def told(capsys: Capture, command: str, *arguments: str) -> str:
    """The one line of a call that cannot work."""
    code, out, err = called(capsys, command, *arguments)
    assert (code, out) == (2, ""), err
    assert err.startswith(f"evalkit {command}: ")
    assert err.count("\n") == 1, err
    assert len(err) < 1000
    return err


@pytest.mark.parametrize(
    ("arguments", "wrong", "offered"),
    [
        (("--model=BinaryClasifier", "--data=BalancedDataModule"), "BinaryClasifier", "BinaryClassifier"),
        (("--model=BinaryClassifier", "--data=BalancdDataModule"), "BalancdDataModule", "BalancedDataModule"),
        ((*BALANCED, "--optimizer=SDG"), "SDG", "SGD"),
        ((*BALANCED, "--trainer.logger=TensorBordLogger"), "TensorBordLogger", "TensorBoardLogger"),
        ((*BALANCED, "--trainer.callbacks=EarlyStoping"), "EarlyStoping", "EarlyStopping"),
        ((*BALANCED, "--model.learning_rat=0.1"), "learning_rat", "learning_rate"),
        ((*BALANCED, "--data.train_sise=5"), "train_sise", "train_size"),
        ((*BALANCED, "--optimizer=SGD", "--optimizer.momentun=1"), "momentun", "momentum"),
        ((f"--model={OWN}.Own", "--model.widht=3", f"--data={OWN}.OwnData"), "widht", "width"),
        ((*BALANCED, "--model.statistics=[acuracy]"), "acuracy", "accuracy"),
    ],
)
def test_the_nearest_name_is_offered(capsys: Capture, arguments: tuple[str, ...], wrong: str, offered: str):
    err = told(capsys, "fit", *arguments)
    assert f"'{wrong}'" in err
    _, _, offer = err.partition("did you mean ")
    assert f"'{offered}'" in offer


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ((*BALANCED, "--data.prevalence=0.2"), "prevalence"),
        (("--model=BinaryClassifier", "--data=MultilabelClassifier"), "MultilabelClassifier"),
    ],
    ids=["an option of its base", "a class of another kind"],
)
def test_what_was_refused_is_not_offered(capsys: Capture, arguments: tuple[str, ...], wrong: str):
    err = told(capsys, "fit", *arguments)
    before, _, offer = err.partition(": did you mean ")
    assert f"'{wrong}'" in before
    assert f"'{wrong}'" not in offer


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("--model.learning_rate=fast", ("model.learning_rate", "float", "fast")),
        ("--model.loss=hinge", ("model.loss", "'cross_entropy', 'focal'", "hinge")),
        ("--model.hidden=8", ("model.hidden", "tuple", "8")),
        ("--model.statistics=accuracy", ("model.statistics", "list", "accuracy")),
        ("--model.threshold=high", ("model.threshold", "float", "high")),
        ("--data.train_size=3.5", ("data.train_size", "int", "3.5")),
        ("--trainer.max_epochs=many", ("trainer.max_epochs", "int", "many")),
        ("--trainer.precision=12", ("trainer.precision", "bf16-mixed", "12")),
        ("--seed_everything=many", ("seed_everything", "int", "many")),
        ("--optimizer=SGD --optimizer.lr=fast", ("optimizer.lr", "float", "fast")),
        ("--model.learning_rate=-1", ("learning_rate above 0", "-1")),
        ("--model.pos_weight=0", ("weights of a loss above 0", "0")),
        ("--model.hidden=[0]", ("at least one unit", "0")),
        ("--data.train_size=101", ("even number of rows", "101")),
        ("--data.separability=2", ("separability in [0.5, 1)", "2")),
        ("--seed_everything=-1", ("-1",)),
        ("--optimizer=SGD --optimizer.lr=-1", ("learning rate", "-1")),
        ("--trainer.max_epochs=-5", ("max_epochs", "-5")),
        ("--trainer.accelerator=abacus", ("accelerator", "abacus", "cpu")),
        ("--trainer.strategy=dpp", ("strategy", "dpp", "ddp")),
        ("--trainer.devices=0", ("devices", "0")),
        ("--ckpt_path=missing.ckpt", ("missing.ckpt",)),
        ("--ckpt_path=.", ("directory",)),
        ("--config=missing.yaml", ("missing.yaml",)),
        ("--config=.", (".",)),
        ("--frobnicate=1", ("--frobnicate",)),
        ("something", ("something",)),
        ("--config", ("--config", "expected one argument")),
    ],
)
def test_wrong_values_are_one_readable_line(capsys: Capture, arguments: str, expected: tuple[str, ...]):
    err = told(capsys, "fit", *BALANCED, *TINY, *arguments.split())
    for words in expected:
        assert words in err
    assert "NoneType" not in err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is one here")
def test_an_accelerator_that_is_not_there(capsys: Capture):
    assert "gpu" in told(capsys, "fit", *BALANCED, "--trainer.accelerator=gpu")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("model: [1, 2\n", ("wrong.yaml", "line 2")),
        ("- 1\n- 2\n", ("wrong.yaml",)),
        ("hello\n", ("wrong.yaml",)),
        (ALMOST + "modle: 3\n", ("modle",)),
        (ALMOST + "trainer:\n  max_epoch: 3\n", ("max_epoch",)),
        (ALMOST + "trainer: 3\n", ("trainer",)),
        ("model:\n  class_path: BinaryClassifier\n  init_arg: {}\ndata: BalancedDataModule\n", ("init_arg'",)),
        (
            "model:\n  class_path: BinaryClassifier\n  init_args: {learning_rat: 1}\ndata: BalancedDataModule\n",
            ("'learning_rat'", "'learning_rate'"),
        ),
        (
            "model:\n  class_path: BinaryClassifier\n  init_args:\n    network:\n      class_path: torch.nn.Linear\n"
            "      init_args: {in_features: 16, out_featurs: 1}\ndata: BalancedDataModule\n",
            ("network", "'out_featurs'", "'out_features'"),
        ),
        (
            ALMOST + "trainer:\n  callbacks:\n    - class_path: TensorBoardReport\n      init_args: {every: 3}\n",
            ("callbacks", "'every'", "'every_n_epochs'"),
        ),
    ],
    ids=["broken", "list", "word", "top", "trainer", "no mapping", "class", "options", "network", "callback"],
)
def test_a_wrong_configuration_is_one_readable_line(capsys: Capture, content: str, expected: tuple[str, ...]):
    err = told(capsys, "fit", "--config", written("wrong.yaml", content))
    for words in expected:
        assert words in err


def test_a_configuration_that_is_no_text(capsys: Capture):
    Path("wrong.yaml").write_bytes(b"\xff\xfe\x00")
    told(capsys, "fit", *BALANCED, "--config=wrong.yaml")


def test_a_checkpoint_that_is_none(capsys: Capture):
    assert "wrong.ckpt" in told(capsys, "test", *BALANCED, "--ckpt_path", written("wrong.ckpt", "nothing\n"))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--data=BalancedDataModule",), ("model",)),
        (("--model=BinaryClassifier",), ("data",)),
        (("--model.learning_rate=1", "--data=BalancedDataModule"), ("--model",)),
        (("--model=MultilabelClassifier", "--data=BalancedDataModule"), ("num_labels",)),
        ((f"--model={OWN}.Asking", f"--data={OWN}.OwnData"), ("num_features",)),
        (("--model=nowhere.Model", "--data=BalancedDataModule"), ("nowhere",)),
        ((f"--model={OWN}.Nothing", "--data=BalancedDataModule"), ("Nothing",)),
        ((f"--model={OWN}.OwnData", "--data=BalancedDataModule"), ("LightningModule",)),
    ],
    ids=["model", "data", "class", "labels", "features", "module", "attribute", "kind"],
)
def test_what_is_missing_is_named(capsys: Capture, arguments: tuple[str, ...], expected: tuple[str, ...]):
    err = told(capsys, "fit", *arguments)
    for words in expected:
        assert words in err
    assert "expected one of ." not in err


@pytest.mark.parametrize("command", ["validate", "test", "predict"])
def test_other_commands_complain_likewise(capsys: Capture, command: str):
    assert "'learning_rate'" in told(capsys, command, *BALANCED, "--model.learning_rat=1")


def test_an_unknown_command_is_no_traceback(capsys: Capture):
    code, out, err = called(capsys, "fti", *BALANCED)
    assert (code, out) == (2, "")
    assert "invalid choice: 'fti'" in err


def test_help_is_about_the_command(capsys: Capture):
    code, out, err = called(capsys, "fit", "--help")
    assert (code, err) == (0, "")
    for option in (
        "--config",
        "--print_config",
        "--model",
        "--data",
        "--optimizer",
        "--ckpt_path",
        "--trainer.devices",
    ):
        assert option in out


def test_nothing_is_written_beside_the_run(tmp_path: Path):
    fit(*BALANCED, f"--trainer.default_root_dir={tmp_path / 'here'}", small=TINY, epochs=1)
    assert [path.name for path in tmp_path.iterdir()] == ["here"]
    assert isinstance(BalancedDataModule(), LightningDataModule)
