"""What evalkit says before anything is run: help in groups, an example for whoever says nothing, and both at once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from jsonargparse import ArgumentParser

import lightning_evalkit
from lightning_evalkit import data
from lightning_evalkit.cli import leaving, main
from lightning_evalkit.cli.commands import COMMANDS, EXAMPLES
from lightning_evalkit.cli.configurations import BASE
from lightning_evalkit.cli.help import GROUPS, OTHERS

if TYPE_CHECKING:
    from pathlib import Path

Capture = pytest.CaptureFixture[str]
HEAVY = {"torch", "lightning", "torchmetrics", "matplotlib", "scipy", "pandas"}
pytestmark = pytest.mark.filterwarnings("ignore::jsonargparse._deprecated.JsonargparseDeprecationWarning")


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> list[set[str]]:
    """Heavy packages in memory after each command, one after the other in one interpreter."""
    labels = tmp_path_factory.mktemp("labels") / "labels.csv"
    labels.write_text("target_a,target_b,label_a,label_b\n1,0,1,1\n0,1,0,1\n")
    lines = ["import sys, lightning_evalkit", "from lightning_evalkit.cli import main"]
    explained = (["--counts=1,2,3,4"], ["--matrix=5,1,0;0,4,2;1,0,7"], [f"--labels={labels}"])
    for words in (["--version"], ["--help"], ["fit"], *(["explain", *each] for each in explained)):
        lines += [
            f"try: main({words})",
            "except SystemExit: pass",
            f"print('loaded', *({HEAVY} & sys.modules.keys()))",
        ]
    run = [sys.executable, "-c", "\n".join(lines)]
    finished = subprocess.run(run, capture_output=True, encoding="utf-8", timeout=120, check=True)
    return [set(line.split()[1:]) for line in finished.stdout.splitlines() if line.startswith("loaded")]


def test_version_help_and_examples_load_nothing_heavy_and_explain_only_what_counts(loaded: list[set[str]]):
    assert loaded == [set(), set(), set(), {"torch"}, {"torch"}, {"torch", "scipy"}], "scipy has the t distribution"


def test_public_names_are_those_of_their_parts():
    for name in lightning_evalkit.__all__:
        assert getattr(lightning_evalkit, name).__name__ == name
        assert name in dir(lightning_evalkit)
    assert lightning_evalkit.data is data
    with pytest.raises(AttributeError, match="module 'lightning_evalkit' has no attribute 'Nothing'"):
        lightning_evalkit.Nothing  # noqa: B018


@pytest.mark.parametrize("command", EXAMPLES)
def test_a_command_without_options_shows_an_example(capsys: Capture, command: str):
    assert main([command]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"evalkit {command}: expected ")
    for line in EXAMPLES[command]:
        assert f"\n  {line}\n" in err


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_and_examples_fit_into_80_columns(capsys: Capture, monkeypatch: pytest.MonkeyPatch, command: str):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit, match=r"^0$"):
        main([command, "--help"] if command else ["--help"])
    shown = capsys.readouterr().out
    if command in EXAMPLES:
        main([command])
        shown += capsys.readouterr().err
    assert len(shown.splitlines()) > 5
    assert [line for line in shown.splitlines() if len(line) > 80 and str(BASE) not in line] == []


@pytest.mark.skipif(sys.platform == "win32", reason="has no sh")
@pytest.mark.parametrize("line", [line for lines in EXAMPLES.values() for line in lines])
def test_an_example_is_one_command_of_a_shell(line: str):
    said = subprocess.run(["sh", "-c", f"echo {line}"], capture_output=True, text=True, check=True)
    assert said.stdout == f"{' '.join(line.replace(chr(92), ' ').split())}\n"
    assert said.stderr == ""


@pytest.fixture
def sections(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """The options of predict, which has all there are, under each title of its help."""
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["predict", "--help"])
    _, *parts = re.split(r"^(\S.*):$", capsys.readouterr().out, flags=re.MULTILINE)
    options = [re.findall(r"^  (?:-\w[^-]*)?--([\w.]+)", text, re.MULTILINE) for text in parts[1::2]]
    return dict(zip(parts[::2], options, strict=True))


def test_help_has_every_option_in_one_group(sections: dict[str, list[str]]):
    assert list(sections) == ["Examples", *GROUPS, OTHERS]
    shown = [name for names in sections.values() for name in names if not name.endswith(".help")]
    assert len(shown) == len(set(shown))
    for title, names in GROUPS.items():
        found = [name for name in sections[title] if not name.endswith(".help")]
        assert found == [name for name in names if name in found], "in the order of the table"
        assert set(names) - set(found) <= {"verbose"}, "which prediction does not have"
    assert {"trainer.profiler", "trainer.plugins"} <= {*sections[OTHERS]}


def test_the_help_of_a_class_is_of_evalkit_however_it_was_started(capsys: Capture, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "argv", ["/anywhere/__main__.py"])
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["fit", "--data.help", "BalancedDataModule"])
    out = capsys.readouterr().out
    assert out.startswith("usage: evalkit [--data.")
    assert "--data.separability" in out


@pytest.mark.parametrize("name", [name for name in data.__all__ if name not in ("TensorDataModule", "TensorLoader")])
def test_every_option_of_the_data_is_described(name: str):
    parser = ArgumentParser()
    parser.add_class_arguments(getattr(data, name), fail_untyped=False)
    options = {action.dest: action.help for action in parser._actions if action.dest != "help"}
    assert {"batch_size", "seed", "on_device"} <= options.keys()
    assert [option for option, words in options.items() if not words] == []


def test_modules_of_the_current_folder_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["/usr/bin"])  # as where the command is a script there
    leaving.find_own_modules()
    leaving.find_own_modules()
    assert sys.path == [os.getcwd(), "/usr/bin"]


@pytest.mark.slow
def test_an_own_module_is_trained_by_the_installed_command(tmp_path: Path):
    """The script is elsewhere, as it is after an installation."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "evalkit").write_text("from lightning_evalkit.cli import console\nconsole()\n")
    (tmp_path / "mine.py").write_text(
        "from lightning_evalkit.modules import BinaryClassifier\nclass Mine(BinaryClassifier): pass\n"
    )
    words = ["fit", "--model", "mine.Mine", "--data", "BalancedDataModule", "--print_config"]
    run = [sys.executable, "bin/evalkit", *words]
    finished = subprocess.run(run, cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=120)
    assert finished.returncode == 0, finished.stderr
    assert "class_path: mine.Mine" in finished.stdout
