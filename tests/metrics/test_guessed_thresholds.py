"""Thresholds of guessed scores mean what they mean in torchmetrics: probability >= threshold, in single precision."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torchmetrics.functional.classification as peer

from lightning_evalkit import functional, metrics

ROWS = 32


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
