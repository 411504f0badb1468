"""Reading a whole array through NumPy finds what reading each element finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from lightning_evalkit.counts.numpy_path import (
    Array,
    Cutting,
    arg_max,
    is_endless,
    largest,
    ones_among,
    rows_with_any,
    smallest,
    true_per_column,
    within,
    within_unit,
    without_nan,
    zeros_and_ones,
)
from lightning_evalkit.inputs import Binary

REALS = (np.float16, np.float32, np.float64)
WHOLE = (np.bool_, np.uint8, np.int8, np.int16, np.int32, np.int64)
SQUARE = st.tuples(st.integers(0, 4), st.integers(1, 3))
SIZES = (0, 1, 2, 3_000)
SPECIAL = [0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 0.5, -1.0, 2.0]


def reals(kind: Any, **options: Any) -> st.SearchStrategy[Array]:
    """Mostly scores in [0, 1], with their neighbours and the smallest numbers beside 0."""
    ends = np.array([0, 1], kind)
    beside = [np.nextafter(ends, kind(to)) for to in (-1, 2)]
    near = [float(each) for pair in beside for each in pair]
    numbers = st.sampled_from([*SPECIAL, *near]) | st.floats(0, 1, width=8 * ends.itemsize)  # type: ignore[arg-type]
    return arrays(kind, options.pop("shape", array_shapes(min_dims=1, max_dims=2, min_side=0)), elements=numbers)


@given(st.data(), st.sampled_from(REALS))
def test_scores_are_within_the_unit_if_each_is(data: st.DataObject, kind: Any) -> None:
    scores = data.draw(reals(kind))
    for each in (scores, scores[::2], scores.T, np.asfortranarray(scores)):
        assert within_unit(each) is bool(((each >= 0) & (each <= 1)).all())
        assert without_nan(each) is not bool(np.isnan(each).any())


@pytest.mark.parametrize("kind", REALS)
@pytest.mark.parametrize("score", [-0.0, 0.0, 1.0])
def test_both_ends_and_both_zeros_are_within(kind: Any, score: float) -> None:
    assert within_unit(np.array([0.5, score], kind))
    for beside in (np.nextafter(kind(0), kind(-1)), np.nextafter(kind(1), kind(2)), kind(np.nan)):
        assert not within_unit(np.array([score, beside], kind))


@given(st.data(), st.sampled_from(REALS))
def test_the_largest_and_the_smallest_are_numbers_or_nan(data: st.DataObject, kind: Any) -> None:
    scores = data.draw(reals(kind, shape=array_shapes(min_dims=1, max_dims=2)))
    for each in (scores, scores.T):
        np.testing.assert_equal((largest(each), smallest(each)), (float(each.max()), float(each.min())))


@given(st.data(), st.sampled_from(WHOLE), st.integers(1, 300))
def test_numbers_are_within_a_size_if_each_is(data: st.DataObject, kind: Any, size: int) -> None:
    numbers = data.draw(arrays(kind, array_shapes(min_dims=1, max_dims=2, min_side=0)))
    for each in (numbers, np.clip(numbers, 0, 1).astype(kind), numbers.T):
        assert within(each, size) is all(0 <= int(number) < size for number in each.ravel())


@given(st.data(), st.sampled_from([*WHOLE, *REALS]))
def test_ones_are_found_if_all_others_are_zeros(data: st.DataObject, kind: Any) -> None:
    numbers = [0, 1] if kind == np.bool_ else data.draw(st.sampled_from([[0, 1], [0, 1, 2], [0, 1, 100]]))
    shape = array_shapes(min_dims=1, max_dims=2, min_side=0)
    values = data.draw(arrays(kind, shape, elements=st.sampled_from(numbers), fill=st.nothing()))
    for each in (values, values.T, -values if kind == np.int64 else values[::2]):
        expected = each == 1 if np.isin(each, (0, 1)).all() else None
        for found in (ones_among(each), zeros_and_ones(each)):
            assert (found is None) == (expected is None)
            assert expected is None or np.array_equal(found, expected)


@given(st.data(), st.sampled_from(REALS))
def test_logits_are_endless_if_the_largest_of_a_row_is(data: st.DataObject, kind: Any) -> None:
    logits = np.nan_to_num(data.draw(reals(kind, shape=SQUARE)), posinf=np.inf, neginf=-np.inf)
    assert is_endless(logits) is any(abs(max(row)) == np.inf for row in logits.tolist())


def randomly(size: int, low: int, high: int, kind: Any) -> Array:
    return np.random.default_rng(size).integers(low, high, size).astype(kind)


def with_one(values: Array, wrong: float) -> Array:
    """The same values, of which the last is wrong."""
    changed = values.copy()
    changed[-1:] = wrong
    return changed


@pytest.mark.parametrize("kind", [each for each in (*WHOLE, *REALS) if each != np.bool_])
@pytest.mark.parametrize("size", SIZES)
def test_ones_are_found_among_zeros_and_nothing_else(size: int, kind: Any) -> None:
    values = randomly(size, 0, 2, kind)
    assert ones_among(values) is not None
    np.testing.assert_array_equal(ones_among(values), values.astype(bool))
    wrong = [2, 100] + [-1] * (kind != np.uint8) + [np.nan, np.inf, 0.5] * (kind in REALS)
    wrong += [2**62, -(2**62)] * (kind == np.int64)
    for number in wrong if size else ():
        assert ones_among(with_one(values, number)) is None, number


@pytest.mark.parametrize("size", SIZES)
def test_bools_are_ones_and_zeros(size: int) -> None:
    values = randomly(size, 0, 2, np.bool_)
    np.testing.assert_array_equal(ones_among(values), values)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (5, 20), (3_000, 7), (4, 70_000)])
def test_true_elements_are_counted_by_column_and_rows_by_any(shape: tuple[int, int], order: str) -> None:
    drawn = np.random.default_rng(sum(shape)).random((3, *shape))
    masks = [np.asarray(part < share, order=order) for part, share in zip(drawn, (0.0, 0.1, 0.9), strict=True)]
    np.testing.assert_array_equal(true_per_column(*masks), [mask.sum(0) for mask in masks])
    assert [rows_with_any(mask) for mask in masks] == [mask.any(1).sum() for mask in masks]
    assert rows_with_any(masks[1][:, ::-1]) == masks[1].any(1).sum()


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_scores_are_cut_at_the_numbers_of_their_type(kind: torch.dtype) -> None:
    task = Binary("probabilities", thresholds=(0.3, 0.5, 1 / 3))
    cut = Cutting(task)
    steps = [torch.tensor(threshold, dtype=kind) for threshold in task.thresholds]
    nearby = [torch.nextafter(step.double(), torch.tensor(end).double()).to(kind) for step in steps for end in (0, 1)]
    scores = torch.cat((torch.stack(steps + nearby), torch.rand(100).to(kind)))
    given = scores.float().numpy() if kind == torch.bfloat16 else scores.numpy()
    for _ in range(2):  # prepared, then kept
        for mask, number in zip(cut(given, "probabilities", kind), task.cuts("probabilities", kind), strict=True):
            np.testing.assert_array_equal(mask, [score > number for score in scores.double().tolist()])


@pytest.mark.parametrize("kind", REALS)
@pytest.mark.parametrize(("rows", "columns"), [(1, 3), (2_047, 2), (2_048, 2), (3_000, 10), (9_000, 24), (2_100, 25)])
@pytest.mark.parametrize("drawn", ["random", "ties", "special", "one nan"])
def test_the_largest_of_every_row_is_the_first_that_numpy_finds(kind: Any, rows: int, columns: int, drawn: str) -> None:
    random = np.random.default_rng(rows)
    scores = random.standard_normal((rows, columns)).astype(kind)
    if drawn == "ties":
        scores = random.integers(0, 3, (rows, columns)).astype(kind)
    if drawn == "special":
        scores = random.choice(np.array(SPECIAL, kind), (rows, columns))
        scores[np.isnan(scores)] = 0
    if drawn == "one nan":
        scores[rows // 2, columns - 1] = np.nan
    found = arg_max(scores)
    assert found.dtype == np.int64
    assert np.array_equal(found, scores.argmax(1))
    assert np.array_equal(arg_max(scores[::-1]), scores[::-1].argmax(1))  # not in one piece
    assert np.array_equal(arg_max(np.asfortranarray(scores)), scores.argmax(1))
