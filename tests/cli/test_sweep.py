"""evalkit sweep: every cell once, whatever happens in between, and a summary that numpy agrees with.

What is asked of the bookkeeping is asked with trainings that are only recorded; real ones are few.
"""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
import yaml
from lightning.pytorch import Callback, LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lightning_evalkit.cli import main, nested_runs
from lightning_evalkit.cli.training import launched

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

pytestmark = [
    # About the tiny trainings of these tests.
    pytest.mark.filterwarnings("ignore:The dirpath has changed from"),
]

Capture = pytest.CaptureFixture[str]
OWN = __name__
CONFIGURED = ("--config", "accuracy_equals_f1/imbalanced")
SMALL = ("--data.train_size=200", "--data.val_size=100", "--data.test_size=100", "--data.batch_size=50")
CHEAP = (
    "--trainer.accelerator=cpu",
    "--trainer.max_epochs=1",
    "--trainer.callbacks=[{class_path: ModelCheckpoint}]",
)


class Own(LightningModule):
    """Has no test, and names its numbers in its own way."""

    def __init__(self, rate: float = 0.1) -> None:
        super().__init__()
        self.layer, self.rate = nn.Linear(3, 1), rate

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        features, target = batch
        return ((self.layer(features).squeeze(1) - target) ** 2).mean()

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("val/squared", self.training_step(batch, batch_idx))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), self.rate)


class OwnData(LightningDataModule):
    """Has nothing to test on."""

    def train_dataloader(self) -> DataLoader[Any]:
        return DataLoader(TensorDataset(torch.ones(20, 3), torch.ones(20)), batch_size=5)

    val_dataloader = train_dataloader


class Net(nn.Linear):
    """A network with an option."""

    def __init__(self, width: int = 16) -> None:
        super().__init__(width, 1)


class Interrupting(Callback):
    """Presses Ctrl-C when a test begins, but only where nothing was tested before."""

    def on_test_batch_start(self, trainer: Any, *_: Any) -> None:
        mark = Path("pressed")
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Recorded:
    """In the place of trainings: what was asked for, and numbers that follow from it."""

    def __init__(self) -> None:
        self.ran: list[dict[str, str]] = []
        self.failing: Callable[[dict[str, str]], bool] = lambda _: False
        self.failure: BaseException = RuntimeError("out of\nmemory")

    def __call__(self, arguments: Sequence[str], tell: Callable[[float], None]) -> tuple[None, dict[str, float]]:
        given = [word.removeprefix("--").partition("=") for word in arguments]
        options = {key: value for key, equals, value in given if equals}
        self.ran.append(options)
        tell(0.5)
        if self.failing(options):
            raise self.failure
        return None, self.numbers(float(options.get("data.prevalence", 0.5)), int(options.get("seed_everything", 0)))

    @staticmethod
    def numbers(prevalence: float, seed: int) -> dict[str, float]:
        noise = float(np.random.default_rng([seed, int(1000 * prevalence)]).normal())
        return {"val/loss": 1.0, "train/loss": 2.0, "test/accuracy": 1 - prevalence + noise / 7, "test/f1": noise}

    def values(self, *keys: str) -> list[tuple[str, ...]]:
        return [tuple(options[key] for key in keys) for options in self.ran]


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    fake = Recorded()
    monkeypatch.setattr(nested_runs, "fitted", fake)
    return fake


def sweep(*arguments: str, out: str = "swept") -> int:
    return main(["sweep", *CONFIGURED, *arguments, "--out", out])


def told(capsys: Capture, *arguments: str) -> str:
    """The one line of a call that cannot work."""
    code = sweep(*arguments)
    out, err = capsys.readouterr()
    assert (code, out) == (2, ""), err
    assert err.startswith("evalkit sweep: ")
    assert err.count("\n") == 1, err
    return err


def rows(name: str = "results.csv", out: str = "swept") -> list[dict[str, str]]:
    with Path(out, name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def cells(out: str = "swept") -> list[Path]:
    return sorted(Path(out, "cells").iterdir())


GRID = ("--grid", "data.prevalence=0.5,0.2", "--grid", "seed_everything=1,2,3")


# ---- the grid and its tables


def test_every_combination_is_run_once(recorded: Recorded, capsys: Capture):
    assert sweep(*GRID) == 0
    pairs = [(share, seed) for share in ("0.5", "0.2") for seed in ("1", "2", "3")]
    assert recorded.values("data.prevalence", "seed_everything") == pairs
    assert len({options["trainer.default_root_dir"] for options in recorded.ran}) == 6
    kept = rows()
    assert [(row["data.prevalence"], row["seed_everything"]) for row in kept] == pairs
    for row in kept:
        expected = Recorded.numbers(float(row["data.prevalence"]), int(row["seed_everything"]))
        assert float(row["test/accuracy"]) == expected["test/accuracy"], "in full precision"
        assert float(row["test/f1"]) == expected["test/f1"]
    assert "val/loss" not in kept[0], "the numbers of the test are what a sweep is about"
    assert "results.csv" in capsys.readouterr().out


def test_the_summary_is_mean_and_deviation_over_seeds(recorded: Recorded, capsys: Capture):
    assert sweep(*GRID) == 0
    shown = capsys.readouterr().out
    table = Path("swept/summary.md").read_text(encoding="utf-8")
    summary = rows("summary.csv")
    assert [(row["data.prevalence"], row["runs"]) for row in summary] == [("0.5", "3"), ("0.2", "3")]
    for row in summary:
        measured = [Recorded.numbers(float(row["data.prevalence"]), seed) for seed in (1, 2, 3)]
        for name in ("test/accuracy", "test/f1"):
            values = [each[name] for each in measured]
            mean, deviation = np.mean(values), np.std(values, ddof=1)
            assert float(row[f"{name} mean"]) == pytest.approx(mean, rel=1e-12)
            assert float(row[f"{name} deviation"]) == pytest.approx(deviation, rel=1e-12)
            assert f"| {mean:.4f} ± {deviation:.4f} |" in table
            assert f"{mean:.4f} ± {deviation:.4f}" in shown
    assert table.startswith("| data.prevalence | runs | test/accuracy | test/f1 |\n| ---: |")


def test_one_run_has_no_deviation(recorded: Recorded):
    assert sweep("--grid", "data.prevalence=0.5") == 0
    [row] = rows("summary.csv")
    assert (row["runs"], row["test/f1 deviation"]) == ("1", "")
    assert "±" not in Path("swept/summary.md").read_text(encoding="utf-8")


def test_seeds_of_the_data_are_repetitions_too(recorded: Recorded):
    assert sweep("--grid", "data.seed=1,2,3", "--grid", "model.pos_weight=1,2") == 0
    assert [(row["model.pos_weight"], row["runs"]) for row in rows("summary.csv")] == [("1", "3"), ("2", "3")]


def test_chosen_metrics(recorded: Recorded):
    assert sweep(*GRID, "--metrics", "test/f1,val/loss") == 0
    assert list(rows()[0]) == ["data.prevalence", "seed_everything", "test/f1", "val/loss"]
    assert sweep(*GRID) == 0
    assert list(rows()[0]) == ["data.prevalence", "seed_everything", "test/accuracy", "test/f1"]
    assert len(recorded.ran) == 6, "another selection is another table, not another training"


def test_numbers_that_are_undefined_stay_so(recorded: Recorded, monkeypatch: pytest.MonkeyPatch):
    undefined = {"test/f1": float("nan"), "test/mcc": 0.5}
    monkeypatch.setattr(recorded, "numbers", lambda _, seed: undefined if seed == 2 else {"test/f1": 1.0})
    assert sweep("--grid", "seed_everything=1,2") == 0
    assert sweep("--grid", "seed_everything=1,2") == 0, "and can be read again"
    assert [row["test/f1"] for row in rows()] == ["1.0", "nan"]
    assert [row["test/mcc"] for row in rows()] == ["", "0.5"]
    [summary] = rows("summary.csv")
    assert summary["test/f1 mean"] == "nan", "a mean over something undefined is not defined"
    assert summary["test/mcc mean"] == "0.5"


def test_results_of_cells_are_json_for_every_reader(recorded: Recorded, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(recorded, "numbers", lambda *_: {"test/f1": float("nan"), "test/mcc": float("inf")})
    assert sweep("--grid", "seed_everything=1") == 0
    [cell] = cells()

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    json.loads((cell / "result.json").read_text(encoding="utf-8"), parse_constant=refuse)


# ---- going on


def test_finished_cells_are_not_run_again(recorded: Recorded):
    assert sweep(*GRID) == 0
    before = {path: path.read_bytes() for path in Path("swept").rglob("*") if path.is_file()}
    assert sweep(*GRID) == 0
    assert len(recorded.ran) == 6
    assert before == {path: path.read_bytes() for path in Path("swept").rglob("*") if path.is_file()}
    assert sweep("--grid", "data.prevalence=0.5,0.2,0.1", "--grid", "seed_everything=1,2,3") == 0
    assert recorded.values("data.prevalence")[6:] == [("0.1",)] * 3
    assert len(rows()) == 9


@pytest.mark.parametrize("option", ["--model.pos_weight=3", "--trainer.max_epochs=7"])
def test_another_option_is_another_cell(recorded: Recorded, option: str):
    assert sweep("--grid", "seed_everything=1,2") == 0
    assert sweep("--grid", "seed_everything=1,2", option) == 0
    assert len(recorded.ran) == 4
    assert len(rows()) == 2, "the table is about what was asked for last"
    assert sweep("--grid", "seed_everything=1,2") == 0
    assert len(recorded.ran) == 4


def test_a_changed_configuration_is_run_again(recorded: Recorded):
    own = Path("own.yaml")
    words = ["sweep", "--config", str(own), "--grid", "seed_everything=1,2"]
    for weight, expected in ((1, 2), (1, 2), (2, 4), (1, 4)):
        own.write_text(
            yaml.safe_dump({"model": {"class_path": "BinaryClassifier", "init_args": {"pos_weight": weight}}})
        )
        assert main(words) == 0
        assert len(recorded.ran) == expected, weight
    own.rename("other.yaml")
    assert main(["sweep", "--config", "other.yaml", *words[3:]]) == 0
    assert len(recorded.ran) == 4, "what is in it decides, not what it is called"


def test_a_failing_cell_does_not_stop_the_others(recorded: Recorded, capsys: Capture):
    recorded.failing = lambda options: options["data.prevalence"] == "0.2" and options["seed_everything"] == "1"
    assert sweep(*GRID) == 1
    out, err = capsys.readouterr()
    assert len(recorded.ran) == 6
    assert len(rows()) == 5
    assert [row["runs"] for row in rows("summary.csv")] == ["3", "2"]
    assert "test/accuracy" in out
    assert "failed: data.prevalence=0.2, seed_everything=1: out of memory" in err
    assert "1 of 6 cells" in err
    [failure] = Path("swept").rglob("failure.txt")
    assert "RuntimeError: out of\nmemory" in failure.read_text(encoding="utf-8")
    assert str(failure) in err
    assert sweep(*GRID) == 1
    assert len(recorded.ran) == 7, "only the failed one is tried again"
    recorded.failing = lambda _: False
    assert sweep(*GRID) == 0
    assert len(recorded.ran) == 8
    assert not list(Path("swept").rglob("failure.txt"))
    assert len(rows()) == 6


def test_nothing_but_failures(recorded: Recorded, capsys: Capture):
    recorded.failing = lambda _: True
    assert sweep("--grid", "seed_everything=1,2") == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("failed: ") == 2
    assert not Path("swept/results.csv").exists()


def test_an_interrupted_sweep_keeps_what_is_finished(recorded: Recorded, capsys: Capture):
    recorded.failing = lambda options: options["seed_everything"] == "3"
    recorded.failure = KeyboardInterrupt()
    assert sweep(*GRID) == 130
    out, err = capsys.readouterr()
    assert len(recorded.ran) == 3, "it stops there"
    assert len(rows()) == 2
    assert "test/accuracy" in out
    assert "4 of 6 cells are not finished" in err
    assert err.endswith("evalkit sweep: interrupted; what was done so far is kept.\n")
    recorded.failing = lambda _: False
    assert sweep(*GRID) == 0
    assert len(recorded.ran) == 3 + 4
    assert len(rows()) == 6


# ---- values


def configured(arguments: Sequence[str], capsys: Capture) -> dict[str, Any]:
    """What the parser makes of the arguments of a cell."""
    capsys.readouterr()
    with pytest.raises(SystemExit):
        launched(["fit", *arguments, "--print_config"])
    configuration: dict[str, Any] = yaml.safe_load(capsys.readouterr().out)
    return configuration


@pytest.mark.parametrize(
    ("grid", "expected"),
    [
        ("model.hidden=[],[8],[8,8]", [[], [8], [8, 8]]),
        ("model.statistics=[accuracy],[f1,recall]", [["accuracy"], ["f1", "recall"]]),
        ("model.learning_rate=1e-3,0.1,1", [0.001, 0.1, 1.0]),
        ("model.loss=cross_entropy,focal", ["cross_entropy", "focal"]),
        ("model.correct_shift=true,false", [True, False]),
        ("model.pos_weight=null,2.5", [None, 2.5]),
        ("data.seed=-1,0", [-1, 0]),
        ("--data.seed=4", [4]),
        ("data.test_prevalence= 0.1 , 0.9 ", [0.1, 0.9]),
    ],
)
def test_values_arrive_as_they_are(monkeypatch: pytest.MonkeyPatch, capsys: Capture, grid: str, expected: list[Any]):
    seen: list[Sequence[str]] = []

    def fitted(arguments: Sequence[str], tell: Any) -> tuple[None, dict[str, float]]:
        seen.append(arguments)
        return None, {"test/f1": 0.0}

    monkeypatch.setattr(nested_runs, "fitted", fitted)
    assert sweep(f"--grid={grid}") == 0
    part, name = grid.lstrip("-").partition("=")[0].split(".")
    assert [configured(each, capsys)[part]["init_args"][name] for each in seen] == expected
    assert len(cells()) == len(expected)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--data=BalancedDataModule", "--grid", "model=BinaryClassifier,{}.Own"),
        (
            "--model=BinaryClassifier",
            "--data.train_size=64",
            "--grid",
            "data=BalancedDataModule,PoorFeaturesDataModule",
        ),
        (
            "--model=BinaryClassifier",
            "--data.train_size",
            "64",
            "--grid",
            "data=BalancedDataModule,ImbalancedDataModule",
        ),
        (
            *("--model=BinaryClassifier", "--data=BalancedDataModule", "--model.network.width=16"),
            *("--grid", "model.network={}.Net"),
        ),
        ("--grid", "data.train_size=64", "--grid", "data=BalancedDataModule", "--model=BinaryClassifier"),
    ],
    ids=["model", "data and an option", "two words", "network and an option", "two grids"],
)
def test_classes_can_be_swept_over(monkeypatch: pytest.MonkeyPatch, capsys: Capture, arguments: tuple[str, ...]):
    """A class has to come before its options, whichever of them is in the grid."""
    seen: list[Sequence[str]] = []

    def fitted(words: Sequence[str], tell: Any) -> tuple[None, dict[str, float]]:
        seen.append(words)
        return None, {"test/f1": 0.0}

    monkeypatch.setattr(nested_runs, "fitted", fitted)
    written = [word.format(OWN) for word in arguments]
    assert main(["sweep", *written]) == 0
    key, _, values = written[written.index("--grid") + 1].partition("=")
    for words, value in zip(seen, values.split(","), strict=True):
        shown: Any = configured(words, capsys)
        if "." not in key:
            assert shown[key]["class_path"].endswith(value)
        if "train_size" in str(arguments):
            assert shown["data"]["init_args"]["train_size"] == 64
        if key == "model.network":
            assert shown["model"]["init_args"]["network"] == {"class_path": value, "init_args": {"width": 16}}


def test_dates_are_texts(recorded: Recorded):
    """YAML would make objects of them that neither JSON nor a command line knows."""
    assert sweep("--grid", "data.path=2024-01-01,2024-01-02") == 0
    assert recorded.values("data.path") == [("2024-01-01",), ("2024-01-02",)]


# ---- wrong use


@pytest.mark.parametrize("grid", ["", "data.prevalence", "data.prevalence=", "=1,2", "data.prevalence=[1", "a=1,,2"])
def test_a_grid_that_is_none(recorded: Recorded, capsys: Capture, grid: str):
    assert f"expected --grid key=value,value,..., such as data.prevalence=0.5,0.1, got {grid!r}." in told(
        capsys, "--grid", grid
    )
    assert recorded.ran == []
    assert not Path("swept").exists()


def test_an_option_twice_in_the_grid(recorded: Recorded, capsys: Capture):
    assert "twice" in told(capsys, "--grid", "data.prevalence=0.5", "--grid", "data.prevalence=0.2")


@pytest.mark.parametrize("grid", ["seed_everything=1,1,2", "model.hidden=[8],[8]"])
def test_a_value_twice_in_the_grid(recorded: Recorded, capsys: Capture, grid: str):
    """Two runs with one seed are no two runs: the deviation over seeds would be too small."""
    assert "twice" in told(capsys, "--grid", grid)
    assert recorded.ran == []


def test_no_grid(capsys: Capture):
    assert "required: --grid. All options: evalkit sweep --help." in told(capsys)


def test_a_configuration_that_is_missing(recorded: Recorded, capsys: Capture):
    assert "nowhere.yaml" in told(capsys, "--config", "nowhere.yaml", "--grid", "seed_everything=1")


def test_a_place_that_cannot_be_written_to(recorded: Recorded, capsys: Capture):
    Path("swept").write_text("in the way", encoding="utf-8")
    assert "swept" in told(capsys, "--grid", "seed_everything=1")


def test_an_unknown_metric_loses_nothing(recorded: Recorded, capsys: Capture):
    assert "'test/acuracy'" in (err := told(capsys, *GRID, "--metrics", "test/acuracy"))
    assert "test/accuracy" in err
    assert sweep(*GRID, "--metrics", "test/accuracy") == 0
    assert len(recorded.ran) == 6


def test_an_unknown_metric_hides_no_failure(recorded: Recorded, capsys: Capture):
    recorded.failing = lambda options: options["seed_everything"] == "1"
    assert sweep(*GRID, "--metrics", "nothing") != 0
    assert "failed: data.prevalence=0.5, seed_everything=1" in capsys.readouterr().err


def test_an_unknown_metric_hides_no_interruption(recorded: Recorded):
    recorded.failing = lambda options: options["seed_everything"] == "2"
    recorded.failure = KeyboardInterrupt()
    assert sweep(*GRID, "--metrics", "nothing") == 130


# ---- real trainings


def test_cells_are_what_fit_and_test_measure():
    words = (*SMALL, *CHEAP, "--model.learning_rate=0.1")
    assert sweep("--grid", "data.prevalence=0.5,0.2", *words) == 0
    [row] = [row for row in rows() if row["data.prevalence"] == "0.2"]
    quiet = ("--trainer.enable_progress_bar=false", "--trainer.enable_model_summary=false")
    alone = [*CONFIGURED, *words, *quiet, "--data.prevalence=0.2", "--trainer.default_root_dir=alone"]
    trained = launched(["fit", *alone])
    [checkpoint] = Path("alone").rglob("*.ckpt")
    tested = launched(["test", *alone, f"--ckpt_path={checkpoint}"]).trainer.callback_metrics
    assert {name for name in row if name != "data.prevalence"} == set(tested)
    for name, value in tested.items():
        assert float(row[name]) == float(value), name
    [kept] = [cell for cell in cells() if "prevalence=0.2" in cell.name]
    metrics = json.loads((kept / "result.json").read_text(encoding="utf-8"))["metrics"]
    for name, value in trained.trainer.callback_metrics.items():
        assert metrics[name] == float(value), "the numbers of the training are kept too"


@pytest.mark.filterwarnings("ignore:TensorBoardReport could not find an evaluation")
def test_without_test_data_validation_is_summarised():
    words = ["--model", f"{OWN}.Own", "--data", f"{OWN}.OwnData", "--grid", "model.rate=0.1,0.01", *CHEAP]
    assert main(["sweep", *words, "--out", "swept"]) == 0
    assert [list(row) for row in rows()] == [["model.rate", "val/squared"]] * 2
    assert all(float(row["val/squared"]) >= 0 for row in rows())


def test_a_real_failure_is_told_in_its_own_words(capsys: Capture):
    assert sweep("--grid", "data.prevalence=2,0.5", *SMALL, *CHEAP) == 1
    out, err = capsys.readouterr()
    assert [row["data.prevalence"] for row in rows()] == ["0.5"]
    assert "failed: data.prevalence=2: expected a prevalence in (0, 1)" in err
    assert "Traceback" not in out + err


def test_control_c_while_a_cell_is_tested(capsys: Capture):
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    callbacks = f"--trainer.callbacks=[{{class_path: {OWN}.Interrupting}}]"
    words = ["--grid", "seed_everything=1,2", *SMALL, *CHEAP[:2], callbacks]
    try:
        assert sweep(*words) == 130
        assert "2 of 2 cells are not finished" in capsys.readouterr().err
        assert sweep(*words) == 0
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(rows()) == 2
    for cell in cells():
        logs = {path.parent.name for path in cell.rglob("events.out.*")}
        assert logs == {"version_0"}, "what was interrupted is not drawn beside what was finished"


def process(*arguments: str) -> subprocess.Popen[str]:
    """The command as a process that listens to Ctrl-C, whoever started this one."""
    return subprocess.Popen(
        [sys.executable, "-m", "lightning_evalkit", "sweep", *CONFIGURED, *arguments, "--out", "swept"],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def ended_with(running: subprocess.Popen[str], timeout: float = 240) -> tuple[int, str, str]:
    with running:  # closes its pipes and waits for its end, whatever happens
        try:
            out, err = running.communicate(timeout=timeout)
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
    return running.returncode, out, err


@pytest.mark.slow
def test_control_c_in_the_middle_of_a_sweep(recorded: Recorded):
    words = ("--grid", "trainer.max_epochs=1,1000000,2", *SMALL, CHEAP[0], CHEAP[2])
    running = process(*words)
    end = time.monotonic() + 240
    while len(list(Path().rglob("*.ckpt"))) < 2 and running.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    code, out, err = ended_with(running)
    assert code == 130, err
    assert "Traceback" not in err
    assert "2 of 3 cells are not finished; the same command runs only those." in err
    assert [row["trainer.max_epochs"] for row in rows()] == ["1"]
    assert "summary.md" in out
    kept = rows()[0]
    assert sweep(*words) == 0
    assert recorded.values("trainer.max_epochs") == [("1000000",), ("2",)]
    again = rows()[0]
    assert (again["trainer.max_epochs"], again["test/f1"]) == ("1", kept["test/f1"])


@pytest.mark.parametrize("devices", [("--trainer.devices=2",), ("--trainer.devices", "2")], ids=["one", "two"])
def test_several_processes_are_refused_before_any_starts(recorded: Recorded, capsys: Capture, devices: tuple[str, ...]):
    err = told(capsys, "--grid", "seed_everything=1,2", *SMALL, *CHEAP, *devices, "--trainer.strategy=ddp")
    assert "a sweep runs each cell in one process, got --trainer.devices: use `evalkit fit` for several." in err
    assert recorded.ran == []
    assert not Path("swept").exists()
