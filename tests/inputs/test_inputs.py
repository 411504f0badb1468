"""Tensors mean what was declared: every shape, type and value that fits is counted, and every other is refused.

A refused update says what was expected, what came and what to do, and leaves the state as it was.
"""

from __future__ import annotations

import math
import warnings
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nan
from torchmetrics import classification as torchmetrics

from lightning_evalkit import BinaryEvaluation, Counts, metrics
from lightning_evalkit.errors import InputError, MixedScoresWarning

GOOD, TRUTH = torch.tensor([0.9, 0.2, 0.6, 0.4]), torch.tensor([1, 0, 0, 1])
QUICK = settings(deadline=None, derandomize=True, database=None)
INTEGERS = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
BLOCK = 65_536
"""Larger batches are counted in blocks of this size on the CPU."""


def brute_force(scores: Any, target: Any, cut: float, ignored: float | None = None, weight: Any = None) -> Counts:
    """One sample after the other."""
    cells: dict[tuple[bool, bool], float] = dict.fromkeys(product((True, False), repeat=2), 0)
    weights = [1] * len(target) if weight is None else weight
    for score, truth, times in zip(scores, target, weights, strict=True):
        if truth != ignored:
            cells[truth == 1, score > cut] += times
    return Counts(tp=cells[True, True], fp=cells[False, True], fn=cells[True, False], tn=cells[False, False])


def counts_of(preds: Tensor, target: Tensor, sample_weight: Tensor | None = None, **declared: Any) -> Counts:
    """What an evaluation counts."""
    evaluation = BinaryEvaluation(weighted=sample_weight is not None, **declared)
    evaluation.update(preds, target, sample_weight)
    return evaluation.counts


def counts_in_three_ways(preds: Tensor, target: Tensor, **declared: Any) -> list[Counts]:
    """Plain, with weights of one, and row by row: three ways through the code to the same integers."""
    rows = metrics.BinaryStatScores(multidim_average="samplewise", **declared)
    rows.update(preds.flatten()[None], target.flatten()[None])
    tp, fp, tn, fn, _ = rows.compute()[0]
    return [
        counts_of(preds, target, **declared),
        counts_of(preds, target, torch.ones(target.shape), **declared),
        Counts(tp=tp, fp=fp, fn=fn, tn=tn),
    ]


# ---- shapes


@pytest.mark.parametrize("shape", [(24,), (24, 1), (6, 4), (2, 3, 4), (1, 24), (2, 0, 3), (0,), ()])
def test_any_equal_shape_is_flattened(shape: tuple[int, ...]) -> None:
    preds, target = torch.rand(shape), torch.randint(2, shape)
    expected = brute_force(preds.flatten().tolist(), target.flatten().tolist(), 0.5)
    assert counts_of(preds, target, inputs="probabilities") == expected
    assert expected.total == math.prod(shape)


def test_memory_may_lie_in_any_order() -> None:
    preds, target = torch.rand(6, 8).T[::2], torch.randint(2, (4, 12))[:, ::2]
    assert not preds.is_contiguous()
    expected = brute_force(preds.flatten().tolist(), target.flatten().tolist(), 0.5)
    for counts in counts_in_three_ways(preds, target, inputs="probabilities"):
        assert counts == expected


def test_an_empty_batch_adds_nothing_but_an_update() -> None:
    metric = metrics.BinaryStatScores()
    metric.update(torch.tensor([0.9, 0.1]), torch.tensor([1, 1]))
    metric.update(torch.empty(0), torch.empty(0, dtype=torch.int64))
    assert metric.update_count == 2
    assert metric.compute().tolist() == [1, 0, 0, 1, 2]


@pytest.mark.parametrize("scores", [[3.0, -2.0], [0.9, 0.1]], ids=["logits", "probabilities"])
def test_an_empty_batch_is_no_second_reading(scores: list[float]) -> None:
    """Nothing can be guessed of no scores, so there is nothing to warn of."""
    metric = metrics.BinaryAccuracy()
    metric.update(torch.tensor(scores), torch.tensor([1, 0]))
    metric.update(torch.empty(0), torch.empty(0))
    assert metric.compute() == 1


def test_tensors_that_carry_gradients_are_counted_without() -> None:
    preds = torch.tensor([0.9, 0.1], requires_grad=True)
    for sample_weight in (None, torch.ones(2, requires_grad=True)):
        counts = counts_of(preds * 1, torch.tensor([1.0, 1.0]), sample_weight, inputs="probabilities")
        assert counts == Counts(1, 0, 1, 0)
        assert not counts.tp.requires_grad


def test_the_batch_is_not_changed() -> None:
    preds, target = torch.tensor([0.9, nan, 0.2]), torch.tensor([1, -1, 0])
    before = preds.clone(), target.clone()
    counts_in_three_ways(preds, target, inputs="probabilities", ignore_index=-1)
    torch.testing.assert_close((preds, target), before, equal_nan=True)


# ---- types


@pytest.mark.parametrize("target_type", [*INTEGERS, *FLOATS], ids=str)
@pytest.mark.parametrize("type_of_preds", [*INTEGERS, *FLOATS], ids=str)
def test_labels_of_any_type(type_of_preds: torch.dtype, target_type: torch.dtype) -> None:
    preds, target = torch.randint(2, (40,)), torch.randint(2, (40,))
    expected = brute_force(preds.tolist(), target.tolist(), 0.5)
    for counts in counts_in_three_ways(preds.to(type_of_preds), target.to(target_type), inputs="labels"):
        assert counts == expected


@pytest.mark.parametrize("target_type", [*INTEGERS, *FLOATS], ids=str)
@pytest.mark.parametrize("type_of_preds", FLOATS, ids=str)
@pytest.mark.parametrize(("inputs", "cut"), [("probabilities", 0.3), ("logits", math.log(0.3 / 0.7))])
def test_scores_of_any_type(inputs: str, cut: float, type_of_preds: torch.dtype, target_type: torch.dtype) -> None:
    scores = torch.rand(60) if inputs == "probabilities" else torch.randn(60)
    scores, target = scores[(scores - cut).abs() > 0.01].to(type_of_preds), torch.randint(2, (60,))
    target = target[: len(scores)]
    expected = brute_force(scores.tolist(), target.tolist(), cut)
    assert expected.predicted_positives
    for counts in counts_in_three_ways(scores, target.to(target_type), inputs=inputs, threshold=0.3):
        assert counts == expected


@pytest.mark.parametrize("weight_type", [*INTEGERS, *FLOATS], ids=str)
def test_weights_of_any_type(weight_type: torch.dtype) -> None:
    preds, target, weight = torch.rand(30), torch.randint(2, (30,)), torch.randint(4, (30,)).to(weight_type)
    expected = brute_force(preds.tolist(), target.tolist(), 0.5, weight=weight.tolist())
    assert counts_of(preds, target, weight, inputs="probabilities") == expected


def test_whole_weights_are_exact_beyond_float32() -> None:
    """2**24 + 1 is the first whole number that float32 does not have."""
    weight = torch.tensor([2**24 + 1, 2**40 + 1])
    counts = counts_of(torch.tensor([1, 0]), torch.tensor([1, 1]), weight, inputs="labels")
    assert (counts.tp.item(), counts.fn.item()) == (2**24 + 1, 2**40 + 1)


# ---- thresholds


@pytest.mark.parametrize("threshold", [0, 0.0, 1, 1.0])
def test_thresholds_at_both_ends(threshold: float) -> None:
    """Above 0 is every probability but 0 itself, and above 1 is none; logits reach 0 and 1 only at infinity."""
    probabilities, target = torch.tensor([0.0, 1e-30, 0.5, 1.0]), torch.tensor([1, 1, 0, 1])
    logits = torch.tensor([-math.inf, -70.0, 0.0, math.inf])
    expected = Counts(2, 1, 1, 0) if threshold == 0 else Counts(0, 0, 3, 1)
    for inputs, scores in (("probabilities", probabilities), ("logits", logits)):
        for counts in counts_in_three_ways(scores, target, inputs=inputs, threshold=threshold):
            assert counts == expected


def test_a_score_at_the_threshold_is_negative() -> None:
    target = torch.tensor([1, 1])
    above = torch.tensor([0.25, 0.25 + 2**-20])
    assert counts_of(above, target, inputs="probabilities", threshold=0.25) == Counts(1, 0, 1, 0)
    assert counts_of(torch.tensor([0.0, 1e-40]), target, inputs="logits") == Counts(1, 0, 1, 0)


@pytest.mark.parametrize("type_of_preds", FLOATS, ids=str)
@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.85])
@pytest.mark.parametrize("inputs", ["probabilities", "auto"])
def test_scores_around_the_threshold_are_compared_in_their_own_precision(
    inputs: str, threshold: float, type_of_preds: torch.dtype
) -> None:
    """As torchmetrics does, and whichever way they are counted."""
    at = torch.tensor(threshold, dtype=type_of_preds)
    step = torch.finfo(type_of_preds).eps * threshold
    single = torch.tensor(threshold)  # the threshold as float32 is another float64 than the threshold itself
    preds = torch.stack([at - step, at, at + step, single.to(type_of_preds), at * 0])
    target = torch.ones(5, dtype=torch.int64)
    expected = torchmetrics.BinaryStatScores(threshold=threshold)(preds, target).tolist()
    declared = {"inputs": inputs, "threshold": threshold}
    assert metrics.BinaryStatScores(**declared)(preds, target).tolist() == expected
    assert metrics.BinaryStatScores(**declared, weighted=True)(preds, target, torch.ones(5)).tolist() == expected
    rows = metrics.BinaryStatScores(**declared, multidim_average="samplewise")
    assert rows(preds[None], target[None]).tolist() == [expected]


@QUICK
@given(
    st.lists(st.floats(-30, 30, width=32), min_size=1, max_size=30),
    st.one_of(st.floats(0.001, 0.999), st.sampled_from([1e-6, 0.5, 1 - 1e-6])),
)
def test_a_logit_is_cut_where_its_sigmoid_would_be(scores: list[float], threshold: float) -> None:
    """Except within two float32 steps of the threshold, where the rounding of the sigmoid decides."""
    logits = torch.tensor(scores)
    probability, cut = logits.sigmoid(), torch.tensor(threshold)
    steps = 2 * np.spacing(torch.maximum(probability, cut).numpy())
    clear = (probability - cut).abs() > torch.from_numpy(steps)
    kept, target = logits[clear], torch.ones(int(clear.sum()))
    counts = counts_of(kept, target, inputs="logits", threshold=threshold)
    assert counts.tp.item() == (probability[clear] > threshold).sum()


def test_several_thresholds_are_counted_at_once() -> None:
    scores, target = torch.rand(300), torch.randint(2, (300,))
    cuts = [0.9, 0.1, 0.5]
    counts = counts_of(scores, target, inputs="probabilities", threshold=cuts)
    expected = [brute_force(scores.tolist(), target.tolist(), cut).cells for cut in torch.tensor(cuts).tolist()]
    assert [cell.tolist() for cell in counts.cells] == [list(cell) for cell in zip(*expected, strict=True)]


# ---- what is left out


@pytest.mark.parametrize("ignore_index", [0, 1, -1, -100, 255])
@pytest.mark.parametrize("inputs", ["probabilities", "logits", "labels"])
def test_ignored_samples_are_left_out_whatever_their_scores(inputs: str, ignore_index: int) -> None:
    target = torch.tensor([1, 0, ignore_index] * 30)
    scores = torch.rand(90) if inputs == "probabilities" else torch.randn(90)
    scores = (scores > 0).float() if inputs == "labels" else scores
    cut = 0.0 if inputs == "logits" else 0.5
    expected = brute_force(scores.tolist(), target.tolist(), cut, ignored=ignore_index)
    scores[target == ignore_index] = torch.tensor([nan, math.inf, -7.0]).repeat(90)[
        : int((target == ignore_index).sum())
    ]
    for counts in counts_in_three_ways(scores, target, inputs=inputs, ignore_index=ignore_index):
        assert counts == expected
    assert expected.total == (target != ignore_index).sum()


@pytest.mark.parametrize("target_type", [torch.int8, torch.int16, torch.int32, torch.float16, torch.float64], ids=str)
def test_ignored_targets_of_any_type(target_type: torch.dtype) -> None:
    target = torch.tensor([1, -1, 0, 1, -1]).to(target_type)
    preds = torch.tensor([1, 1, 1, 0, 0])
    for counts in counts_in_three_ways(preds, target, inputs="labels", ignore_index=-1):
        assert counts == Counts(tp=1, fp=1, fn=1, tn=0)


def test_no_byte_is_minus_one() -> None:
    """torchmetrics takes 255 for -1 among bytes, and so would leave a class 255 out; here that has to be declared."""
    preds, target = torch.tensor([0.9, 0.8, 0.1]), torch.tensor([1, -1, 0]).to(torch.uint8)
    peer = torchmetrics.BinaryStatScores(ignore_index=-1)(preds, target)
    assert peer.tolist() == [1, 0, 1, 0, 1]
    with pytest.raises(InputError, match=r"got 255 .*; no torch\.uint8 is -1: if this marks .* ignore_index=255"):
        BinaryEvaluation("probabilities", ignore_index=-1).update(preds, target)
    for counts in counts_in_three_ways(preds, target, inputs="probabilities", ignore_index=255):
        assert counts == Counts(tp=1, fp=0, fn=0, tn=1)


def test_everything_may_be_ignored() -> None:
    for counts in counts_in_three_ways(torch.full((5,), nan), torch.full((5,), -1), inputs="logits", ignore_index=-1):
        assert counts == Counts.empty()


# ---- weights


@pytest.mark.parametrize("weight_shape", [(), (4,), (4, 3), (4, 3, 2)])
def test_weights_are_repeated_over_the_dimensions_they_lack(weight_shape: tuple[int, ...]) -> None:
    preds, target = torch.rand(4, 3, 2), torch.randint(2, (4, 3, 2))
    weight = torch.rand(weight_shape, dtype=torch.float64)
    full = weight.reshape(weight_shape + (1,) * (3 - len(weight_shape))).expand(4, 3, 2).flatten().tolist()
    expected = brute_force(preds.flatten().tolist(), target.flatten().tolist(), 0.5, weight=full)
    counts = counts_of(preds, target, weight, inputs="probabilities")
    assert [cell.item() for cell in counts.cells] == pytest.approx(expected.cells)


# ---- guessing, as torchmetrics does


batches = st.lists(st.lists(st.floats(-6, 6, width=32), min_size=1, max_size=6), min_size=1, max_size=6)
probability_batches = st.lists(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=6), max_size=4)


@QUICK
@given(batches, probability_batches)
def test_each_batch_is_read_as_torchmetrics_reads_it(logits: list[list[float]], others: list[list[float]]) -> None:
    metric, peer = metrics.BinaryStatScores(threshold=0.4), torchmetrics.BinaryStatScores(threshold=0.4)
    readings = []
    for scores in (*logits, *others):
        kept = torch.tensor([score for score in scores if abs(score - math.log(0.4 / 0.6)) > 1e-5 and score != 0.4])
        if not len(kept):
            continue
        readings.append(bool(((kept < 0) | (kept > 1)).any()))
        target = torch.arange(len(kept)) % 2
        metric.update(kept, target)
        peer.update(kept, target)
    if not readings:
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert metric.compute().tolist() == peer.compute().tolist()
    as_logits, otherwise = sum(readings), len(readings) - sum(readings)
    expected = [f"logits in {as_logits} batches and probabilities in {otherwise}"] if as_logits and otherwise else []
    assert len(caught) == len(expected)
    for warning, words in zip(caught, expected, strict=True):
        assert issubclass(warning.category, MixedScoresWarning)
        assert words in str(warning.message)
        assert "declare inputs='logits' or inputs='probabilities'" in str(warning.message)


def test_mixed_readings_are_reported_with_weights_and_forgotten_by_reset() -> None:
    metric = metrics.BinaryAccuracy(weighted=True)
    for scores in ([2.0, -1.0], [0.3, 0.2], [0.1, 5.0]):
        metric.update(torch.tensor(scores), torch.tensor([1, 0]), torch.ones(2))
    with pytest.warns(
        MixedScoresWarning, match="BinaryAccuracy guessed that scores are logits in 2 batches and probabilities in 1"
    ):
        metric.compute()
    metric.reset()
    metric.update(torch.tensor([2.0, -1.0]), torch.tensor([1, 0]), torch.ones(2))
    assert metric.compute() == 1


def test_declared_scores_are_never_guessed() -> None:
    """All within [0, 1], and logits nevertheless: cut at 0, not at a half."""
    metric = metrics.BinaryStatScores(inputs="logits")
    metric.update(torch.tensor([0.1, 0.2, 0.0]), torch.tensor([1, 1, 1]))
    metric.update(torch.tensor([-3.0, 4.0]), torch.tensor([1, 1]))
    assert metric.compute().tolist() == [3, 0, 0, 2, 5]


# ---- large batches, counted block by block


def counted_by_numpy(above: Tensor, target: Tensor) -> Counts:
    table = np.zeros((3, 2), dtype=np.int64)
    np.add.at(table, (target.numpy(), above.long().numpy()), 1)
    return Counts(tp=int(table[1, 1]), fp=int(table[0, 1]), fn=int(table[1, 0]), tn=int(table[0, 0]))


@pytest.mark.parametrize("size", [BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 1, 100_000])
@pytest.mark.parametrize("ignore_index", [None, 2])
def test_large_batches(size: int, ignore_index: int | None) -> None:
    target = torch.randint(2 if ignore_index is None else 3, (size,))
    scores = {"probabilities": torch.rand(size), "logits": torch.randn(size), "labels": torch.randint(2, (size,))}
    cuts = {"probabilities": 0.25, "logits": math.log(0.25 / 0.75), "labels": 0}
    for inputs, preds in scores.items():
        expected = counted_by_numpy(preds > cuts[inputs], target)
        for counts in counts_in_three_ways(preds, target, inputs=inputs, threshold=0.25, ignore_index=ignore_index):
            assert counts == expected


def test_a_large_batch_is_read_as_a_whole() -> None:
    """One score outside [0, 1] in the last block makes logits of the first one too."""
    scores, target = torch.rand(BLOCK + 10), torch.ones(BLOCK + 10)
    scores[-1] = -1.0
    metric, peer = metrics.BinaryStatScores(), torchmetrics.BinaryStatScores()
    assert metric(scores, target).tolist() == peer(scores, target.long()).tolist()


@pytest.mark.parametrize("position", [3, BLOCK - 1, BLOCK, 99_999])
def test_one_bad_score_in_a_large_batch_refuses_all_of_it(position: int) -> None:
    evaluation = BinaryEvaluation(inputs="probabilities", threshold=[0.2, 0.8])
    evaluation.update(GOOD, TRUTH)
    before = evaluation.counts
    preds = torch.rand(100_000)
    preds[position] = nan
    words = rf"a number, got nan at position {position} \(1 of 100000 values are wrong\)"
    with pytest.raises(InputError, match=words):
        evaluation.update(preds, torch.ones(100_000))
    assert evaluation.counts == before
