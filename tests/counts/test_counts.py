"""``Counts`` is a monoid of four named numbers, exact in Python and in tensors.

The projection to another prevalence keeps recall and specificity, and knows where accuracy and F1 cross.
"""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError
from fractions import Fraction
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lightning_evalkit import BinaryEvaluation, Counts
from lightning_evalkit.errors import InputError
from lightning_evalkit.intervals import at_prevalence, crossing_prevalence
from lightning_evalkit.statistics import STATISTICS

QUICK = settings(deadline=None, derandomize=True, database=None)
# Small numbers meet special cases, large ones are outside the range of int64.
cells = st.one_of(st.integers(0, 5), st.integers(2**65, 2**70))
tables = st.builds(Counts, cells, cells, cells, cells)
positive = st.one_of(st.integers(1, 5), st.integers(2**65, 2**70))
full_tables = st.builds(Counts, positive, positive, positive, positive)
small_full_tables = st.builds(Counts, *[st.integers(1, 99)] * 4)
shares = st.fractions(0, 1, max_denominator=1000)
inner_shares = shares.filter(lambda share: 0 < share < 1)

FORTY = Counts(tp=40, fp=10, fn=10, tn=40)


def exact(name: str, counts: Counts) -> Fraction:
    value = STATISTICS[name](counts).exact()
    assert value is not None
    return value


def tensors(*cells: Any, dtype: torch.dtype = torch.int64) -> Counts:
    return Counts(*(torch.tensor(cell, dtype=dtype) for cell in cells))


# ---- a monoid


@QUICK
@given(tables, tables, tables)
def test_addition_is_that_of_the_cells(one: Counts, other: Counts, third: Counts) -> None:
    assert (one + other).cells == tuple(a + b for a, b in zip(one.cells, other.cells, strict=True))
    assert (one + other) + third == one + (other + third)
    assert one + other == other + one
    assert one + Counts.empty() == one == Counts.empty() + one
    assert sum([other, third], start=one) == one + other + third


def test_addition_of_tensors_is_elementwise_and_exact() -> None:
    one = tensors([1, 2**62], [3, 4], [5, 6], [7, 8])
    assert (one + Counts(1, 1, 1, 1)).cells[0].tolist() == [2, 2**62 + 1]
    assert (one + Counts.empty(2)).cells[3].tolist() == [7, 8]


def test_addition_changes_neither_side() -> None:
    one, other = tensors(1, 2, 3, 4), tensors(1, 1, 1, 1)
    total = one + other
    assert (one, other, total) == (Counts(1, 2, 3, 4), Counts(1, 1, 1, 1), Counts(2, 3, 4, 5))


def test_only_counts_can_be_added() -> None:
    with pytest.raises(TypeError):
        FORTY + 1


def test_empty_is_zero_in_any_shape() -> None:
    assert Counts.empty().cells == (0, 0, 0, 0)
    zeros = Counts.empty(2, 3)
    assert zeros.tp.dtype == torch.int64
    assert zeros.cells[1].tolist() == [[0, 0, 0], [0, 0, 0]]


# ---- sums of cells


def test_sums_have_names() -> None:
    """With powers of two, each sum shows which cells it holds."""
    counts = Counts(tp=1, fp=2, fn=4, tn=8)
    assert counts.cells == (1, 2, 4, 8)
    assert (counts.positives, counts.negatives) == (1 + 4, 8 + 2)
    assert counts.support == counts.positives
    assert (counts.predicted_positives, counts.predicted_negatives) == (1 + 2, 8 + 4)
    assert (counts.errors, counts.total) == (2 + 4, 15)
    assert counts.prevalence == 5 / 15


@QUICK
@given(tables)
def test_swapping_calls_the_other_class_positive(counts: Counts) -> None:
    swapped = counts.swapped()
    assert swapped.swapped() == counts
    assert (swapped.positives, swapped.predicted_positives) == (counts.negatives, counts.predicted_negatives)
    assert (swapped.errors, swapped.total) == (counts.errors, counts.total)


def test_prevalence_of_nothing_is_nan() -> None:
    assert math.isnan(Counts.empty().prevalence)
    assert Counts.empty(2).prevalence.isnan().all()
    assert tensors([1, 0], [0, 0], [1, 0], [6, 0]).prevalence[0] == 0.25
    assert Counts(2**2000, 0, 0, 3 * 2**2000).prevalence == 0.25


# ---- equality, exactness, text


def test_equality_is_of_values() -> None:
    assert Counts(1, 2, 3, 4) == Counts(tp=1, fp=2, fn=3, tn=4) == tensors(1, 2, 3, 4)
    assert Counts(1, 2, 3, 4) == Counts(1.0, 2.0, 3.0, 4.0)
    assert tensors([1, 2], [3, 4], [5, 6], [7, 8]) == tensors([1, 2], [3, 4], [5, 6], [7, 8])
    assert tensors([1, 2], [3, 4], [5, 6], [7, 8]) != tensors([1, 2], [3, 4], [5, 6], [7, 9])
    assert tensors([1], [2], [3], [4]) != tensors([1, 1], [2, 2], [3, 3], [4, 4])
    assert Counts(1, 2, 3, 4) != (1, 2, 3, 4)


@pytest.mark.parametrize("cell", ["tp", "fp", "fn", "tn"])
def test_one_different_cell_is_enough(cell: str) -> None:
    cells = {"tp": 40, "fp": 10, "fn": 10, "tn": 40}
    assert Counts(**cells) != Counts(**{**cells, cell: 11})


@pytest.mark.parametrize(
    ("number", "neighbour"),
    [
        (2**53, 2**53 + 1),
        (2**70, 2**70 + 1),
        (0.1, math.nextafter(0.1, 1)),
        (Fraction(1, 3), Fraction(1, 3) + Fraction(1, 10**30)),
    ],
    ids=["beyond floats", "beyond int64", "floats", "fractions"],
)
def test_python_numbers_are_compared_exactly(number: Any, neighbour: Any) -> None:
    assert Counts(number, 0, 0, 0) == Counts(number, 0, 0, 0)
    assert Counts(number, 0, 0, 0) != Counts(neighbour, 0, 0, 0)


def test_counts_are_neither_hashed_nor_changed() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(FORTY)
    with pytest.raises(FrozenInstanceError):
        FORTY.tp = 41  # type: ignore[misc]


@QUICK
@given(tables)
def test_the_text_of_python_counts_is_the_code_that_makes_them(counts: Counts) -> None:
    assert eval(repr(counts)) == counts


def test_the_text_of_tensors_shows_their_numbers() -> None:
    assert repr(tensors(40, 10, 10, 40)) == "Counts(tp=40, fp=10, fn=10, tn=40)"
    assert repr(tensors([1, 2], [3, 4], [5, 6], [7, 8])) == "Counts(tp=[1, 2], fp=[3, 4], fn=[5, 6], tn=[7, 8])"


@QUICK
@given(st.lists(st.integers(0, 2**63 - 1), min_size=4, max_size=4))
def test_exact_counts_are_python_integers(cells: list[int]) -> None:
    exact_cells = tensors(*cells).exact().cells
    assert exact_cells == tuple(cells)
    assert all(type(cell) is int for cell in exact_cells)
    assert Counts(*cells).exact().cells == tuple(cells)


def test_exact_weighted_counts_are_the_same_numbers() -> None:
    assert tensors(0.1, 0.2, 0.3, 0.4, dtype=torch.float64).exact().cells == (0.1, 0.2, 0.3, 0.4)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.float32, torch.float64])
def test_real_counts_are_float64(dtype: torch.dtype) -> None:
    real = tensors([1, 200], [3, 4], [5, 6], [7, 8], dtype=dtype).real()
    assert {cell.dtype for cell in real.cells} == {torch.float64}
    assert real.tp.tolist() == [1, 200]
    assert (real.tp * real.tp).tolist() == [1, 40_000]  # which uint8 does not hold


def test_real_counts_of_python_numbers_are_tensors() -> None:
    real = Counts(2**70, 1.5, Fraction(1, 2), 0).real()
    assert [cell.item() for cell in real.cells] == [2.0**70, 1.5, 0.5, 0.0]
    assert real.tp.dtype == torch.float64


# ---- the same classifier at another prevalence


@QUICK
@given(full_tables, shares)
def test_projection_keeps_what_the_classifier_does(counts: Counts, share: Fraction) -> None:
    projected = at_prevalence(counts, share)
    assert projected.total == counts.total
    assert exact("prevalence", projected) == share
    if share > 0:
        assert exact("recall", projected) == exact("recall", counts)
    if share < 1:
        assert exact("specificity", projected) == exact("specificity", counts)


@QUICK
@given(full_tables, shares)
def test_projected_accuracy_and_f1_have_the_closed_form(counts: Counts, share: Fraction) -> None:
    """Accuracy is π r + (1 - π) s and F1 is 2 π r / (π r + π + (1 - π)(1 - s))."""
    recall, specificity = exact("recall", counts), exact("specificity", counts)
    projected = at_prevalence(counts, share)
    caught = share * recall
    assert exact("accuracy", projected) == caught + (1 - share) * specificity
    if share > 0:
        assert exact("f1", projected) == 2 * caught / (caught + share + (1 - share) * (1 - specificity))


@QUICK
@given(full_tables)
def test_the_own_prevalence_changes_nothing(counts: Counts) -> None:
    same = at_prevalence(counts, Fraction(counts.positives, counts.total))
    assert same.cells == counts.cells
    for name in STATISTICS:
        assert STATISTICS[name](same).exact() == STATISTICS[name](counts).exact()


@QUICK
@given(small_full_tables, small_full_tables, shares)
def test_tensors_are_projected_like_python_numbers(one: Counts, other: Counts, share: Fraction) -> None:
    both = tensors(*zip(one.cells, other.cells, strict=True))
    projected = at_prevalence(both, float(share))
    expected = [at_prevalence(counts, share).cells for counts in (one, other)]
    for cell, numbers in zip(projected.cells, zip(*expected, strict=True), strict=True):
        assert cell.dtype == torch.float64
        assert cell.tolist() == pytest.approx([float(number) for number in numbers], rel=1e-12)


def test_precision_falls_with_prevalence_as_bayes_says() -> None:
    """A test with recall and specificity 0.8, where 1 % are positive: 0.008 of 0.008 + 0.198."""
    rare = at_prevalence(FORTY, Fraction(1, 100))
    assert exact("precision", rare) == Fraction(8, 206)


@pytest.mark.parametrize("prevalence", [-0.1, 1.1, math.nan, Fraction(-1, 3)])
@pytest.mark.parametrize("counts", [FORTY, tensors(40, 10, 10, 40)], ids=["python", "tensors"])
def test_a_prevalence_is_a_share(counts: Counts, prevalence: Any) -> None:
    with pytest.raises(InputError, match=r"expected a prevalence in \[0, 1\], got "):
        at_prevalence(counts, prevalence)


@pytest.mark.parametrize(
    ("counts", "missing"),
    [
        (Counts(tp=0, fp=1, fn=0, tn=3), "positives"),
        (Counts(tp=2, fp=0, fn=1, tn=0), "negatives"),
        (Counts.empty(), "positives and negatives"),
        (tensors([1, 0], [1, 1], [1, 0], [1, 1]), "positives"),
        (tensors([1, 1], [1, 0], [1, 1], [1, 0]), "negatives"),
    ],
)
def test_a_class_without_samples_cannot_be_projected(counts: Counts, missing: str) -> None:
    with pytest.raises(InputError, match=f"to another prevalence without {missing}: recall needs positives"):
        at_prevalence(counts, 0.5)


# ---- where accuracy and F1 cross


@QUICK
@given(full_tables, inner_shares)
def test_accuracy_equals_f1_at_the_crossing_and_only_there(counts: Counts, share: Fraction) -> None:
    crossing = crossing_prevalence(counts)
    assert crossing is not None
    assert 0 < crossing < 1
    there = at_prevalence(counts, crossing)
    assert exact("accuracy", there) == exact("f1", there)
    assume(share != crossing)
    elsewhere = at_prevalence(counts, share)
    assert exact("accuracy", elsewhere) != exact("f1", elsewhere)
    # More positives than at the crossing favour F1.
    assert (exact("f1", elsewhere) > exact("accuracy", elsewhere)) is (share > crossing)


@QUICK
@given(full_tables)
def test_the_crossing_belongs_to_the_classifier(counts: Counts) -> None:
    recall, specificity = exact("recall", counts), exact("specificity", counts)
    assert crossing_prevalence(counts) == specificity / (recall + specificity)
    assert crossing_prevalence(at_prevalence(counts, Fraction(1, 7))) == crossing_prevalence(counts)


@QUICK
@given(st.integers(1, 50), st.integers(1, 50), st.integers(1, 50), inner_shares)
def test_without_true_positives_or_true_negatives_they_never_cross(
    hits: int, fp: int, fn: int, share: Fraction
) -> None:
    for counts in (Counts(tp=hits, fp=fp, fn=fn, tn=0), Counts(tp=0, fp=fp, fn=fn, tn=hits)):
        assert crossing_prevalence(counts) is None
        projected = at_prevalence(counts, share)
        assert exact("accuracy", projected) != exact("f1", projected)


@pytest.mark.parametrize("counts", [Counts(5, 0, 0, 9), Counts(0, 5, 9, 0), Counts.empty()])
def test_there_is_no_one_crossing_where_both_are_always_equal(counts: Counts) -> None:
    assert crossing_prevalence(counts) is None


def test_balance_is_neither_needed_nor_enough() -> None:
    balanced = Counts(tp=45, fp=30, fn=5, tn=20)
    assert exact("accuracy", balanced) != exact("f1", balanced)
    skewed = Counts(tp=20, fp=30, fn=5, tn=20)
    assert exact("prevalence", skewed) != Fraction(1, 2)
    assert exact("accuracy", skewed) == exact("f1", skewed)
    assert crossing_prevalence(skewed) == exact("prevalence", skewed)


# ---- from an evaluation


def test_an_evaluation_at_its_own_prevalence_reports_the_same() -> None:
    evaluation = BinaryEvaluation(inputs="probabilities", threshold=[0.3, 0.6], statistics=list(STATISTICS))
    evaluation.update(torch.rand(200), torch.randint(2, (200,)))
    own = evaluation.counts.prevalence[0].item()
    here, reported = evaluation.at_prevalence(own), evaluation.compute()
    assert here.keys() == reported.keys()
    for name, value in reported.items():
        assert here[name].shape == ()
        torch.testing.assert_close(here[name], value, rtol=1e-5, atol=1e-6)


def test_an_evaluation_at_another_prevalence() -> None:
    evaluation = BinaryEvaluation(inputs="labels", statistics=["precision", "accuracy"], prefix="val/")
    evaluation.update(torch.tensor([1] * 40 + [0] * 10 + [1] * 10 + [0] * 40), torch.tensor([1] * 50 + [0] * 50))
    assert evaluation.counts == FORTY
    rare = evaluation.at_prevalence(0.01)
    assert list(rare) == ["val/precision", "val/accuracy"]
    assert rare["val/precision"].item() == pytest.approx(8 / 206)
    assert rare["val/accuracy"].item() == pytest.approx(0.8)
    assert evaluation.counts == FORTY
