"""Calibration errors and the parts of the Brier score against their definitions, written out over single samples."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit.counts.bins import FineBins
from lightning_evalkit.errors import DeclarationError, InputError, UndefinedWarning
from lightning_evalkit.statistics import SCORE_STATISTICS, BrierParts
from lightning_evalkit.statistics.calibration import Grouped, refinement, uncertainty

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor

    Rows = tuple[np.ndarray, np.ndarray, np.ndarray]
    """Probabilities of yes, answers and weights."""

GROUPS, DEFAULT = 15, 65_536
ADDED = ("max_calibration_error", "adaptive_calibration_error", "classwise_calibration_error")
PARTS = ("brier_calibration", "brier_refinement", "brier_uncertainty")

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


def widest(bins: int) -> float:
    """No bin of ``FineBins`` is wider, as a probability."""
    return 4 / (bins - 2)


EDGES = np.arange(1, GROUPS) / GROUPS


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


# ---- data


def sigmoid(x: Tensor) -> Tensor:
    return x.double().sigmoid()


def answered(size: int, seed: int, spread: float = 2.0, bent: float = 0.6) -> tuple[Tensor, Tensor, Tensor]:
    """Logits that are too confident, what happened, and weights."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(size, generator=generator) * spread
    y = (torch.rand(size, generator=generator) < (logits * bent - 0.3).sigmoid()).long()
    return logits, y, torch.rand(size, generator=generator).double() * 3


def classed(size: int, number: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(size, number, generator=generator) * 2
    chances = (logits * 0.6 + torch.linspace(0, 1, number)).softmax(1)
    y = torch.multinomial(chances, 1, generator=generator).squeeze(1)
    w = torch.rand(size, generator=generator).double() * 3
    off = logits.double().softmax(1)[..., None] - torch.from_numpy(EDGES)
    clear = off.abs().amin((1, 2)) > widest(DEFAULT)  # of edges, which are in no fine bin with any of them then
    return logits[clear], y[clear], w[clear]


def rows_of(p: Tensor, y: Tensor, w: Tensor | None = None) -> Rows:
    weights = torch.ones(len(y)) if w is None else w
    return p.double().numpy(), y.double().numpy(), weights.double().numpy()


def values_of(evaluation: Any) -> dict[str, float]:
    return {name: float(value) for name, value in evaluation.compute().items()}


CLASSES = ("ant", "bee", "cat", "dog")


def names_of(task: str, bases: Iterable[str] = SCORE_STATISTICS) -> list[str]:
    """All entries that a task has of these statistics."""
    if task == "binary":
        return list(bases)
    places = CLASSES if task == "classes" else CLASSES[:3]
    alone = [base for base in bases if task == "classes" and SCORE_STATISTICS[base].needs == "calibration"]
    each = [f"{base}/{over}" for base in bases if base not in alone for over in ("macro", "weighted", *places)]
    return alone + each


def build(task: str, reading: Any, bases: Iterable[str] = SCORE_STATISTICS, **options: Any) -> Any:
    options = {"curves": True, "statistics": names_of(task, bases), **options}
    if task == "binary":
        return BinaryEvaluation(reading, **options)
    if task == "classes":
        return MulticlassEvaluation(reading, len(CLASSES), CLASSES, **options)
    return MultilabelEvaluation(reading, 3, CLASSES[:3], **options)


def batch_of(task: str, size: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    if task == "binary":
        return answered(size, seed)
    if task == "classes":
        return classed(size, len(CLASSES), seed)
    columns = [answered(size, seed + 10 * (k + 1), spread=1 + k) for k in range(3)]
    logits, y = (torch.stack([column[part] for column in columns], 1) for part in (0, 1))
    return logits, y, columns[0][2]


def questions(task: str, logits: Tensor, y: Tensor, w: Tensor | None) -> dict[str, Rows]:
    """The yes-or-no question of every class or label by its name."""
    if task == "binary":
        return {"": rows_of(sigmoid(logits), y, w)}
    if task == "classes":
        chances = logits.double().softmax(1)
        return {name: rows_of(chances[:, k], (y == k), w) for k, name in enumerate(CLASSES)}
    return {name: rows_of(sigmoid(logits[:, k]), y[:, k], w) for k, name in enumerate(CLASSES[:3])}


TASKS = ("binary", "classes", "labels")
every_task = pytest.mark.parametrize("task", TASKS)
every_weighting = pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])


def counted(
    task: str, weighted: bool, size: int, reading: str = "logits", seed: int = 0, **options: Any
) -> tuple[Any, dict[str, Rows]]:
    """An evaluation of some data in two batches, and its questions."""
    logits, y, w = batch_of(task, size, seed)
    preds = logits
    if reading == "probabilities":
        preds = (logits.double().softmax(1) if task == "classes" else sigmoid(logits)).float()
    evaluation = build(task, reading, weighted=weighted, **options)
    for part in (slice(size // 3), slice(size // 3, None)):
        evaluation.update(preds[part], y[part], *([w[part]] if weighted else []))
    return evaluation, questions(task, logits, y, w if weighted else None)


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


def tensor_parts(parts: BrierParts) -> dict[str, float]:
    assert isinstance(parts, BrierParts)
    found = {name: float(value) for name, value in parts._asdict().items()}
    assert found["brier"] == pytest.approx(found["calibration"] + found["refinement"] + found["within"], abs=1e-12)
    assert all(found[name] >= 0 for name in ("brier", "calibration", "refinement", "uncertainty"))
    assert found["refinement"] <= found["uncertainty"]  # whatever was rounded
    assert float(parts.resolution) == found["uncertainty"] - found["refinement"] >= 0
    return found


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


# ---- laws of all statistics of scores


def test_every_statistic_of_scores_has_an_entry_in_every_task() -> None:
    assert set(ADDED + PARTS) < set(SCORE_STATISTICS)
    assert len(SCORE_STATISTICS) >= 16
    for task in TASKS:
        assert {name.partition("/")[0] for name in build(task, "logits").keys()} == set(SCORE_STATISTICS)  # noqa: SIM118
    assert all(SCORE_STATISTICS[name].higher_is_better is False for name in (*ADDED, *PARTS[:2]))


@pytest.mark.parametrize(
    ("task", "resolution"), [("binary", "bfloat16"), *((task, number) for task in TASKS for number in (None, 64))]
)
def test_order_batches_merging_and_duplicates_change_nothing(task: str, resolution: Any) -> None:
    preds, y, _ = batch_of(task, 90, seed=7)
    preds = preds.round(decimals=1)
    once, other, twice = (build(task, "logits", resolution=resolution) for _ in range(3))
    once.update(preds, y)
    order = torch.randperm(len(y))
    for number, places in enumerate(order.split(17)):
        (other if number in (1, 4) else twice).update(preds[places], y[places])
    twice.merge_state(other)
    twice.update(preds, y)
    expected, name = values_of(once), "bee" if task == "labels" else None
    for entry, value in expected.items():
        low, high = SCORE_STATISTICS[entry.partition("/")[0]].bounds
        assert low <= value <= high, entry
    assert values_of(twice) == pytest.approx(expected, abs=2e-6)
    parts = [tensor_parts(each.brier_decomposition(name)) for each in (once, twice)]
    assert parts[0] == pytest.approx(parts[1], abs=1e-7)


@every_task
@pytest.mark.parametrize("resolution", [None, 64], ids=str)
def test_weights_are_repetitions(task: str, resolution: Any) -> None:
    preds, y, _ = batch_of(task, 60, seed=8)
    preds, weight = preds.round(decimals=1), torch.randint(0, 4, (60,))
    weighted, repeated = (build(task, "logits", resolution=resolution, weighted=each) for each in (True, False))
    weighted.update(preds, y, weight.double())
    repeated.update(*(each.repeat_interleave(weight, 0) for each in (preds, y)))
    assert values_of(weighted) == pytest.approx(values_of(repeated), abs=1e-6)
    name = None if task != "labels" else "cat"
    parts = (each.brier_decomposition(name) for each in (weighted, repeated))
    one, other = (tensor_parts(each) for each in parts)
    assert one == pytest.approx(other, abs=1e-7)


# ---- diagrams


@every_weighting
def test_the_diagram_of_a_class_is_of_this_class_against_the_rest(weighted: bool) -> None:
    evaluation, asked = counted("classes", weighted, 600, seed=9)
    for name, rows in asked.items():
        confidence, happened, samples = evaluation.reliability(name)
        numbers = np.searchsorted(EDGES, rows[0], side="right")
        for k in range(GROUPS):
            inside = tuple(part[numbers == k] for part in rows)
            assert float(samples[k]) == pytest.approx(inside[2].sum(), abs=1e-9)
            if len(inside[0]):
                expected = [np.average(part, weights=inside[2]) for part in inside[:2]]
                assert [float(confidence[k]), float(happened[k])] == pytest.approx(expected, abs=widest(DEFAULT) / 2)
            else:
                assert confidence[k].isnan()
                assert happened[k].isnan()
    predicted = evaluation.reliability()
    assert float(predicted.samples.sum()) == pytest.approx(float(evaluation.reliability("ant").samples.sum()))
    assert predicted.samples[:3].sum() == 0  # of four classes the predicted one has at least a quarter


def test_a_diagram_is_asked_for_by_name() -> None:
    one, many, several = (counted(task, False, 20)[0] for task in TASKS)
    for question in ("reliability", "brier_decomposition"):
        with pytest.raises(InputError, match="expected no name, as there is one curve, got 'ant'"):
            getattr(one, question)("ant")
        with pytest.raises(InputError, match="expected the name of a class or label, got 'ants': did you mean 'ant'"):
            getattr(many, question)("ants")
        with pytest.raises(
            InputError, match="expected the name of a class or label, got None: expected one of ant, bee"
        ):
            getattr(several, question)()
        with pytest.raises(DeclarationError, match=r"the scores were not kept: .* curves=True"):
            getattr(BinaryEvaluation("logits"), question)()


def test_classes_have_no_single_part_of_the_brier_score_but_one_each() -> None:
    with pytest.raises(DeclarationError, match="'brier_calibration' is no statistic of scores here: did you mean"):
        MulticlassEvaluation("logits", 3, curves=True, statistics=["brier_calibration"])
    with pytest.raises(DeclarationError, match=r"'max_calibration_error/macro' is no .* mean 'max_calibration_error'"):
        MulticlassEvaluation("logits", 3, curves=True, statistics=["max_calibration_error/macro"])
    with pytest.raises(DeclarationError, match="'adaptive_calibration_error' needs the scores: declare curves=True"):
        BinaryEvaluation("logits", statistics=["adaptive_calibration_error"])


# ---- undefined


@every_task
@pytest.mark.filterwarnings("ignore:The ``compute`` method")
def test_without_samples_nothing_is_defined(task: str) -> None:
    evaluation = build(task, "logits", (*ADDED, *PARTS))
    with pytest.warns(UndefinedWarning, match="no samples were counted"):
        assert all(math.isnan(value) for value in values_of(evaluation).values())
    parts = evaluation.brier_decomposition(None if task != "labels" else "ant")
    assert all(part.isnan() for part in parts)
    assert set(values_of(build(task, "logits", (*ADDED, *PARTS), zero_division=0.0)).values()) == {0.0}


@pytest.mark.parametrize("kind", [0, 1])
def test_one_class_is_certain(kind: int) -> None:
    """Its uncertainty and refinement are 0, and its errors are how far confidences are from it."""
    p = torch.tensor([0.1, 0.3, 0.35, 0.9])
    evaluation = build("binary", "probabilities", (*ADDED, *PARTS))
    evaluation.update(p, torch.full((4,), kind))
    off = (p - kind).abs()
    values = values_of(evaluation)
    assert [values[name] for name in ADDED] == pytest.approx([float(off.max()), *[float(off.mean())] * 2], abs=1e-4)
    parts = tensor_parts(evaluation.brier_decomposition())
    assert (parts["refinement"], parts["uncertainty"]) == (0, 0)
    assert parts["brier"] == pytest.approx(float((off**2).mean()), abs=1e-6)


def test_labels_without_samples_and_ignored_classes_are_left_out_of_averages() -> None:
    labels = build("labels", "probabilities", (*ADDED, *PARTS), ignore_index=-1)
    labels.update(torch.tensor([[0.2, 0.9, 0.5], [0.4, 0.8, 0.5]]), torch.tensor([[0, 1, -1], [1, 1, -1]]))
    with pytest.warns(UndefinedWarning):
        values = values_of(labels)
    for base in (*ADDED, *PARTS):
        assert math.isnan(values[f"{base}/cat"])
        assert values[f"{base}/macro"] == pytest.approx((values[f"{base}/ant"] + values[f"{base}/bee"]) / 2)
        assert labels.averaged_over()[f"{base}/macro"] == 2
    classes = build("classes", "logits", ADDED, ignore_index=1)
    logits, y, _ = classed(80, 4, seed=2)
    classes.update(logits, y)
    values = values_of(classes)
    for base in ADDED[1:]:
        each = [values[f"{base}/{name}"] for name in ("ant", "cat", "dog")]
        assert values[f"{base}/macro"] == pytest.approx(np.mean(each), abs=1e-6)
        assert classes.averaged_over()[f"{base}/macro"] == 3
        assert values[f"{base}/bee"] > 0.05  # of a class that is predicted and never there
