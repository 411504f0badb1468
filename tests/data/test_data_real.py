"""Real data: splits that look like the whole, features on the training rows' scale, files whose faults are told."""

from __future__ import annotations

import sys
from collections import Counter
from math import floor
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from jsonargparse import ArgumentParser
from lightning.pytorch import LightningModule, Trainer
from pyarrow import csv, parquet
from sklearn import datasets
from sklearn.preprocessing import StandardScaler
from torch.nn import functional

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit.data.real import (
    BreastCancerDataModule,
    DigitsDataModule,
    IsDigitDataModule,
    PackagedDataModule,
    WineDataModule,
)
from lightning_evalkit.data.splitting import SplitRows, checked_shares, standardised, stratified
from lightning_evalkit.data.tabular import TabularDataModule
from lightning_evalkit.errors import DeclarationError, InputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torch import Tensor

    from lightning_evalkit.data import TensorDataModule


laws = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


def split_of(target: Tensor, val_share: float = 0.2, test_share: float = 0.2, seed: int = 0) -> SplitRows:
    names = [f"c{place}" for place in range(int(target.max()) + 1 if target.ndim == 1 else target.shape[1])]
    return stratified(target, checked_shares(val_share, test_share), seed, names, "the file")


# ---- the split

class_sizes = st.lists(st.integers(6, 60), min_size=2, max_size=12)
share_pairs = st.tuples(st.floats(0.17, 0.4), st.floats(0.17, 0.4))
"""With at least 6 rows of a class, each of the smaller splits is due one."""


def classes_of(sizes: list[int], seed: int = 0) -> Tensor:
    classes = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    return classes[torch.randperm(len(classes), generator=torch.Generator().manual_seed(seed))]


@laws
@given(sizes=class_sizes, shares=share_pairs, seed=st.integers(0, 2**31))
def test_every_row_is_in_one_split_and_classes_have_their_share(
    sizes: list[int], shares: tuple[float, float], seed: int
) -> None:
    target = classes_of(sizes, seed)
    rows = split_of(target, *shares, seed)
    assert sorted(torch.cat(rows).tolist()) == list(range(len(target)))
    for split, share in zip(rows, (1 - sum(shares), *shares), strict=True):
        assert split.tolist() == sorted(split.tolist())
        counts = target[split].bincount(minlength=len(sizes)).tolist()
        assert min(counts) > 0
        assert all(abs(count - share * size) < 1 for count, size in zip(counts, sizes, strict=True))


@laws
@given(sizes=class_sizes, shares=share_pairs, seed=st.integers(0, 1000), order=st.integers(1, 1000))
def test_counts_depend_on_nothing_but_class_counts(
    sizes: list[int], shares: tuple[float, float], seed: int, order: int
) -> None:
    first, second = classes_of(sizes), classes_of(sizes, order)
    one, other = split_of(first, *shares), split_of(second, *shares, seed)
    for here, there in zip(one, other, strict=True):
        assert first[here].bincount().tolist() == second[there].bincount().tolist()


def test_the_same_seed_gives_the_same_rows_and_another_seed_others() -> None:
    target = classes_of([40, 20])
    first, again, other = split_of(target, seed=3), split_of(target, seed=3), split_of(target, seed=4)
    assert all(torch.equal(one, two) for one, two in zip(first, again, strict=True))
    assert not torch.equal(first.test, other.test)
    assert [len(split) for split in first] == [len(split) for split in other] == [36, 12, 12]


def test_what_one_class_is_rounded_by_another_makes_good() -> None:
    """17 rows at 0.6, 0.2, 0.2 are 10.2, 3.4, 3.4: rounded one by one, always in the same way, 100, 40 and 30."""
    rows = split_of(classes_of([17] * 10))
    assert [len(split) for split in rows] == [102, 34, 34]


@pytest.mark.parametrize(("share", "rows", "expected"), [(0.29, 100, 29), (0.07, 100, 7), (0.15, 20, 3)])
def test_a_share_that_is_whole_is_kept_whole(share: float, rows: int, expected: int) -> None:
    """100 · 0.29 is 28.999999999999996 in floating point."""
    split = split_of(classes_of([rows] * 5), share, share)
    assert classes_of([rows] * 5)[split.val].bincount().tolist() == [expected] * 5


def test_a_share_that_is_whole_is_kept_whole_though_rows_are_owed() -> None:
    """Of 7 rows at 0.5, 0.25, 0.25 training gets 3, half a row too few; of 6 it is due 3 exactly."""
    target = classes_of([7, 6])
    assert target[split_of(target, 0.25, 0.25).train].bincount().tolist() == [3, 3]


def test_a_class_of_three_rows_is_in_every_split() -> None:
    target = classes_of([100, 3])
    assert [int((target[split] == 1).sum()) for split in split_of(target)] == [1, 1, 1]


def test_a_class_that_cannot_be_everywhere_is_told_with_its_rows() -> None:
    with pytest.raises(
        InputError,
        match=r"the file: expected rows of every class in training, validation and test, but the 56 rows have too few "
        r"of c1 \(2 rows, shared out as .*\), c2 \(4 rows, shared out as 3, [01], [01]\): gather more",
    ):
        split_of(classes_of([50, 2, 4]), 0.1, 0.1)


def test_many_such_classes_are_told_in_short() -> None:
    with pytest.raises(InputError, match=r"c1 \(1 row.* c5 \(1 row.*\), 15 more: gather more"):
        split_of(classes_of([50] + [1] * 20))


@pytest.mark.parametrize(
    ("val", "test"), [(0.0, 0.2), (0.2, 0.0), (-0.1, 0.2), (0.5, 0.5), (0.7, 0.6), (float("nan"), 0.2)]
)
def test_shares_that_leave_a_split_empty_are_refused(val: float, test: float) -> None:
    with pytest.raises(DeclarationError, match="expected val_share and test_share above 0 that leave something"):
        checked_shares(val, test)


# ---- the split of several labels


@st.composite
def label_tables(draw: st.DrawFn) -> Tensor:
    rows, labels = draw(st.integers(60, 300)), draw(st.integers(2, 6))
    prevalences = torch.tensor(draw(st.lists(st.floats(0.15, 0.85), min_size=labels, max_size=labels)))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 1000)))
    return (torch.rand(rows, labels, generator=generator) < prevalences).long()


@laws
@given(target=label_tables(), shares=share_pairs, seed=st.integers(0, 1000))
def test_joint_patterns_have_their_share(target: Tensor, shares: tuple[float, float], seed: int) -> None:
    try:
        rows = split_of(target, *shares, seed)
    except InputError:
        assume(False)  # a label that is too rare, which another test is about
    assert sorted(torch.cat(rows).tolist()) == list(range(len(target)))
    patterns = Counter(map(tuple, target.tolist()))
    rarer = torch.minimum(target.sum(0), len(target) - target.sum(0))
    rarest = int(rarer.argmin())
    for split, share in zip(rows, (1 - sum(shares), *shares), strict=True):
        inside = Counter(map(tuple, target[split].tolist()))
        for pattern, total in patterns.items():  # of each pattern at most 2 rows are left after whole shares
            assert floor(share * total + 1e-6) <= inside[pattern] <= floor(share * total) + 2
        assert abs(target[split, rarest].sum() - share * target[:, rarest].sum()) < 1 + abs(
            len(split) - share * len(target)
        )


def test_a_rare_label_is_spread_even_if_no_two_of_its_rows_are_alike() -> None:
    """10 rows have the label, each with another pattern of the others: whole shares of patterns give out none."""
    labels = torch.zeros(410, 5, dtype=torch.int64)
    labels[:, 1:] = (torch.arange(410).unsqueeze(1) >> torch.arange(4)) % 2
    labels[:10, 0] = 1
    for seed in range(20):
        rows = split_of(labels, seed=seed)
        assert [int(labels[split, 0].sum()) for split in rows] == [6, 2, 2]


def test_a_label_that_is_nearly_always_there_is_spread_by_its_absence() -> None:
    labels = torch.ones(410, 5, dtype=torch.int64)
    labels[:, 1:] = (torch.arange(410).unsqueeze(1) >> torch.arange(4)) % 2
    labels[:10, 0] = 0
    for seed in range(20):
        rows = split_of(labels, seed=seed)
        assert [int((1 - labels[split, 0]).sum()) for split in rows] == [6, 2, 2]


def test_patterns_of_more_labels_than_a_word_has_bits_are_kept_apart() -> None:
    """Two patterns of 70 labels that differ in the first and in the last label only."""
    labels = (torch.arange(70) % 2).repeat(200, 1)
    labels[:100, 0], labels[::2, 69] = 1, 0
    labels[:, 1:69] = (torch.arange(200).unsqueeze(1) // 50 + torch.arange(68)) % 2
    patterns = Counter(map(tuple, labels.tolist()))
    assert set(patterns.values()) == {25}
    for split, each in zip(split_of(labels), (15, 5, 5), strict=True):
        assert set(Counter(map(tuple, labels[split].tolist())).values()) == {each}


def test_a_label_that_is_too_rare_is_told() -> None:
    labels = torch.stack((torch.arange(50) % 2, (torch.arange(50) < 2).long()), 1)
    with pytest.raises(InputError, match=r"have too few of c1 = 1 \(2 rows, shared out as .*\): gather more"):
        split_of(labels)


# ---- standardisation


def test_standardised_like_scikit_learn_by_the_training_rows() -> None:
    features = torch.randn(100, 4) * torch.tensor([1.0, 1e-6, 1e6, 3.0]) + torch.tensor([0.0, 5.0, -1e8, 2.0])
    train = torch.arange(0, 100, 2)
    scaler = StandardScaler().fit(features[train].double().numpy())
    expected = torch.tensor(scaler.transform(features.double().numpy()))
    result = standardised(features, train)
    assert result.dtype is torch.float32
    torch.testing.assert_close(result.double(), expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(standardised(features[:, 2], train), result[:, 2], rtol=0, atol=0)


@pytest.mark.parametrize(("offset", "step"), [(1.7e9, 1.0), (1e9 + 0.1, 2.0**-22)])
def test_a_large_offset_costs_no_digits(offset: float, step: float) -> None:
    """Seconds since 1970 over a minute, where float32 steps by 128 seconds; and steps near those of float64."""
    steps = torch.arange(60, dtype=torch.float64)
    expected = (steps - 29.5) / ((60**2 - 1) / 12) ** 0.5  # the mean and deviation of 0 … 59
    torch.testing.assert_close(standardised(steps * step + offset, torch.arange(60)), expected.float())


def test_a_constant_column_becomes_zero() -> None:
    """Ten times 0.1 is not 1 in floating point; and what is constant in training says nothing later."""
    features = torch.full((11, 2), 0.1, dtype=torch.float64)
    features[10] = 5.0
    assert standardised(features, torch.arange(10)).tolist() == [[0.0, 0.0]] * 11


# ---- what scikit-learn brings along

PACKAGED: dict[type[PackagedDataModule], Callable[[], Any]] = {
    BreastCancerDataModule: datasets.load_breast_cancer,
    WineDataModule: datasets.load_wine,
    DigitsDataModule: datasets.load_digits,
    IsDigitDataModule: datasets.load_digits,
}


@pytest.mark.parametrize(("module", "load"), PACKAGED.items())
def test_packaged_data_is_all_there_and_standardised(module: type[PackagedDataModule], load: Callable[[], Any]) -> None:
    bunch, data = load(), module(val_share=0.25, test_share=0.15)
    assert data._splits is None
    assert data.num_features == bunch.data.shape[1]
    train, val, test = (features for features, _ in data.ready)
    assert len(train) + len(val) + len(test) == len(bunch.data)
    assert len(val) == pytest.approx(0.25 * len(bunch.data), abs=1)
    assert len(test) == pytest.approx(0.15 * len(bunch.data), abs=1)
    moving = train.std(0, correction=0) > 0
    torch.testing.assert_close(train.mean(0), torch.zeros(data.num_features), atol=1e-5, rtol=0)
    torch.testing.assert_close(train.std(0, correction=0), moving.float(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("module", [WineDataModule, DigitsDataModule])
def test_classes_are_known_before_the_data_is_read(module: type[Any]) -> None:
    bunch, data = PACKAGED[module](), module()
    assert data.num_classes == len(bunch.target_names)
    assert data.class_names == [str(name) for name in bunch.target_names]
    assert data._splits is None
    counts = sum(target.bincount() for _, target in data.ready)
    assert counts.tolist() == np.bincount(bunch.target).tolist()


@pytest.mark.parametrize("module", [BreastCancerDataModule, IsDigitDataModule])
@pytest.mark.parametrize("name", ["num_classes", "class_names", "num_labels", "label_names"])
def test_binary_data_has_no_classes(module: type[Any], name: str) -> None:
    assert not hasattr(module(), name)


def test_malignant_is_positive() -> None:
    """Malignant tumours are the larger ones; scikit-learn counts 212 of them, and 357 benign ones."""
    bunch, data = datasets.load_breast_cancer(), BreastCancerDataModule()
    assert bunch.target_names.tolist() == ["malignant", "benign"]
    counts = sum(target.bincount() for _, target in data.ready)
    assert counts.tolist() == [357, 212]
    features, target = data.ready.train
    radius = features[:, bunch.feature_names.tolist().index("mean radius")]
    assert radius[target == 1].mean() > radius[target == 0].mean() + 1


@pytest.mark.parametrize("digit", [0, 7])
def test_is_it_this_digit_has_the_rows_of_all_digits(digit: int) -> None:
    data, every = IsDigitDataModule(digit=digit, seed=5), DigitsDataModule(seed=5)
    for (features, target), (pixels, digits) in zip(data.ready, every.ready, strict=True):
        assert torch.equal(features, pixels)
        assert torch.equal(target, (digits == digit).long())
        assert target.float().mean() == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize("digit", [-1, 10])
def test_no_such_digit(digit: int) -> None:
    with pytest.raises(DeclarationError, match=f"expected a digit from 0 to 9, got {digit}"):
        IsDigitDataModule(digit=digit)


def test_hyperparameters_are_kept() -> None:
    options = {"val_share": 0.1, "test_share": 0.3, "batch_size": 7, "seed": 2, "on_device": False}
    assert dict(IsDigitDataModule(digit=3, **options).hparams) == {"digit": 3, **options}
    assert dict(WineDataModule(**options).hparams) == options


def test_packaged_data_without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    data = WineDataModule()
    with pytest.raises(InputError, match=r"needs scikit-learn, .*: pip install \"lightning-evalkit\[data\]\""):
        data.setup("fit")


# ---- a file of the user's

Columns = dict[str, list[Any]]


def columns(rows: int = 40) -> Columns:
    """Two features, one of which says the target; the target alternates."""
    return {
        "height": [place + 0.5 for place in range(rows)],
        "width": [float(place % 2) + place / 100 for place in range(rows)],
        "kind": [place % 2 for place in range(rows)],
    }


@pytest.fixture(params=["csv", "parquet"])
def write(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Columns], Path]:
    """Write columns to a file of either format."""

    def written(values: Columns) -> Path:
        path = tmp_path / f"data.{request.param}"
        table = pa.table(values)
        csv.write_csv(table, path) if request.param == "csv" else parquet.write_table(table, path)
        return path

    return written


@pytest.fixture
def text(tmp_path: Path) -> Callable[[str], Path]:
    """Write the text of a CSV file."""

    def written(lines: str) -> Path:
        path = tmp_path / "data.csv"
        path.write_bytes(lines.encode())
        return path

    return written


def read(path: Path, target: str | list[str] = "kind", **options: Any) -> TabularDataModule:
    """A data module whose file has been read."""
    data = TabularDataModule(path, target, **options)
    data.setup("fit")
    return data


def place(path: Path, row: int) -> str:
    """What the row with this number, from 1, is called in an error."""
    return f"line {row + 1}" if path.suffix == ".csv" else f"row {row}"


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


# ---- files that are refused


def refused(message: str) -> Any:
    return pytest.raises(InputError, match=message)


def test_no_such_file(tmp_path: Path) -> None:
    with refused(r"absent\.csv: expected a file, but there is none"):
        read(tmp_path / "absent.csv")


@pytest.mark.parametrize(("name", "got"), [("data.xlsx", r"'\.xlsx'"), ("data", "'no suffix'")])
def test_unknown_suffix(tmp_path: Path, name: str, got: str) -> None:
    with refused(rf"{name}: expected a file that ends in \.csv or \.parquet, got {got}"):
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
    with refused(r"expected columns for the features beside \['kind'\], got none"):
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
    with refused("column 'x', line 32: expected a finite number .*, got nothing"):
        read(text("note,x,kind\n" + rows + "a,,1\n"), features=["x"])


@pytest.mark.parametrize("column", ["width", "importance"])
@pytest.mark.parametrize(
    ("value", "got"), [(None, "nothing"), (float("inf"), "inf"), (float("-inf"), "-inf"), (1e39, r"1e\+39")]
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
    with refused(rf"column 'width', {place(path, 1)}: expected a finite number .*, got (nothing|nan)\."):
        read(path)


@pytest.mark.parametrize("missing", ["", "NA", "NaN", "null"])
def test_a_target_that_is_missing(text: Any, missing: str) -> None:
    with refused("column 'kind', line 12: expected a class, got nothing"):
        read(text("x,kind\n" + "1,a\n2,b\n" * 5 + f"3,{missing}\n"), positive="a")


def test_a_target_that_is_missing_in_parquet(tmp_path: Path) -> None:
    for value, got in ((None, "nothing"), (float("nan"), "nan")):
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
    with refused(f"which of the two values {names} is the positive one, for example by positive='{values[1]}'"):
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


# ---- one fit each

QUIET = {
    "accelerator": "cpu",
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}


def binary_loss(scores: Tensor, target: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(scores.view(target.shape), target.float(), reduction="none")


def class_loss(scores: Tensor, target: Tensor) -> Tensor:
    return functional.cross_entropy(scores, target, reduction="none")


class Linear(LightningModule):
    """A linear layer, trained with weights if there are any, and evaluated on the test split."""

    def __init__(self, features: int, outputs: int, loss: Callable[[Tensor, Tensor], Tensor], evaluation: Any) -> None:
        super().__init__()
        self.layer, self.loss, self.evaluation = torch.nn.Linear(features, outputs), loss, evaluation

    def training_step(self, batch: tuple[Tensor, ...]) -> Tensor:
        features, target, *weight = batch
        loss = self.loss(self.layer(features), target)
        return (loss * weight[0]).sum() / weight[0].sum() if weight else loss.mean()

    def validation_step(self, batch: tuple[Tensor, ...]) -> None:
        assert self.loss(self.layer(batch[0]), batch[1]).isfinite().all()

    def test_step(self, batch: tuple[Tensor, ...]) -> None:
        features, target, *weight = batch
        scores = self.layer(features)
        self.evaluation.update(scores.squeeze(1) if scores.shape[1] == 1 else scores, target, *weight)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), 0.05)


def fitted(data: TensorDataModule, outputs: int, loss: Callable[[Tensor, Tensor], Tensor], evaluation: Any) -> float:
    """The accuracy on the test split after a few epochs."""
    module, trainer = Linear(data.num_features, outputs, loss, evaluation), Trainer(**QUIET, max_epochs=8)
    trainer.fit(module, data)
    trainer.test(module, data, verbose=False)
    values = evaluation.compute()
    return float(values.get("accuracy", values.get("hamming_accuracy")))


@pytest.mark.parametrize(("data", "least"), [(BreastCancerDataModule(), 0.9), (IsDigitDataModule(digit=6), 0.97)])
def test_fit_packaged_binary_data(data: PackagedDataModule, least: float) -> None:
    """Better than the larger class alone, which 63 % and 90 % of the rows are."""
    assert fitted(data, 1, binary_loss, BinaryEvaluation("logits")) > least


@pytest.mark.parametrize("data", [WineDataModule(), DigitsDataModule()])
def test_fit_packaged_classes(data: Any) -> None:
    evaluation = MulticlassEvaluation("logits", num_classes=data.num_classes, class_names=data.class_names)
    assert fitted(data, data.num_classes, class_loss, evaluation) > 0.85


def cloud_file(path: Path, **more: Any) -> Path:
    """Two columns whose signs say which of four kinds, and both labels."""
    points = np.random.default_rng(0).normal(size=(400, 2))
    right, high = (points > 0).T.astype(int)
    csv.write_csv(pa.table({"x": points[:, 0], "y": points[:, 1], "right": right, "high": high} | more), path)
    return path


def test_fit_a_file_with_weights(tmp_path: Path) -> None:
    """Every third row says the opposite, and weighs nothing."""
    lie = np.arange(400) % 3 == 0
    told = (np.random.default_rng(0).normal(size=(400, 2))[:, 0] > 0) ^ lie
    path = cloud_file(tmp_path / "data.csv", told=told, truth=1.0 - lie)
    data = TabularDataModule(path, "told", features=["x", "y"], weight="truth", batch_size=32)
    assert fitted(data, 1, binary_loss, BinaryEvaluation("logits", weighted=True)) > 0.9


def test_fit_a_file_of_several_labels(tmp_path: Path) -> None:
    data = TabularDataModule(cloud_file(tmp_path / "data.csv"), ["right", "high"], batch_size=32)
    evaluation = MultilabelEvaluation("logits", num_labels=data.num_labels, label_names=data.label_names)
    assert fitted(data, data.num_labels, binary_loss, evaluation) > 0.9
