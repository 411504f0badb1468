"""Bounds of AUROC and average precision are certain, whatever the scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from score_batches import INF, READINGS, _updated
from sklearn.metrics import average_precision_score, roc_auc_score
from torch import Tensor

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation
from lightning_evalkit.counts.bins import FineBins
from lightning_evalkit.counts.odds import class_log_odds
from lightning_evalkit.metrics import (
    BinaryAUROC,
)


def auroc_of(scores: list[float], target: list[int], weight: list[float]) -> float:
    """By its definition: the share of pairs that are in order, ties half."""
    yes, no = ([(s, w) for s, t, w in zip(scores, target, weight, strict=True) if t == k] for k in (1, 0))
    won = sum(v * w * ((s > z) + (s == z) / 2) for s, v in yes for z, w in no)
    return won / (sum(w for _, w in yes) * sum(w for _, w in no))


def average_precision_of(scores: list[float], target: list[int], weight: list[float]) -> float:
    """By its definition: the mean over positives of the precision where scores from theirs up are positive."""
    samples = list(zip(scores, target, weight, strict=True))
    total = 0.0
    for score, truth, w in samples:
        if truth and w:
            above = [(t, v) for s, t, v in samples if s >= score]
            total += w * sum(v for t, v in above if t) / sum(v for _, v in above)
    return total / sum(w for _, t, w in samples if t)


EXACT = {"auroc": auroc_of, "average_precision": average_precision_of}


def test_the_definitions_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        scores, target, weight = rng.integers(0, 6, 30) / 6, rng.integers(0, 2, 30), rng.random(30)
        arguments = scores.tolist(), target.tolist(), weight.tolist()
        assert auroc_of(*arguments) == pytest.approx(roc_auc_score(target, scores, sample_weight=weight))
        expected = average_precision_score(target, scores, sample_weight=weight)
        assert average_precision_of(*arguments) == pytest.approx(expected)


STEPS = (0.0, 1e-7, -1e-7, 1e-4, -1e-4, 0.05, -0.3)
LOGITS = (-40.0, -3.0, -0.2, 0.0, 0.7, 5.0, 17.0, 30.0)
CERTAIN = {"logits": (-INF, INF, -0.0, 3e38), "probabilities": (0.0, 1.0, 0.5, 1e-45, 1 - 2**-24)}
KINDS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@st.composite
def scored(draw: st.DrawFn, *, weighted: bool = False) -> tuple[str, Tensor, Tensor, Tensor]:
    """Many ties and near-ties, in every order: a reading, scores of some type, targets of both classes, weights."""
    reading, kind = draw(st.sampled_from(READINGS)), draw(st.sampled_from(KINDS))
    size = draw(st.integers(2, 18))
    near = st.builds(lambda base, step: base + step, st.sampled_from(LOGITS), st.sampled_from(STEPS))
    logits = torch.tensor(draw(st.lists(near, min_size=size, max_size=size)), dtype=torch.float64)
    scores = logits if reading == "logits" else logits.sigmoid()
    certain = st.sampled_from([None, None, None, *CERTAIN[reading]])
    ends = draw(st.lists(certain, min_size=size, max_size=size))
    scores = torch.tensor([s if e is None else e for s, e in zip(scores.tolist(), ends, strict=True)])
    scores = scores.double().to(kind) if kind != torch.float64 else scores.double()
    target = draw(st.lists(st.integers(0, 1), min_size=size, max_size=size).filter(lambda t: len(set(t)) == 2))
    units = st.sampled_from([1e-3, 0.01, 0.5, 1.0, 3.0, 1000.0] if weighted else [1.0])
    weight = draw(st.lists(units, min_size=size, max_size=size))
    return reading, scores, torch.tensor(target), torch.tensor(weight, dtype=torch.float64)


ScoreStatistic = tuple[str, Tensor, Tensor, Tensor]
POSITIVE_BELOW = (torch.tensor([1.0001, 1.0, 1.0002, 0.9999]), torch.tensor([0, 1, 0, 1]))
"""All negatives of a bin above its positives."""
POSITIVE_ABOVE = (POSITIVE_BELOW[0], 1 - POSITIVE_BELOW[1])


def assert_bounded(data: ScoreStatistic, weighted: bool, way: str, **options: Any) -> None:
    reading, scores, target, weight = data
    evaluation = BinaryEvaluation(reading, curves=True, weighted=weighted, statistics=["auroc"], **options)  # type: ignore[arg-type]
    _updated(evaluation, (scores, target, weight) if weighted else (scores, target), way)
    for name, exact in EXACT.items():
        low, value, high = (float(part) for part in evaluation.bounds(name))
        truth = exact(scores.double().tolist(), target.tolist(), weight.tolist())
        assert low <= value <= high
        assert low - 1e-12 <= truth <= high + 1e-12
        assert low >= 0
        assert high <= 1 + 1e-12


@given(scored(), st.sampled_from([8, 9, 64, 1024, "bfloat16"]), st.sampled_from(["at_once", "deferred"]))
@example(("logits", *POSITIVE_BELOW, torch.ones(4)), 8, "at_once")
@example(("logits", *POSITIVE_ABOVE, torch.ones(4)), 8, "deferred")
@example(
    ("logits", torch.tensor([1e39, 1e40, 1e41], dtype=torch.float64), torch.tensor([0, 0, 1]), torch.ones(3)),
    64,
    "at_once",
)
@example(
    ("probabilities", torch.tensor([0.5, 0.5 + 1e-12], dtype=torch.float64), torch.tensor([0, 1]), torch.ones(2)),
    "bfloat16",
    "deferred",
)
@example(
    ("probabilities", torch.tensor([0.5, 0.5 + 1e-12], dtype=torch.float64), torch.tensor([0, 1]), torch.ones(2)),
    "bfloat16",
    "at_once",
)
def test_the_exact_areas_lie_between_the_bounds(data: ScoreStatistic, resolution: Any, way: str) -> None:
    assert_bounded(data, False, way, resolution=resolution)


@given(scored(weighted=True), st.sampled_from([8, 64]))
@example(("logits", *POSITIVE_BELOW, torch.full((4,), 1e-3)), 8)
@example(("logits", *POSITIVE_ABOVE, torch.full((4,), 1e3)), 8)
def test_the_exact_weighted_areas_lie_between_the_bounds(data: ScoreStatistic, resolution: int) -> None:
    assert_bounded(data, True, "at_once", resolution=resolution)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("higher", [0, 1], ids=["negatives_above", "positives_above"])
def test_the_worst_order_inside_every_bin_reaches_the_bound(weighted: bool, higher: int) -> None:
    """Two scores in each of many bins, the same class always above: no bound of AUROC could be narrower."""
    bins = FineBins(64, "logits")
    lowest = torch.logit(bins.lowest()).float()[5:60]
    pairs = torch.stack((lowest + 0.001, lowest + 0.002), -1).repeat_interleave(3, 0)
    target = torch.tensor([1 - higher, higher]).expand(len(pairs), 2)
    evaluation = BinaryEvaluation("logits", curves=True, resolution=64, weighted=weighted, statistics=["auroc"])
    weight = torch.full((pairs.numel(),), 0.01, dtype=torch.float64)
    evaluation.update(pairs.flatten(), target.flatten(), *([weight] if weighted else []))
    low, _, high = evaluation.bounds()
    exact = roc_auc_score(target.flatten(), pairs.flatten())
    assert exact == pytest.approx(float(high if higher else low), abs=1e-12)
    low, _, high = evaluation.bounds("average_precision")
    exact = average_precision_score(target.flatten(), pairs.flatten())
    assert low - 1e-12 <= exact <= high + 1e-12


@pytest.mark.parametrize("reading", READINGS)
def test_the_default_bounds_are_narrow(reading: str) -> None:
    """65,536 bins: NOTES of the measured width for unit normal logits one apart say 4e-5 for logits."""
    target = torch.randint(0, 2, (20_000,))
    scores = torch.randn(20_000) + target
    scores = scores if reading == "logits" else scores.sigmoid()
    evaluation = BinaryEvaluation(reading, curves=True)
    evaluation.update(scores, target)
    for name, exact in (("auroc", roc_auc_score), ("average_precision", average_precision_score)):
        low, value, high = evaluation.bounds(name)
        assert low <= exact(target, scores.double()) <= high
        assert high - low < 1e-3
        assert evaluation.compute()[name] == pytest.approx(float(value), rel=1e-6)


@pytest.mark.parametrize("most", [0.01, 0.1, 0.37, 0.9, 1.0])
@pytest.mark.parametrize("thresholds", ["fine", "bfloat16", None])
def test_the_exact_partial_area_lies_between_the_bounds(most: float, thresholds: Any) -> None:
    for seed in range(6):
        torch.manual_seed(seed)
        target = torch.randint(0, 2, (60,))
        scores = (torch.randn(60) + target).round(decimals=2).sigmoid()
        metric = BinaryAUROC(max_fpr=most, thresholds=thresholds, inputs="probabilities")
        metric.update(scores, target)
        low, value, high = metric.bounds()
        exact = roc_auc_score(target, scores.double(), max_fpr=most)
        assert low - 1e-9 <= exact <= high + 1e-9
        assert low - 1e-12 <= value <= high + 1e-12
        if thresholds is None:
            assert float(metric.compute()) == pytest.approx(exact, abs=1e-6)


def test_raw_scores_rank_where_a_sigmoid_saturates() -> None:
    """Logits that are all above 17 have one sigmoid in single precision; their order is still known."""
    target = torch.randint(0, 2, (500,))
    for low, high in ((17.0, 40.0), (40.0, 2000.0), (-2000.0, -40.0)):
        scores = torch.where(target == 1, torch.rand(500) + high, torch.rand(500) + low)
        assert low < 0 or (scores.sigmoid() == 1).all()
        evaluation = BinaryEvaluation("logits", curves=True, statistics=["auroc"])
        evaluation.update(scores, target)
        assert evaluation.compute()["auroc"] == 1
        assert list(evaluation.bounds("average_precision")) == [1, 1, 1]


def test_saturated_classes_rank_too() -> None:
    """Log-odds of a class whose probability is 1 to 20 digits."""
    target = torch.randint(0, 3, (300,))
    logits = torch.rand(300, 3)
    logits[:, 0] += torch.where(target == 0, 80.0, 60.0)
    assert (logits.softmax(1)[:, 0] == 1).all()
    evaluation = MulticlassEvaluation("logits", 3, curves=True, statistics=["auroc/0", "auroc/macro"])
    evaluation.update(logits, target)
    assert evaluation.compute()["auroc/0"] == 1


def test_probabilities_in_double_precision_are_told_from_one() -> None:
    target = torch.tensor([0, 0, 1, 1, 1])
    scores = torch.tensor([1 - 1e-10, 1 - 1e-9, 1 - 1e-12, 1 - 1e-13, 1.0], dtype=torch.float64)
    for way in ("at_once", "deferred"):
        evaluation = _updated(BinaryEvaluation("probabilities", curves=True), (scores, target), way)
        assert list(evaluation.bounds()) == [1, 1, 1]
        tiny = _updated(BinaryEvaluation("probabilities", curves=True), (1 - scores, 1 - target), way)
        assert list(tiny.bounds()) == [1, 1, 1]


@pytest.mark.parametrize("scale", [0.1, 3.0, 40.0, 300.0])
@pytest.mark.parametrize("number", [2, 3, 50])
def test_log_odds_of_classes_are_those_of_a_softmax_in_double_precision(scale: float, number: int) -> None:
    logits = torch.randn(200, number) * scale
    exact = logits.double()
    rest = torch.stack([exact[:, [c for c in range(number) if c != k]].logsumexp(1) for k in range(number)], 1)
    torch.testing.assert_close(class_log_odds(logits).double(), exact - rest, rtol=2e-6, atol=2e-6)
    torch.testing.assert_close(class_log_odds(logits.double()), exact - rest, rtol=1e-12, atol=1e-12)


def test_a_class_that_is_ruled_out_is_at_the_end() -> None:
    odds = class_log_odds(torch.tensor([[-INF, 0.0, 1.0], [INF, 0.0, 1.0]]))
    assert odds[0].tolist() == [-INF, pytest.approx(-1), pytest.approx(1)]
    assert odds[1].tolist() == [INF, -INF, -INF]
