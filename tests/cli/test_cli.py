"""The command evalkit: what it prints in each form, and that every wrong use is a readable line and exit code 2."""

import io
import json
import re
import sys

import pytest
from rich.console import Console

import lightning_evalkit
from lightning_evalkit import Counts
from lightning_evalkit.cli import main
from lightning_evalkit.cli.messages import WrongError, in_one_line
from lightning_evalkit.diagnosis import Finding, Table, explain
from lightning_evalkit.sinks.terminal import show, show_line, show_table

Capture = pytest.CaptureFixture[str]
FOUR = ["--tp", "45", "--fp", "30", "--fn", "5", "--tn", "20"]
FINDING = explain(Counts(tp=45, fp=30, fn=5, tn=20))


def run(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    """The exit code, standard output and standard error of a call in this process."""
    try:
        code = main(arguments)
    except SystemExit as stopped:
        code = stopped.code or 0
    out, err = capsys.readouterr()
    return code, out, err


def words(text: str) -> str:
    """The text without its line breaks, for output that was wrapped."""
    return " ".join(text.split())


# ---- forms


@pytest.mark.parametrize("given", [FOUR, ["--counts", "45,30,5,20"], ["--counts", " 45, 30, 5, 20 "]])
def test_text_is_the_finding(capsys: Capture, given: list[str]):
    assert run(capsys, "explain", *given) == (0, FINDING.text() + "\n", "")


def test_counts_are_in_the_order_of_the_options(capsys: Capture):
    _, out, _ = run(capsys, "explain", "--format", "json", "--counts", "1,2,3,4")
    assert json.loads(out)["evidence"]["counts"] == {"tp": 1, "fp": 2, "fn": 3, "tn": 4}


def test_json_is_json(capsys: Capture):
    code, out, err = run(capsys, "explain", *FOUR, "--format", "json")
    assert (code, err) == (0, "")
    assert json.loads(out) == FINDING.to_dict()


def test_markdown_is_markdown(capsys: Capture):
    assert run(capsys, "explain", *FOUR, "--format", "markdown") == (0, FINDING.markdown() + "\n", "")


def test_other_statistics(capsys: Capture):
    code, out, _ = run(capsys, "explain", *FOUR, "--first", "precision", "--second", "recall")
    assert code == 0
    # 45/75 and 45/50
    assert out.startswith("precision and recall differ by 0.3: 0.6 and 0.9.")


def test_undefined_is_an_answer_and_not_an_error(capsys: Capture):
    code, out, err = run(capsys, "explain", "--counts", "0,0,0,9")
    assert (code, err) == (0, "")
    assert "f1 is undefined" in out


# ---- help


def test_help_lists_the_commands(capsys: Capture):
    code, out, _ = run(capsys, "--help")
    assert code == 0
    for command in ("explain", "reproduce", "sweep", "fit", "validate", "test", "predict"):
        assert re.search(rf"^ +{command}( |$)", out, re.MULTILINE), command
    assert "Say why two numbers of a confusion matrix are equal or not." in words(out)
    assert "--version" in out


def test_help_of_explain_lists_everything_needed(capsys: Capture):
    code, out, _ = run(capsys, "explain", "--help")
    assert code == 0
    for option in ("--tp", "--fp", "--fn", "--tn", "--counts", "--first", "--second", "--format"):
        assert re.search(rf"^  {option} \S+", out, re.MULTILINE), option
    assert "tp,fp,fn,tn" in out
    assert "{text,json,markdown}" in out
    assert "without both they are accuracy and f1" in words(out)
    assert "default: text" in words(out)


def test_a_mistyped_option_is_offered_the_right_one():
    assert in_one_line(WrongError("unrecognized arguments: --modl x")) == (
        "there is no option --modl: did you mean --model?"
    )
    for other in ("unrecognized arguments: --tpp 4", "unrecognized arguments: --trainer.nothing 1"):
        assert in_one_line(WrongError(other)) == other, "nothing is near, or something else is wrong"


def test_example_in_the_help_works(capsys: Capture):
    _, out, _ = run(capsys, "explain", "--help")
    [arguments] = re.findall(r"Example: evalkit ((?:[\w-]+ ?)+?) options:", words(out))
    code, out, _ = run(capsys, *arguments.split())
    assert code == 0
    assert out == explain(Counts(tp=40, fp=10, fn=10, tn=40)).text() + "\n"


def test_version(capsys: Capture):
    assert run(capsys, "--version") == (0, f"evalkit {lightning_evalkit.__version__}\n", "")


# ---- wrong use


ONES = ["--counts", "1,1,1,1"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "expected all four counts, --tp --fp --fn --tn missing; or give --counts tp,fp,fn,tn."),
        (["--tp", "1", "--tn", "1"], "expected all four counts, --fp --fn missing"),
        (["--tp", "0", "--fp", "0", "--fn", "0"], "expected all four counts, --tn missing"),
        ([*ONES, "--tp", "0"], "expected either --counts or --tp --fp --fn --tn, got --counts and --tp"),
        (["--counts", "1,2,3"], "four whole numbers such as 40,10,10,40, got '1,2,3'"),
        (["--counts", "1,2,3,4,5"], "four whole numbers such as 40,10,10,40, got '1,2,3,4,5'"),
        (["--counts", "1,2,3,x"], "four whole numbers such as 40,10,10,40, got '1,2,3,x'"),
        (["--counts", "1,2,3,4.5"], "four whole numbers such as 40,10,10,40, got '1,2,3,4.5'"),
        (["--counts", "1,2,3,²"], "four whole numbers such as 40,10,10,40, got '1,2,3,²'"),
        (["--counts=-1,2,3,4"], "four whole numbers such as 40,10,10,40, got '-1,2,3,4'"),
        (["--counts", ""], "four whole numbers such as 40,10,10,40, got ''"),
        (["--tp", "-1", "--fp", "1", "--fn", "1", "--tn", "1"], "got Counts(tp=-1, fp=1, fn=1, tn=1)"),
        ([*ONES, "--first", "acuracy"], "there is no statistic 'acuracy': did you mean 'accuracy'"),
        ([*ONES, "--second", "dice"], "the statistic 'dice' is called 'f1' here."),
        ([*ONES, "--second", "accuracy"], "expected two different statistics, got 'accuracy' twice."),
        ([*ONES, "--first", "f0"], "expected beta to be a finite number above 0"),
    ],
)
def test_wrong_use_is_one_readable_line(capsys: Capture, arguments: list[str], expected: str):
    code, out, err = run(capsys, "explain", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("evalkit explain: ")
    assert expected in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("digits", [400, 5000], ids=["beyond floats", "beyond what Python reads"])
def test_numbers_too_large_are_an_error_or_an_answer_but_no_traceback(capsys: Capture, digits: int):
    code, out, err = run(capsys, "explain", "--counts", f"1{'0' * digits},1,1,1")
    assert code in (0, 2)
    assert bool(out) is (code == 0)
    assert err.count("\n") == (code == 2)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "evalkit: expected a command: explain, diagnose, compare"),
        (["explian"], "evalkit: there is no command 'explian': did you mean 'explain'?"),
        (["--verson"], "evalkit: there is no option '--verson' without a command. All commands: evalkit --help."),
        (
            ["explain", "--tp", "1.5"],
            "evalkit explain: tp: expected an int, got 1.5. All options: evalkit explain --help.",
        ),
        (["explain", "--tp", "many"], "evalkit explain: tp: expected an int, got many. All options"),
        (["explain", *ONES, "--format", "xml"], "got xml. All options"),
        (["explain", *ONES, "--third", "mcc"], "nrecognized arguments: --third mcc. All options"),
        (["explain", "--tp"], "expected one argument. All options"),
        (["compare"], "evalkit compare: the following arguments are required: run_a, run_b. All options"),
        (["diagnose", "--third"], "evalkit diagnose: unrecognized arguments: --third. All options"),
        (["rules", "mcc"], "evalkit rules: unrecognized arguments: mcc. All options: evalkit rules --help."),
        (["rule"], "evalkit rule: the following arguments are required: code. All options"),
    ],
)
def test_arguments_that_cannot_be_read_are_told_in_one_line(capsys: Capture, arguments: list[str], expected: str):
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert expected.lower() in err.lower()
    assert err.count("\n") == 1


# ---- on a terminal


def test_a_terminal_that_is_too_narrow_cuts_no_number_off():
    headings = ("scenario", "prevalence", *"abcdef", "difference", "why")
    row = ("imbalanced at 0.02", "0.1", *["0.123456"] * 6, "+0.22474", "TN > TP, and F1 ignores TN")
    console = Console(width=80, record=True, file=io.StringIO())
    show_table(Table(headings, (row, row)), console)
    shown = console.export_text()
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    for cell in {*headings, *row}:
        assert shown.count(cell) >= 1, cell
    assert shown.count("imbalanced at 0.02") == 2 * shown.count("┏"), "every block says which row is which"


def test_a_line_is_broken_between_words():
    console = Console(width=30, record=True, file=io.StringIO())
    show_line("accuracy and f1 are [nearly] equal, they differ by 0.00025777", console)
    assert console.export_text() == "accuracy and f1 are [nearly] \nequal, they differ by \n0.00025777\n"


def test_a_text_is_broken_before_a_table_is():
    console = Console(width=40, record=True, file=io.StringIO())
    show_table(Table(("code", "rule"), (("EK101", "a value is logged instead of its metric, and so on"),)), console)
    assert console.export_text().count("┏") == 1


def recorded(finding: Finding, width: int = 100) -> str:
    console = Console(record=True, width=width, file=io.StringIO())
    show(finding, console)
    return console.export_text()


def test_terminal_shows_headline_reasons_and_table():
    shown = recorded(FINDING)
    assert shown.startswith(FINDING.headline + "\n")
    for reason in FINDING.reasons:
        assert f"• {reason}" in words(shown)
    rows = [tuple(re.split(r"[│┃]", line)) for line in shown.splitlines() if line.startswith(("│", "┃"))]
    cells = [tuple(cell.strip() for cell in row[1:-1]) for row in rows]
    assert cells == [FINDING.table.headings, *FINDING.table.rows]


def test_terminal_wraps_to_the_width():
    assert max(map(len, recorded(FINDING, width=50).splitlines())) <= 50


def test_terminal_takes_brackets_literally():
    """A class may be called [MASK] or [red]; rich reads such words as styles unless told otherwise."""
    table = Table(("positives", "recall/[MASK]"), (("[red]", "0.5"),))
    shown = recorded(Finding("code", "f1 of [bold] is 0.", ("because of [red]", "and [/red]"), table))
    for literal in ("f1 of [bold] is 0.", "because of [red]", "and [/red]", "recall/[MASK]", "│     [red]"):
        assert literal in shown


def test_terminal_without_a_table():
    assert recorded(Finding("code", "Headline.", ("reason",))).split() == ["Headline.", "•", "reason"]


def test_main_draws_a_table_on_a_terminal(capsys: Capture, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    code, out, err = run(capsys, "explain", *FOUR)
    assert (code, err) == (0, "")
    assert "┃ positives" in re.sub(r"\x1b\[[\d;]*m", "", out)


def test_forms_for_programs_are_plain_on_a_terminal_too(capsys: Capture, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert run(capsys, "explain", *FOUR, "--format", "json") == (0, FINDING.json() + "\n", "")
