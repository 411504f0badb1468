"""evalkit rules and evalkit rule: every rule is listed, and each has its page."""

import io
import os
import sys

import pytest
from rich.console import Console

from lightning_evalkit.cli import main
from lightning_evalkit.cli import rules as command
from lightning_evalkit.cli.main import UNWRITTEN
from lightning_evalkit.diagnosis.rules import RULES
from lightning_evalkit.sinks.terminal import show_page


def test_every_rule_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules"]) == 0
    out = capsys.readouterr().out
    assert all(f"{code} " in out and RULES[code].name in out for code in RULES)
    assert max(map(len, out.splitlines())) <= 80


def test_the_page_of_a_rule(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rule", "ek101"]) == 0
    assert capsys.readouterr().out == RULES["EK101"].page()
    assert main(["rule", "EK999"]) == 2


@pytest.mark.parametrize(
    ("wrong", "offered"),
    [
        ("ek1O1", "did you mean 'EK"),
        ("EK999", "did you mean 'EK"),
        ("101", "did you mean 'EK101' or 'EK"),
        ("overconfident", "`evalkit rules` lists"),
    ],
)
def test_a_wrong_code_is_offered_three_that_are_near_and_the_list(
    capsys: pytest.CaptureFixture[str], wrong: str, offered: str
) -> None:
    assert main(["rule", wrong]) == 2
    said = capsys.readouterr().err
    assert f"there is no rule {wrong.upper()!r}: {offered}" in said
    assert said.endswith(f"`evalkit rules` lists all {len(RULES)}.\n")
    assert said.count("'EK") <= 4


def test_a_reader_who_leaves_hears_no_complaint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``evalkit rules | head -1``, where nothing is buffered: what is left in a buffer is lost on leaving."""
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb", buffering=0) as pipe, monkeypatch.context() as patched:
        shown = io.TextIOWrapper(pipe, "utf-8", write_through=True)
        patched.setattr(sys, "stdout", shown)
        assert main(["rules"]) == UNWRITTEN
        shown.detach()
    assert capsys.readouterr().err == ""


def test_a_broken_pipe_of_the_command_itself_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: list[str]) -> int:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(command, "run", broken)
    assert main(["rules"]) == 2
    assert "evalkit rules: [Errno 32] Broken pipe" in capsys.readouterr().err


def test_on_a_terminal_words_begin_at_the_left_and_lines_are_broken_between_words() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80, color_system=None)
    show_page(RULES["EK107"].page(), console)
    printed = console.file.getvalue().splitlines()
    assert max(map(len, printed)) <= 80
    assert printed[0].rstrip() == "EK107: only some ranks compute a metric"
    assert " ".join(" ".join(printed).split()) == " ".join(
        RULES["EK107"].page().replace("#", "").replace("*", "").split()
    )


def test_names_begin_at_the_left(capsys: pytest.CaptureFixture[str]) -> None:
    main(["rules"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "EK101  error     certain      a value is logged instead of its metric"
