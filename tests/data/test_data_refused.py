"""Files and columns that are refused, and what is said."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from tabular_files import columns, read, refused

from lightning_evalkit.data.tabular import TabularDataModule
from lightning_evalkit.errors import DeclarationError

if TYPE_CHECKING:
    from pathlib import Path


def place(path: Path, row: int) -> str:
    """What the row with this number, from 1, is called in an error."""
    return f"line {row + 1}" if path.suffix == ".csv" else f"row {row}"


def test_no_such_file(tmp_path: Path) -> None:
    with refused(r"absent\.csv: expected a file, but there is none"):
        read(tmp_path / "absent.csv")


@pytest.mark.parametrize(("name", "got"), [("data.xlsx", r"'\.xlsx'"), ("data", "'no suffix'")])
def test_unknown_suffix(tmp_path: Path, name: str, got: str) -> None:
    with refused(rf"{name}: expected a file that ends in \.csv, \.tsv or \.parquet, got {got}"):
        read(tmp_path / name)


def test_without_pyarrow(monkeypatch: pytest.MonkeyPatch, write: Any) -> None:
    path = write(columns())
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with refused(r"needs pyarrow, .*: pip install \"lightning-evalkit\[data\]\""):
        read(path)


@pytest.mark.parametrize("lines", ["", "\n\n"])
def test_an_empty_file(text: Any, lines: str) -> None:
    with refused(r"data\.csv: expected a line of names, got nothing"):
        read(text(lines))


def test_a_file_that_is_no_parquet(tmp_path: Path) -> None:
    (tmp_path / "data.parquet").write_text("height,kind\n1,2\n")
    with refused(r"data\.parquet: expected parquet data, but it cannot be read: "):
        read(tmp_path / "data.parquet")


@pytest.mark.parametrize("line", ["k\xe4se,1\n", "1,k\xe4se\n"])
def test_a_file_that_is_not_unicode(tmp_path: Path, line: str) -> None:
    (tmp_path / "data.csv").write_bytes(("x,kind\n" + "1,0\n" * 9 + line).encode("latin-1"))
    with refused(r"data\.csv, line 11: expected CSV text in UTF-8, got the byte 0xe4\. Save the file as UTF-8"):
        read(tmp_path / "data.csv")


def test_names_that_are_not_unicode(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_bytes(b"k\xe4se,kind\n" + b"1,0\n" * 9)
    with refused(r"data\.csv, line 1: expected CSV text in UTF-8, got the byte 0xe4\."):
        read(tmp_path / "data.csv")


@pytest.mark.parametrize(("row", "got"), [("7", 1), ("7,1,2", 3)])
@pytest.mark.parametrize("before", [2, 200_000])
def test_a_line_of_another_length(text: Any, row: str, got: int, before: int) -> None:
    lines = ["x,kind", *(["1,0", "2,1"] * before)[:before], "", row, "1,0"]
    with refused(rf"data\.csv, line {before + 3}: expected 2 values, got {got}\."):
        read(text("\n".join(lines)))


@pytest.mark.parametrize("rows", [0, 5])
def test_too_few_rows(write: Any, rows: int) -> None:
    with refused(rf"expected at least 6 rows, one of each class in each of three splits, got {rows}"):
        read(write(columns(rows)))


def test_six_rows_are_enough(write: Any) -> None:
    assert [sorted(target.tolist()) for _, target in read(write(columns(6))).ready] == [[0, 1]] * 3


@pytest.mark.parametrize(
    ("options", "absent", "hint"),
    [
        ({"target": "kimd"}, "kimd", "did you mean 'kind'"),
        ({"features": ["height", "with"]}, "with", "did you mean 'width'"),
        ({"weight": "zzz"}, "zzz", "expected one of height, kind, width"),
        ({"target": ["kind", "kinds"]}, "kinds", "did you mean 'kind'"),
    ],
)
def test_a_missing_column(write: Any, options: dict[str, Any], absent: str, hint: str) -> None:
    with refused(rf"data\.\w+: expected a column '{absent}', but there is none: {hint}"):
        read(write(columns()), **options)


def test_another_separator(text: Any) -> None:
    with refused(r"expected one of x;kind. Are its values separated by something else\? separator=.;. says so"):
        read(text("x;kind\n" + "1;0\n" * 9), features=["x"], target="q")


def test_equal_names(text: Any, tmp_path: Path) -> None:
    path = text("x,kind,x\n" + "1,0,2\n" * 9)
    with refused(r"data\.csv: expected a name of its own for each column, got 2 named 'x'"):
        read(path)
    table = pa.Table.from_arrays([pa.array([1.0] * 9)] * 3, names=["kind", "x", "x"])
    parquet.write_table(table, tmp_path / "data.parquet")
    with refused(r"data\.parquet: expected a name of its own for each column, got 2 named 'x'"):
        read(tmp_path / "data.parquet")


@pytest.mark.parametrize("name", ["", "Unnamed: 0", "__index_level_0__"])
def test_an_index_is_no_feature_unless_asked_for(write: Any, name: str) -> None:
    path = write({name: list(range(40))} | columns())
    with refused(f"column '{name}' looks like the number of the row, which gives the target away"):
        read(path)
    assert read(path, features=["height"]).num_features == 1
    assert read(path, features=[name, "height"]).num_features == 2


def test_nothing_but_the_target(write: Any) -> None:
    with refused(r"expected columns for the features in addition to \['kind'\], got none"):
        read(write({"kind": [0, 1] * 20}))


@pytest.mark.parametrize("row", [1, 17, 40])
@pytest.mark.parametrize(("others", "value"), [("1.5", "tall"), ("true", "perhaps"), ("1.5", "1,5"), ("7", "12 cm")])
def test_a_feature_that_is_no_number(write: Any, row: int, others: str, value: str) -> None:
    path = write(columns() | {"width": [others] * (row - 1) + [value] + [others] * (40 - row)})
    with refused(rf"data\.\w+, column 'width', {place(path, row)}: expected a number .*, got '{value}'\."):
        read(path)


def test_the_right_column_is_blamed(text: Any) -> None:
    """When one column has to be looked at as text, spaces, truth values and large numbers in others are still fine."""
    rows = [f" {place} ,{'TRUE' if place % 2 else 'false'},1e300,{place % 2}" for place in range(30)]
    rows[20] = "1,true,x,1"
    with refused("column 'c', line 22: expected a number .*, got 'x'"):
        read(text("a,b,c,kind\n" + "\n".join(rows)))


def test_a_late_fault_in_a_large_file_is_found(text: Any) -> None:
    lines = [f"{place},{place % 2}" for place in range(250_000)]
    lines[222_222] = "oops,1"
    with refused("column 'x', line 222224: expected a number .*, got 'oops'"):
        read(text("x,kind\n" + "\n".join(lines)))


def test_lines_are_counted_as_an_editor_shows_them(text: Any) -> None:
    """Empty lines and values that span lines count."""
    rows = "".join(f'"two\nlines",{place},{place % 2}\n\n' for place in range(10))
    with refused("column 'x', line 32: expected a finite number .*, got a gap"):
        read(text("note,x,kind\n" + rows + "a,,1\n"), features=["x"])


@pytest.mark.parametrize("column", ["width", "importance"])
@pytest.mark.parametrize(
    ("value", "got"), [(None, "a gap"), (float("inf"), "inf"), (float("-inf"), "-inf"), (1e39, r"1e\+39")]
)
def test_a_value_that_is_not_finite(write: Any, column: str, value: Any, got: str) -> None:
    values = columns() | {"importance": [1.0] * 40}
    values[column][11] = value
    path = write(values)
    with refused(rf"column '{column}', {place(path, 12)}: expected a finite number .*, got {got}\."):
        read(path, weight="importance")


def test_nan(write: Any) -> None:
    values = columns()
    values["width"][0] = float("nan")
    path = write(values)
    with refused(rf"column 'width', {place(path, 1)}: expected a finite number .*, got (a gap|nan)\."):
        read(path)


@pytest.mark.parametrize("missing", ["", "NA", "NaN", "null"])
def test_a_target_that_is_missing(text: Any, missing: str) -> None:
    with refused(r"column 'kind', line 12: expected a class \(missing='drop' leaves such rows out\), got a gap\."):
        read(text("x,kind\n" + "1,a\n2,b\n" * 5 + f"3,{missing}\n"), positive="a")


def test_a_target_that_is_missing_in_parquet(tmp_path: Path) -> None:
    for value, got in ((None, "a gap"), (float("nan"), "nan")):
        parquet.write_table(pa.table(columns() | {"kind": [0.0, 1.0] * 19 + [value, 1.0]}), tmp_path / "data.parquet")
        with refused(rf"column 'kind', row 39: expected a class.*, got {got}\."):
            read(tmp_path / "data.parquet")


def test_one_class_only(write: Any) -> None:
    with refused(r"data\.\w+, column 'kind': expected two classes or more, got only '1'"):
        read(write(columns() | {"kind": [1] * 40}))
    with refused(r"column 'kind': expected two classes or more, got only 'yes'"):
        read(write(columns() | {"kind": ["yes"] * 40}), positive="yes")
    with refused(r"column 'b': expected two classes or more, got only '0'"):
        read(write(columns() | {"b": [0] * 40}), target=["kind", "b"])


def test_fractions_are_no_classes(write: Any) -> None:
    path = write(columns() | {"kind": [1, 2.5, 3, 4] * 10})
    with refused(rf"column 'kind', {place(path, 2)}: expected a class: a text, a whole number, .*, got '?2\.5'?\."):
        read(path)


def test_dates_are_no_classes(tmp_path: Path) -> None:
    parquet.write_table(pa.table(columns() | {"kind": pa.array([0, 1] * 20, pa.date32())}), tmp_path / "data.parquet")
    with refused(r"column 'kind', row 1: expected a class: .*, got datetime.date\(1970, 1, 1\)"):
        read(tmp_path / "data.parquet")


def test_dates_are_no_numbers(tmp_path: Path) -> None:
    parquet.write_table(pa.table(columns() | {"day": pa.array([0] * 40, pa.date32())}), tmp_path / "data.parquet")
    with refused(r"column 'day', row 1: expected a number .*, got datetime.date\(1970, 1, 1\)"):
        read(tmp_path / "data.parquet")


def test_a_blank_text_is_no_class(tmp_path: Path) -> None:
    parquet.write_table(pa.table(columns() | {"kind": ["a", " "] * 20}), tmp_path / "data.parquet")
    with refused(r"column 'kind', row 2: expected a class: .*, got ' '"):
        read(tmp_path / "data.parquet")


def test_nearly_as_many_classes_as_rows(write: Any) -> None:
    with refused(
        "column 'height': expected classes, of which every split has rows, got 40 different values in 40 rows"
    ):
        read(write(columns()), target="height")


def test_a_rare_class_is_told_with_file_and_column(write: Any) -> None:
    with refused(r"have too few of no \(2 rows, shared out as .*\): gather"):
        read(write(columns() | {"kind": ["yes"] * 38 + ["no"] * 2}), positive="yes")
    with refused(r"data\.\w+, target \['kind'\]: .* 40 rows have too few of rare \(1 row, shared out as 1, 0, 0\)"):
        read(write(columns() | {"kind": ["a", "b"] * 19 + ["a", "rare"]}))


@pytest.mark.parametrize(("values", "names"), [(["no", "yes"], "'no' and 'yes'"), ([1, 2], "'1' and '2'")])
def test_two_values_need_to_be_told_apart(write: Any, values: list[Any], names: str) -> None:
    with refused(f"expected positive to name one of the two values {names}, for example positive='{values[1]}'"):
        read(write(columns() | {"kind": values * 20}))


def test_a_positive_value_that_does_not_occur(write: Any) -> None:
    path = write(columns() | {"kind": ["no", "yes"] * 20})
    with refused("column 'kind': expected positive='yess' to be one of its values: did you mean 'yes'"):
        read(path, positive="yess")
    with refused("expected positive='Yes' to be one of its values"):
        read(path, positive="Yes")
    path = write(columns() | {"kind": ["a", "b"] * 20})
    with refused("expected positive=True to be one of its values: expected one of a, b"):
        read(path, positive=True)


def test_a_positive_value_among_several(write: Any) -> None:
    with refused(r"expected two values, of which positive='a' is one, got 4 \('a', 'b', 'c', 'd', …\): leave positive"):
        read(write(columns() | {"kind": ["a", "b", "c", "d"] * 10}), positive="a")


def test_a_label_that_is_not_0_or_1(write: Any) -> None:
    path = write(columns() | {"b": [0, 1, 1, 2] * 10})
    with refused(rf"column 'b', {place(path, 4)}: expected 0 or 1, or false or true, in every label, got '?2'?\."):
        read(path, target=["kind", "b"])


def test_weights_that_are_none(write: Any) -> None:
    path = write(columns() | {"importance": [1.0] * 20 + [-0.5] + [1.0] * 19})
    with refused(rf"column 'importance', {place(path, 21)}: expected a weight of 0 or more, got -0\.5"):
        read(path, weight="importance")
    with refused("column 'importance': expected weights above 0, got only zeros in train rows"):
        read(write(columns() | {"importance": [0.0] * 40}), weight="importance")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "a", "features": ["b", "a"]}, "every column in one role, got 'a' both target and feature"),
        ({"target": ["a", "b"], "weight": "b"}, "every column in one role, got 'b' both target and"),
        ({"target": "a", "features": ["b", "c"], "weight": "c"}, "every column in one role, got 'c' twice as feature"),
        ({"target": ["a", "b", "a"]}, "every column in one role, got 'a' both target and feature, weight or target"),
        ({"target": "a", "features": []}, r"expected a list of features, got \[\]: leave it out"),
        ({"target": "a", "features": "height"}, "expected a list of features, got 'height'"),
        ({"target": ["a"]}, r"expected at least 2 labels in a list, got \['a'\]: name a single column without one"),
        ({"target": ["a", "b"], "positive": 1}, "expected labels of 0 and 1 without positive, got positive=1"),
        ({"target": "a", "val_share": 1.0}, "expected val_share and test_share above 0"),
        ({"target": "a", "batch_size": 0}, "expected a batch_size of at least 1, got 0"),
    ],
)
def test_declarations_that_contradict_themselves(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        TabularDataModule("absent.csv", **options)
