"""What follows a training: folders and names of predictions, the step of a test, what is offered and what is said."""

from __future__ import annotations

import logging
import os
import pty
import shutil
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas
import pytest
import torch
from lightning.pytorch import LightningModule
from lightning.pytorch.loggers import CSVLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import nn

from lightning_evalkit.callbacks import TensorBoardReport
from lightning_evalkit.cli import main
from lightning_evalkit.cli.predictions import names_in
from lightning_evalkit.cli.training import launched
from lightning_evalkit.data import DigitsDataModule, TabularDataModule

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = [
    # About Lightning's use of jsonargparse, the machine and the tiny trainings of these tests.
    pytest.mark.filterwarnings("ignore::jsonargparse._deprecated.JsonargparseDeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The '[a-z_]+_dataloader' does not have many workers"),
    pytest.mark.filterwarnings("ignore:The number of training batches .* is smaller than the logging interval"),
    pytest.mark.filterwarnings("ignore:You passed in a `val_dataloader` but have no `validation_step`"),
    pytest.mark.filterwarnings("ignore:.* is 0/0"),
]

OWN = __name__
QUIET = ("--trainer.accelerator=cpu", "--trainer.enable_model_summary=false", "--trainer.enable_progress_bar=false")
ROWS, BATCHES, EPOCHS = 100, 6, 2  # 60 rows of training in batches of 10


def table() -> pandas.DataFrame:
    torch.manual_seed(0)
    answer = torch.arange(ROWS) % 3 == 0
    feature = torch.randn(ROWS) + 3 * answer
    return pandas.DataFrame({"x": feature.tolist(), "left": ["yes" if each else "no" for each in answer.tolist()]})


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a file of yes and no, and of a run that was trained on it."""
    folder = tmp_path_factory.mktemp("trained")
    table().to_csv(folder / "data.csv", index=False)
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()):
        patch.chdir(folder)
        assert main(["fit", "--model=BinaryClassifier", *of_the_file(), *QUIET, f"--trainer.max_epochs={EPOCHS}"]) == 0
    return folder


def of_the_file() -> Sequence[str]:
    words = ("--data=TabularDataModule", "--data.path=data.csv", "--data.target=left", "--data.positive=yes")
    return (*words, "--data.batch_size=10")


@pytest.fixture
def here(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of both, as the current folder."""
    place = Path(shutil.copytree(trained, tmp_path / "copy"))
    monkeypatch.chdir(place)
    return place


# ---- predictions


def test_predictions_of_a_run_are_in_its_folder_and_nothing_else_is_new(here: Path, capsys: pytest.CaptureFixture[str]):
    before = {*here.rglob("*")}
    assert main(["predict", "--run", "runs", *QUIET]) == 0
    assert {*here.rglob("*")} - before == {here / "runs" / "version_0" / "predictions.csv"}
    assert capsys.readouterr().out.endswith(f"Predictions: {Path('runs', 'version_0', 'predictions.csv')}\n")


def test_predictions_with_a_name_are_there_alone(here: Path):
    before = {*here.rglob("*")}
    assert main(["predict", "--run", "runs/version_0", *QUIET, "--output=mine.csv"]) == 0
    assert {*here.rglob("*")} - before == {here / "mine.csv"}


def test_two_values_are_called_as_in_the_file(here: Path):
    launched(["predict", "--run", "runs", *QUIET, "--output=mine.csv"])
    found, file = pandas.read_csv("mine.csv"), table()
    assert found.target.tolist() == file.left[found.row].tolist()
    assert found.label.tolist() == ["yes" if score > 0.5 else "no" for score in found.score]


class Data:
    class_names = ("cat", "dog")


@pytest.mark.parametrize(
    ("data", "names"), [(None, ()), (DigitsDataModule(), [*"0123456789"]), (Data(), Data.class_names)]
)
def test_names_are_those_that_the_data_module_knows(data: Any, names: Sequence[str]):
    assert names_in(data) == names


@pytest.mark.parametrize(
    ("written", "positive", "names"),
    [((0, 1), None, ()), (("no", "yes"), "no", ("yes", "no")), (("a", "b", "c"), None, ["a", "b", "c"])],
)
def test_zero_and_one_stay_numbers(written: Sequence[Any], positive: Any, names: Sequence[str], tmp_path: Path):
    values = [written[place % len(written)] for place in range(60)]
    pandas.DataFrame({"x": range(60), "y": values}).to_csv(tmp_path / "data.csv", index=False)
    data = TabularDataModule(str(tmp_path / "data.csv"), "y", positive=positive)
    data.setup("predict")
    assert names_in(data) == names


class Numbered(LightningModule):
    """Returns an integer that is no class."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 1)

    def predict_step(self, batch: Any, batch_idx: int) -> Any:
        scores = self.layer(batch[0]).squeeze(1)
        return {"logits": scores, "label": (scores > 0).long(), "part": torch.zeros(len(scores), dtype=torch.long)}


def test_an_own_module_has_its_labels_called_and_its_other_numbers_not(here: Path):
    launched(["predict", f"--model={OWN}.Numbered", *of_the_file(), *QUIET, "--untrained", "--output=mine.csv"])
    found = pandas.read_csv("mine.csv")
    assert list(found) == ["row", "score", "label", "part", "target"]
    assert found.label.tolist() == ["yes" if score > 0 else "no" for score in found.score]
    assert set(found.target) == {"yes", "no"}
    assert set(found.part) == {0}


# ---- a test of a run


def steps(folder: Path, name: str) -> set[int]:
    found = EventAccumulator(str(folder)).Reload()
    return {
        event.step for tag in found.Tags()[name] if "hparams" not in tag for event in getattr(found, name.title())(tag)
    }


def test_a_test_of_a_run_stands_at_the_end_of_its_curves(here: Path):
    for command in ("test", "validate"):
        launched([command, "--run", "runs/version_0", *QUIET])
    assert max(steps(here / "runs/version_0", "scalars")) == EPOCHS * BATCHES - 1
    for version in (1, 2):
        folder = here / f"runs/version_{version}"
        assert steps(folder, "scalars") == steps(folder, "images") == {EPOCHS * BATCHES}
        assert steps(folder / "f1", "scalars") == {EPOCHS * BATCHES}


# ---- a module without evaluations


class Stock(LightningModule):
    """A user's own module, without evaluations and without a test."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 1)

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        scores = self.layer(batch[0]).squeeze(1)
        return nn.functional.binary_cross_entropy_with_logits(scores, batch[1].float())

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 0.1)


class WithTest(Stock):
    def test_step(self, batch: Any, batch_idx: int) -> None:
        self.log("loss", self.training_step(batch, batch_idx))


class Validating(Stock):
    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("loss", self.training_step(batch, batch_idx))


class Naming(Stock):
    """Logs under names without a slash, one of which another name takes."""

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("val_loss", 0.25)
        self.log("val_f1", 0.5)
        self.log("val/f1", 0.75)


class Predicting(Validating):
    def predict_step(self, batch: Any, batch_idx: int) -> Any:
        return self.layer(batch[0])


@pytest.mark.parametrize(
    ("module", "following"),
    [("Stock", ""), ("Validating", "validate"), ("Predicting", "predict"), ("WithTest", "test")],
)
def test_only_what_a_module_can_is_offered_and_an_unwanted_report_is_silent(
    module: str, following: str, here: Path, capsys: pytest.CaptureFixture[str]
):
    """Warnings are errors: one of the report would end the training."""
    words = ["fit", f"--model={OWN}.{module}", *of_the_file(), *QUIET, "--trainer.max_epochs=1"]
    assert main([*words, "--trainer.default_root_dir=own"]) == 0
    out = capsys.readouterr().out
    folder = Path("own", "version_0")
    assert f"Run:        {folder}\n" in out
    offered = [line.split(maxsplit=1)[1] for line in out.splitlines() if line.startswith("Next:")]
    assert offered == ([f"evalkit {following} --run {folder}"] if following else [])
    if following == "validate":
        assert main(["validate", "--run", str(folder), *QUIET]) == 0
        assert "Next:" not in capsys.readouterr().out


def test_a_command_that_a_module_cannot_do_names_one_that_it_can(here: Path, capsys: pytest.CaptureFixture[str]):
    words = [f"--model={OWN}.Validating", *of_the_file(), *QUIET, "--trainer.max_epochs=1"]
    assert main(["fit", *words, "--trainer.default_root_dir=own"]) == 0
    capsys.readouterr()
    assert main(["test", "--run=own", *QUIET]) == 2
    expected = "evalkit test: Validating has no test_step: evalkit validate works here.\n"
    assert capsys.readouterr().err.endswith(expected)
    assert main(["predict", "--run=own", *QUIET]) == 2
    expected = "evalkit predict: Validating has no predict_step: evalkit validate works here.\n"
    assert capsys.readouterr().err.endswith(expected)
    assert main(["compare", "own", "own"]) == 2
    assert "for any other module a checkpoint keeps those of the callback Evaluate" in capsys.readouterr().err


def test_numbers_of_a_stage_are_in_its_column_under_either_form_of_name(here: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["fit", f"--model={OWN}.Naming", *of_the_file(), *QUIET, "--trainer.max_epochs=1"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    start = rows.index(["val"])
    assert rows[start + 1 : start + 4] == [["loss", "0.2500"], ["f1", "0.5000"], ["val/f1", "0.7500"]]


def test_a_report_that_was_added_says_what_it_misses(here: Path):
    words = ["fit", f"--model={OWN}.Stock", *of_the_file(), *QUIET, "--trainer.max_epochs=1"]
    with pytest.warns(UserWarning, match="TensorBoardReport could not find an evaluation"):
        launched([*words, "--trainer.callbacks+=TensorBoardReport"])


@pytest.mark.parametrize("optional", [True, False])
def test_a_report_without_tensorboard_warns_unless_it_is_optional(
    optional: bool, recwarn: pytest.WarningsRecorder, here: Path
):
    words = ["fit", "--model=BinaryClassifier", *of_the_file(), *QUIET, "--trainer.max_epochs=1"]
    words += ["--trainer.logger=CSVLogger", "--trainer.logger.save_dir=csv"]
    report = f"[{{class_path: TensorBoardReport, init_args: {{optional: {str(optional).lower()}}}}}]"
    ended = launched([*words, f"--trainer.callbacks={report}"])
    assert [type(logger) for logger in ended.trainer.loggers] == [CSVLogger]
    assert any(isinstance(each, TensorBoardReport) for each in ended.trainer.callbacks)
    told = [str(each.message) for each in recwarn if "expected a TensorBoardLogger" in str(each.message)]
    assert len(told) == (0 if optional else 1)


# ---- errors


@pytest.mark.skipif(sys.platform == "win32", reason="has no pseudo-terminals")
@pytest.mark.parametrize("columns", [80, 40])
def test_a_long_error_is_wrapped_between_words_in_a_terminal_and_one_line_in_a_pipe(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    words = ["predict", "--model=BinaryClassifier", "--data=BalancedDataModule"]
    assert main(words) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert len(line) > 120
    monkeypatch.setenv("COLUMNS", str(columns))
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        assert main(words) == 2
    shown = os.read(ours, 10_000).decode()
    os.close(ours)
    lines = shown.splitlines()
    assert len(lines) > 1
    assert max(map(len, lines)) < columns
    assert " ".join(shown.split()) == " ".join(line.split())


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--model=BinaryClassifier",), "expected --data CLASS, such as --data BalancedDataModule"),
        (("--data=BalancedDataModule",), "expected --model CLASS, such as --model BinaryClassifier"),
    ],
)
def test_what_is_lacking_is_named_as_it_is_written(
    words: tuple[str, ...], expected: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["fit", *words]) == 2
    assert capsys.readouterr().err == f"evalkit fit: {expected}, or a --config that names it.\n"


def test_tips_of_lightning_are_left_out_and_its_news_are_not(here: Path, caplog: pytest.LogCaptureFixture):
    for name in SPEAKERS:
        caplog.set_level(logging.INFO, name)
    launched(["fit", f"--model={OWN}.Telling", *of_the_file(), *QUIET, "--trainer.max_epochs=1"])
    assert caplog.messages.count("news") == len(SPEAKERS)
    assert not [line for line in caplog.messages if line.startswith("💡")]
    for name in SPEAKERS:
        logging.getLogger(name).info("💡 Tip: after the command")
    assert caplog.messages.count("💡 Tip: after the command") == len(SPEAKERS), "the loggers are as they were"


SPEAKERS = [f"{package}.utilities.rank_zero" for package in ("lightning.pytorch", "pytorch_lightning")]


class Telling(Stock):
    def on_fit_start(self) -> None:
        for name in SPEAKERS:
            logging.getLogger(name).info("💡 Tip: install this")
            logging.getLogger(name).info("news")
