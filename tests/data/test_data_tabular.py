"""Files of the user's as data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from jsonargparse import ArgumentParser
from lightning.pytorch import Trainer
from pyarrow import csv, parquet
from quiet import QUIET
from sklearn.preprocessing import StandardScaler
from tabular_files import Linear, binary_loss, columns, read, refused, split_of

from lightning_evalkit import BinaryEvaluation
from lightning_evalkit.data.tabular import TabularDataModule

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from lightning_evalkit.data import TensorDataModule


def together(data: TensorDataModule, tensor: int) -> Tensor:
    return torch.cat([split[tensor] for split in data.ready])


def test_a_binary_file(write: Any) -> None:
    values = columns()
    data = TabularDataModule(write(values), "kind", seed=3)
    assert (data.num_features, data.feature_names) == (2, ["height", "width"])
    assert not any(hasattr(data, name) for name in ("num_classes", "class_names", "num_labels", "label_names"))
    rows = split_of(torch.tensor(values["kind"]), seed=3)
    raw = np.array([values["height"], values["width"]]).T
    scaler = StandardScaler().fit(raw[rows.train])
    for (features, target), chosen in zip(data.ready, rows, strict=True):
        assert target.tolist() == [values["kind"][row] for row in chosen]
        torch.testing.assert_close(features, torch.tensor(scaler.transform(raw[chosen])).float())


def test_features_as_they_are(write: Any) -> None:
    values = columns()
    data = read(write(values), features=["width"], standardise=False)
    assert data.num_features == 1
    assert sorted(together(data, 0).flatten().tolist()) == pytest.approx(sorted(values["width"]))


@pytest.mark.parametrize(
    ("negative", "positive", "declared"),
    [
        (0, 1, None),
        (False, True, None),
        (0.0, 1.0, None),
        ("0", "1", None),
        ("no", "yes", "yes"),
        ("no", "yes", True),  # what YAML makes of an unquoted yes
        ("No", "YES", True),
        ("yes", "no", False),
        ("b", "a", "a"),
        (1, 0, 0),
        (1, 0, "0"),
        (1, 2, 2),
        (1, 2, "2.0"),
        (-1, 1, 1),
        (True, False, "false"),
        (True, False, False),
        ("x", "007", "007"),
    ],
)
def test_binary_targets(write: Any, negative: Any, positive: Any, declared: Any) -> None:
    values = columns() | {"kind": [negative, negative, positive, negative] * 10}
    data = read(write(values), positive=declared, standardise=False)
    assert together(data, 1).sum() == 10
    heights = together(data, 0)[together(data, 1) == 1, 0]
    assert sorted(heights.tolist()) == [row + 0.5 for row in range(2, 40, 4)]
    assert not hasattr(data, "num_classes")


@pytest.mark.parametrize(
    ("classes", "names"),
    [
        (["pear", "apple", "Fig"], ["Fig", "apple", "pear"]),
        ([10, 9, -1], ["-1", "9", "10"]),
        ([2.0, 0.0, 1.0], ["0", "1", "2"]),
        (["3", "20", "1"], ["1", "3", "20"]),
        (["1", "2", "many"], ["1", "2", "many"]),
        (["1_0", "2_0", "3_0"], ["1_0", "2_0", "3_0"]),  # numbers, to Python
        (["a, b", 'say "c"', "d\ne"], ["a, b", "d\ne", 'say "c"']),
    ],
)
def test_several_classes(write: Any, classes: list[Any], names: list[str]) -> None:
    values = columns(42) | {"kind": classes * 14}
    data = TabularDataModule(write(values), "kind", standardise=False)
    assert (data.num_classes, data.class_names) == (3, names)
    for features, target in data.ready:
        written = [str(values["kind"][int(height)]).removesuffix(".0") for height in features[:, 0]]
        assert [names[number] for number in target] == written


def test_several_labels(write: Any) -> None:
    labels = {"a": [0, 1] * 20, "b": [True, True, False, False] * 10}
    data = TabularDataModule(write(columns() | labels), ["b", "a", "kind"], features=["height"], standardise=False)
    assert (data.num_labels, data.label_names) == (3, ["b", "a", "kind"])
    assert not hasattr(data, "num_classes")
    for features, target in data.ready:
        assert target.dtype is torch.int64
        rows = features[:, 0].int().tolist()
        assert target.tolist() == [[int(labels["b"][row]), labels["a"][row], row % 2] for row in rows]


@pytest.mark.parametrize(("no", "yes"), [("FALSE", "True"), (" 0", " 1"), ("0", "1.0")])
def test_no_and_yes_in_several_spellings(text: Any, no: str, yes: str) -> None:
    data = read(text("x,kind\n" + f"0,{no}\n1,{yes}\n" * 9), standardise=False)
    assert torch.equal(together(data, 0)[:, 0].long(), together(data, 1))
    assert not hasattr(data, "class_names")


def test_weights_are_a_third_tensor_and_no_feature(write: Any) -> None:
    data = read(write(columns() | {"importance": list(range(40))}), weight="importance", standardise=False)
    assert data.feature_names == ["height", "width"]
    for features, _, weight in data.ready:
        assert torch.equal(weight, features[:, 0] - 0.5)
    assert [len(batch) for batch in data.val_dataloader()] == [3]


def test_true_and_false_are_numbers(write: Any) -> None:
    data = read(write(columns() | {"width": [True, False] * 20}), standardise=False)
    assert together(data, 0)[:, 1].unique().tolist() == [0.0, 1.0]


def test_the_file_is_read_once_and_when_needed(tmp_path: Path) -> None:
    path = tmp_path / "late.csv"
    data = TabularDataModule(path, "kind")
    csv.write_csv(pa.table(columns()), path)
    assert data.num_features == 2
    path.unlink()
    assert len(data.ready.train[0]) == 24


def test_whole_numbers_may_become_fractions_late_in_a_large_file(text: Any) -> None:
    """No type is guessed from the beginning of the file, a megabyte of which pyarrow looks at."""
    rows = 120_000
    path = text(
        "x,note,kind\n" + "".join(f'{place},"two\nlines",{place % 2}\n' for place in range(rows)) + "0.5,-,late\n" * 9
    )
    assert path.stat().st_size > 2 * 2**20
    data = read(path, features=["x"], standardise=False)
    assert data.class_names == ["0", "1", "late"]
    assert (together(data, 0) == 0.5).sum() == 9


def test_a_file_with_a_byte_order_mark_spaces_and_empty_lines(text: Any) -> None:
    path = text("\ufeffx,kind\r\n" + "\r\n".join(f" {place}.5 ,{place % 2}\r\n" for place in range(20)))
    assert sorted(together(read(path, standardise=False), 0).flatten().tolist()) == [place + 0.5 for place in range(20)]


def test_categories_that_are_not_used_are_no_classes(tmp_path: Path) -> None:
    coded = pa.DictionaryArray.from_arrays(pa.array([3, 1, 0] * 14, pa.int8()), ["c", "a", "unused", "b"])
    parquet.write_table(pa.table(columns(42) | {"kind": coded}), tmp_path / "data.parquet")
    data = read(tmp_path / "data.parquet")
    assert data.class_names == ["a", "b", "c"]
    assert together(data, 1).bincount().tolist() == [14, 14, 14]


def test_row_groups_and_number_types_of_parquet(tmp_path: Path) -> None:
    values = columns() | {
        "height": pa.array(range(40), pa.int8()),
        "width": pa.array([2**60] * 40, pa.uint64()),
        "half": pa.array(np.arange(40, dtype=np.float16)),
        "kind": pa.array(["no", "yes"] * 20, pa.large_string()),
    }
    parquet.write_table(pa.table(values), tmp_path / "data.parquet", row_group_size=7)
    data = read(tmp_path / "data.parquet", positive="yes", standardise=False)
    assert torch.equal(together(data, 0)[:, 0], together(data, 0)[:, 2])
    assert torch.equal(together(data, 0)[:, 0] % 2, together(data, 1).float())
    assert together(data, 0)[:, 1].unique().tolist() == [2.0**60]


def test_the_command_line_can_make_one(write: Any) -> None:
    path = write(columns() | {"kind": ["no", "yes"] * 20})
    parser = ArgumentParser()
    parser.add_class_arguments(TabularDataModule, "data")
    parsed = parser.parse_args([f"--data.path={path}", "--data.target=kind", "--data.positive=yes", "--data.seed=4"])
    data = parser.instantiate(parsed).data
    assert together(data, 1).sum() == 20


def test_a_checkpoint_can_make_one(write: Any, tmp_path: Path) -> None:
    data = TabularDataModule(write(columns()), "kind", features=["width"], seed=4)
    trainer = Trainer(**QUIET, max_steps=1, limit_val_batches=0)
    trainer.fit(Linear(1, 1, binary_loss, BinaryEvaluation("logits")), data)
    trainer.save_checkpoint(tmp_path / "one.ckpt")
    again = TabularDataModule.load_from_checkpoint(tmp_path / "one.ckpt", weights_only=True)
    assert dict(again.hparams) == dict(data.hparams)
    assert torch.equal(again.ready.test[0], data.ready.test[0])


def test_a_good_file_is_parsed_once(text: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a fault makes it worth while to read the file again as text."""
    calls = []
    whole = csv.read_csv
    monkeypatch.setattr(csv, "read_csv", lambda *given, **options: calls.append(given) or whole(*given, **options))
    read(text("x,right,kind\n" + "1.5,true,no\n2,false,yes\n" * 9), positive="yes")
    assert len(calls) == 1
    with refused("got 'x'"):
        read(text("x,right,kind\n" + "1.5,true,no\n2,false,yes\n" * 9 + "x,true,no"), positive="yes")
    assert len(calls) == 3
