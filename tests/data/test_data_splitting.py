"""How rows are split, for one target and for several labels, and put on one scale."""

from __future__ import annotations

from collections import Counter
from math import floor
from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import StandardScaler
from tabular_files import split_of

from lightning_evalkit.data.splitting import checked_shares, standardised
from lightning_evalkit.errors import DeclarationError, InputError

if TYPE_CHECKING:
    from torch import Tensor


laws = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


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
