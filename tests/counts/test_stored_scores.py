"""Scores that are all kept: counted by one sort, in the precision in which they came, with equal ones together."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
import torchmetrics.functional.classification as peer
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve
from torch import Tensor

from lightning_evalkit.counts import StoredScores
from lightning_evalkit.inputs import Binary, binning_of
from lightning_evalkit.metrics import BinaryAUROC, BinaryAveragePrecision, BinaryROC, MulticlassAUROC

PRECISIONS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def tied(kind: torch.dtype, size: int = 500, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Logits of which many are equal, both zeros among them."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(0, 2, (size,), generator=generator)
    scores = ((torch.randn(size, generator=generator) + target) * 8).round() / 8
    scores[::7] = 0.0
    scores[3::7] = -0.0
    return scores.to(kind), target


def brute_force(scores: Tensor, target: Tensor) -> float:
    """Pairs won, and half of those that are equal."""
    pairs = list(product(scores[target == 1].tolist(), scores[target == 0].tolist()))
    return sum((a > b) + (a == b) / 2 for a, b in pairs) / len(pairs)


@pytest.mark.parametrize("kind", PRECISIONS, ids=str)
def test_every_pair_is_decided_and_equal_scores_are_halves(kind: torch.dtype) -> None:
    scores, target = tied(kind)
    metric = BinaryAUROC(thresholds=None, inputs="logits")
    for part in (slice(0, 100), slice(100, 101), slice(101, 500)):
        metric.update(scores[part], target[part])
    assert float(metric.compute()) == pytest.approx(brute_force(scores, target), abs=1e-7)
    low, _, high = metric.bounds()
    assert float(low) - 1e-7 <= brute_force(scores, target) <= float(high) + 1e-7


@pytest.mark.parametrize("kind", PRECISIONS, ids=str)
def test_curves_have_a_point_for_every_score_that_occurs(kind: torch.dtype) -> None:
    scores, target = tied(kind)
    metric = BinaryROC(thresholds=None, inputs="logits")
    metric.update(scores, target)
    fpr, tpr, thresholds = metric.compute()
    expected = roc_curve(target.numpy(), scores.double().numpy(), drop_intermediate=False)
    np.testing.assert_allclose(fpr, expected[0], atol=1e-6)
    np.testing.assert_allclose(tpr, expected[1], atol=1e-6)
    assert len(thresholds) == 1 + len(scores.unique())


def test_scores_that_only_double_precision_tells_apart_are_apart() -> None:
    scores = 0.5 + torch.arange(8, dtype=torch.float64) * 1e-12
    target = torch.tensor([0, 0, 1, 0, 1, 1, 0, 1])
    metric = BinaryAUROC(thresholds=None, inputs="probabilities")
    metric.update(scores, target)
    assert float(metric.compute()) == pytest.approx(roc_auc_score(target, scores))


def test_batches_of_different_precision_are_joined_in_the_wider() -> None:
    single, target = tied(torch.float32, seed=1)
    double, more = tied(torch.float64, seed=2)
    double = double + torch.linspace(0, 1e-12, len(double), dtype=torch.float64)
    for first, second in (((single, target), (double, more)), ((double, more), (single, target))):
        metric = BinaryAUROC(thresholds=None, inputs="logits")
        metric.update(*first)
        metric.update(*second)
        expected = roc_auc_score(torch.cat((target, more)), torch.cat((single.double(), double)))
        assert float(metric.compute()) == pytest.approx(expected, abs=1e-7)


def test_weights_and_ignored_samples_are_as_without_them_and_repeated() -> None:
    scores, target = tied(torch.float32)
    weights = torch.randint(0, 4, (len(scores),), generator=torch.Generator().manual_seed(3))
    weighted = BinaryAveragePrecision(thresholds=None, inputs="logits", weighted=True)
    weighted.update(scores, target, weights.double())
    expected = average_precision_score(target, scores, sample_weight=weights)
    assert float(weighted.compute()) == pytest.approx(expected, abs=1e-7)
    left_out = torch.where(weights == 0, -1, target)
    ignoring = BinaryAUROC(thresholds=None, inputs="logits", ignore_index=-1)
    ignoring.update(scores, left_out)
    kept = left_out != -1
    assert float(ignoring.compute()) == pytest.approx(brute_force(scores[kept], target[kept]), abs=1e-7)


@pytest.mark.parametrize("kind", PRECISIONS[:2], ids=str)
def test_guessed_scores_have_the_points_of_torchmetrics(kind: torch.dtype) -> None:
    logits, target = tied(kind)
    for scores in (logits, logits.sigmoid()):
        metric = BinaryROC(thresholds=None)
        metric.update(scores, target)
        expected = peer.binary_roc(scores, target)
        for ours, theirs in zip(metric.compute(), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_classes_of_float32_probabilities_are_ranked_each_against_the_rest() -> None:
    generator = torch.Generator().manual_seed(4)
    scores, target = (
        torch.randn(300, 4, generator=generator).softmax(1),
        torch.randint(0, 4, (300,), generator=generator),
    )
    metric = MulticlassAUROC(4, thresholds=None, average=None)
    metric.update(scores, target)
    expected = [roc_auc_score(target == k, scores[:, k]) for k in range(4)]
    np.testing.assert_allclose(metric.compute(), expected, atol=1e-6)


def test_nothing_counted_is_no_number() -> None:
    metric = BinaryAUROC(thresholds=None, inputs="probabilities", ignore_index=-1)
    metric.update(torch.rand(4), torch.full((4,), -1))
    assert metric.compute().isnan()


def kept_bytes(metric: Any) -> int:
    return sum(rows.nbytes for name in metric._defaults for rows in getattr(metric, name))


@pytest.mark.parametrize(("kind", "size"), [(torch.float16, 5), (torch.float32, 5), (torch.float64, 9)], ids=str)
def test_a_score_takes_its_own_bytes_and_one_for_the_answer(kind: torch.dtype, size: int) -> None:
    scores, target = tied(kind)
    metric = BinaryAUROC(thresholds=None, inputs="logits")
    metric.update(scores, target)
    assert kept_bytes(metric) == size * len(scores)


def test_what_is_kept_does_not_follow_the_tensors_that_were_given() -> None:
    scores, target = tied(torch.float32)
    metric = BinaryAUROC(thresholds=None, inputs="logits")
    metric.update(scores, target)
    scores.zero_()
    assert float(metric.compute()) == pytest.approx(brute_force(*tied(torch.float32)), abs=1e-7)


def test_ranks_of_different_precision_send_rows_of_one_kind() -> None:
    sent: list[torch.dtype] = []

    def gather(rows: Tensor, _: Any) -> list[Tensor]:
        sent.append(rows.dtype)
        return [rows]

    storage = BinaryAUROC(thresholds=None, inputs="logits").storage
    counter = StoredScores(Binary("logits", binning=binning_of(None)))
    for kind in PRECISIONS:
        storage.over_ranks(counter.count(*tied(kind), None), None, gather)
    assert set(sent) == {torch.int64, torch.float64}


def test_an_area_needs_no_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise AssertionError("edges were computed")

    monkeypatch.setattr(StoredScores, "_limits", refuse)
    metric = BinaryAUROC(thresholds=None, inputs="logits")
    metric.update(*tied(torch.float32))
    assert float(metric.compute()) == pytest.approx(brute_force(*tied(torch.float32)), abs=1e-7)
