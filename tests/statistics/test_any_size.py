"""Weights of any size that a double holds: every statistic is that of fractions, and a power of two changes none.

Nothing rounds in fractions. Cells span up to 600 decades, from the smallest number to the largest.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from device import deferred
from hypothesis import assume, given
from hypothesis import strategies as st

from lightning_evalkit.counts import Counts
from lightning_evalkit.counts.wide import Wide, is_moderate
from lightning_evalkit.statistics import OVERALL, STATISTICS, averaged, f_beta, find
from lightning_evalkit.statistics.averages import mean
from lightning_evalkit.statistics.overall import weighted_kappa

ALL = (*map(find, STATISTICS), *map(f_beta, (3, 0.25, 1e40, 1e-40)))
CLASSES = 3
LEAST, MOST = -1074, 1020
"""Powers of two: of the smallest number, and of one of which a dozen can be added."""

powers = st.one_of(st.integers(LEAST, MOST), st.sampled_from([LEAST, -1022, -500, 0, 500, MOST]))
sums = st.builds(lambda part, power: math.ldexp(part, power), st.floats(1, 2), powers)
cells = st.one_of(st.just(0.0), sums)


def by_tensors(counts: Counts) -> Counts:
    """As on an accelerator, where nobody looks at values."""
    with deferred():
        return counts.in_reach()


ways = pytest.mark.parametrize("way", [Counts.in_reach, by_tensors], ids=["at_once", "deferred"])


def tensors(*rows: Any) -> Counts:
    return Counts(*torch.tensor(rows, dtype=torch.float64))


def exact(counts: Counts) -> Counts:
    return Counts(*(Fraction(float(cell)) for cell in counts.cells))


def assert_near(value: Any, expected: float, name: str = "") -> None:
    """To rounding; a difference of nearly equal numbers is as exact as these are."""
    assert float(value) == pytest.approx(expected, rel=1e-12, abs=1e-12, nan_ok=True), name


# ---- against fractions


@ways
@given(row=st.lists(cells, min_size=4, max_size=4), zero_division=st.sampled_from([math.nan, 0.0, 1.0]))
def test_every_statistic_of_one_table_is_that_of_fractions(way: Any, row: list[float], zero_division: float) -> None:
    counts = tensors(*row)
    for statistic in ALL:
        expected = float(statistic(exact(counts)).value(zero_division))
        assert_near(statistic.definition(way(counts)).value(zero_division), expected, statistic.name)
        assert_near(statistic(counts).value(zero_division), expected, statistic.name)
        assert_near(statistic.value(Counts(*row), zero_division), expected, statistic.name)


@pytest.mark.parametrize("name", ["mcc", "geometric_mean", "fowlkes_mallows"])
@given(row=st.lists(sums, min_size=4, max_size=4))
def test_roots_of_fractions_are_those_of_fifty_digits(name: str, row: list[float]) -> None:
    c = exact(tensors(*row))
    part, whole = {
        "mcc": (c.tp * c.tn - c.fp * c.fn, c.predicted_positives * c.positives * c.negatives * c.predicted_negatives),
        "geometric_mean": (c.tp * c.tn, c.positives * c.negatives),
        "fowlkes_mallows": (c.tp * c.tp, c.predicted_positives * c.positives),
    }[name]
    square = part * part / whole if name == "mcc" else part / whole
    with localcontext() as context:
        context.prec, context.Emin, context.Emax = 50, -(10**6), 10**6
        root = (Decimal(square.numerator) / Decimal(square.denominator)).sqrt()
    expected = float(root) if part >= 0 else -float(root)
    assert float(STATISTICS[name](c).value()) == pytest.approx(expected, rel=1e-15, abs=0)


@ways
@given(matrix=st.lists(cells, min_size=CLASSES**2, max_size=CLASSES**2))
def test_statistics_and_averages_of_classes_are_those_of_fractions(way: Any, matrix: list[float]) -> None:
    rows = [[Fraction(matrix[CLASSES * i + j]) for j in range(CLASSES)] for i in range(CLASSES)]
    tables = [_against_rest(rows, number) for number in range(CLASSES)]
    counts = tensors(*([float(getattr(table, cell)) for table in tables] for cell in ("tp", "fp", "fn", "tn")))
    assume(torch.stack(counts.cells).isfinite().all())
    tables = [exact(counts.at(number)) for number in range(CLASSES)]  # as they were rounded
    for name, expected in _exact_overall(tables).items():
        assert_near(OVERALL[name](way(counts)).value(), expected, name)
    for name in ("precision", "f1", "mcc", "kappa", "balanced_accuracy"):
        each = [float(STATISTICS[name](table).value(0.0)) for table in tables]
        summed = Counts(*(sum(getattr(table, cell) for table in tables) for cell in ("tp", "fp", "fn", "tn")))
        weights = [table.support for table in tables]
        expected = {
            "micro": float(STATISTICS[name](summed).value(0.0)),
            "macro": sum(each) / CLASSES,
            "weighted": float(sum(w * Fraction(v) for w, v in zip(weights, each, strict=True)) / sum(weights))
            if any(weights)
            else 0.0,
        }
        for average, value in expected.items():
            if way is by_tensors:
                with deferred():
                    found = averaged(STATISTICS[name], counts, average, 0.0, empty=0.0)  # type: ignore[arg-type]
            else:
                found = averaged(STATISTICS[name], counts, average, 0.0, empty=0.0)  # type: ignore[arg-type]
            assert_near(found, value, f"{name}/{average}")


def _against_rest(rows: list[list[Fraction]], number: int) -> Counts:
    tp, total = rows[number][number], sum(map(sum, rows))
    fn, fp = sum(rows[number]) - tp, sum(row[number] for row in rows) - tp
    return Counts(tp=tp, fp=fp, fn=fn, tn=total - tp - fp - fn)


def _exact_overall(tables: list[Counts]) -> dict[str, float]:
    all_of = sum(c.positives for c in tables)
    agreement = sum(c.tp * c.tn - c.fp * c.fn for c in tables)
    chance = sum(c.positives * c.predicted_negatives for c in tables)
    spread = sum(c.positives * c.negatives for c in tables) * sum(
        c.predicted_positives * c.predicted_negatives for c in tables
    )
    with localcontext() as context:
        context.prec, context.Emin, context.Emax = 50, -(10**6), 10**6
        square = Fraction(agreement**2) / spread if spread else Fraction(0)
        mcc = float((Decimal(square.numerator) / Decimal(square.denominator)).sqrt())
    return {
        "accuracy": float(sum(c.tp for c in tables) / all_of) if all_of else math.nan,
        "hamming_distance": float(sum(c.fn for c in tables) / all_of) if all_of else math.nan,
        "mcc": (mcc if agreement > 0 else -mcc) if spread else math.nan,
        "kappa": float(agreement / chance) if chance else math.nan,
    }


def test_no_statistic_of_classes_is_forgotten() -> None:
    assert set(_exact_overall([Counts(*map(Fraction, (1, 2, 3, 4)))])) == set(OVERALL)


# ---- a power of two

parts = st.lists(st.one_of(st.just(0), st.integers(1, 50)), min_size=4, max_size=4)


@ways
@given(row=parts, power=st.integers(LEAST, 1010))
def test_a_power_of_two_changes_no_statistic(way: Any, row: list[int], power: int) -> None:
    counted, scaled = (tensors(*(math.ldexp(part, by) for part in row)) for by in (0, power))
    for statistic in ALL:
        one, other = (statistic.definition(way(counts)).value() for counts in (counted, scaled))
        torch.testing.assert_close(one, other, rtol=1e-15, atol=1e-16, equal_nan=True, msg=statistic.name)


@pytest.mark.parametrize("weights", ["linear", "quadratic"])
@given(row=st.lists(st.integers(0, 50), min_size=9, max_size=9).filter(any), power=st.integers(LEAST, 1010))
def test_a_power_of_two_changes_no_weighted_kappa(weights: Any, row: list[int], power: int) -> None:
    matrix = torch.tensor(row, dtype=torch.float64).view(3, 3)
    scaled = torch.tensor([math.ldexp(part, power) for part in row], dtype=torch.float64).view(3, 3)
    torch.testing.assert_close(
        weighted_kappa(scaled, weights), weighted_kappa(matrix.long(), weights), rtol=1e-14, atol=1e-15, equal_nan=True
    )


@given(row=st.lists(st.integers(0, 50), min_size=5, max_size=5), power=st.integers(LEAST, 1010))
def test_a_power_of_two_changes_no_mean(row: list[int], power: int) -> None:
    values = torch.tensor([0.1, 0.3, 0.7, 0.9, 1.0], dtype=torch.float64)
    weights, scaled = (torch.tensor([math.ldexp(w, by) for w in row], dtype=torch.float64) for by in (0, power))
    assert float(mean(values, scaled, 0.5)) == pytest.approx(float(mean(values, weights, 0.5)), rel=1e-15)


# ---- wide numbers


@pytest.mark.parametrize("tensor", [False, True], ids=["array", "tensor"])
@given(numbers=st.tuples(cells, cells, cells))
def test_wide_numbers_are_fractions(tensor: bool, numbers: tuple[float, float, float]) -> None:
    a, b, c = (Wide.of(torch.tensor(n, dtype=torch.float64) if tensor else np.float64(n)) for n in numbers)
    x, y, z = map(Fraction, numbers)
    cube = (x + y + z) ** 3  # larger than all of them
    assume(cube)
    with np.errstate(under="ignore"):
        whole = (a + b + c) * (a + b + c) * (a + b + c)
        assert_near(((a + b) * c * a).over(whole), float((x + y) * z * x / cube))
        assert_near(((a * b - c * c) * c).over(whole), float((x * y - z * z) * z / cube))
        assert_near((abs(-a) * 3 * b * b).root_over(whole), math.sqrt(float(3 * x * y * y / cube)))


def test_overflowed_sums_stay_without_a_number() -> None:
    for way in (Counts.in_reach, by_tensors):
        counts = tensors(math.inf, 1.0, 1.0, 1.0)
        assert not math.isfinite(float(find("mcc").definition(way(counts)).value()))


def test_ordinary_weights_take_the_short_way() -> None:
    assert is_moderate((np.array([0.0, 1e-60, 1e60]),))
    assert not is_moderate((np.array([1e-61]),))
    assert not is_moderate((np.array([1e61]),))
    assert not is_moderate((np.array([math.inf]),))
    assert isinstance(tensors(0.5, 1.0, 2.0, 0.0).in_reach().tp, np.ndarray)
    assert isinstance(tensors(0.5, 1.0, 2.0, 1e-100).in_reach().tp, Wide)
