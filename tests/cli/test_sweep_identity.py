"""A result is used again only while all that it depends on is as it was; one that is damaged is measured again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lightning_evalkit.cli import cells, dependencies, main, nested_runs
from lightning_evalkit.data import TabularDataModule

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


Capture = pytest.CaptureFixture[str]


class OwnData(TabularDataModule):
    """Names its file where no option does."""

    def __init__(self, path: str = "data.csv", target: str = "kind") -> None:
        super().__init__(path, target)


class Recorded:
    """In the place of trainings: how many there were."""

    def __init__(self) -> None:
        self.times = 0
        self.during: Callable[[], object] = lambda: None

    def __call__(self, arguments: Sequence[str], tell: Any) -> tuple[None, dict[str, float]]:
        self.times += 1
        self.during()
        return None, {"test/f1": float(self.times)}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    fake = Recorded()
    monkeypatch.setattr(nested_runs, "fitted", fake)
    return fake


def sweep(*words: str, grid: str = "seed_everything=1,2") -> int:
    return main(["sweep", "--grid", grid, *words, "--out", "swept"])


def written(path: str, content: str) -> str:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(content, encoding="utf-8")
    return path


def again(capsys: Capture) -> list[str]:
    return [line for line in capsys.readouterr().err.splitlines() if "run again" in line]


# ---- what has changed


def by_configuration(value: str) -> list[str]:
    return ["--config", written("own.yaml", f"data: {{class_path: OwnData, init_args: {{path: {value}}}}}\n")]


NAMING: dict[str, Callable[[str], list[str]]] = {
    "one word": lambda value: [f"--data.path={value}"],
    "two words": lambda value: ["--data.path", value],
    "inline": lambda value: [f"--data={{class_path: X, init_args: {{path: {value}}}}}"],
    "list": lambda value: [f"--data.paths=[{value}, other]"],
    "configuration": by_configuration,
    "checkpoint": lambda value: [f"--ckpt_path={value}"],
    "callback": lambda value: [f"--trainer.callbacks=[{{class_path: X, init_args: {{names: {value}}}}}]"],
}


@pytest.mark.parametrize("naming", NAMING.values(), ids=NAMING)
def test_a_file_that_an_option_names_decides_by_its_content(
    naming: Callable[[str], list[str]], recorded: Recorded, capsys: Capture
) -> None:
    words = naming(written("some/data.csv", "a,b\n1,2\n"))
    assert (sweep(*words), sweep(*words), recorded.times) == (0, 0, 2)
    Path("some/data.csv").touch()
    assert (sweep(*words), recorded.times) == (0, 2), "its time does not"
    assert again(capsys) == []
    written("some/data.csv", "a,b\n1,3\n")
    assert (sweep(*words), recorded.times) == (0, 4)
    assert again(capsys) == ["2 of 2 cells are run again: some/data.csv has changed."]
    assert (sweep(*words), recorded.times) == (0, 4)
    Path("some/data.csv").unlink()
    assert (sweep(*words), recorded.times) == (0, 6), "and if it is gone, its run says so"


def test_a_file_of_the_same_size_and_time_is_another(recorded: Recorded) -> None:
    words = [f"--data.path={written('data.csv', 'a,b')}"]
    times = Path("data.csv").stat()
    assert sweep(*words) == 0
    written("data.csv", "a,c")
    os.utime("data.csv", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert (sweep(*words), recorded.times) == (0, 4)


def test_files_of_a_grid_are_their_cells_own(recorded: Recorded, capsys: Capture) -> None:
    grid = f"data.path={written('a.csv', 'a')},{written('b.csv', 'b')}"
    assert sweep(grid=grid) == 0
    written("b.csv", "c")
    assert (sweep(grid=grid), recorded.times) == (0, 3)
    assert again(capsys) == ["1 of 2 cells is run again: b.csv has changed."]


def test_a_folder_of_data_decides_and_one_for_results_does_not(recorded: Recorded) -> None:
    written("images/cat/1.png", "x")
    words = ["--data.root=images", "--trainer.logger.save_dir=logs"]
    recorded.during = lambda: written("logs/lines", str(recorded.times))
    assert (sweep(*words), sweep(*words), recorded.times) == (0, 0, 2)
    written("images/dog/2.png", "y")
    assert (sweep(*words), recorded.times) == (0, 4)
    assert (sweep("--data.cache=."), sweep("--data.cache=."), recorded.times) == (0, 0, 6), "results are below it"


@pytest.mark.parametrize("name", ["lightning_evalkit", "torch", "lightning", "torchmetrics"])
def test_another_version_decides(
    name: str, recorded: Recorded, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    assert sweep() == 0
    now = dependencies.versions()
    monkeypatch.setattr(dependencies, "versions", lambda: {**now, name: "99"})
    assert (sweep(), sweep(), recorded.times) == (0, 0, 4)
    assert again(capsys) == [f"2 of 2 cells are run again: measured with {name} {now[name]}, this is 99."]


def test_own_code_decides(recorded: Recorded, monkeypatch: pytest.MonkeyPatch, capsys: Capture, folder: Path) -> None:
    monkeypatch.syspath_prepend(folder)
    written("own_layers.py", "WIDTH = 8\n")
    written("own_model.py", "import own_layers\n")
    __import__("own_model")
    try:
        assert (sweep(), sweep(), recorded.times) == (0, 0, 2)
        written("own_layers.py", "WIDTH = 9\n")
        assert (sweep(), recorded.times) == (0, 4)
        assert again(capsys) == [f"2 of 2 cells are run again: {folder / 'own_layers.py'} has changed."]
        recorded.during = lambda: written("own_layers.py", f"WIDTH = {recorded.times}\n")
        assert sweep("--data.seed=2") == 0
        recorded.during = lambda: None
        assert (sweep("--data.seed=2"), recorded.times) == (0, 8), "what was written meanwhile may not be what ran"
    finally:
        del sys.modules["own_model"], sys.modules["own_layers"]


def test_installed_packages_are_known_by_version_alone(recorded: Recorded) -> None:
    assert sweep() == 0
    [first, _] = Path("swept").rglob("result.json")
    files = json.loads(first.read_text(encoding="utf-8"))["depends_on"]["files"]
    assert __file__ in files
    assert not [file for file in files if "site-packages" in file or "/lightning_evalkit/" in file]


def test_nothing_that_a_package_writes_while_it_is_imported_is_own_code() -> None:
    """torch 2.5 writes a module to a new folder in every process: each would have measured with other code."""
    code = (
        "import lightning.pytorch, torch.distributed.nn.jit.instantiator\n"
        "from lightning_evalkit.cli import dependencies\n"
        "print(dependencies.of_own_code(0.0))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "{}\n"


def test_a_file_that_changes_while_a_cell_runs_is_that_which_it_began_with(recorded: Recorded) -> None:
    words = [f"--data.path={written('data.csv', '0')}"]
    recorded.during = lambda: written("data.csv", str(recorded.times))
    assert sweep(*words) == 0
    recorded.during = lambda: None
    assert (sweep(*words), recorded.times) == (0, 4)


# ---- results that are damaged

DAMAGED: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-20]),
    "text": lambda path: path.write_text("hello"),
    "list": lambda path: path.write_text("[1, 2]"),
    "null": lambda path: path.write_text("null"),
    "number": lambda path: path.write_text("7"),
    "nothing": lambda path: path.write_text("{}"),
    "UTF-16": lambda path: path.write_text(path.read_text(), encoding="utf-16"),
    "bytes": lambda path: path.write_bytes(bytes(range(256))),
    "deep": lambda path: path.write_text("[" * 100_000),
    "folder": lambda path: (path.unlink(), path.mkdir(), (path / "a").touch()),
    "NaN": lambda path: path.write_text(path.read_text().replace('"test/f1": ', '"test/f1": NaN, "x": ')),
    "metric of text": lambda path: path.write_text(path.read_text().replace('"test/f1": ', '"test/f1": "1", "x": ')),
    "metric of truth": lambda path: path.write_text(path.read_text().replace('"test/f1": ', '"test/f1": true, "x": ')),
    "metrics of a list": lambda path: path.write_text(
        path.read_text().replace('"metrics": {', '"metrics": [], "x": {')
    ),
    "other values": lambda path: path.write_text(
        path.read_text().replace('"seed_everything": 1', '"seed_everything": 3')
    ),
    "no dependencies": lambda path: path.write_text(path.read_text().replace('"depends_on"', '"x"')),
    "other dependencies": lambda path: path.write_text(
        path.read_text().replace('"versions": {', '"versions": 3, "x": {')
    ),
}


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_result_is_measured_again_and_told(
    damage: Callable[[Path], object], recorded: Recorded, capsys: Capture
) -> None:
    assert sweep() == 0
    [path] = Path("swept").glob("cells/*=1_*/result.json")
    damage(path)
    assert (sweep(), recorded.times) == (0, 3)
    [line] = again(capsys)
    assert line.startswith(f"1 of 2 cells is run again: {path} ")
    assert (sweep(), recorded.times) == (0, 3)
    assert again(capsys) == []


@given(
    content=st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(
                st.sampled_from(["values", "metrics", "depends_on", "versions", "files", "x"]), inner, max_size=4
            )
        ),
        max_leaves=12,
    )
)
def test_no_content_is_a_traceback_or_a_number_that_was_not_measured(content: Any, tmp_path_factory: Any) -> None:
    cell = cells.Cell({"a": 1}, (), tmp_path_factory.mktemp("cell"), ())
    cell.result.write_text(json.dumps(content), encoding="utf-8")
    kept = cell.stored()
    assert kept.metrics is None
    assert kept.why_not


# ---- with real trainings

REAL = (
    "--model=BinaryClassifier",
    "--trainer.accelerator=cpu",
    "--trainer.max_epochs=1",
    "--trainer.logger=false",
    "--trainer.callbacks=[]",
)


@pytest.mark.parametrize(
    "data",
    [("--data=TabularDataModule", "--data.path=data.csv", "--data.target=kind"), (f"--data={__name__}.OwnData",)],
    ids=["option", "default"],
)
def test_labels_that_were_replaced_are_measured(data: tuple[str, ...], capsys: Capture) -> None:
    """Also where only the class of the data knows which file it reads."""
    rows = torch.randn(400).tolist()
    written("data.csv", "x,kind\n" + "".join(f"{x},{int(x > 0)}\n" for x in rows))
    assert sweep(*REAL, *data, grid="model.learning_rate=0.1") == 0
    before = Path("swept/results.csv").read_text(encoding="utf-8")
    assert sweep(*REAL, *data, grid="model.learning_rate=0.1") == 0
    assert again(capsys) == []
    assert Path("swept/results.csv").read_text(encoding="utf-8") == before
    written("data.csv", "x,kind\n" + "".join(f"{x},{place % 2}\n" for place, x in enumerate(rows)))
    assert sweep(*REAL, *data, grid="model.learning_rate=0.1") == 0
    assert again(capsys) == ["1 of 1 cells is run again: data.csv has changed."]
    after = Path("swept/results.csv").read_text(encoding="utf-8")
    shutil.rmtree("swept")
    assert sweep(*REAL, *data, grid="model.learning_rate=0.1") == 0
    assert Path("swept/results.csv").read_text(encoding="utf-8") == after != before
