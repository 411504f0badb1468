"""Equal scores are decided once: before the target come larger scores and equal ones of a lower class number.

Arg max, accuracy, top-k and the hits of a calibration then agree, and top-k grows with k, whichever way counts.
"""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from device import deferred
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from versions import compiles

from lightning_evalkit import MulticlassEvaluation
from lightning_evalkit.evaluation.slices import Slices
from lightning_evalkit.functional import multiclass_accuracy, multiclass_stat_scores
from lightning_evalkit.metrics import MulticlassAccuracy, MulticlassConfusionMatrix

CLASSES = 5
LEVELS = [-torch.inf, -1.0, -0.0, 0.0, 0.5, 1.0]
TOP = [f"top_{k}_accuracy" for k in range(1, CLASSES + 1)]
KINDS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
ways = pytest.mark.parametrize("way", [nullcontext, deferred], ids=["at_once", "deferred"])


@st.composite
def tied(draw: st.DrawFn, levels: list[float] = LEVELS) -> tuple[Tensor, Tensor]:
    """A batch whose scores have few values, of any precision, with or without elements in its samples."""
    shape = draw(st.sampled_from([(), (2,)]))
    samples = draw(st.integers(1, 6))
    elements = samples * len(shape or (1,)) * (2 if shape else 1)
    values = draw(st.lists(st.sampled_from(levels), min_size=elements * CLASSES, max_size=elements * CLASSES))
    target = draw(st.lists(st.integers(0, CLASSES - 1), min_size=elements, max_size=elements))
    scores = torch.tensor(values, dtype=draw(st.sampled_from(KINDS)))
    return scores.view(samples, CLASSES, *shape), torch.tensor(target).view(samples, *shape)


def rows(preds: Tensor, target: Tensor) -> list[tuple[list[float], int]]:
    """The scores and the target of every element, as Python numbers."""
    return list(zip(preds.movedim(1, -1).reshape(-1, CLASSES).tolist(), target.flatten().tolist(), strict=True))


def place(scores: list[float], target: int) -> int:
    """The definition: where the target stands when classes are sorted by score, and equal ones by number."""
    return sorted(range(len(scores)), key=lambda c: (-scores[c], c)).index(target)


def share_within(batch: tuple[Tensor, Tensor], k: int) -> float:
    places = [place(*row) for row in rows(*batch)]
    return sum(each < k for each in places) / len(places)


@ways
@given(batch=tied())
def test_top_k_is_the_place_of_the_target_and_grows_from_accuracy(way: Any, batch: tuple[Tensor, Tensor]) -> None:
    evaluation = MulticlassEvaluation("logits", CLASSES, statistics=["accuracy", *TOP])
    with way():
        evaluation.update(*batch)
    accuracy, *top = (float(value) for value in evaluation.compute().values())
    assert top == pytest.approx([share_within(batch, k) for k in range(1, CLASSES + 1)])
    assert accuracy == top[0]
    assert top == sorted(top)
    assert top[-1] == 1


@ways
@given(batch=tied(), k=st.integers(1, CLASSES), weighted=st.booleans())
def test_metrics_functions_and_slices_decide_alike(
    way: Any, batch: tuple[Tensor, Tensor], k: int, weighted: bool
) -> None:
    expected = share_within(batch, k)
    metric = MulticlassAccuracy(CLASSES, k, average="micro", inputs="logits", weighted=weighted)
    template = MulticlassEvaluation("logits", CLASSES, statistics=[TOP[k - 1]], weighted=weighted)
    slices = Slices(template, 2)
    weights = (torch.full((len(batch[1]),), 0.5),) if weighted else ()
    with way():
        metric.update(*batch, *weights)
        slices.update(*batch, torch.ones(len(batch[1]), dtype=torch.long), *weights)
    assert float(metric.compute()) == pytest.approx(expected)
    assert float(slices.compute()[TOP[k - 1]][1]) == pytest.approx(expected)
    value = multiclass_accuracy(*batch, CLASSES, average="micro", top_k=k)
    assert float(value) == pytest.approx(expected)
    scores = multiclass_stat_scores(*batch, CLASSES, average="micro", top_k=k)
    assert int(scores[0]) == round(expected * batch[1].numel())


@ways
@given(batch=tied())
def test_the_predicted_class_is_the_first_of_equals(way: Any, batch: tuple[Tensor, Tensor]) -> None:
    metric = MulticlassConfusionMatrix(CLASSES)
    with way():
        metric.update(*batch)
    expected = torch.zeros(CLASSES, CLASSES)
    for scores, truth in rows(*batch):
        expected[truth, scores.index(max(scores))] += 1
    assert metric.compute().tolist() == expected.tolist()


@ways
@pytest.mark.parametrize("inputs", ["logits", "probabilities"])
@given(batch=tied(levels=[0.0, 1e-7, 0.25, 0.5, 1.0]))
def test_hits_of_a_calibration_are_right_predictions(way: Any, inputs: Any, batch: tuple[Tensor, Tensor]) -> None:
    evaluation = MulticlassEvaluation(inputs, CLASSES, curves=True, resolution=8, statistics=["accuracy", "brier"])
    with way():
        evaluation.update(*batch)
    sums = evaluation.tally.compute().calibration
    assert sums is not None
    assert int(sums.hits.sum()) == round(share_within(batch, 1) * batch[1].numel())


def test_unequal_logits_whose_probabilities_round_to_equal_ones_predict_the_larger() -> None:
    evaluation = MulticlassEvaluation("logits", 3, curves=True, statistics=["accuracy", "calibration_error"])
    evaluation.update(torch.tensor([[0.0, 1e-9, -20.0]]), torch.tensor([1]))
    values = evaluation.compute()
    assert values["accuracy"] == 1
    assert float(values["calibration_error"]) == pytest.approx(0.5, abs=1e-5)
    sums = evaluation.tally.compute().calibration
    assert sums is not None
    assert int(sums.hits.sum()) == 1


@compiles
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_optimised_code_decides_ties_alike(kind: torch.dtype) -> None:
    scores = torch.randint(-1, 2, (300, CLASSES)).to(kind)
    target = torch.randint(CLASSES, (300,))
    evaluation = MulticlassEvaluation("logits", CLASSES, statistics=["accuracy", *TOP])
    torch.compile(evaluation.update, fullgraph=True)(scores, target)
    accuracy, *top = (float(value) for value in evaluation.compute().values())
    assert top == pytest.approx([share_within((scores, target), k) for k in range(1, CLASSES + 1)])
    assert accuracy == top[0]
