"""Checkpoints, processes and signals of evalkit fit, and what is said of wrong use."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from cli_classes import (
    BALANCED,
    IMBALANCED,
    LEARNING,
    OWN,
    SILENT,
    SMALL,
    TINY,
    Capture,
    Run,
    called,
    fit,
    numbers,
    written,
)
from lightning.pytorch import LightningDataModule
from sklearn import metrics as sklearn
from torch import nn

from lightning_evalkit.callbacks import ExactResume
from lightning_evalkit.cli.training import launched
from lightning_evalkit.data import (
    BalancedDataModule,
)
from lightning_evalkit.modules import BinaryClassifier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


pytestmark = [
    # About the tiny trainings of these tests.
    pytest.mark.filterwarnings("ignore:The dirpath has changed from"),
    pytest.mark.filterwarnings("ignore:.* is 0/0"),
]


# ---- calling


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every call in an empty folder of its own, away from the repository."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run(tmp_path_factory.mktemp("run"))


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


def ended_with(process: subprocess.Popen[str], timeout: float = 240) -> tuple[int, str, str]:
    with process:  # closes its pipes and waits for its end, whatever happens
        try:
            out, err = process.communicate(timeout=timeout)
        finally:
            process.kill()
    return process.returncode, out, err


def waited_for(process: subprocess.Popen[str], ready: Callable[[], object], seconds: float = 240) -> None:
    end = time.monotonic() + seconds
    while not ready() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    if process.poll() is not None or not ready():
        process.kill()
        pytest.fail(f"it ended or never came so far: {process.communicate()}")


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
@pytest.mark.parametrize("lost", ["false", "true"], ids=["heard", "lost"])
def test_control_c_is_code_130_and_one_line(
    capsys: Capture, own_handler: Any, command: str, hook: str, after: int, lost: str, tmp_path: Path
):
    """Where all exceptions are caught it is heard at the next batch."""
    callback = f"{{class_path: {OWN}.Interrupting, init_args: {{hook: {hook}, after: {after}, lost: {lost}}}}}"
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
        ("--model.hidden=8", ("model.hidden", "expected a list, got 8")),
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
    assert err == "evalkit: there is no command 'fti': did you mean 'fit'?\n"


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
