"""Thresholds of guessed scores mean what they mean in torchmetrics, after a sigmoid in the precision of the scores."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torchmetrics.classification as peer_classes
import torchmetrics.functional.classification as peer
from hypothesis import example, given, settings
from hypothesis import strategies as st
from versions import UNDEFINED

from lightning_evalkit import Threshold, functional, metrics

ROWS = 32
PRECISIONS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def logits(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(ROWS, *shape, generator=torch.Generator().manual_seed(seed)) * 3


@pytest.mark.parametrize("module", [functional, peer], ids=["ours", "theirs"])
@pytest.mark.parametrize("seed", range(5))
def test_every_score_as_a_threshold_gives_the_area_of_torchmetrics(seed: int, module: Any) -> None:
    """Every threshold is a score here, so that rounding decides."""
    scores, target = logits(seed), torch.arange(ROWS) % 2
    thresholds = module.binary_roc(scores, target)[2].flip(0)
    expected = peer.binary_auroc(scores, target, thresholds=thresholds)
    torch.testing.assert_close(functional.binary_auroc(scores, target, thresholds=thresholds), expected)
    metric = metrics.BinaryAUROC(thresholds=thresholds)
    torch.testing.assert_close(metric(scores, target), expected)
    many, classes = logits(seed, 4), torch.arange(ROWS) % 4
    thresholds = module.multiclass_roc(many, classes, 4)[2][0].flip(0)
    found = functional.multiclass_auroc(many, classes, 4, None, thresholds)
    torch.testing.assert_close(found, peer.multiclass_auroc(many, classes, 4, None, thresholds))


CURVES = {"binary": ((), {}), "multiclass": ((4,), {"num_classes": 4}), "multilabel": ((4,), {"num_labels": 4})}


@settings(deadline=None)
@given(
    task=st.sampled_from(sorted(CURVES)),
    kind=st.sampled_from(PRECISIONS),
    thresholds=st.sampled_from([5, 101, [0.1, 1 / 3, 0.5, 0.9]]),
    seed=st.integers(0, 1000),
)
def test_guessed_logits_are_squashed_in_their_own_precision(
    task: str, kind: torch.dtype, thresholds: Any, seed: int
) -> None:
    """Rounded to eighths, so that half precision often decides on which side of a threshold a score is."""
    shape, many = CURVES[task]
    scores = (logits(seed, *shape) * 8).round().div(8).to(kind)
    target = torch.arange(ROWS) % 4 if task == "multiclass" else torch.arange(scores.numel()).view(scores.shape) % 5 % 2
    curves = ("roc", "precision_recall_curve") if UNDEFINED.is_here() else ("roc",)
    for name in (f"{task}_{curve}" for curve in curves):
        ours, theirs = (
            getattr(module, name)(scores, target, **many, thresholds=thresholds) for module in (functional, peer)
        )
        torch.testing.assert_close(ours, theirs, equal_nan=True)
    weighed = getattr(functional, f"{task}_roc")(
        scores, target, **many, thresholds=thresholds, sample_weight=torch.ones(target.shape)
    )
    torch.testing.assert_close(weighed, getattr(peer, f"{task}_roc")(scores, target, **many, thresholds=thresholds))


# ---- calibration bins


@settings(deadline=None)
@given(
    task=st.sampled_from(["binary", "multiclass"]),
    kind=st.sampled_from(PRECISIONS),
    bins=st.sampled_from([3, 10, 15, 100]),
    guess=st.sampled_from(["logits", "probabilities"]),
    seed=st.integers(0, 1000),
)
@example(task="binary", kind=torch.float64, bins=100, guess="probabilities", seed=0)
@example(task="multiclass", kind=torch.float64, bins=100, guess="probabilities", seed=0)
def test_calibration_bins_are_cut_in_the_precision_of_the_scores(
    task: str, kind: torch.dtype, bins: int, guess: str, seed: int
) -> None:
    """Hundredths, of which many are edges, have one answer, and what is just below them the other."""
    many = CURVES[task][1]
    edges = torch.randint(1, 100, (ROWS // 2,), generator=torch.Generator().manual_seed(seed)).double() / 100
    scores = torch.cat((edges, edges - 0.005)) if guess == "probabilities" else logits(seed).double().clamp(-2, 2)
    if task == "multiclass":  # the first is the largest, also when rounded, and rounds to less than 1
        scores = torch.nn.functional.pad(scores[:, None], (0, 3), value=0.0 if guess == "probabilities" else -3.0)
    scores, target = scores.to(kind), (torch.arange(ROWS) < ROWS // 2).long()
    half = {"rtol": 1e-2, "atol": 5e-3} if kind.itemsize == 2 else {"rtol": 1e-5, "atol": 1e-6}
    options = {**many, "n_bins": bins}
    expected = getattr(peer, f"{task}_calibration_error")(scores, target, **options)
    ones = torch.ones(ROWS)
    metric = getattr(metrics, f"{task.capitalize()}CalibrationError")(**options)
    for found in (
        metric(scores, target),
        metric.compute(),
        getattr(functional, f"{task}_calibration_error")(scores, target, **options),
        getattr(functional, f"{task}_calibration_error")(scores, target, **options, sample_weight=ones),
    ):
        torch.testing.assert_close(found, expected, **half)


def test_a_calibration_error_has_the_precision_of_the_scores_since_the_last_reset() -> None:
    metric, target = metrics.BinaryCalibrationError(), torch.tensor([0, 1])
    for kinds, expected in (((torch.float16, torch.float32), torch.float32), ((torch.float64,), torch.float64)):
        for kind in kinds:
            metric.update(torch.tensor([0.25, 0.5], dtype=kind), target)
        assert metric.compute().dtype == expected
        metric.reset()
    metric.update([0.25, 0.5], [0, 1])  # Python's numbers are in double precision
    assert metric.compute().dtype == torch.float64
    assert functional.binary_calibration_error([0.25, 0.5], [0, 1]).dtype == torch.float64


# ---- curves


def test_thresholds_of_a_curve_are_those_of_torchmetrics_to_the_last_bit() -> None:
    scores, target = logits(0), torch.arange(ROWS) % 2
    assert torch.equal(functional.binary_roc(scores, target)[2], peer.binary_roc(scores, target)[2])
    many, classes = logits(0, 4), torch.arange(ROWS) % 4
    pairs = zip(functional.multiclass_roc(many, classes, 4)[2], peer.multiclass_roc(many, classes, 4)[2], strict=True)
    assert all(torch.equal(ours, theirs) for ours, theirs in pairs)


def test_batches_of_both_kinds_keep_their_own_scores() -> None:
    metric = metrics.BinaryROC(thresholds=None)
    metric.update(torch.tensor([0.25, 0.75]), torch.tensor([0, 1]))
    metric.update(torch.tensor([-3.0, 3.0]), torch.tensor([1, 0]))
    expected = [1.0, float(torch.tensor(3.0).sigmoid()), 0.75, 0.25, float(torch.tensor(-3.0).sigmoid())]
    assert metric.compute()[2].tolist() == expected


def test_large_logits_are_ranked_though_no_single_precision_tells_their_probabilities_apart() -> None:
    """torchmetrics finds 0.5: all of them are 1.0 there."""
    scores, target = torch.tensor([20.0, 21.0, 22.0, 23.0]), torch.tensor([0, 0, 1, 1])
    assert functional.binary_auroc(scores, target) == 1.0
    assert peer.binary_auroc(scores, target) == 0.5


def test_declared_logits_are_cut_at_the_exact_logit() -> None:
    scores, target = torch.tensor([-1e-9, 1e-9]), torch.tensor([0, 1])
    rates = functional.binary_roc(scores, target, thresholds=[0.5, 1.0], inputs="logits")
    assert [rates[0].tolist(), rates[1].tolist()] == [[0.0, 0.0], [0.0, 1.0]]


# ---- counts


def nearest_logits(threshold: float, kind: torch.dtype, steps: int, spread: int) -> torch.Tensor:
    """Logits of a type around that of a threshold, so many and so many steps apart; around 0 of all magnitudes."""
    if threshold == 0.5:
        sizes = torch.finfo(kind).eps * torch.linspace(0, 2, steps + 1, dtype=torch.float64)
        return torch.cat((-sizes, sizes)).to(kind)
    cut = torch.tensor(math.log(threshold) - math.log1p(-threshold), dtype=kind)
    bits = cut.view(INTEGERS[kind.itemsize]) + spread * torch.arange(-steps, steps + 1)
    return bits.to(INTEGERS[kind.itemsize]).view(kind)


@settings(deadline=None)
@given(
    threshold=st.sampled_from([0.5, 0.3, 1 / 3, 0.1, 0.9999, 0.7]) | st.floats(1e-3, 1 - 1e-3),
    kind=st.sampled_from(PRECISIONS),
    steps=st.integers(1, 70),
    spread=st.integers(1, 40),
    shape=st.sampled_from([(-1,), (-1, 3)]),
    ignored=st.booleans(),
    guess=st.sampled_from(["logits", "probabilities"]),
)
def test_scores_beside_a_threshold_are_cut_where_torchmetrics_cuts_them(
    threshold: float, kind: torch.dtype, steps: int, spread: int, shape: Any, ignored: bool, guess: str
) -> None:
    scores = nearest_logits(threshold, kind, steps, spread)
    scores = scores.double().sigmoid().to(kind) if guess == "probabilities" else scores
    if guess == "logits":
        scores = torch.cat((scores.new_tensor([-2.0, 1.5]), scores))  # outside of [0, 1], so that they are logits
    scores = scores[: len(scores) // 3 * 3].view(shape)
    target = (torch.arange(scores.numel()) % 5 % 2).view(scores.shape)
    options = {"threshold": threshold, "ignore_index": 0 if ignored else None}
    task, many = ("binary", {}) if scores.ndim == 1 else ("multilabel", {"num_labels": 3})
    functions = [f"{task}_stat_scores", f"{task}_accuracy", f"{task}_f1_score"]
    if not ignored:  # torchmetrics leaves ignored scores out first here, and the last digit depends on the place
        functions.append(f"{task}_confusion_matrix")
    for name in functions:
        ours, theirs = (getattr(module, name)(scores, target, **many, **options) for module in (functional, peer))
        torch.testing.assert_close(ours, theirs)
    expected = getattr(peer, f"{task}_stat_scores")(scores, target, **many, **options)
    build = getattr(metrics, f"{task.capitalize()}StatScores")
    metric, deferred = build(**many, **options), build(**many, **options, weighted=True)
    torch.testing.assert_close(metric(scores, target), expected)
    deferred.update(scores, target, torch.ones(len(scores)))
    torch.testing.assert_close(deferred.compute().to(expected.dtype), expected)


@pytest.mark.parametrize("kind", PRECISIONS)
def test_groups_are_cut_where_torchmetrics_cuts_them(kind: torch.dtype) -> None:
    for threshold in (0.5, 0.3, 0.9999):
        scores = torch.cat((nearest_logits(threshold, kind, 40, 3), torch.tensor([-2.0, 2.0], dtype=kind)))
        target, groups = torch.arange(len(scores)) % 2, torch.arange(len(scores)) % 3
        ours, theirs = (
            module.BinaryGroupStatRates(3, threshold=threshold)(scores, target, groups)
            for module in (metrics, peer_classes)
        )
        torch.testing.assert_close(ours, theirs)


def test_a_threshold_that_only_a_logit_tells_cuts_guessed_logits_there() -> None:
    """The probability of both is 1.0, and nothing would be above it."""
    scores, target = torch.tensor([41.0, 42.0]), torch.tensor([0, 1])
    assert functional.binary_stat_scores(scores, target, Threshold.from_logit(41.5)).tolist() == [1, 0, 1, 0, 1]
    assert functional.binary_stat_scores(scores, target, 1.0).tolist() == [0, 0, 1, 1, 1]


def test_declared_logits_beside_the_threshold_are_counted_at_the_exact_logit() -> None:
    scores, target = torch.tensor([-1e-9, 1e-9]), torch.tensor([0, 1])
    assert functional.binary_stat_scores(scores, target, inputs="logits").tolist() == [1, 0, 1, 0, 1]
    assert functional.binary_stat_scores(scores, target).tolist() == [0, 0, 1, 1, 1]  # sigmoid(1e-9) is 0.5
