"""Calibration errors and the parts of the Brier score against their definitions, written out over single samples."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from calibrated import (
    ADDED,
    CLASSES,
    DEFAULT,
    EDGES,
    GROUPS,
    PARTS,
    answered,
    build,
    classed,
    counted,
    every_task,
    every_weighting,
    rows_of,
    sigmoid,
    tensor_parts,
    values_of,
    widest,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation
from lightning_evalkit.counts.bins import FineBins
from lightning_evalkit.statistics import BrierParts
from lightning_evalkit.statistics.calibration import Grouped, refinement, uncertainty

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor

    Rows = tuple[np.ndarray, np.ndarray, np.ndarray]
    """Probabilities of yes, answers and weights."""


# ---- the definitions, sample by sample


def gap(rows: Rows) -> float:
    p, y, w = rows
    return float(abs((w * p).sum() - (w * y).sum()) / w.sum())


def groups_of(rows: Rows, numbers: np.ndarray) -> list[Rows]:
    """The samples that have the same number, where they weigh anything."""
    parts = [tuple(part[numbers == number] for part in rows) for number in np.unique(numbers)]
    return [part for part in parts if part[2].sum() > 0]  # type: ignore[misc]


def in_equal_bins(rows: Rows) -> list[Rows]:
    edges = np.arange(1, GROUPS) / GROUPS
    return groups_of(rows, np.searchsorted(edges, rows[0], side="right"))


def in_equal_masses(rows: Rows) -> list[Rows]:
    """Equal scores stay together, in the group in which the middle of them is; counted in fractions."""
    p, _, w = rows
    weights = [Fraction(weight) for weight in w.tolist()]
    numbers, before, total = np.zeros(len(p), dtype=int), Fraction(0), sum(weights, Fraction(0))
    for value in np.unique(p):
        here = np.nonzero(p == value)[0]
        mass = sum((weights[k] for k in here), Fraction(0))
        numbers[here] = min(math.floor(GROUPS * (before + mass / 2) / total), GROUPS - 1)
        before += mass
    return groups_of(rows, numbers)


def mean_gap(groups: Iterable[Rows]) -> float:
    groups = list(groups)
    return sum(gap(group) * group[2].sum() for group in groups) / sum(group[2].sum() for group in groups)


def parts_of(rows: Rows) -> dict[str, float]:
    """The four sums of Stephenson et al. 2008 over bins of equal width."""
    p, y, w = rows
    sums = dict.fromkeys(("calibration", "refinement", "within"), 0.0)
    for inside in in_equal_bins(rows):
        confidence, happened = (np.average(part, weights=inside[2]) for part in inside[:2])
        p_off, y_off = inside[0] - confidence, inside[1] - happened
        sums["calibration"] += inside[2].sum() * (confidence - happened) ** 2
        sums["refinement"] += inside[2].sum() * happened * (1 - happened)
        sums["within"] += (inside[2] * (p_off**2 - 2 * p_off * y_off)).sum()
    found = {name: total / w.sum() for name, total in sums.items()}
    prevalence = np.average(y, weights=w)
    return {"brier": np.average((p - y) ** 2, weights=w), **found, "uncertainty": prevalence * (1 - prevalence)}


# ---- how far a histogram may be from them


def quantiles(rows: Rows) -> np.ndarray:
    """The scores in which the cuts between groups of equal mass are."""
    order = np.argsort(rows[0])
    until = np.cumsum(rows[2][order])
    places = np.searchsorted(until, until[-1] * np.arange(1, GROUPS) / GROUPS)
    return rows[0][order][places.clip(0, len(until) - 1)]


def fine(p: np.ndarray, bins: int, reading: Any) -> np.ndarray:
    """The numbers of the bins in which probabilities are."""
    with np.errstate(divide="ignore"):
        return FineBins(bins, reading).at_once(p.copy() if reading == "probabilities" else np.log(p / (1 - p)))


def slack(rows: Rows, cuts: np.ndarray, bins: int, reading: Any) -> float:
    """How far an error of groups that are cut there may be from that of the histogram.

    The middle of a bin is wrong by half of its width. Scores that have a bin in common with a cut may change their
    group, by which the sums of two groups change, each by the weight of what moves.
    """
    p, _, w = rows
    numbers = fine(p, bins, reading)
    shared = np.isin(numbers, fine(cuts, bins, reading))
    for number in np.unique(numbers[shared]):
        values = np.unique(p[numbers == number])
        if len(values) == 1 and values[0] in cuts:  # a score that is the cut: such ones stay together anyway
            shared &= numbers != number
    return float(widest(bins) / 2 + 2 * w[shared].sum() / w.sum() + 1e-6)


@pytest.mark.parametrize("reading", ["logits", "probabilities"])
@pytest.mark.parametrize("number", [8, 9, 64, 1024, DEFAULT])
def test_no_fine_bin_is_wider_than_is_said(reading: Any, number: int) -> None:
    """By binning a grid of probabilities that is finer than the bins."""
    p = np.linspace(0.001, 0.999, 400_000)
    scores = p if reading == "probabilities" else np.log(p / (1 - p))
    places = FineBins(number, reading).at_once(scores.copy())
    starts = np.nonzero(np.diff(places, prepend=-1))[0]
    ends = np.append(starts[1:], len(p)) - 1
    assert len(starts) > number / 3
    assert 1.2 / (number - 2) < (p[ends] - p[starts]).max() < widest(number)


# ---- errors


@every_task
@every_weighting
@pytest.mark.parametrize("reading", ["logits", "probabilities"])
@pytest.mark.parametrize("resolution", [None, 128], ids=str)
def test_errors_are_their_definitions(task: str, weighted: bool, reading: str, resolution: int | None) -> None:
    """Of few samples nearly none shares a bin with a cut, so that the usual histogram is exact to half a bin."""
    evaluation, asked = counted(task, weighted, 400, reading, bases=ADDED, resolution=resolution)
    values, bins = values_of(evaluation), resolution or DEFAULT
    for name, rows in asked.items():
        over = f"/{name}" if name else ""
        adaptive, classwise = mean_gap(in_equal_masses(rows)), mean_gap(in_equal_bins(rows))
        off = slack(rows, quantiles(rows), bins, reading)
        assert resolution is not None or off < adaptive / 3
        assert values[f"adaptive_calibration_error{over}"] == pytest.approx(adaptive, abs=off)
        off = slack(rows, EDGES, bins, reading) if task == "classes" else 1e-6
        assert resolution is not None or off < classwise / 100
        assert values[f"classwise_calibration_error{over}"] == pytest.approx(classwise, abs=off)
        if task != "classes":
            largest = max(map(gap, in_equal_bins(rows)))
            assert values[f"max_calibration_error{over}"] == pytest.approx(largest, abs=1e-6)
    if task != "binary":
        support = [float((rows[1] * rows[2]).sum()) for rows in asked.values()]
        for base in ADDED[1:]:
            each = [values[f"{base}/{name}"] for name in asked]
            assert values[f"{base}/macro"] == pytest.approx(np.mean(each), abs=1e-6)
            assert values[f"{base}/weighted"] == pytest.approx(np.average(each, weights=support), abs=1e-6)


@every_weighting
def test_the_largest_gap_of_classes_is_that_of_the_predicted_class(weighted: bool) -> None:
    logits, y, w = classed(300, 4, seed=3)
    evaluation = build("classes", "logits", ("max_calibration_error", "calibration_error"), weighted=weighted)
    evaluation.update(logits, y, *([w] if weighted else []))
    confidence, label = logits.double().softmax(1).max(1)
    bins = in_equal_bins(rows_of(confidence, label == y, w if weighted else None))
    values = values_of(evaluation)
    assert values["max_calibration_error"] == pytest.approx(max(map(gap, bins)), abs=1e-6)
    assert values["calibration_error"] == pytest.approx(mean_gap(bins), abs=1e-6)
    assert values["max_calibration_error"] > values["calibration_error"]


@pytest.mark.parametrize("reading", ["logits", "probabilities"])
def test_scores_that_have_a_bin_each_are_grouped_without_an_error(reading: str) -> None:
    """As bfloat16 numbers do, however many are equal."""
    logits, y, w = answered(3_000, seed=5)
    scores = (logits if reading == "logits" else sigmoid(logits)).bfloat16()
    evaluation = build("binary", reading, ADDED, resolution="bfloat16", weighted=True)
    evaluation.update(scores, y, w)
    rows = rows_of(sigmoid(scores) if reading == "logits" else scores, y, w)
    assert len(np.unique(rows[0])) < 2_000
    assert values_of(evaluation)["adaptive_calibration_error"] == pytest.approx(
        mean_gap(in_equal_masses(rows)), abs=1e-7
    )


def test_many_samples_are_grouped_to_the_width_of_a_bin() -> None:
    logits, y, _ = answered(60_000, seed=6)
    evaluation = build("binary", "logits", ADDED)
    evaluation.update(logits, y)
    p, truth, _ = rows = rows_of(sigmoid(logits), y)
    order = np.argsort(p)
    groups = [(p[part], truth[part], np.ones(len(part))) for part in np.array_split(order, GROUPS)]
    assert {len(group[0]) for group in groups} == {4_000}  # of equal mass, as Nixon et al. have them
    off = slack(rows, quantiles(rows), DEFAULT, "logits")
    assert off < 0.005
    assert values_of(evaluation)["adaptive_calibration_error"] == pytest.approx(mean_gap(groups), abs=off)


def test_the_middle_of_a_bin_stands_for_its_scores() -> None:
    """Evenly spread scores of six wide bins, of which nothing happens: their mean is the error, and nothing cancels."""
    p = (torch.arange(4_800) + 0.5) / 4_800
    evaluation = build("binary", "probabilities", ADDED, resolution=8)
    evaluation.update(p, torch.zeros(4_800, dtype=torch.long))
    assert values_of(evaluation)["adaptive_calibration_error"] == pytest.approx(0.5, abs=1e-3)


def test_equal_scores_stay_together_in_every_order() -> None:
    """Cut by their position, ten equal scores and what happened to them would depend on the order of samples."""
    p = torch.tensor([0.25] * 10 + [0.75] * 20)
    y = torch.tensor([1] * 5 + [0] * 5 + [0] * 4 + [1] * 16)
    for order in (torch.arange(30), torch.arange(30).flip(0), torch.randperm(30)):
        evaluation = build("binary", "probabilities", ADDED, resolution="bfloat16")
        evaluation.update(p[order], y[order])
        assert values_of(evaluation)["adaptive_calibration_error"] == pytest.approx((0.25 * 10 + 0.05 * 20) / 30)


def test_a_middle_on_a_quantile_is_above_it_however_its_weights_were_added() -> None:
    """One sample in the lowest bin, then two in each: 29 tenths, of which sums round up and down."""
    p = torch.tensor([0.01, *(0.03 * (k // 2 + 1) for k in range(29))]).bfloat16().float()
    y = torch.randint(0, 2, (30,))
    plain = build("binary", "probabilities", ADDED, resolution="bfloat16")
    plain.update(p, y)
    expected = mean_gap(in_equal_masses(rows_of(p, y)))
    assert values_of(plain)["adaptive_calibration_error"] == pytest.approx(expected, abs=1e-7)
    for weight in (0.1, 0.7, 1 / 3, 1e-9):
        weighted = build("binary", "probabilities", ADDED, resolution="bfloat16", weighted=True)
        weighted.update(p, y, torch.full((30,), weight, dtype=torch.float64))
        assert values_of(weighted)["adaptive_calibration_error"] == pytest.approx(expected, abs=1e-7)


def test_certainty_has_no_width() -> None:
    logits, y = torch.tensor([-math.inf, math.inf, math.inf, -math.inf]), torch.tensor([0, 1, 1, 0])
    evaluation = build("binary", "logits", (*ADDED, *PARTS))
    evaluation.update(logits, y)
    assert set(values_of(evaluation).values()) == {0.0, 0.25}  # only the uncertainty is not 0
    evaluation.reset()
    evaluation.update(logits, 1 - y)
    assert [values_of(evaluation)[name] for name in (*ADDED, *PARTS)] == [1, 1, 1, 1, 0, 0.25]


def test_a_score_on_an_edge_is_in_the_bin_above() -> None:
    """A third of the classes' scores is 1/3, and another below it."""
    chances = torch.tensor([[1 / 3, 1 / 3, 1 / 3, 0.0], [0.3, 0.3, 0.4, 0.0], [0.32, 0.3, 0.38, 0.0]])
    evaluation = build("classes", "probabilities", ADDED)
    evaluation.update(chances, torch.tensor([0, 2, 1]))
    assert evaluation.reliability("ant").samples.tolist() == [0, 0, 0, 0, 2, 1, *[0] * 9]
    assert evaluation.reliability("dog").samples.tolist() == [3, *[0] * 14]


# ---- parts of the Brier score


@every_task
@every_weighting
@pytest.mark.parametrize("reading", ["logits", "probabilities"])
def test_parts_are_their_definitions(task: str, weighted: bool, reading: str) -> None:
    evaluation, asked = counted(task, weighted, 500, reading, bases=("brier", *PARTS))
    values, total = values_of(evaluation), dict.fromkeys(BrierParts._fields, 0.0)
    for name, rows in asked.items():
        expected = parts_of(rows)
        assert expected["brier"] == pytest.approx(sum(expected.values()) - expected["brier"] - expected["uncertainty"])
        # Nothing is near an edge; a gap that is off by half a width is squared.
        off = widest(DEFAULT) if task == "classes" else 1e-6
        found = tensor_parts(evaluation.brier_decomposition(name or None))
        assert found == pytest.approx(expected, abs=off)
        for entry, part in zip(PARTS, BrierParts._fields[1:4], strict=True):
            assert values[f"{entry}/{name}" if name else entry] == pytest.approx(found[part], abs=1e-7)
        for part in total:
            total[part] += expected[part]
    if task == "classes":
        found = tensor_parts(evaluation.brier_decomposition())
        assert found == pytest.approx(total, abs=4 * off)
        assert found["brier"] == pytest.approx(total["brier"], abs=1e-6)
        assert found["brier"] == pytest.approx(values["brier"], abs=1e-6)
        assert values["brier_calibration/macro"] == pytest.approx(found["calibration"] / 4, abs=1e-7)


def perfect() -> tuple[Tensor, Tensor]:
    """Of each confidence k/16, k odd, 16 samples, and k of them happen: every bin holds one confidence and is right."""
    k = torch.arange(1, 16, 2)
    return (k / 16).repeat_interleave(16), (torch.arange(16) < k[:, None]).long().flatten()


@every_weighting
def test_a_perfect_calibration_has_no_error(weighted: bool) -> None:
    p, y = perfect()
    evaluation = build("binary", "probabilities", (*ADDED, "calibration_error", *PARTS), weighted=weighted)
    evaluation.update(p, y, *([torch.full((len(y),), 0.25)] if weighted else []))
    values = values_of(evaluation)
    assert [values[name] for name in ("max_calibration_error", "classwise_calibration_error", "brier_calibration")] == [
        0,
        0,
        0,
    ]
    assert values["adaptive_calibration_error"] <= widest(DEFAULT) / 2
    parts = tensor_parts(evaluation.brier_decomposition())
    shares = np.arange(1, 16, 2) / 16
    assert parts["refinement"] == pytest.approx((shares * (1 - shares)).mean())
    assert parts == pytest.approx({**parts, "brier": parts["refinement"], "uncertainty": 0.25, "within": 0}, abs=1e-7)
    exact = build("binary", "probabilities", ADDED, resolution="bfloat16")
    exact.update(p, y)
    assert values_of(exact)["adaptive_calibration_error"] == 0


def test_classes_that_are_perfectly_calibrated_have_no_error() -> None:
    """Three kinds of predictions in sixteenths, each as often followed by a class as it says."""
    chances = torch.tensor([[8, 5, 3, 0], [1, 1, 1, 13], [2, 9, 3, 2]])
    y = torch.cat([torch.arange(4).repeat_interleave(each) for each in chances])
    evaluation = build("classes", "probabilities", (*ADDED, "calibration_error", *PARTS))
    evaluation.update((chances / 16).repeat_interleave(16, 0), y)
    values = values_of(evaluation)
    assert max(values["max_calibration_error"], values["calibration_error"]) == 0
    for base in (*ADDED[1:], PARTS[0]):
        assert all(values[f"{base}/{over}"] <= widest(DEFAULT) / 2 for over in ("macro", "weighted", *CLASSES))
    parts = tensor_parts(evaluation.brier_decomposition())
    assert parts["brier"] == pytest.approx(parts["refinement"], abs=1e-6)


@every_weighting
@pytest.mark.parametrize("said", [0.25, 0.625])
def test_a_constant_is_left_with_the_uncertainty(said: float, weighted: bool) -> None:
    y = (torch.arange(48) % 4 == 0).long()
    evaluation = build("binary", "probabilities", weighted=weighted)
    evaluation.update(torch.full((48,), said), y, *([torch.full((48,), 1 / 3)] if weighted else []))
    parts = evaluation.brier_decomposition()
    assert tensor_parts(parts)["uncertainty"] == pytest.approx(0.25 * 0.75)
    assert parts.refinement == parts.uncertainty
    assert float(parts.calibration) == pytest.approx((said - 0.25) ** 2, abs=1e-12)
    assert float(parts.within) == pytest.approx(0, abs=1e-12)


def test_no_rounding_makes_the_refinement_more_than_the_uncertainty() -> None:
    """Of ten thousand questions with bins that say nothing, or next to nothing, beyond the prevalence."""
    weights = torch.rand(10_000, GROUPS, dtype=torch.float64) ** 8
    weights[:5_000, 1:] = 0
    hits = weights * torch.rand(10_000, 1, dtype=torch.float64)
    groups = Grouped(weights, weights, hits)
    assert (refinement(groups) <= uncertainty(groups)).all()
    prevalence = hits.sum(1) / weights.sum(1)
    torch.testing.assert_close(uncertainty(groups), prevalence * (1 - prevalence))
    assert (refinement(groups) > prevalence * (1 - prevalence)).any()  # so that the formula itself would not do


@st.composite
def some_data(draw: st.DrawFn) -> tuple[Tensor, Tensor, Tensor]:
    size = draw(st.integers(1, 14))
    p = draw(st.lists(st.floats(0, 1, width=32), min_size=size, max_size=size))
    y = draw(st.lists(st.integers(0, 1), min_size=size, max_size=size))
    w = draw(st.lists(st.sampled_from([0.0, 1e-3, 0.1, 1.0, 1 / 3, 1000.0]), min_size=size, max_size=size))
    return torch.tensor(p), torch.tensor(y), torch.tensor(w, dtype=torch.float64)


@settings(max_examples=60, deadline=None)
@given(some_data())
def test_parts_add_up_for_any_data(data: tuple[Tensor, Tensor, Tensor]) -> None:
    """Plain and weighted; of two classes the score is twice that of one, and all parts with it."""
    p, y, w = data
    both = torch.stack((1 - p, p), 1)
    names = [f"{base}/macro" for base in ADDED[1:]]
    for weight in ([], [w]):
        if weight and not w.any():
            continue
        one = BinaryEvaluation("probabilities", curves=True, weighted=bool(weight), resolution=512, statistics=ADDED)
        two = MulticlassEvaluation(
            "probabilities", 2, curves=True, weighted=bool(weight), resolution=512, statistics=names
        )
        one.update(p, y, *weight)
        two.update(both, y, *weight)
        rows, values = rows_of(p, y, *weight), values_of(one)
        parts, doubled = (tensor_parts(each.brier_decomposition()) for each in (one, two))
        near = np.min(np.abs(rows[0][:, None] - EDGES), 1) < 1e-6  # on either side of a rounded edge
        if not near.any():
            assert parts == pytest.approx(parts_of(rows), abs=1e-6)
            assert values["max_calibration_error"] == pytest.approx(max(map(gap, in_equal_bins(rows))), abs=1e-6)
        assert doubled["brier"] == pytest.approx(2 * parts["brier"], abs=1e-6)
        assert doubled["uncertainty"] == pytest.approx(2 * parts["uncertainty"], abs=1e-12)
        off = slack(rows, quantiles(rows), 512, "probabilities")
        assert values["adaptive_calibration_error"] == pytest.approx(mean_gap(in_equal_masses(rows)), abs=off)
        assert all(0 <= value <= 1 for value in (values | values_of(two)).values())
