"""Weights of any size: no cell loses what is small, a cell without samples is empty, and a common factor is nothing.

The counts and statistics of fractions are what weights are compared with: nothing rounds there.
"""

from __future__ import annotations

import math
import warnings
from contextlib import nullcontext
from fractions import Fraction
from typing import Any

import pytest
import torch
from device import deferred
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from lightning_evalkit import BinaryEvaluation, Counts, MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit.errors import InputError
from lightning_evalkit.evaluation.slices import Slices
from lightning_evalkit.metrics import (
    BinaryAUROC,
    BinaryAveragePrecision,
    BinaryCalibrationError,
    BinaryMatthewsCorrCoef,
    BinaryROC,
    MulticlassCohenKappa,
    MulticlassStatScores,
)
from lightning_evalkit.statistics import STATISTICS

ways = pytest.mark.parametrize("way", [nullcontext, deferred], ids=["at_once", "deferred"])
weights = st.sampled_from([0.0, 1e-12, 1e-8, 0.1, 1 / 3, 1.0, 7e3, 1e9, 1e15])
factors = st.one_of(
    st.integers(-290, 290).map(lambda power: 2.0**power),
    st.floats(-90, 90).map(lambda power: 10.0**power),
)
CLASSES = 4
Sample = tuple[int, int, float]
"""Prediction, target, weight."""


def samples(classes: int) -> Any:
    return st.lists(
        st.tuples(st.integers(0, classes - 1), st.integers(0, classes - 1), weights), min_size=1, max_size=9
    )


def tensors(rows: list[Sample], factor: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    preds, target, weight = zip(*rows, strict=True)
    return torch.tensor(preds), torch.tensor(target), torch.tensor(weight, dtype=torch.float64) * factor


def exact_counts(rows: list[Sample], number: int) -> Counts:
    """The cells of one class against the rest."""
    cells = dict.fromkeys(("tp", "fp", "fn", "tn"), Fraction(0))
    for pred, target, weight in rows:
        name = ("t" if (pred == number) == (target == number) else "f") + ("p" if pred == number else "n")
        cells[name] += Fraction(weight)
    return Counts(**cells)


def assert_same_cells(counts: Counts, exact: Counts) -> None:
    for cell, expected in zip(counts.cells, exact.cells, strict=True):
        assert float(cell) == pytest.approx(float(expected), rel=1e-12, abs=0)


def computed(evaluation: Any, way: Any, batch: tuple[Tensor, ...]) -> dict[str, float]:
    with way():
        evaluation.update(*batch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: float(value) for name, value in evaluation.compute().items()}


def same(one: float, other: float) -> Any:
    return one == pytest.approx(other, rel=1e-5, abs=1e-6, nan_ok=True)


# ---- against fractions


@ways
@given(rows=samples(2))
def test_every_statistic_of_weights_is_that_of_fractions(way: Any, rows: list[Sample]) -> None:
    evaluation = BinaryEvaluation("labels", weighted=True, statistics=list(STATISTICS))
    values = computed(evaluation, way, tensors(rows))
    exact = exact_counts(rows, 1)
    assert_same_cells(evaluation.counts, exact)
    for name, value in values.items():
        assert same(value, float(STATISTICS[name](exact).value())), name


@ways
@given(rows=samples(2))
def test_cells_at_every_threshold_are_those_of_fractions(way: Any, rows: list[Sample]) -> None:
    cuts = [0.25, 0.5, 0.75]
    evaluation = BinaryEvaluation("probabilities", threshold=cuts, weighted=True, curves=True, statistics=["recall"])
    preds, target, weight = tensors(rows)
    shifts = torch.arange(len(rows)) % 2 * 0.5  # predictions 0.1, 0.6 and 0.4, 0.9
    computed(evaluation, way, ((preds * 0.3 + 0.1 + shifts).double(), target, weight))
    for place, cut in enumerate(cuts):
        exact = exact_counts(
            [(int(p * 0.3 + 0.1 + s > cut), t, w) for (p, t, w), s in zip(rows, shifts.tolist(), strict=True)], 1
        )
        assert_same_cells(evaluation.counts.at(place), exact)
        assert_same_cells(evaluation.at_threshold(cut), exact)


@ways
@given(rows=samples(CLASSES))
def test_cells_of_classes_are_those_of_fractions(way: Any, rows: list[Sample]) -> None:
    evaluation = MulticlassEvaluation("labels", CLASSES, weighted=True, statistics=["accuracy", "mcc", "kappa"])
    values = computed(evaluation, way, tensors(rows))
    exact = [exact_counts(rows, number) for number in range(CLASSES)]
    for number in range(CLASSES):
        assert_same_cells(evaluation.counts.at(number), exact[number])
    spread = [
        sum(c.positives * c.negatives for c in exact),
        sum(c.predicted_positives * c.predicted_negatives for c in exact),
    ]
    agreement = sum(c.tp * c.tn - c.fp * c.fn for c in exact)
    chance = sum(c.positives * c.predicted_negatives for c in exact)
    root = math.sqrt(spread[0]) * math.sqrt(spread[1])
    assert same(values["mcc"], float(agreement) / root if root else math.nan)
    assert same(values["kappa"], float(agreement / chance) if chance else math.nan)


@ways
@given(rows=st.lists(st.tuples(*[st.integers(0, 1)] * 4, weights), min_size=1, max_size=9))
def test_cells_of_labels_are_those_of_fractions(way: Any, rows: list[Any]) -> None:
    evaluation = MultilabelEvaluation("labels", 2, weighted=True, statistics=["f1/macro"])
    preds, target = torch.tensor([row[:2] for row in rows]), torch.tensor([row[2:4] for row in rows])
    computed(evaluation, way, (preds, target, torch.tensor([row[4] for row in rows], dtype=torch.float64)))
    for label in range(2):
        exact = exact_counts([(row[label], row[2 + label], row[4]) for row in rows], 1)
        assert_same_cells(evaluation.counts.at(label), exact)


@ways
@pytest.mark.parametrize("sliced", [False, True], ids=["classes", "slices"])
@given(rows=samples(CLASSES))
def test_without_a_matrix_only_what_is_far_below_the_largest_is_lost(
    way: Any, sliced: bool, rows: list[Sample]
) -> None:
    """Of many classes, and of groups: three cells are sums, and the fourth is 0 where there is no sample."""
    number = CLASSES if sliced else 100
    template = MulticlassEvaluation("labels", number, weighted=True, statistics=["accuracy"])
    counting: Any = Slices(template, 2) if sliced else template
    preds, target, weight = tensors(rows)
    groups = (torch.ones_like(target),) if sliced else ()
    with way():
        counting.update(preds, target, *groups, weight)
    counts = Counts(*(cell[1] for cell in counting.counts.cells)) if sliced else counting.counts
    total = sum(row[2] for row in rows)
    for place in range(CLASSES):
        exact, found = exact_counts(rows, place), counts.at(place)
        assert_same_cells(Counts(found.tp, found.fp, found.fn, 0), Counts(exact.tp, exact.fp, exact.fn, 0))
        assert float(found.tn) == pytest.approx(float(exact.tn), rel=1e-12, abs=1e-14 * total)
        if all(place in row[:2] for row in rows):
            assert float(found.tn) == 0


# ---- a common factor


@ways
@given(rows=samples(2), factor=factors)
def test_a_common_factor_of_weights_moves_no_statistic(way: Any, rows: list[Sample], factor: float) -> None:
    options: Any = {"weighted": True, "statistics": list(STATISTICS)}
    ours, scaled = (computed(BinaryEvaluation("labels", **options), way, tensors(rows, f)) for f in (1.0, factor))
    for name, value in ours.items():
        assert same(scaled[name], value), name


@ways
@given(rows=samples(CLASSES), factor=factors)
def test_a_common_factor_of_weights_moves_no_statistic_of_classes(way: Any, rows: list[Sample], factor: float) -> None:
    names = [
        "accuracy",
        "balanced_accuracy",
        "mcc",
        "kappa",
        *(f"{n}/{a}" for n in ("f1", "mcc", "lift") for a in ("micro", "macro", "weighted")),
    ]
    options: Any = {"weighted": True, "statistics": names}
    ours, scaled = (
        computed(MulticlassEvaluation("labels", CLASSES, **options), way, tensors(rows, f)) for f in (1.0, factor)
    )
    for name, value in ours.items():
        assert same(scaled[name], value), name


@given(rows=samples(3), factor=factors)
def test_a_common_factor_of_weights_moves_no_metric(rows: list[Sample], factor: float) -> None:
    preds, target, weight = tensors(rows)
    assume(all(bool(((each == 1) * weight).any() and ((each != 1) * weight).any()) for each in (preds, target)))
    for make in (
        lambda: MulticlassCohenKappa(3, weights="linear", weighted=True),
        lambda: MulticlassCohenKappa(3, weighted=True),
    ):
        values = []
        for scale in (1.0, factor):
            metric = make()
            metric.update(preds, target, weight * scale)
            values.append(float(metric.compute()))
        assert same(*values)
    binary = []
    for scale in (1.0, factor):
        metric = BinaryMatthewsCorrCoef(weighted=True)
        metric.update((preds == 1).long(), (target == 1).long(), weight * scale)
        binary.append(float(metric.compute()))
    assert same(*binary)


def test_sums_of_weights_beyond_single_precision_stay_numbers() -> None:
    metric = MulticlassStatScores(2, average="macro", weighted=True)
    metric.update(torch.tensor([0, 1]), torch.tensor([0, 0]), torch.tensor([1e90, 3e90], dtype=torch.float64))
    assert metric.compute().tolist() == pytest.approx([5e89, 1.5e90, 5e89, 1.5e90, 2e90])


def test_a_cell_without_samples_leaves_no_residue() -> None:
    evaluation = BinaryEvaluation("labels", weighted=True, statistics=["false_omission_rate"])
    weight = torch.rand(1_000)
    for part in weight.split(7):
        evaluation.update(torch.ones(len(part), dtype=torch.long), torch.randint(2, (len(part),)), part)
    with pytest.warns(UserWarning, match="false_omission_rate"):
        value = evaluation.compute()["false_omission_rate"]
    assert math.isnan(value)


def test_bounds_of_weights_below_all_normal_numbers_are_numbers() -> None:
    evaluation = BinaryEvaluation("logits", curves=True, weighted=True)
    weight = torch.full((4,), 2.0**-1070, dtype=torch.float64)
    evaluation.update(torch.tensor([-2.0, -1.0, 1.0, 2.0]), torch.tensor([0, 1, 0, 1]), weight)
    low, value, high = (float(end) for end in evaluation.bounds("auroc"))
    assert value == 0.75  # three of four pairs
    assert 0.75 - 1e-6 <= low <= 0.75 <= high <= 0.75 + 1e-6


SCORES = ("auroc", "average_precision", "eer", "kolmogorov_smirnov", "gini", "best_f1", "best_f1_threshold")
WHOLE = st.lists(
    st.tuples(st.sampled_from([0.1, 0.3, 0.5, 0.7, 0.9]), st.integers(0, 1), st.integers(1, 20)),
    min_size=4,
    max_size=12,
)


@ways
@pytest.mark.parametrize("resolution", [64, None], ids=["bins", "stored"])
@given(rows=WHOLE, power=st.integers(-1074, 1000))
def test_a_power_of_two_of_weights_moves_no_statistic_of_scores(
    way: Any, resolution: Any, rows: list[Any], power: int
) -> None:
    assume(len({row[1] for row in rows}) == 2)
    preds, target, weight = (torch.tensor(part, dtype=torch.float64) for part in zip(*rows, strict=True))
    values, ends, costs = [], [], []
    for scaled in (weight, torch.tensor([math.ldexp(w, power) for w in weight.tolist()], dtype=torch.float64)):
        evaluation = BinaryEvaluation(
            "probabilities", weighted=True, curves=True, resolution=resolution, statistics=list(SCORES)
        )
        values.append(computed(evaluation, way, (preds, target.long(), scaled)))
        ends.append([float(end) for name in SCORES[:2] for end in evaluation.bounds(name)])
        costs.append(evaluation.best_threshold(costs={"fp": 1, "fn": 7}))
    assert values[0] == pytest.approx(values[1], rel=1e-6)  # in single precision
    assert ends[0] == pytest.approx(ends[1], rel=1e-14)
    assert costs[0] == costs[1]


@ways
@pytest.mark.parametrize(
    "make",
    [
        lambda: BinaryAUROC(weighted=True),
        lambda: BinaryAveragePrecision(thresholds=5, weighted=True),
        lambda: BinaryROC(thresholds=None, weighted=True),
        lambda: BinaryCalibrationError(weighted=True),
    ],
    ids=["area", "thresholds", "stored", "calibration"],
)
def test_weights_whose_sum_no_number_holds_are_refused(make: Any, way: Any) -> None:
    scores, target = torch.tensor([0.1, 0.2, 0.8, 0.9]), torch.tensor([0, 0, 1, 1])
    metric = make()
    with way():
        metric.update(scores, target, torch.full((4,), 4e307, dtype=torch.float64))
    metric.compute()
    with way():
        metric.update(scores, target, torch.full((4,), 4e307, dtype=torch.float64))
    with pytest.raises(InputError, match="divide all of them by a common factor"):
        metric.compute()
