"""Configurations that contain themselves are refused in a sentence, wherever YAML is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lightning_evalkit.cli import main
from lightning_evalkit.cli.endless import LARGEST, read_yaml
from lightning_evalkit.cli.messages import WrongError

Capture = pytest.CaptureFixture[str]
ALMOST = "model: BinaryClassifier\ndata: BalancedDataModule\n"
LAUGHS = "a0: &a0 [x, x]\n" + "".join(f"a{place}: &a{place} [*a{place - 1}, *a{place - 1}]\n" for place in range(1, 40))
ITSELF = "contains itself: a reference (*) names what it is part of"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def told(capsys: Capture, *words: str) -> str:
    assert main(list(words)) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    return err


@pytest.mark.parametrize("command", ["fit", "sweep"])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (ALMOST + "trainer: &a {callbacks: [*a]}\n", ITSELF),
        ("model: &a\n  class_path: BinaryClassifier\n  init_args: *a\ndata: BalancedDataModule\n", ITSELF),
        (ALMOST + "a: &a [[[*a]]]\n", ITSELF),
        (ALMOST + LAUGHS, "values once its references (*) are followed, expected at most 1,000,000: write out"),
        (ALMOST + "a: " + "[" * 5000 + "]" * 5000 + "\n", "is nested too deeply to be read"),
    ],
    ids=["trainer", "model", "list", "laughs", "deep"],
)
def test_an_endless_configuration_is_one_readable_line(command: str, content: str, said: str, capsys: Capture) -> None:
    Path("own.yaml").write_text(content, encoding="utf-8")
    grid = ["--grid", "data.seed=1"] if command == "sweep" else []
    err = told(capsys, command, "--config", "own.yaml", *grid)
    assert err.startswith(f"evalkit {command}: own.yaml ")
    assert said in err


def test_a_part_in_a_file_of_its_own(capsys: Capture) -> None:
    Path("parts").mkdir()
    Path("parts/data.yaml").write_text("class_path: BalancedDataModule\ninit_args: &a {seed: *a}\n", encoding="utf-8")
    Path("parts/own.yaml").write_text("model: BinaryClassifier\ndata: data.yaml\n", encoding="utf-8")
    assert f"parts/data.yaml {ITSELF}" in told(capsys, "fit", "--config=parts/own.yaml")
    assert f"parts/data.yaml {ITSELF}" in told(capsys, "fit", "--model=BinaryClassifier", "--data=parts/data.yaml")
    assert f"parts/data.yaml {ITSELF}" in told(capsys, "fit", "--model=BinaryClassifier", "--data", "parts/data.yaml")


@pytest.mark.parametrize(
    "words", [["--trainer.callbacks=&a [*a]"], ["--data", "{class_path: X, init_args: &a {b: *a}}"]]
)
def test_a_value_on_the_command_line(words: list[str], capsys: Capture) -> None:
    assert ITSELF in told(capsys, "test", "--model=BinaryClassifier", *words)
    assert ITSELF in told(capsys, "sweep", "--model=BinaryClassifier", *words, "--grid", "data.seed=1")


def test_a_value_of_a_grid(capsys: Capture) -> None:
    assert f"--grid data.seed=&a [*a] {ITSELF}" in told(capsys, "sweep", "--grid", "data.seed=&a [*a]")
    assert not Path("runs").exists()


NESTED = st.recursive(
    st.integers() | st.text("ab*&", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("xy", min_size=1, max_size=2), inner, max_size=3)
    ),
)


def size(content: Any) -> int:
    """Values, walked over one by one."""
    parts = content.values() if isinstance(content, dict) else content if isinstance(content, list) else ()
    return 1 + sum(map(size, parts))


@given(content=NESTED, times=st.integers(1, 4))
def test_what_ends_is_read_as_it_is(content: Any, times: int) -> None:
    """Also where parts are referred to several times."""
    whole = [content] * times
    assert read_yaml(yaml.safe_dump(whole), "it") == whole


@given(content=NESTED, depth=st.integers(0, 40))
def test_the_size_is_that_of_what_is_meant(content: Any, depth: int) -> None:
    doubled, expected = [content, content], 1 + 2 * size(content)
    for _ in range(depth):
        doubled, expected = [doubled, doubled], 1 + 2 * expected
    text = yaml.safe_dump(doubled)
    if expected <= LARGEST:
        assert read_yaml(text, "it") == doubled
    else:
        with pytest.raises(WrongError, match=f"it has {expected:,} values"):
            read_yaml(text, "it")
