"""Sums over probabilities through NumPy are those of torch's operators, and calibration bins have the same edges."""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import TYPE_CHECKING, Literal

import numpy as np
import pytest
import torch
from device import deferred

from lightning_evalkit import MulticlassEvaluation
from lightning_evalkit.counts import calibration_sums, sums_at_once
from lightning_evalkit.counts.numpy_path import array_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

PRECISIONS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


@pytest.mark.parametrize("bins", [1, 2, 10, 15, 100, 1_000, sums_at_once.MOST_BINS + 1])
@pytest.mark.parametrize("kind", PRECISIONS, ids=str)
def test_a_confidence_is_in_the_bin_whose_edges_are_around_it(kind: torch.dtype, bins: int) -> None:
    edges = torch.linspace(0, 1, bins + 1, dtype=kind)
    neighbours = [torch.nextafter(edges, torch.full_like(edges, end)) for end in (-1, 2)]
    confidence = torch.cat((edges, *neighbours, torch.rand(1_000).to(kind))).clamp(0, 1)
    wide = torch.float64 if kind == torch.float64 else torch.float32
    expected = torch.searchsorted(edges.to(wide)[1:-1].contiguous(), confidence.to(wide), right=True)
    found = sums_at_once.calibration_places(array_of(confidence), bins, kind)
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("samples", [500, sums_at_once.FEW + 1])
@pytest.mark.parametrize(("labels", "mixed"), [(1, False), (3, False), (3, True)])
@pytest.mark.parametrize("score_kind", ["logits", "probabilities"])
def test_sums_of_answers_are_those_of_torch(score_kind: str, labels: int, mixed: bool, samples: int) -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn((samples, labels), generator=generator) * 4
    scores = scores if score_kind == "logits" else scores.sigmoid()
    yes, cells = torch.rand(scores.shape, generator=generator) < 0.3, calibration_sums.cells_of(labels, 15)
    asked = torch.arange(labels).expand(scores.shape)
    judged = calibration_sums.judged_answers(scores, yes, score_kind)
    expected = calibration_sums.summed(judged, asked, cells, None, torch.zeros_like(yes))
    if mixed:
        scores, yes, asked = (each.flatten() for each in (scores, yes, asked))
    here = sums_at_once.judged_answers(scores.numpy(), yes.numpy(), score_kind, mixed)
    assert (len(here.log_loss) < len(scores)) == (not mixed and score_kind == "logits" and samples > sums_at_once.FEW)
    places = sums_at_once.calibration_places(here.confidence, 15, torch.float32)
    found = sums_at_once.summed(here, places, asked.numpy() if labels > 1 else None, cells)
    torch.testing.assert_close(torch.from_numpy(found), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("score_kind", ["logits", "probabilities"])
def test_sums_of_classes_are_those_of_torch(score_kind: str) -> None:
    generator = torch.Generator().manual_seed(1)
    scores = torch.randn((500, 5), generator=generator) * 3
    scores = scores if score_kind == "logits" else scores.softmax(1)
    target, cells = torch.randint(0, 5, (500,), generator=generator), calibration_sums.cells_of(1, 15)
    judged = calibration_sums.judged_classes(scores, target, score_kind)
    expected = calibration_sums.summed(judged, None, cells, None, torch.zeros_like(target, dtype=torch.bool))
    here = sums_at_once.judged_classes(scores.numpy(), target.numpy(), score_kind)
    places = sums_at_once.calibration_places(here.confidence, 15, torch.float32)
    found = sums_at_once.summed(here, places, None, cells)
    torch.testing.assert_close(torch.from_numpy(found), expected, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("shape", [(4_097,), (8_191,), (65_536,), (5_000, 3)], ids=str)
@pytest.mark.parametrize("largest", [0, 0.5, 8, 40, 100])
def test_logarithms_of_products_keep_small_numbers(shape: tuple[int, ...], largest: float) -> None:
    """Logits around 40 lose 4e-18, which a sum with 1 would forget."""
    logits = np.random.default_rng(0).uniform(largest / 2, largest, shape)
    found = sums_at_once.judged_answers(logits, np.ones(shape, np.bool_), "logits").log_loss
    assert len(found) < len(logits) / 30
    expected = np.log1p(np.exp(-logits)).sum(0)
    np.testing.assert_allclose(found.sum(0), expected, rtol=1e-13, atol=0)
    wrong = sums_at_once.judged_answers(logits, np.zeros(shape, np.bool_), "logits").log_loss
    np.testing.assert_allclose(wrong.sum(0), expected + logits.sum(0), rtol=1e-13)


@pytest.mark.parametrize("samples", [1, 7_000])
def test_the_loss_of_certain_logits_is_their_size_or_nothing(samples: int) -> None:
    logits = np.array([-1000.0, 1000.0, -1000.0, 1000.0, math.inf, -math.inf, 20.0], np.float32)
    yes = np.array([False, True, True, False, False, False, True])
    losses = [0.0, 0.0, 1000.0, 1000.0, math.inf, 0.0, math.log1p(math.exp(-20))]  # the last not lost beside 1
    for logit, answer, loss in zip(logits, yes, losses, strict=True):
        judged = sums_at_once.judged_answers(np.full(samples, logit), np.full(samples, answer), "logits")
        assert judged.log_loss.sum(dtype=np.float64) == pytest.approx(samples * loss, rel=1e-6)


def test_the_loss_of_what_was_ruled_out_is_infinite_without_a_warning() -> None:
    judged = sums_at_once.judged_answers(
        np.array([0.0, 1.0, 0.0], np.float32), np.array([True, True, False]), "probabilities"
    )
    assert judged.log_loss.tolist() == [math.inf, 0.0, 0.0]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("way", [nullcontext, deferred], ids=["at_once", "deferred"])
@pytest.mark.parametrize("inputs", ["logits", "probabilities"])
def test_the_brier_score_of_nearly_certain_classes_keeps_its_digits(
    inputs: Literal["logits", "probabilities"], way: Callable[[], AbstractContextManager[None]], weighted: bool
) -> None:
    logits = torch.tensor([[12.5, 0.0, 0.0], [0.0, 13.0, 0.5]])
    scores, target = logits if inputs == "logits" else logits.softmax(1), torch.tensor([0, 1])
    given = scores.double().softmax(1) if inputs == "logits" else scores.double()
    expected = (given - torch.eye(3, dtype=torch.float64)[target]).square().sum(1).mean()
    assert 1e-11 < expected < 1e-10
    evaluation = MulticlassEvaluation(inputs, 3, statistics=["brier"], curves=True, weighted=weighted)
    kept = scores.clone()
    with way():
        evaluation.update(scores, target, *[torch.ones(2)] * weighted)
    assert scores.equal(kept)
    # Single precision has steps of 6e-8 below 1, one hundredth of how far these are from it.
    assert evaluation.compute()["brier"].item() == pytest.approx(expected.item(), rel=0.02, abs=0)
