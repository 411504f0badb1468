"""From one command to the next: what a training says at its end, and tests and predictions of the run it left."""

from __future__ import annotations

import re
import shutil
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.loggers import CSVLogger
from rich.console import Console
from sklearn.metrics import accuracy_score
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lightning_evalkit.cli import main, run_folders
from lightning_evalkit.cli.heads import Head
from lightning_evalkit.cli.predictions import Predictions
from lightning_evalkit.cli.progress_bar import OneLineProgressBar
from lightning_evalkit.cli.training import launched
from lightning_evalkit.data import ImbalancedDataModule, MulticlassDataModule
from lightning_evalkit.modules import BinaryClassifier

pytestmark = [
    # About Lightning's use of jsonargparse, the machine and the tiny trainings of these tests.
    pytest.mark.filterwarnings("ignore::jsonargparse._deprecated.JsonargparseDeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The '[a-z_]+_dataloader' does not have many workers"),
    pytest.mark.filterwarnings("ignore:The number of training batches .* is smaller than the logging interval"),
    pytest.mark.filterwarnings("ignore:.* is 0/0"),
]

Capture = pytest.CaptureFixture[str]
OWN = __name__
QUIET = ("--trainer.accelerator=cpu", "--trainer.enable_model_summary=false", "--trainer.enable_progress_bar=false")
SMALL = ("--data.train_size=300", "--data.val_size=100", "--data.test_size=120", "--data.batch_size=50")
MONITORING = (
    "--trainer.callbacks=[{class_path: ModelCheckpoint, init_args: {monitor: val/loss, mode: max, save_top_k: 2}}]"
)
"""The best is the first epoch, not the last."""
BINARY = ("--model=BinaryClassifier", "--data=ImbalancedDataModule", "--data.prevalence=0.3")


class Left:
    """A training of an experiment in a folder of its own, and what it printed."""

    def __init__(self, folder: Path, out: StringIO) -> None:
        self.root = folder / "runs"
        place = f"--trainer.default_root_dir={self.root}"
        words = ["fit", "--config", "accuracy_equals_f1/imbalanced", "--data.prevalence=0.3", *SMALL, *QUIET]
        assert main([*words, place, MONITORING, "--trainer.max_epochs=3", "--trainer.num_sanity_val_steps=0"]) == 0
        self.out = out.getvalue()
        [self.folder] = [path.parent for path in self.root.rglob("config.yaml")]
        saved = sorted(self.folder.rglob("*.ckpt"))
        assert len(saved) == 2
        self.best = saved[0]  # epoch=0


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Left:
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as out:
        patch.setenv("COLUMNS", "80")
        return Left(tmp_path_factory.mktemp("left"), out)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def copied(left: Left, tmp_path: Path) -> Path:
    """The run's folder, moved elsewhere."""
    return Path(shutil.copytree(left.root, tmp_path / "moved"))


def measured_in_test(*words: str) -> dict[str, float]:
    ended = launched(["test", *words, *QUIET])
    return {name: float(value) for name, value in ended.trainer.callback_metrics.items()}


# ---- the summary


def test_a_training_says_question_numbers_files_and_the_next_command(left: Left):
    assert max(len(line) for line in left.out.splitlines() if str(left.root) not in line) <= 80
    said = " ".join(left.out.split())
    assert "Question: when do accuracy and F1 part? Expected: accuracy is near 0.95" in said
    rows = re.findall(r"^ *(\w+) +[\d.]+ +[\d.]+ +([\d.]+)$", left.out, re.M)
    assert re.search(r"^ +train +val +test$", left.out, re.M)
    measured = measured_in_test("--config", str(left.folder / "config.yaml"), "--ckpt_path", str(left.best))
    of_test = {f"test/{name}": float(value) for name, value in rows}
    assert of_test == pytest.approx(measured, abs=6e-5), "of the best checkpoint, not of the last epoch"
    assert f"Found: accuracy {measured['test/accuracy']:.4g}, F1 {measured['test/f1']:.4g}; recall" in said
    assert f"\nCheckpoint: {left.best}\n" in left.out
    assert f"\nRun:        {left.folder}\n" in left.out
    assert left.out.endswith(f"\nNext:       evalkit predict --run {left.folder}\n")


def test_the_next_command_works(left: Left, capsys: Capture):
    [words] = re.findall(r"^Next: +evalkit (.*)$", left.out, re.M)
    assert main([*words.split(), *QUIET, "--output", "here.csv"]) == 0
    assert "Predictions: here.csv\n" in capsys.readouterr().out
    assert len(pandas.read_csv("here.csv")) == 120


def test_a_test_of_a_run_repeats_its_question(left: Left, capsys: Capture):
    assert main(["test", "--run", str(left.folder), *QUIET, "--trainer.logger=false"]) == 0
    out = capsys.readouterr().out
    assert "Question:   when do accuracy and F1 part?" in out
    assert "Found:      accuracy " in out
    assert f"\nCheckpoint: {left.best}\n" in out


def test_a_validation_of_a_run_says_what_it_found(left: Left, capsys: Capture):
    assert main(["validate", "--run", str(left.folder), *QUIET, "--trainer.logger=false"]) == 0
    out = capsys.readouterr().out
    accuracy = re.findall(r"^ *accuracy +([\d.]+)$", out, re.M)[0]
    assert f"Found:      in validation accuracy {float(accuracy):.4g}, F1 " in out


def test_only_what_a_command_measured_is_said_to_be_found():
    head = Head("?", "!", "threshold {val/threshold}; cost in test {test/cost}; recall {test/recall}, {val/recall}.")
    assert head.finding({"test/cost": 0.25, "test/recall": 0.5}) == "cost in test 0.25."
    assert head.finding({"val/cost": 0.2, "val/recall": 0.5}) == "in validation recall 0.5, 0.5."
    assert head.finding({"val/threshold": 0.1}) == "threshold 0.1."
    assert head.finding({"train/loss": 1.0}) == ""


def test_an_own_configuration_is_not_tested_and_undefined_is_said(capsys: Capture):
    few = ("--data.train_size=40", "--data.val_size=40", "--data.test_size=40", "--trainer.max_epochs=1")
    words = ["fit", *BINARY, *few, *QUIET, "--trainer.callbacks=[{class_path: ModelCheckpoint}]"]
    assert main([*words, "--model.learning_rate=1e-9", "--model.threshold=1.0"]) == 0
    out = capsys.readouterr().out
    assert "Question" not in out
    assert re.search(r"^ *precision +0/0 +0/0$", out, re.M), "nobody is above 1"
    [following] = re.findall(r"^Next: +evalkit test --run (\S+)$", out, re.M)
    assert (Path(following) / "config.yaml").is_file()


# ---- configuration and checkpoint of a run


def test_a_run_gives_configuration_and_best_checkpoint(left: Left, copied: Path):
    expected = measured_in_test("--config", str(left.folder / "config.yaml"), "--ckpt_path", str(left.best))
    model = BinaryClassifier.load_from_checkpoint(left.best).eval()
    features, target = ImbalancedDataModule(prevalence=0.3, train_size=300, val_size=100, test_size=120).ready.test
    with torch.no_grad():
        right = accuracy_score(target, (model(features) > 0).int())
    assert expected["test/accuracy"] == pytest.approx(right, abs=1e-6)
    for folder in (left.folder, left.root, copied):
        assert measured_in_test("--run", str(folder), "--trainer.logger=false") == expected
    validated = launched(["validate", f"--run={left.root}", *QUIET, "--trainer.logger=false"])
    assert validated.trainer.ckpt_path == str(left.best)


def test_options_beat_those_of_the_run(left: Left):
    ended = launched(["test", "--data.test_size=60", "--run", str(left.folder), *QUIET, "--trainer.logger=false"])
    assert len(ended.datamodule.ready.test[1]) == 60
    assert ended.datamodule.prevalence == 0.3


def test_the_last_of_several_runs_is_taken_and_a_test_is_none(left: Left, copied: Path):
    assert measured_in_test("--run", str(copied), f"--trainer.default_root_dir={copied}", "--data.test_size=60")
    place = f"--trainer.default_root_dir={copied}"
    later = launched(["fit", "--config", str(left.folder / "config.yaml"), place, "--trainer.max_epochs=1", *QUIET])
    ended = launched(["test", "--run", str(copied), *QUIET, "--trainer.logger=false"])
    assert Path(ended.trainer.ckpt_path).parent.parent == Path(later.trainer.log_dir)
    assert len(ended.datamodule.ready.test[1]) == 120


def told(capsys: Capture, *words: str) -> str:
    capsys.readouterr()
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1), err
    return err


def test_a_run_is_called_by_its_version_alone(left: Left):
    assert left.folder == left.root / "version_0", "TensorBoard shows this path beside every line"
    assert [*left.folder.glob("events.out.*")]


def test_own_versions_of_a_folder_come_before_runs_below_it(copied: Path, tmp_path: Path):
    shutil.copytree(copied, tmp_path / "all" / "other")
    shutil.copytree(copied / "version_0", tmp_path / "all" / "version_3")
    assert run_folders.found(str(tmp_path / "all")).configuration.parent == tmp_path / "all" / "version_3"


@pytest.mark.parametrize("options", [{"logger": False}, {"barebones": True}, {"logger": [CSVLogger("here")]}])
def test_only_the_default_logger_is_replaced(options: dict[str, Any]):
    assert run_folders.with_short_run_names(options) is options
    given = run_folders.with_short_run_names({"logger": True, "default_root_dir": "there"})["logger"]
    assert (given.save_dir, given.name, given.log_dir) == ("there", "", "there/version_0")


def test_what_is_no_run_is_told(left: Left, copied: Path, tmp_path: Path, capsys: Capture):
    assert "got 'nowhere', which is no folder" in told(capsys, "test", "--run", "nowhere")
    (tmp_path / "empty").mkdir()
    assert "it is without a config.yaml" in told(capsys, "test", "--run=empty")
    shutil.copytree(copied, tmp_path / "two" / "other")
    shutil.move(copied, tmp_path / "two" / "moved")
    line = told(capsys, "predict", "--run", "two")
    assert "two has several runs, expected one: --run two/moved, two/other." in line
    for path in (tmp_path / "two" / "other").rglob("*.ckpt"):
        path.unlink()
    assert "it is without a checkpoint" in told(capsys, "test", "--run", "two/other")
    assert "--run: expected one argument" in told(capsys, "test", "--run")
    assert "no option --run of fit: to resume a run" in told(capsys, "fit", "--run", str(left.folder))
    assert "no option --output of test" in told(capsys, "test", "--output=x.csv")


@pytest.mark.parametrize("command", ["validate", "test", "predict"])
def test_without_a_checkpoint_only_on_request(command: str, capsys: Capture):
    words = [command, *BINARY, *SMALL, *QUIET]
    line = told(capsys, *words)
    assert "expected a trained model: --run FOLDER" in line
    assert "--untrained continues without one" in line
    assert "only the process that trained knows which was best" in told(capsys, *words, "--ckpt_path=best")
    assert not list(Path().rglob("version_*"))
    assert main([*words, "--untrained"]) == 0
    summary = capsys.readouterr().out
    assert ("numbers of an untrained model (--untrained)" in summary) == (command != "predict")


def test_a_logger_that_asks_for_a_folder(capsys: Capture):
    line = told(capsys, "fit", *BINARY, "--trainer.logger=CSVLogger")
    assert line == "evalkit fit: trainer.logger: CSVLogger asks for save_dir: --trainer.logger.save_dir VALUE.\n"


# ---- calls that fail


class Failing(BinaryClassifier):
    """Fails in a step."""

    def __init__(self, num_features: int, after: int = 0) -> None:
        super().__init__(num_features)
        self.left = after

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        self.left -= 1
        if self.left < 0:
            raise RuntimeError("as asked for")
        return super().training_step(batch, batch_idx)


@pytest.mark.parametrize("logger", ["TensorBoardLogger", "CSVLogger"])
def test_a_call_that_fails_leaves_no_folder_and_one_that_learnt_does(logger: str):
    words = [*BINARY[1:], *SMALL, *QUIET, f"--trainer.logger={logger}", "--trainer.logger.save_dir=logs"]
    words += ["--trainer.callbacks=[{class_path: ModelCheckpoint, init_args: {save_on_exception: true}}]"]
    launched(["fit", BINARY[0], *words, "--trainer.max_epochs=1"])
    for after, expected in ((0, ["version_0"]), (2, ["version_0", "version_1"])):
        with pytest.raises(RuntimeError, match="as asked for"):
            launched(["fit", f"--model={OWN}.Failing", f"--model.after={after}", *words])
        assert sorted(path.name for path in Path("logs").glob("*/*")) == expected


# ---- predictions


def read(path: str) -> pandas.DataFrame:
    return pandas.read_csv(path) if path.endswith("csv") else pandas.read_parquet(path)


@pytest.mark.parametrize("output", ["p.csv", "p.parquet"])
def test_binary_predictions(left: Left, output: str):
    ended = launched(["predict", "--run", str(left.folder), "--output", output, *QUIET, "--trainer.logger=false"])
    frame = read(output)
    assert list(frame) == ["row", "score", "label", "target"]
    features, target = ended.datamodule.ready.test
    with torch.no_grad():
        logits = BinaryClassifier.load_from_checkpoint(left.best).eval()(features)
    assert frame.row.tolist() == list(range(120))
    np.testing.assert_allclose(frame.score, logits.sigmoid(), atol=1e-6)
    assert frame.label.tolist() == (logits > 0).int().tolist()
    assert frame.target.tolist() == target.tolist()


class Named(MulticlassDataModule):
    class_names = ("cat", "dog", "cow")


MANY: dict[str, tuple[list[str], list[str]]] = {
    "classes": (
        ["--model=MulticlassClassifier", f"--data={OWN}.Named", "--data.num_classes=3"],
        ["score_cat", "score_dog", "score_cow", "label", "target"],
    ),
    "labels": (
        ["--model=MultilabelClassifier", "--data=MultilabelDataModule", "--data.num_labels=2", "--model.threshold=0.3"],
        ["score_0", "score_1", "label_0", "label_1", "target_0", "target_1"],
    ),
    "thresholds": ([*BINARY, "--model.threshold=[0.2, 0.9]"], ["score", "label@0.2", "label@0.9", "target"]),
}


@pytest.mark.parametrize("kind", MANY)
def test_predictions_of_other_tasks(kind: str):
    words, names = MANY[kind]
    ended = launched(["predict", *words, *SMALL, *QUIET, "--untrained", "--output=p.csv"])
    frame = read("p.csv")
    assert list(frame) == ["row", *names]
    features, target = ended.datamodule.ready.test
    with torch.no_grad():
        scores = ended.model.probabilities(ended.model.eval()(features))
    np.testing.assert_allclose(frame.filter(regex="^score"), scores.reshape(len(frame), -1), atol=1e-6)
    if kind == "classes":
        assert frame.label.tolist() == [Named.class_names[place] for place in scores.argmax(1)]
        assert frame.target.tolist() == [Named.class_names[place] for place in target]
    elif kind == "labels":
        assert frame[["label_0", "label_1"]].to_numpy().tolist() == (scores > 0.3).int().tolist()
        assert frame[["target_0", "target_1"]].to_numpy().tolist() == target.tolist()
    else:
        assert frame["label@0.2"].tolist() == (scores > 0.2).int().tolist()
        assert frame["label@0.9"].tolist() == (scores > 0.9).int().tolist()


def test_rows_of_a_file_are_those_of_the_file(tmp_path: Path):
    frame = pandas.DataFrame({"x": np.arange(40.0), "y": np.arange(40) % 2})
    frame.loc[5, "x"] = None
    frame.to_csv("data.csv", index=False)
    words = ["--model=BinaryClassifier", "--data=TabularDataModule", "--data.path=data.csv", "--data.target=y"]
    with pytest.warns(UserWarning, match="1 of 40 rows have gaps"):
        launched(["predict", *words, "--data.missing=drop", "--data.standardise=false", *QUIET, "--untrained"])
    [path] = Path().rglob("predictions.csv")
    found = read(str(path))
    assert found.target.tolist() == frame.y[found.row].tolist()
    assert len(found) == 8


class Foreign(LightningModule):
    """A user's own module, whose batches come from a DataLoader."""

    def __init__(self, form: str = "tensor") -> None:
        super().__init__()
        self.layer, self.form = nn.Linear(2, 1), form

    def predict_step(self, batch: Any, batch_idx: int) -> Any:
        scores: Tensor = self.layer(batch[0])
        return {"tensor": scores, "dict": {"logits": scores, "depth": batch[0][:, 0]}, "texts": ["a", "b"]}[self.form]

    def predict_dataloader(self) -> DataLoader[Any]:
        rows = torch.arange(14.0).view(7, 2)
        return DataLoader(TensorDataset(rows, torch.arange(7)), batch_size=3)


@pytest.mark.parametrize(("form", "names"), [("tensor", ["score"]), ("dict", ["score", "depth"]), ("texts", None)])
def test_own_modules_are_written_as_far_as_they_are_scores(form: str, names: list[str] | None):
    written = Predictions()
    quiet: dict[str, Any] = dict.fromkeys(("logger", "enable_progress_bar", "enable_checkpointing"), False)
    trainer = Trainer(accelerator="cpu", callbacks=[written], **quiet)
    trainer.predict(Foreign(form), return_predictions=False)
    if names is None:
        with pytest.warns(UserWarning, match="expected predict_step to return scores, .* got list"):
            assert torch.load(written.write(None, Path(), 0, 1), weights_only=True) == [["a", "b"]] * 3
        return
    frame = read(str(written.write(None, Path(), 1, 2)))
    assert Path("predictions_1.csv").is_file(), "one of several processes"
    assert list(frame) == ["row", *names, "target"]
    assert frame.row.tolist() == frame.target.tolist() == list(range(7))


def test_an_output_of_another_kind_is_refused(capsys: Capture):
    line = told(capsys, "predict", *BINARY, "--untrained", "--output=p.xlsx")
    assert "expected a file that ends in .csv or .parquet, got 'p.xlsx'" in line


# ---- the progress bar


def test_a_progress_bar_stays_on_one_line(monkeypatch: pytest.MonkeyPatch):
    """With more numbers than fit, as a terminal of 80 columns would show it."""
    shown: list[str] = []
    stop = OneLineProgressBar._stop_progress

    def looked_at(bar: OneLineProgressBar) -> None:
        if bar.progress is not None and not bar._progress_stopped:
            console = Console(file=StringIO(), width=80)
            console.print(bar.progress.get_renderable())
            shown.append(console.file.getvalue())  # type: ignore[attr-defined]
        stop(bar)

    monkeypatch.setattr(OneLineProgressBar, "_stop_progress", looked_at)
    monkeypatch.setenv("COLUMNS", "80")
    words = [*BINARY, *SMALL, *QUIET[:2], "--trainer.max_epochs=2", "--trainer.logger=false", MONITORING]
    ended = launched(["fit", *words])
    assert any(isinstance(each, OneLineProgressBar) for each in ended.trainer.callbacks)
    [lines] = [text.splitlines() for text in shown if "Epoch" in text]
    assert [line.split()[0] for line in lines] == ["Epoch"]
    assert len(lines[0].rstrip()) <= 80
    assert re.search(r"val/accuracy: \d\.\d+ val/f1: \d\.\d+", lines[0])
    assert "…" in lines[0], "there was more to show"


def test_whoever_configures_a_bar_has_that_one():
    words = ["fit", *BINARY, *SMALL, "--trainer.accelerator=cpu", "--trainer.fast_dev_run=1"]
    ended = launched([*words, "--trainer.callbacks=[{class_path: TQDMProgressBar}]"])
    assert not any(isinstance(each, OneLineProgressBar) for each in ended.trainer.callbacks)
