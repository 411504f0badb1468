"""A chosen threshold means the same everywhere: in every precision, at every scale, for every task and way."""

from __future__ import annotations

import copy
import io
import json
import math
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lightning_evalkit import (
    BinaryEvaluation,
    Counts,
    MulticlassEvaluation,
    MultilabelEvaluation,
    Slices,
    Threshold,
    functional,
    metrics,
)
from lightning_evalkit.errors import DeclarationError, InputError
from lightning_evalkit.inputs import Binary
from lightning_evalkit.inputs.threshold import above_of, cut_of, floor_of, log_odds, names_of, sigmoid

QUICK = settings(deadline=None, derandomize=True, database=None)
TYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
HALF, BRAIN, SINGLE, DOUBLE = TYPES
UNTOLD = "ignore:best_f1_threshold is .* a probability that several logits share"
UNDEFINED = "ignore::lightning_evalkit.errors.UndefinedWarning"
pytestmark = [pytest.mark.filterwarnings(UNTOLD), pytest.mark.filterwarnings(UNDEFINED)]

SCALES: dict[str, Any] = {
    "usual": lambda x: 2 * x,
    "coarse": lambda x: (2 * x).round(),
    "certain": lambda x: x + 25,
    "uncertain": lambda x: x - 25,
    "large": lambda x: 1e3 * x,
    "turned": lambda x: -1e3 * x,
    "near": lambda x: 40 + x / 1e4,
    "small": lambda x: x * 1e-3,
    "denormal": lambda x: x * 1e-42,
    "huge": lambda x: x * 1e39,
    "infinite": lambda x: torch.where(x.abs() > 1, x * torch.inf, x),
}


def scored(seed: int, scale: str, inputs: str, kind: torch.dtype, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Scores of a type, and targets that follow them somewhat."""
    generator = torch.Generator().manual_seed(seed)
    normal = torch.randn(shape, generator=generator, dtype=DOUBLE)
    logits = SCALES[scale](normal)
    target = (torch.randn(shape, generator=generator, dtype=DOUBLE) + normal > 0).long()
    if inputs == "logits":
        return logits.to(kind), target
    return logits.sigmoid().to(kind), target


def brute(scores: Tensor, target: Tensor, weight: Tensor | None, threshold: Threshold, inputs: str) -> list[float]:
    """tp, fp, fn, tn by comparing in double precision."""
    above = scores.double() > (threshold.logit if inputs == "logits" else float(threshold))
    ones = torch.ones_like(target, dtype=DOUBLE) if weight is None else weight.double()
    cells = ((above, 1), (above, 0), (~above, 1), (~above, 0))
    return [float((ones * (said & (target == true))).sum()) for said, true in cells]


def cells_of(counts: Counts) -> list[Any]:
    return [cell.tolist() for cell in (counts.tp, counts.fp, counts.fn, counts.tn)]


@QUICK
@given(
    seed=st.integers(0, 10_000),
    scale=st.sampled_from(sorted(SCALES)),
    inputs=st.sampled_from(["logits", "probabilities"]),
    kind=st.sampled_from(TYPES),
    weighted=st.booleans(),
    resolution=st.sampled_from([None, None, 8, 101, "bfloat16"]),
    criterion=st.sampled_from(["f1", "informedness", "f2", "costs"]),
    size=st.integers(2, 60),
)
def test_a_chosen_threshold_of_one_question(
    seed: int, scale: str, inputs: Any, kind: Any, weighted: bool, resolution: Any, criterion: str, size: int
) -> None:
    scores, target = scored(seed, scale, inputs, kind, (size,))
    target[:2] = torch.tensor([0, 1])
    weight = torch.rand(size).double() if weighted else None
    chosen_by = BinaryEvaluation(inputs, curves=True, resolution=resolution, weighted=weighted)
    with np.errstate(over="ignore"):
        chosen_by.update(scores, target, weight)
    choice: dict[str, Any] = {"costs": {"fp": 1.0, "fn": 3.0}} if criterion == "costs" else {"criterion": criterion}
    threshold = chosen_by.best_threshold(**choice)
    if math.isnan(threshold):
        return
    expected = pytest.approx(brute(scores, target, weight, threshold, inputs), rel=1e-12)
    assert cells_of(chosen_by.at_threshold(threshold)) == expected, "the counts that the choice was made by"
    for cut in (threshold, pickle.loads(pickle.dumps(threshold)), threshold.plain):
        again = BinaryEvaluation(inputs, cut, weighted=weighted)
        again.update(scores, target, weight)
        assert cells_of(again.counts) == expected
    ones = None if weight is None else weight
    single = metrics.BinaryStatScores(threshold, inputs=inputs, weighted=True)
    single.update(scores, target, torch.ones(size) if ones is None else ones)
    counted = functional.binary_stat_scores(scores, target, threshold, inputs=inputs, sample_weight=ones)
    for tp, fp, tn, fn, _ in (single.compute().tolist(), counted.tolist()):
        assert [tp, fp, fn, tn] == pytest.approx(list(expected.expected), rel=1e-6)
    if not weighted and criterion == "f1":
        assert float(again.compute()["f1"]) == pytest.approx(float(chosen_by.compute()["best_f1"]), nan_ok=True)


@QUICK
@given(
    seed=st.integers(0, 10_000),
    scale=st.sampled_from(sorted(SCALES)),
    inputs=st.sampled_from(["logits", "probabilities"]),
    kind=st.sampled_from(TYPES),
    weighted=st.booleans(),
)
def test_chosen_thresholds_of_labels(seed: int, scale: str, inputs: Any, kind: Any, weighted: bool) -> None:
    scores, target = scored(seed, scale, inputs, kind, (40, 3))
    target[:2] = torch.tensor([[0, 0, 0], [1, 1, 1]])
    weight = torch.rand(40).double() if weighted else None
    chosen_by = MultilabelEvaluation(inputs, 3, curves=True, weighted=weighted, statistics=["f1/macro"])
    chosen_by.update(scores, target, weight)
    thresholds = list(chosen_by.best_threshold("informedness").values())
    expected = [
        brute(scores[:, label], target[:, label], weight, each, inputs) for label, each in enumerate(thresholds)
    ]
    columns = [pytest.approx(list(column), rel=1e-12) for column in zip(*expected, strict=True)]
    for label, each in enumerate(thresholds):
        at = chosen_by.at_threshold(each)
        assert [cell[label] for cell in cells_of(at)] == pytest.approx(expected[label], rel=1e-12)
    again = MultilabelEvaluation(inputs, 3, threshold=thresholds, weighted=weighted, statistics=["f1/macro"])
    again.update(scores, target, weight)
    assert cells_of(again.counts) == columns
    slices = Slices(again, 1)
    slices.update(scores, target, torch.zeros(40, dtype=torch.int64), *([] if weight is None else [weight]))
    assert [cell[0] for cell in cells_of(slices.counts)] == columns


def test_half_precision_keeps_its_boundary_sample() -> None:
    scores, target = torch.tensor([2.0, -1.0]).bfloat16(), torch.tensor([1, 0])
    chosen_by = BinaryEvaluation("logits", curves=True)
    chosen_by.update(scores, target)
    again = BinaryEvaluation("logits", threshold=chosen_by.best_threshold("f1"))
    again.update(scores, target)
    assert again.compute()["f1"] == 1
    near = BinaryEvaluation("probabilities", threshold=0.999)
    near.update(torch.ones(3).bfloat16(), torch.ones(3, dtype=torch.int64))
    assert near.compute()["recall"] == 1, "1 is above 0.999, which bfloat16 does not hold"


@pytest.mark.filterwarnings("default:best_f1_threshold")
def test_a_logit_that_no_probability_holds_is_kept_and_not_passed_over_in_silence() -> None:
    scores, target = torch.tensor([40.0, 41.0, 42.0, 43.0]), torch.tensor([0, 0, 1, 1])
    chosen_by = BinaryEvaluation("logits", curves=True)
    chosen_by.update(scores, target)
    threshold = chosen_by.best_threshold("f1")
    assert float(threshold) == 1.0
    assert 41 <= threshold.logit < 42
    with pytest.warns(UserWarning, match=r"best_f1_threshold is 1.0, .* best_threshold\(...\) keeps the logit"):
        chosen_by.compute()
    chosen_by.compute()  # says it once
    again = BinaryEvaluation("logits", threshold=threshold)
    again.update(scores, target)
    assert again.compute()["f1"] == 1


def test_a_reported_threshold_is_precise_enough_to_be_declared() -> None:
    for shift in (0.0, 10.0, 17.0, 20.0, -30.0):
        scores = torch.tensor([0.0, 1.0, 1.0 + 2**-10, 2.0]) + shift
        chosen_by = BinaryEvaluation("logits", curves=True)
        chosen_by.update(scores, torch.tensor([0, 0, 1, 1]))
        reported = chosen_by.compute()["best_f1_threshold"]
        assert reported.dtype == DOUBLE
        again = BinaryEvaluation("logits", threshold=float(reported))
        again.update(scores, torch.tensor([0, 0, 1, 1]))
        assert again.compute()["f1"] == chosen_by.compute()["best_f1"]


def test_a_threshold_of_a_class_is_on_its_log_odds() -> None:
    logits, target = torch.randn(200, 3) * 20, torch.randint(3, (200,))
    chosen_by = MulticlassEvaluation("logits", 3, curves=True)
    chosen_by.update(logits, target)
    for place, threshold in enumerate(chosen_by.best_threshold("f1").values()):
        others = torch.cat((logits[:, :place], logits[:, place + 1 :]), 1).double()
        odds = logits[:, place].double() - others.logsumexp(1)
        counts = chosen_by.at_threshold(threshold)
        assert counts.tp[place] == ((odds > threshold.logit) & (target == place)).sum()


@pytest.mark.parametrize("inputs", ["logits", "probabilities"])
def test_scores_that_equal_the_threshold_are_not_above_it(inputs: Any) -> None:
    scores = torch.zeros(10) if inputs == "logits" else torch.full((10,), 0.5)
    for declared in (0.5, 0.3):
        evaluation = BinaryEvaluation(inputs, declared, curves=True)
        evaluation.update(scores, torch.arange(10) % 2)
        at = evaluation.at_threshold(0.5)
        assert (int(at.tp), int(at.fp)) == (0, 0)
        assert cells_of(evaluation.at_threshold(declared)) == cells_of(evaluation.counts)
    labels = MultilabelEvaluation(inputs, 2, threshold=[0.5, 0.3], curves=True)
    labels.update(scores.view(5, 2), torch.arange(10).view(5, 2) % 2)
    assert labels.at_threshold(0.5).tp.tolist() == [0, 0]
    assert labels.at_threshold(0.3).tp.tolist() == [0, 5]


@QUICK
@given(seed=st.integers(0, 1000), cut=st.floats(0.01, 0.99))
def test_counts_at_a_declared_threshold_are_those_of_the_evaluation(seed: int, cut: float) -> None:
    torch.manual_seed(seed)
    cuts = [cut] if cut == 0.5 else [cut, 0.5]
    evaluation = BinaryEvaluation("logits", cuts, curves=True, resolution=8)
    evaluation.update(torch.randn(100), torch.randint(2, (100,)))
    for place, each in enumerate(cuts):
        assert cells_of(evaluation.at_threshold(each)) == cells_of(evaluation.counts.at(place))


def test_nothing_calls_a_probability_of_0_positive_so_that_nothing_is_chosen_there() -> None:
    scores, target = torch.tensor([0.0, 0.0, 0.5]), torch.tensor([1, 1, 0])
    evaluation = BinaryEvaluation("probabilities", curves=True)
    evaluation.update(scores, target)
    again = BinaryEvaluation("probabilities", evaluation.best_threshold("f1"))
    again.update(scores, target)
    assert again.compute()["f1"] == evaluation.compute()["best_f1"] == 0


# ---- cuts


@QUICK
@given(number=st.floats(allow_nan=False), kind=st.sampled_from(TYPES))
def test_a_cut_is_the_largest_number_of_the_type_that_is_not_above(number: float, kind: torch.dtype) -> None:
    low, high = floor_of(number, kind), above_of(number, kind)
    assert torch.tensor(low, dtype=DOUBLE).to(kind).double() == low, "a number of the type"
    assert torch.tensor(high, dtype=DOUBLE).to(kind).double() == high
    assert low <= number <= high
    assert number < high or number == math.inf
    if math.isfinite(low) and math.isfinite(high):
        between = (torch.tensor([low, high], dtype=DOUBLE).sum() / 2).to(kind).double()
        assert between in (low, high), "neighbours"


@QUICK
@given(text=st.integers(1, 999), kind=st.sampled_from(TYPES), scores=st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_a_plain_number_is_the_score_that_is_written_so(text: int, kind: torch.dtype, scores: list[float]) -> None:
    """0.3 is not above 0.3 in any precision, and every other score is compared exactly."""
    threshold = text / 1000
    own = torch.tensor(threshold, dtype=DOUBLE).to(kind)
    written = float(f"{float(own):.3g}") == threshold and kind != BRAIN
    preds = torch.cat((own[None], torch.tensor(scores, dtype=DOUBLE).to(kind)))
    above = preds > cut_of(threshold, "probabilities", kind)
    others = preds != own
    assert torch.equal(above[others], (preds.double() > threshold)[others])
    if written:
        assert not above[0]
    assert torch.equal(above, preds > cut_of(Threshold(threshold), "probabilities", kind)), "equals its number"


@pytest.mark.parametrize("resolution", [None, 8, 1000, "bfloat16"])
def test_no_edge_of_a_bin_is_how_a_score_is_written(resolution: Any) -> None:
    """So that a chosen threshold decides alike as it is and as the plain number that files hold."""
    evaluation = BinaryEvaluation("probabilities", curves=True, resolution=resolution)
    edges = evaluation.tally.counter.bins.ends()[1]  # type: ignore[attr-defined]  # scores are kept
    edges = edges[(edges >= 0) & (edges <= 1)]
    for edge in edges[:: max(1, len(edges) // 500)].tolist():
        for kind in TYPES:
            assert cut_of(edge, "probabilities", kind) == floor_of(edge, kind)


@pytest.mark.parametrize(("shift", "says"), [(0.0, False), (40.0, True)])
def test_a_point_whose_threshold_is_that_of_others_says_so(shift: float, says: bool) -> None:
    """Logits above 17 are one probability in single precision."""
    metric = metrics.BinaryRecallAtFixedPrecision(min_precision=1.0, inputs="logits")
    metric.update(torch.arange(4.0) + shift, torch.tensor([0, 0, 1, 1]))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        recall, _ = metric.compute()
    assert recall == 1
    assert any("stands for several logits" in str(each.message) for each in caught) is says


# ---- the object


def test_a_threshold_is_a_number_that_keeps_its_logit() -> None:
    large, larger = Threshold.from_logit(41.0), Threshold.from_logit(42.0)
    assert float(large) == float(larger) == 1.0
    assert large != larger
    assert large != 1.0
    assert Threshold(1.0) == 1.0
    assert Threshold(0.3) == 0.3
    assert len({large, larger, Threshold.from_logit(41.0)}) == 2
    for copied in (copy.deepcopy(large), pickle.loads(pickle.dumps(large)), eval(repr(large))):
        assert copied == large
        assert copied.logit == 41.0
    assert repr(Threshold(0.25)) == "Threshold(0.25)"
    assert math.isnan(Threshold(math.nan))
    assert pickle.loads(pickle.dumps(Threshold(math.nan))) != 0
    assert json.dumps(large.plain) == '{"logit": 41.0}'
    assert Threshold(0.25).plain == 0.25
    with pytest.raises(DeclarationError, match=r"expected a probability in \[0, 1\], got 2"):
        Threshold(2)
    with pytest.raises(DeclarationError, match=r"expected the logit of 0\.5, got 3\.0"):
        Threshold(0.5, 3.0)
    with pytest.raises(
        DeclarationError, match=r"expected threshold to be a number or \{'logit': number\}, got \{'odds': 3\}"
    ):
        BinaryEvaluation("logits", threshold={"odds": 3})


@given(st.floats(-800, 800))
def test_sigmoid_and_log_odds_are_inverse_where_they_can_be(logit: float) -> None:
    assert sigmoid(logit) == pytest.approx(float(torch.tensor(logit, dtype=DOUBLE).sigmoid()), rel=1e-15, abs=1e-307)
    if -700 < logit < 15:
        assert log_odds(sigmoid(logit)) == pytest.approx(logit, rel=1e-8, abs=1e-15)


def test_logits_that_share_a_probability_are_different_declarations() -> None:
    one, other = (Binary("logits", thresholds=(Threshold.from_logit(x),)) for x in (41.0, 42.0))
    assert one != other
    assert one.key != other.key
    evaluations = [BinaryEvaluation("logits", Threshold.from_logit(x)) for x in (41.0, 42.0)]
    with pytest.raises(InputError, match="expected a state of"):
        evaluations[0].merge_state(evaluations[1])
    for each in evaluations:
        each.persistent()
    saved = io.BytesIO()
    torch.save(evaluations[0].state_dict(), saved)
    saved.seek(0)
    state = torch.load(saved, weights_only=True)
    BinaryEvaluation("logits", {"logit": 41.0}).load_state_dict(dict(state))
    with pytest.raises(RuntimeError, match="counted under another declaration: thresholds"):
        evaluations[1].load_state_dict(state)


# ---- names


@QUICK
@given(st.lists(st.one_of(st.floats(0, 1), st.floats(-800, 800).map(Threshold.from_logit)), max_size=6, unique=True))
def test_two_thresholds_never_share_a_name(thresholds: list[float]) -> None:
    names = names_of(thresholds)
    assert len(set(names)) == len(thresholds)
    for name, threshold in zip(names, thresholds, strict=True):
        assert name not in ("0", "1") or threshold in (0, 1), "what is not certain is not called so"
        alike = [f"{float(each):g}" for each in [*thresholds, 0.0, 1.0]].count(f"{float(threshold):g}")
        if alike == 1 and not isinstance(threshold, Threshold):
            assert name == f"{threshold:g}", "no more digits than are needed"
    if thresholds:
        evaluation = BinaryEvaluation("logits", thresholds, statistics=["recall", "f1"])
        assert len(list(evaluation.keys())) == 2 * len(thresholds)
        evaluation.update(torch.randn(9), torch.arange(9) % 2)
        assert len(evaluation.compute()) == 2 * len(thresholds)


def test_thresholds_that_are_equal_to_six_digits_have_entries_of_their_own() -> None:
    evaluation = BinaryEvaluation("probabilities", [0.99999991, 0.99999992, 0.5], statistics=["recall"])
    assert list(evaluation.keys()) == ["recall@0.99999991", "recall@0.99999992", "recall@0.5"]
    with pytest.raises(DeclarationError, match="expected different thresholds"):
        BinaryEvaluation("logits", [Threshold.from_logit(41.0), Threshold.from_logit(41.0)])
