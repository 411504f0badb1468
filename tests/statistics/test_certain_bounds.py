"""A bound is certain: adversarial scores against exact arithmetic, in every precision, task and way of counting.

The exact order of classes' log-odds is decided with 60 digits, areas by fractions: nothing rounds on the other side.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from device import deferred
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit.counts import Edges, Limits, ScoreCounts
from lightning_evalkit.counts.bins import FineBins
from lightning_evalkit.counts.odds import class_log_odds, odds_error, reach
from lightning_evalkit.statistics import curves

KINDS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
Rows = list[tuple[Any, bool, Fraction]]
"""A score that can be compared, the answer, and the weight."""


# ---- the exact numbers


DIGITS = Context(prec=60, Emin=-(10**17), Emax=10**17)
FEWER = Context(prec=45, Emin=-(10**17), Emax=10**17)


def exact_odds(row: list[float], place: int) -> Decimal:
    """The log-odds of a class, to 45 of 60 digits: sums in any order are then equal."""
    rest = [Decimal(value) for k, value in enumerate(row) if k != place]
    if row[place] == -math.inf or max(rest).is_infinite():
        return Decimal("-Infinity" if row[place] == -math.inf else "Infinity")
    with localcontext(DIGITS):
        total = sum(((value - max(rest)).exp() for value in rest), Decimal(0))
        odds = Decimal(row[place]) - max(rest) - total.ln()
    return FEWER.plus(odds)


def exact_auroc(rows: Rows) -> Fraction:
    positive, negative = ([row for row in rows if row[1] is answer] for answer in (True, False))
    won = sum(
        (
            p[2] * n[2] * (1 if p[0] > n[0] else Fraction(1, 2) if p[0] == n[0] else 0)
            for p, n in product(positive, negative)
        ),
        Fraction(0),
    )
    return won / (sum(p[2] for p in positive) * sum(n[2] for n in negative))


def exact_average_precision(rows: Rows) -> Fraction:
    positive = [row for row in rows if row[1]]
    total = Fraction(0)
    for score, _, weight in positive:
        above = [row for row in rows if row[0] >= score]
        total += weight * sum(row[2] for row in above if row[1]) / sum(row[2] for row in above)
    return total / sum(row[2] for row in positive)


EXACT = {"auroc": exact_auroc, "average_precision": exact_average_precision}


def assert_certain(found: Any, exact: Fraction) -> None:
    low, value, high = (Fraction(float(part)) for part in found)
    assert low <= exact <= high, (float(low), float(exact), float(high))
    assert low <= value <= high


# ---- adversarial scores


def near(number: float, kind: torch.dtype, steps: int) -> float:
    """So many steps of a precision from a number."""
    value = torch.tensor(number, dtype=kind)
    for _ in range(abs(steps)):
        value = torch.nextafter(value, torch.tensor(torch.inf if steps > 0 else -torch.inf, dtype=kind))
    return float(value)


def edges(number: int) -> list[float]:
    return torch.logit(FineBins(number, "logits").lowest()[1:-1]).tolist()


@st.composite
def scores_near(draw: st.DrawFn, kind: torch.dtype, probable: bool) -> float:
    """Scores a few steps apart from each other, or from the edge of a bin."""
    base = st.sampled_from(
        [0.0, 1.0, 0.5, 0.25, 1e-3, *([] if probable else [-1.0, -40.0, 17.0, 88.0, 700.0, *edges(16)])]
    )
    score = near(draw(base), kind, draw(st.integers(-3, 3)))
    low, high = (0.0, 1.0) if probable else (max(torch.finfo(kind).min, -1e300), min(torch.finfo(kind).max, 1e300))
    return min(max(score, low), high)


weights = st.sampled_from([1.0, 2.0, 0.1, 1 / 3, 1e-8, 1e9, 3e-5])


@st.composite
def batches(draw: st.DrawFn, questions: int, reading: str) -> tuple[Tensor, Tensor, Tensor, torch.dtype]:
    kind = draw(st.sampled_from(KINDS))
    samples = draw(st.integers(2, 7))
    scores = draw(
        st.lists(
            scores_near(kind, reading == "probabilities"), min_size=samples * questions, max_size=samples * questions
        )
    )
    preds = torch.tensor(scores, dtype=torch.float64).to(kind).view(samples, questions)
    weight = torch.tensor(draw(st.lists(weights, min_size=samples, max_size=samples)), dtype=torch.float64)
    return preds, torch.tensor(draw(st.lists(st.integers(0, 99), min_size=samples, max_size=samples))), weight, kind


def checked(evaluation: Any, way: str, batch: tuple[Any, ...], rows: Rows, name: str | None) -> None:
    if way == "deferred":
        with deferred():
            evaluation.update(*batch)
    else:
        evaluation.update(*batch)
    if len({row[1] for row in rows}) == 2:
        for statistic, exact in EXACT.items():
            assert_certain(evaluation.bounds(statistic, name), exact(rows))


ways = pytest.mark.parametrize("way", ["at_once", "deferred"])
readings = pytest.mark.parametrize("reading", ["logits", "probabilities"])
resolutions = st.sampled_from([8, 16, 1024, None])


@ways
@readings
@given(data=st.data(), weighted=st.booleans(), resolution=resolutions)
def test_bounds_of_yes_or_no_are_certain(
    way: str, reading: Any, data: st.DataObject, weighted: bool, resolution: Any
) -> None:
    preds, target, weight, _ = data.draw(batches(1, reading))
    preds, target = preds[:, 0], target % 2
    evaluation = BinaryEvaluation(reading, curves=True, resolution=resolution, weighted=weighted)
    amounts = [Fraction(w) if weighted else Fraction(1) for w in weight.tolist()]
    rows = list(zip(preds.tolist(), (target == 1).tolist(), amounts, strict=True))
    checked(evaluation, way, (preds, target, weight) if weighted else (preds, target), rows, None)


@ways
@readings
@given(data=st.data(), weighted=st.booleans(), resolution=resolutions)
def test_bounds_of_labels_are_certain(
    way: str, reading: Any, data: st.DataObject, weighted: bool, resolution: Any
) -> None:
    preds, target, weight, _ = data.draw(batches(2, reading))
    answers = torch.stack((target % 2, target // 2 % 2), 1)
    evaluation = MultilabelEvaluation(reading, 2, curves=True, resolution=resolution, weighted=weighted)
    amounts = [Fraction(w) if weighted else Fraction(1) for w in weight.tolist()]
    rows = list(zip(preds[:, 1].tolist(), (answers[:, 1] == 1).tolist(), amounts, strict=True))
    checked(evaluation, way, (preds, answers, weight) if weighted else (preds, answers), rows, "1")


@ways
@readings
@given(data=st.data(), weighted=st.booleans(), resolution=resolutions, classes=st.integers(2, 5))
def test_bounds_of_classes_are_certain(
    way: str, reading: Any, data: st.DataObject, weighted: bool, resolution: Any, classes: int
) -> None:
    """In one of the classes; of logits in the order of their softmax."""
    preds, target, weight, _ = data.draw(batches(classes, reading))
    if data.draw(st.booleans()):  # the same logits in another order are equal log-odds of what stays in its place
        rest = torch.tensor([0, *data.draw(st.permutations(range(1, classes)))])
        preds = torch.cat((preds, preds[:, rest]))
        target, weight = torch.cat((target, target + 1)), torch.cat((weight, weight))
    target = target % classes
    evaluation = MulticlassEvaluation(reading, classes, curves=True, resolution=resolution, weighted=weighted)
    amounts = [Fraction(w) if weighted else Fraction(1) for w in weight.tolist()]
    given_scores = preds.double().tolist()
    ranked = [exact_odds(row, 0) if reading == "logits" else row[0] for row in given_scores]
    rows = list(zip(ranked, (target == 0).tolist(), amounts, strict=True))
    checked(evaluation, way, (preds, target, weight) if weighted else (preds, target), rows, "0")


@ways
@pytest.mark.parametrize("number", [8, 4_096])
def test_classes_whose_log_odds_meet_at_the_edge_of_a_bin_are_undecided(way: str, number: int) -> None:
    """Found by halving: the two neighbouring logits at which the bin changes, beside others that sum in any order."""
    rng = np.random.default_rng(number)
    bins, found = FineBins(number, "logits"), 0
    for _ in range(12):
        others = rng.normal(size=4)
        low, high = np.float64(-1), np.float64(1)
        place = lambda x, others=others: int(bins.at_once(class_log_odds(torch.tensor([[x, *others]])).numpy())[0, 0])  # noqa: E731
        target = place(high)
        while np.nextafter(low, high) < high:
            middle = low + (high - low) / 2
            low, high = (low, middle) if place(middle) == target else (middle, high)
        logits = torch.tensor([[x, *rng.permutation(others)] for x in (low, high, low, high)], dtype=torch.float64)
        truth = torch.tensor([0, 1, 1, 0])
        rows = [
            (exact_odds(row, 0), t == 0, Fraction(1)) for row, t in zip(logits.tolist(), truth.tolist(), strict=True)
        ]
        evaluation = MulticlassEvaluation("logits", 5, curves=True, resolution=number)
        checked(evaluation, way, (logits, truth), rows, "0")
        found += evaluation.bounds("auroc", "0").low < evaluation.bounds("auroc", "0").high
    assert found == 12


@pytest.mark.parametrize("kind", [torch.float32, torch.float64], ids=["single", "double"])
@given(data=st.data(), classes=st.integers(2, 6))
def test_log_odds_are_within_their_error(kind: torch.dtype, data: st.DataObject, classes: int) -> None:
    """Also where a device has single precision only."""
    logits, _, _, _ = data.draw(batches(classes, "logits"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lightning_evalkit.counts.odds.real_dtype", lambda _: kind)
        logits = logits.to(torch.promote_types(torch.float16, logits.dtype) if kind == torch.float64 else kind)
        odds = class_log_odds(logits)
    for row, computed, error in zip(logits.double().tolist(), odds.tolist(), odds_error(odds).tolist(), strict=True):
        for place in range(classes):
            exact = exact_odds(row, place)
            with localcontext(DIGITS):
                assert exact == computed[place] or abs(exact - Decimal(computed[place])) <= Decimal(error[place])


def test_bounds_where_the_precision_is_single_reach_further() -> None:
    assert reach(10, 65_536, 2.0**-53) == 1
    assert reach(1_000, 65_536, 2.0**-24) > reach(1_000, 65_536, 2.0**-53) == 1


# ---- counts and weights of any size


def histogram(yes: list[Any], no: list[Any], kind: torch.dtype, alone: bool = False) -> ScoreCounts:
    size = len(yes)
    edge = torch.linspace(0, 1, size, dtype=torch.float64)
    parts = (torch.tensor(part, dtype=kind).unsqueeze(0) for part in (yes, no))
    return ScoreCounts(*parts, Limits(torch.full((size,), alone), edge, edge, Edges(edge, edge, False)))


def exact_ends(yes: list[int], no: list[int]) -> dict[str, tuple[Fraction, Fraction]]:
    """What scores in these bins can reach, bin by bin from the top; of few positives, one by one."""
    tp = fp = 0
    won = maybe = last = first = Fraction(0)
    for p, n in zip(reversed(yes), reversed(no), strict=True):
        won, maybe = won + n * tp, maybe + n * (tp + p)
        last += sum((Fraction(tp + k, tp + k + fp + n) for k in range(1, p + 1)), Fraction(0))
        first += Fraction(p * (tp + p), tp + p + fp) if p else 0
        tp, fp = tp + p, fp + n
    return {"auroc": (won / (tp * fp), maybe / (tp * fp)), "average_precision": (last / tp, first / tp)}


sizes = st.one_of(st.integers(0, 5), st.integers(0, 10**6), st.integers(10**8, 10**10), st.integers(2**40, 2**52))


@given(
    yes=st.lists(st.integers(0, 60), min_size=3, max_size=3).filter(any),
    no=st.lists(sizes, min_size=3, max_size=3).filter(any),
)
def test_bounds_of_large_counts_hold_what_scores_can_reach(yes: list[int], no: list[int]) -> None:
    scores = histogram(yes, no, torch.int64)
    for name, (least, most) in exact_ends(yes, no).items():
        low, value, high = (float(part) for part in getattr(curves, name)(scores))
        assert Fraction(low) <= least <= most <= Fraction(high)
        assert low <= value <= high
        assert low == pytest.approx(float(least), rel=1e-7, abs=1e-13)
        assert high == pytest.approx(float(most), rel=1e-7, abs=1e-13)


def test_many_negatives_in_a_bin_leave_the_lower_end_of_average_precision_below() -> None:
    yes, no = [3, 0, 5], [350_000_000, 7, 350_000_000]
    low, _, high = (float(part) for part in curves.average_precision(histogram(yes, no, torch.int64)))
    least, most = exact_ends(yes, no)["average_precision"]
    assert Fraction(low) <= least <= most <= Fraction(high)
    assert low == pytest.approx(float(least), rel=1e-9)


@pytest.mark.parametrize("alone", [False, True], ids=["bins", "values"])
@given(
    power=st.integers(-1074, 1010),
    parts=st.lists(st.lists(st.integers(0, 50), min_size=3, max_size=3).filter(any), min_size=2, max_size=2),
)
def test_a_power_of_two_of_all_weights_moves_neither_value_nor_bound(
    alone: bool, power: int, parts: list[list[int]]
) -> None:
    ours, scaled = (
        histogram(*([math.ldexp(w, by) for w in part] for part in parts), torch.float64, alone=alone)
        for by in (0, power)
    )
    for name in EXACT:
        for one, other in zip(getattr(curves, name)(ours), getattr(curves, name)(scaled), strict=True):
            assert float(one) == pytest.approx(float(other), rel=1e-14, abs=0)


amounts = st.one_of(
    st.just(0.0),
    st.builds(math.ldexp, st.integers(1, 7), st.sampled_from([-1074, -1073, -1060, -1022, -600, -530, 0, 500, 1018])),
    st.builds(math.ldexp, st.floats(1, 2), st.integers(-1074, 1018)),
)


@pytest.mark.parametrize("alone", [False, True], ids=["bins", "values"])
@given(
    yes=st.lists(amounts, min_size=3, max_size=3).filter(any), no=st.lists(amounts, min_size=3, max_size=3).filter(any)
)
def test_bounds_of_weights_of_any_size_hold_the_exact_value(alone: bool, yes: list[float], no: list[float]) -> None:
    """Scores of one bin are taken to be equal, which they may be."""
    rows: Rows = [
        (place, answer, Fraction(weight))
        for answer, part in ((True, yes), (False, no))
        for place, weight in enumerate(part)
    ]
    scores = histogram(yes, no, torch.float64, alone=alone)
    for name, exact in EXACT.items():
        found, expected = getattr(curves, name)(scores), exact([row for row in rows if row[2]])
        low, value, high = (float(part) for part in found)
        assert value == pytest.approx(float(expected), rel=1e-12, abs=1e-250)
        below_one = 0 < 1 - expected < Fraction(2) ** -900  # which no double tells from 1
        assert Fraction(low) <= (1 if below_one else expected) <= Fraction(high)
        assert low <= value <= high
        if alone:
            assert high - low <= 1e-12
