"""Folders and files that an ordinary user may not write or read, and a disk that is full: one line with the path each.

The tests may be run by root, who may do everything: the process that is asked has given up that power.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="asks for Linux' capabilities")]
REPOSITORY = Path(__file__).parents[2]
DROP, OVERRIDE, SEARCH = 24, 1, 2
"""prctl(PR_CAPBSET_DROP, …) of CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: with these, permissions mean nothing."""
PROGRAM = """
import json, sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from lightning_evalkit.cli import main
for words in json.load(sys.stdin):
    said = StringIO()
    with redirect_stderr(said), redirect_stdout(StringIO()):
        code = main(words)
    lines = [line for line in said.getvalue().splitlines() if line.startswith(("evalkit ", "Traceback"))]
    print(json.dumps([code, lines]))
"""
SMALL = (
    "--model=BinaryClassifier",
    "--data=BalancedDataModule",
    "--data.train_size=80",
    "--data.val_size=20",
    "--data.test_size=20",
    "--trainer.accelerator=cpu",
    "--trainer.max_epochs=2",
    "--trainer.enable_progress_bar=false",
    "--trainer.enable_model_summary=false",
)
GRID = ("--grid", "seed_everything=1", "--trainer.logger=false", "--trainer.callbacks=[]")


def _ordinary() -> None:
    if os.geteuid() == 0:
        for power in (OVERRIDE, SEARCH):
            if ctypes.CDLL(None).prctl(DROP, power, 0, 0, 0):
                raise OSError("the power of root could not be given up")


def asked(*commands: list[str]) -> list[tuple[int, list[str]]]:
    """The code and the lines of each command, all asked of one process."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(commands),
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        encoding="utf-8",
        preexec_fn=_ordinary,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(commands), done.stderr
    return [(code, lines) for code, lines in answers]


def check_refused(answers: list[tuple[int, list[str]]], paths: list[str], reason: str) -> None:
    for (code, lines), path in zip(answers, paths, strict=True):
        assert code == 2, (path, lines)
        assert len(lines) == 1, lines
        assert path in lines[0]
        assert reason in lines[0]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def locked(folder: Path) -> Iterator[Path]:
    """A folder that can only be read, below which nothing can be made."""
    path = folder / "locked"
    path.mkdir()
    path.chmod(0o555)
    yield path
    path.chmod(0o755)


@pytest.fixture
def full(folder: Path) -> Iterator[Path]:
    """A disk without any room."""
    path = folder / "full"
    path.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", path], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("nobody but root can make a disk that is full")
    try:
        (path / "filling").write_bytes(bytes(56 * 1024))
        yield path
    finally:
        subprocess.run(["umount", path], check=True)


def test_a_folder_that_can_only_be_read(locked: Path) -> None:
    commands = [
        ["fit", *SMALL, f"--trainer.default_root_dir={locked}/runs"],
        ["fit", *SMALL, "--trainer.logger=TensorBoardLogger", f"--trainer.logger.save_dir={locked}/curves"],
        [
            "predict",
            *SMALL[:-3],
            "--untrained",
            "--trainer.logger=false",
            f"--trainer.default_root_dir={locked}/predicted",
        ],
        ["sweep", *SMALL, *GRID, "--out", f"{locked}/swept"],
        ["reproduce", "--quick", "--epochs=1", "--out", f"{locked}/reproduced"],
    ]
    names = ["runs", "curves", "predicted", "swept", "reproduced"]
    check_refused(asked(*commands), [f"{locked}/{name}" for name in names], "Permission denied")
    assert list(locked.iterdir()) == []


def test_files_that_cannot_be_read() -> None:
    for name, content in {"data.csv": "x,kind\n" + "1,0\n2,1\n" * 9, "own.yaml": "model: BinaryClassifier\n"}.items():
        Path(name).write_text(content, encoding="utf-8")
    Path("old.ckpt").write_bytes(b"something")
    for name in ("data.csv", "own.yaml", "old.ckpt"):
        Path(name).chmod(0)
    table = ("--data=TabularDataModule", "--data.path=data.csv", "--data.target=kind")
    silent = ("--trainer.logger=false", "--trainer.callbacks=[]", *SMALL[-4:])
    commands = [
        ["fit", "--model=BinaryClassifier", *table, *silent],
        ["fit", *SMALL, "--config=own.yaml"],
        ["sweep", *SMALL, *GRID, "--config=own.yaml"],
        ["fit", *SMALL, *silent, "--ckpt_path=old.ckpt"],
    ]
    check_refused(asked(*commands), ["data.csv", "own.yaml", "own.yaml", "old.ckpt"], "Permission denied")


def test_a_result_of_somebody_else() -> None:
    """One that cannot be read is measured again where it can be replaced; else nothing is lost."""
    sweep = ["sweep", *SMALL, *GRID, "--out", "swept"]
    assert asked(sweep) == [(0, [])]
    [result] = Path("swept").rglob("result.json")
    result.chmod(0)
    assert asked(sweep) == [(0, [])]
    assert result.stat().st_mode & 0o777 != 0
    content = result.read_bytes()
    result.write_text("damaged", encoding="utf-8")
    result.parent.chmod(0o555)
    try:
        check_refused(asked(sweep), [str(result.parent)], "Permission denied")
        assert result.read_text(encoding="utf-8") == "damaged"
    finally:
        result.parent.chmod(0o755)
    result.write_bytes(content)
    assert asked(sweep) == [(0, [])]


def test_a_disk_that_is_full(full: Path) -> None:
    commands = [
        ["sweep", *SMALL, *GRID, "--out", f"{full}/swept"],
        ["fit", *SMALL, f"--trainer.default_root_dir={full}/runs"],
        ["reproduce", "--quick", "--epochs=1", "--out", f"{full}/reproduced"],
    ]
    for (code, lines), command in zip(asked(*commands), commands, strict=True):
        assert code == 2, lines
        [line] = [line for line in lines if line.startswith("evalkit ")]  # the thread of TensorBoard tells it too
        assert line.startswith(f"evalkit {command[0]}: [Errno 28] No space left on device")
        assert str(full) in line
    whole = [path for path in full.rglob("*.json") if path.is_file()]
    assert all(json.loads(path.read_text(encoding="utf-8")) for path in whole), "a file is whole or not there"
