"""Classes are what a file has written: no two texts become one class, and none is counted as another."""

from __future__ import annotations

import warnings
from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv, parquet

from lightning_evalkit.data import TabularDataModule
from lightning_evalkit.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

REPEATED = 14
"""Rows of each class: enough for three splits and for a column that is taken for classes."""


def written(folder: Path, classes: list[Any], kind: str) -> Path:
    """A file with rows of each class; the feature says which one it is."""
    path = folder / f"data.{kind}"
    rows = pa.table({"x": [float(place) for place in range(len(classes))] * REPEATED, "kind": classes * REPEATED})
    csv.write_csv(rows, path) if kind == "csv" else parquet.write_table(rows, path)
    return path


def numbers(data: TabularDataModule, classes: list[Any]) -> list[int]:
    """The number that each class got, which has to be the same in all of its rows."""
    rows = [row for split in data.ready for row in zip(split[0][:, 0].int().tolist(), split[1].tolist(), strict=True)]
    pairs = Counter(rows)
    assert set(pairs.values()) == {REPEATED}
    assert sorted(place for place, _ in pairs) == list(range(len(classes)))
    return [number for _, number in sorted(pairs)]


SPELLINGS = st.lists(
    st.one_of(
        st.from_regex(r"[ ]?[+-]?0?[0-3](\.0{0,2})?(E[0-2])?[ ]?", fullmatch=True),
        st.sampled_from(["True", "true", "FALSE", "false", "1_0", "\uff11", "\u0661", "e\u0301", "\u00e9", "x"]),
    ),
    min_size=2,
    max_size=6,
    unique=True,
)


@given(classes=SPELLINGS, kind=st.sampled_from(["csv", "parquet"]))
def test_two_texts_are_two_classes_or_refused(classes: list[str], kind: str, tmp_path_factory: Any) -> None:
    path = written(tmp_path_factory.mktemp("data"), classes, kind)
    data = TabularDataModule(path, "kind", standardise=False, positive=None)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* are equal as numbers")
        try:
            got = numbers(data, classes)
        except InputError as wrong:
            refusal = str(wrong)
        else:
            refusal = ""
    if refusal:
        assert "in one spelling" in refusal or "expected positive to name one" in refusal
        return
    assert sorted(got) == list(range(len(classes))), "each has a number of its own"
    if len(classes) > 2:
        assert [data.class_names[number] for number in got] == [text.strip() for text in classes]


@given(values=st.lists(st.integers(-(10**20), 10**20), min_size=3, max_size=6, unique=True))
def test_whole_numbers_are_in_their_order(values: list[int], tmp_path_factory: Any) -> None:
    texts = [str(value) for value in values]
    data = TabularDataModule(written(tmp_path_factory.mktemp("data"), texts, "csv"), "kind", standardise=False)
    assert data.class_names == [str(value) for value in sorted(values)]
    assert [sorted(values).index(value) for value in values] == numbers(data, texts)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("classes", "names", "equal"),
    [
        (["3", "1", "01", "2"], ["01", "1", "2", "3"], "'01' and '1'"),
        (["1E2", "100", "20"], ["20", "100", "1E2"], "'100' and '1E2'"),
        (["+1", "1", "-1"], ["-1", "+1", "1"], "'+1' and '1'"),
        (["\uff11", "1", "2"], ["1", "\uff11", "2"], "'1' and '\uff11'"),
    ],
)
def test_classes_that_are_equal_as_numbers_are_told(
    classes: list[str], names: list[str], equal: str, kind: str, tmp_path: Path
) -> None:
    data = TabularDataModule(written(tmp_path, classes, kind), "kind")
    with pytest.warns(UserWarning, match=rf"column 'kind': {equal.replace('+', '[+]')} are equal as numbers; as they"):
        assert data.class_names == names


@pytest.mark.parametrize(
    "classes",
    [
        ["007", "008", "009"],
        ["1.0", "2.0", "3.0"],
        ["9007199254740992.0", "9007199254740993.0", "9007199254740994.0"],  # doubles know every second one
        ["1", "1.0", "beta"],  # versions
        ["A", "a", "b"],
    ],
)
def test_names_are_as_written(classes: list[str], tmp_path: Path) -> None:
    assert TabularDataModule(written(tmp_path, classes, "csv"), "kind").class_names == classes


@pytest.mark.parametrize(
    ("classes", "first", "second"),
    [
        (["1", "1.0", "2"], "'1'", r"'1\.0'"),
        (["0", "1", "1.00"], "'1'", r"'1\.00'"),
        ([" 1", "1", "2"], "' 1'", "'1'"),
        (["cat", "cat ", "dog"], "'cat'", "'cat '"),
        (["true", "false", "True"], "'true'", "'True'"),
        (["\u00e9", "e\u0301", "x"], "'\u00e9'", "'e\u0301'"),
    ],
)
def test_two_spellings_of_one_class_are_refused_with_their_line(
    classes: list[str], first: str, second: str, tmp_path: Path
) -> None:
    line = 2 + next(place for place, text in enumerate(classes) if f"{text!r}".replace(".", r"\.") == second)
    said = rf"column 'kind', line {line}: expected every class in one spelling, this one as {first}, got {second}\."
    with pytest.raises(InputError, match=said):
        TabularDataModule(written(tmp_path, classes, "csv"), "kind").setup("")


@pytest.mark.parametrize(("positive", "found"), [(1, 1), ("1", 1), ("01", 0), (" 01", 0)])
@pytest.mark.filterwarnings("ignore:.* are equal as numbers")
def test_the_positive_value_is_found_as_written_first(positive: Any, found: int, tmp_path: Path) -> None:
    data = TabularDataModule(written(tmp_path, ["01", "1"], "csv"), "kind", positive=positive, standardise=False)
    assert numbers(data, ["01", "1"]) == [int(place == found) for place in (0, 1)]


def test_a_positive_value_that_is_two_is_refused(tmp_path: Path) -> None:
    data = TabularDataModule(written(tmp_path, ["01", "1"], "csv"), "kind", positive="1.0")
    with (
        pytest.warns(UserWarning, match="equal as numbers"),
        pytest.raises(InputError, match="to be one of its values"),
    ):
        data.setup("")


def test_the_zeros_of_floats_are_one_number(tmp_path: Path) -> None:
    data = TabularDataModule(written(tmp_path, [0.0, -0.0, 1.0], "parquet"), "kind", standardise=False)
    assert numbers(data, [0.0, -0.0, 1.0]) == [0, 0, 1]


def test_labels_are_numbers_however_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("x,a,b\n" + "0,0,true\n1,1.0,FALSE\n2, 1,True\n3,00,false\n" * 20)
    data = TabularDataModule(path, ["a", "b"], standardise=False)
    expected = torch.tensor([[0, 1], [1, 0], [1, 1], [0, 0]])
    for features, target in data.ready:
        assert torch.equal(target, expected[features[:, 0].long()])


def test_a_zero_byte_is_in_no_class(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"row 2: expected a class: .*, got 'a\\x00'"):
        TabularDataModule(written(tmp_path, ["a", "a\0", "b"], "parquet"), "kind").setup("")


@given(text=st.sampled_from(["nan", "inf", "-inf", "infinity", "2.5", "1e-400", "sNaN"]))
def test_what_is_no_whole_number_is_no_class_among_numbers(text: str, tmp_path_factory: Any) -> None:
    data = TabularDataModule(written(tmp_path_factory.mktemp("data"), ["1", "2", text], "parquet"), "kind")
    if text == "sNaN":  # a number to Decimal alone
        assert Decimal(text).is_snan()
        assert data.class_names == ["1", "2", "sNaN"]
        return
    with pytest.raises(InputError, match=rf"expected a class: .*, got '{text}'"):
        data.setup("")
