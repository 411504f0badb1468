"""Files with texts and gaps: refused until something is said about them, then filled and encoded from training rows.

Every file has a column of row numbers, so that each row of a tensor can be found again in the file, and pandas says
what its values should be.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas
import pytest
import torch

from lightning_evalkit.cli.training import launched
from lightning_evalkit.data import TabularDataModule
from lightning_evalkit.errors import DeclarationError, InputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROWS = 60
Write = "Callable[[pandas.DataFrame], Path]"


@pytest.fixture(params=["csv", "parquet"])
def write(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[pandas.DataFrame], Path]:
    def written(frame: pandas.DataFrame) -> Path:
        path = tmp_path / f"data.{request.param}"
        frame.to_csv(path, index=False) if request.param == "csv" else frame.to_parquet(path, index=False)
        return path

    return written


def people() -> pandas.DataFrame:
    """Texts and gaps among numbers, and nothing else wrong."""
    drawn = np.random.default_rng(0)
    frame = pandas.DataFrame({"number": np.arange(ROWS), "age": drawn.normal(40, 10, ROWS).round(1)})
    frame["colour"] = drawn.choice(["red", "green", "blue"], ROWS)
    frame["name"] = [f"person {row}" for row in range(ROWS)]
    frame.loc[::7, "age"] = None
    frame.loc[3::11, "colour"] = None
    frame["ill"] = (drawn.random(ROWS) < 0.4).astype(int)
    return frame


def read(path: Path, **options: Any) -> tuple[TabularDataModule, dict[str, pandas.DataFrame]]:
    """The data module, and the features of each split as frames by row number."""
    data = TabularDataModule(path, target="ill", standardise=False, **options)
    frames = {}
    for split, (features, *_) in data.ready._asdict().items():
        frame = pandas.DataFrame(features.numpy(), columns=data.feature_names)
        frames[split] = frame.set_index(frame.pop("number").astype(int))
    return data, frames


FILLED: dict[str, Any] = {"categorical": ["colour"], "exclude": ["name"]}


def test_two_options_are_enough(write: Any):
    path = write(people().drop(columns="name"))
    words = ["fit", "--model=BinaryClassifier", "--data=TabularDataModule", f"--data.path={path}", "--data.target=ill"]
    quiet = ["--trainer.accelerator=cpu", "--trainer.fast_dev_run=1", "--trainer.enable_model_summary=false"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about workers, and what is 0/0 in one batch
        ended = launched([*words, "--data.missing=mean", "--data.categorical=auto", *quiet])
    assert ended.datamodule.num_features == ended.model.network[0].in_features == 6
    assert ended.datamodule.feature_names == ["number", "age", *(f"colour={c}" for c in ("blue", "green", "red", ""))]


@pytest.mark.parametrize("missing", ["mean", "median"])
def test_gaps_are_filled_from_training_rows(write: Any, missing: str):
    frame = people()
    _, splits = read(write(frame), missing=missing, **FILLED)
    known = frame.age[splits["train"].index]
    expected = frame.age.fillna(getattr(known, missing)())
    for split in splits.values():
        np.testing.assert_allclose(split.age, expected[split.index], rtol=1e-6)
    assert sum(frame.age[split.index].isna().any() for split in splits.values()) >= 2, "in training and beyond"


def test_categories_are_columns_of_0_and_1(write: Any):
    frame = people()
    data, splits = read(write(frame), missing="mean", **FILLED)
    expected = pandas.get_dummies(frame.colour, prefix="colour", prefix_sep="=", dummy_na=True).astype(float)
    expected = expected.rename(columns={"colour=nan": "colour="})
    assert data.feature_names[2:] == list(expected.columns)
    for split in splits.values():
        pandas.testing.assert_frame_equal(
            split[list(expected)], expected.loc[split.index], check_dtype=False, check_names=False
        )


def test_what_training_rows_do_not_have_is_0_and_told(write: Any):
    frame = people()
    _, splits = read(write(frame), missing="mean", **FILLED)
    row = splits["test"].index[0]
    frame.loc[row, "colour"] = "mauve"
    with pytest.warns(UserWarning, match="'colour': 1 rows of validation and test .* such as 'mauve'; all columns"):
        data, again = read(write(frame), missing="mean", **FILLED)
    assert "colour=mauve" not in data.feature_names
    assert again["test"].loc[row].filter(like="colour=").sum() == 0
    assert (again["train"].filter(like="colour=").sum(axis=1) == 1).all()


def test_rows_with_gaps_are_left_out_and_counted(write: Any):
    frame = people()
    gaps = frame.age.isna() | frame.colour.isna()
    with pytest.warns(UserWarning, match=f"{gaps.sum()} of {ROWS} rows have gaps and are left out"):
        data, splits = read(write(frame), missing="drop", **FILLED)
    assert sorted(row for split in splits.values() for row in split.index) == list(frame.index[~gaps])
    assert "colour=" not in data.feature_names
    for split, (_, target) in data.ready._asdict().items():
        assert target.tolist() == frame.ill[splits[split].index].tolist()


def test_a_fault_behind_rows_that_are_left_out_is_told_where_it_is(write: Any):
    frame = people()
    frame.loc[20, "age"] = np.inf
    path = write(frame)
    place = "line 22" if path.suffix == ".csv" else "row 21"
    with (
        pytest.warns(UserWarning, match="left out"),
        pytest.raises(InputError, match=f"'age', {place}: expected a finite"),
    ):
        read(path, missing="drop", **FILLED)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"missing": "mean", "exclude": ["name"]},
            r"'colour', .*expected a number \(or categorical=\['colour'\], or exclude",
        ),
        (
            {"categorical": ["colour"], "exclude": ["name"]},
            r"'colour', .*: expected a category \(missing='drop' leaves such rows out, missing='mean' makes gaps a "
            r"category\), got a gap\.",
        ),
        (
            {"exclude": ["name", "colour"]},
            r"'age', .*: expected a finite number \(missing='mean' fills gaps, missing='drop' leaves such rows out\), "
            r"got a gap\.",
        ),
        (
            {"missing": "mean", "categorical": "auto"},
            r"'name': expected categories that many rows have, got 60 different .*\? exclude=\['name'\] leaves it out",
        ),
        ({"exclude": ["nam"]}, "expected exclude to name columns, got 'nam': did you mean 'name'"),
        ({"categorical": ["color"]}, "expected categorical to name features, got 'color': did you mean 'colour'"),
    ],
)
def test_what_was_not_said_is_refused(write: Any, options: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message):
        read(write(people()), **options)


def test_a_column_of_gaps_has_no_mean(write: Any):
    frame = people().assign(age=[None] * (ROWS - 1) + [1.0])
    _, splits = read(write(frame.assign(age=0.0)), missing="mean", **FILLED)
    frame["age"] = None
    frame.loc[splits["test"].index[0], "age"] = 1.0
    with pytest.raises(InputError, match="'age': expected a number in some training row, got gaps only"):
        read(write(frame.astype({"age": float})), missing="mean", **FILLED)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"missing": "zero"}, "expected missing to be one of drop, mean, median, got 'zero'"),
        ({"categorical": "colour"}, "expected categorical to be a list of columns or 'auto', got 'colour'"),
        ({"separator": ";;"}, "expected a separator of one character, such as ';', or 'tab', got ';;'"),
        ({"features": ["age"], "exclude": ["name"]}, "expected either features or exclude, got both"),
        ({"exclude": ["ill"]}, "expected every column in one role, got 'ill' both target and"),
    ],
)
def test_declarations_that_mean_nothing(options: dict[str, Any], message: str):
    with pytest.raises(DeclarationError, match=message):
        TabularDataModule("absent.csv", target="ill", **options)
    with pytest.raises(DeclarationError, match=r"expected no separator for absent\.parquet"):
        TabularDataModule("absent.parquet", target="ill", separator=";")


@pytest.mark.parametrize(("separator", "said"), [(";", ";"), ("\t", "tab"), ("\t", "\\t"), ("|", "|")])
def test_separators(tmp_path: Path, separator: str, said: str):
    path = tmp_path / "data.csv"
    frame = people()[["number", "ill"]]
    frame.to_csv(path, index=False, sep=separator)
    data, _ = read(path, separator=said)
    assert data.feature_names == ["number"]
    assert torch.cat([target for _, target in data.ready]).sum() == frame.ill.sum()
