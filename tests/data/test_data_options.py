"""Errors name the option that helps, as it is written in Python or on the command line; other formats of numbers."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

import pandas
import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lightning_evalkit.cli import main
from lightning_evalkit.data import TabularDataModule, TextDataModule
from lightning_evalkit.data.options import on_command_line, option
from lightning_evalkit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Text = Callable[[str], Path]

ROWS = "".join(f"{number},a b,{number % 2}\n" for number in range(30))


def message(path: Path, **options: Any) -> str:
    with pytest.raises(InputError) as error:
        TabularDataModule(path, "y", **options).setup("fit")
    return str(error.value)


# ---- options


@given(st.lists(st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1), min_size=1))
def test_the_command_line_reads_the_option_that_an_error_names(names: list[str]):
    with on_command_line():
        said = option(exclude=names)
    word, value = shlex.split(said)
    assert word == "--data.exclude"
    assert yaml.safe_load(value) == names
    assert option(exclude=names) == f"exclude={names!r}"


def test_options_of_one_value():
    assert (option(missing="drop"), option(positive=True)) == ("missing='drop'", "positive=True")
    with on_command_line():
        assert option(missing="drop") == "--data.missing drop"
        assert option(positive=True) == "--data.positive true"
        assert option(separator=";") == "--data.separator ';'"
        for word in ("a: b", "[a]", "null", "~", "yes", "1"):
            _, value = shlex.split(option(positive=word))
            assert yaml.safe_load(value) == (word if word not in ("yes", "1") else yaml.safe_load(word))


@pytest.mark.filterwarnings("ignore::lightning_evalkit.errors.UndefinedWarning")
def test_a_run_of_evalkit_names_options_that_help_it(
    text: Text, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """What each error says is added to the call, until it trains."""
    monkeypatch.chdir(tmp_path)
    rows = (f"{number % 7},{'ab'[number % 2]} c,name {number},{['no', 'yes'][number % 2]}" for number in range(80))
    text("age;kind;who;y\n" + "\n".join(rows).replace(",", ";").replace("6;a c", ";a c") + "\n")
    words = ["fit", "--model=BinaryClassifier", "--data=TabularDataModule", "--data.path=data.csv", "--data.target=y"]
    words += ["--trainer.max_epochs=1", "--trainer.accelerator=cpu", "--trainer.logger=false"]
    words += ["--trainer.enable_checkpointing=false"]
    added = []
    for _ in range(6):
        if main([*words, *added]) == 0:
            break
        said = capsys.readouterr().err
        offered = re.findall(r"--data\.\w+ (?:'[^']*'|\w+)", said)
        assert offered, said
        added += shlex.split(offered[-1] if "column 'who'" in said else offered[0])
    named = added[::2]
    assert named == ["--data.separator", "--data.positive", "--data.missing", "--data.categorical", "--data.exclude"]


def test_a_name_in_place_of_a_list_is_told_how_to_write_the_list(text: Text, capsys: pytest.CaptureFixture[str]):
    path = text("x,text,y\n" + ROWS)
    words = ["--model=BinaryClassifier", "--data=TabularDataModule", f"--data.path={path}", "--data.target=y"]
    assert main(["fit", *words, "--data.exclude", "text"]) == 2
    assert "expected a list, got text: write '[text]'." in capsys.readouterr().err


@pytest.mark.parametrize("option", ["exclude", "features"])
def test_lists_that_are_optional_are_told_likewise(text: Text, capsys: pytest.CaptureFixture[str], option: str):
    words = ["--model=BinaryClassifier", "--data=TabularDataModule", f"--data.path={text(ROWS)}", "--data.target=y"]
    assert main(["fit", *words, f"--data.{option}", "text"]) == 2
    assert capsys.readouterr().err == f"evalkit fit: data.{option}: expected a list, got text: write '[text]'.\n"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("MulticlassDataModule", "num_classes=5: --model MulticlassClassifier"),
        ("MultilabelDataModule", "num_labels=5: --model MultilabelClassifier"),
    ],
)
def test_data_of_several_classes_or_labels_are_refused_before_a_binary_training(
    capsys: pytest.CaptureFixture[str], data: str, said: str
):
    assert main(["fit", "--model=BinaryClassifier", f"--data={data}"]) == 2
    assert f"BinaryClassifier takes one target of 0 or 1 per sample, but {data} has {said}." in capsys.readouterr().err


# ---- separators and decimal commas


def test_a_file_of_tabs_is_read_by_its_name(tmp_path: Path):
    frame = pandas.read_csv(pandas.io.common.StringIO("x,text,y\n" + ROWS))
    frame.to_csv(tmp_path / "rows.tsv", sep="\t", index=False)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    of_tabs, of_commas = (
        TabularDataModule(tmp_path / f"rows.{kind}", "y", exclude=["text"]) for kind in ("tsv", "csv")
    )
    for one, other in zip(of_tabs.ready.train, of_commas.ready.train, strict=True):
        assert torch.equal(one, other)
    texts = TextDataModule(tmp_path / "rows.tsv", "text", "y")
    texts.setup("fit")
    assert len(texts.train_dataloader()) == 1
    assert (of_tabs.separator, texts.separator, of_commas.separator) == ("\t", "\t", ",")


@pytest.mark.parametrize(
    ("mark", "said"), [(";", "separator=';'"), ("\t", "separator='tab'"), ("|", r"separator='\|'")]
)
def test_a_header_of_one_column_names_the_separator_that_is_in_it(text: Text, mark: str, said: str):
    path = text(("x,text,y\n" + ROWS).replace(",", mark))
    assert re.search(rf"Are its values separated by something else\? {said} says so", message(path))


@pytest.mark.parametrize("options", [{}, {"categorical": "auto"}], ids=["numbers", "categories"])
def test_decimal_commas_are_told_and_what_the_error_says_converts_them(
    text: Text, options: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    lines = [f"{number}{',5' if number > 3 else ''};{number % 2}" for number in range(30)]
    path = text("x;y\n" + "\n".join(lines) + "\n")
    said = message(path, separator=";", **options)
    assert "column 'x', line 6: expected a number with a decimal point" in said
    assert "got '4,5'" in said
    code = re.search(r"pandas\.read_csv\(.*index=False\)", said)
    assert code is not None
    monkeypatch.chdir(tmp_path)
    eval(code[0], {"pandas": pandas})
    data = TabularDataModule(tmp_path / "points.csv", "y", separator=";", standardise=False)
    assert sorted(torch.cat([split[0] for split in data.ready])[:, 0].tolist()) == [
        number + (0.5 if number > 3 else 0) for number in range(30)
    ]


@pytest.mark.parametrize(
    "texts", [["0,5", "1,5", "?"], [",05", "1,5e3"], ["1.200,5", "3,25"], ["−0,5 %", "1,5 %"], ["1'200,5", "0,5", "-"]]
)
def test_numbers_with_commas_are_never_categories(text: Text, texts: list[str]):
    path = text("x;y\n" + "".join(f"{texts[number % len(texts)]};{number % 2}\n" for number in range(60)))
    said = message(path, separator=";", categorical="auto")
    assert "expected a number with a decimal point" in said
    assert ("thousands='.'" in said) == ("1.200,5" in texts)
    with pytest.raises(InputError, match="expected a number with a decimal point"):
        TabularDataModule(text(f"y;x\n{path.read_text().partition(chr(10))[2]}"), "y", separator=";").setup("fit")


def test_a_comma_between_thousands_is_told_apart(text: Text):
    path = text("x;y\n" + "".join(f"{number},000;{number % 2}\n" for number in range(1, 31)))
    assert "if it separates thousands, leave it out" in message(path, separator=";")


def test_decimal_commas_split_by_the_separator_are_told_as_such(text: Text):
    said = message(text("a;b;y\n84,4;75,8;0\n70,1;60,2;1\n"))
    assert "line 2: expected a value, got 3. Are its values separated by something else? separator=';' says so." in said


def test_bytes_are_categories_as_they_are(tmp_path: Path):
    frame = pandas.DataFrame({"x": [b"\xff", b"\xfe"] * 30, "y": [0, 1, 1] * 20})
    frame.to_parquet(tmp_path / "bytes.parquet", index=False)
    assert len(TabularDataModule(tmp_path / "bytes.parquet", "y", categorical="auto").ready.train[0].T) == 2


def test_texts_with_commas_are_no_numbers(text: Text):
    path = text(
        "x;y\n" + "".join(f"{['Oslo, Norway', '1,5 kg'][number % 2]};{number % 3 > 0:d}\n" for number in range(60))
    )
    assert "expected a number (or categorical=['x'], or exclude=['x'])" in message(path, separator=";")
    TabularDataModule(path, "y", separator=";", categorical="auto").setup("fit")
