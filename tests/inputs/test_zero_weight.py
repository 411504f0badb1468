"""A weight of 0 equals removal, whatever else is wrong with the sample: its state is that of the batch without it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit import counts as counting
from lightning_evalkit import metrics as own
from lightning_evalkit.errors import InputError
from lightning_evalkit.evaluation import Slices

if TYPE_CHECKING:
    from collections.abc import Callable

WRONG_SCORES = [math.nan, math.inf, -math.inf, -3.0, 7.0]
WRONG_TARGETS = [0, 1, -5, 9, -1]
"""The last is the one that is ignored."""


class Kind(NamedTuple):
    """A weighted metric, the shape of its scores and of its targets."""

    build: Callable[[], Any]
    scores: tuple[int, ...] = ()
    targets: tuple[int, ...] = ()
    classes: int = 2
    groups: bool = False
    indices: bool = False


def of(task: Any, inputs: str, *size: int, **options: Any) -> Callable[[], Any]:
    return lambda: task(inputs, *size, weighted=True, ignore_index=-1, **options)


BINARY, CLASSES, LABELS = BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation
TOP = ["accuracy", "top_2_accuracy"]
KINDS = {
    "binary_logits": Kind(of(BINARY, "logits")),
    "binary_probabilities": Kind(of(BINARY, "probabilities", threshold=[0.2, 0.7])),
    "binary_curves": Kind(of(BINARY, "probabilities", curves=True, resolution=16)),
    "binary_curves_of_logits": Kind(of(BINARY, "logits", curves=True, resolution=16)),
    "binary_guessed": Kind(lambda: own.BinaryStatScores(weighted=True, ignore_index=-1)),
    "binary_samplewise": Kind(lambda: own.BinaryStatScores(0.5, "samplewise", weighted=True), (3,), (3,)),
    "guessed_curve": Kind(lambda: own.BinaryAUROC(thresholds=16, weighted=True, ignore_index=-1)),
    "exact_curve": Kind(lambda: own.BinaryAUROC(thresholds=None, weighted=True, ignore_index=-1)),
    "bfloat16_bins": Kind(of(BINARY, "logits", curves=True, resolution="bfloat16")),
    "classes": Kind(of(CLASSES, "logits", 3, statistics=TOP), (3,), classes=3),
    "classes_matrix": Kind(of(CLASSES, "probabilities", 3, confusion_matrix=True), (3,), classes=3),
    "classes_top": Kind(of(CLASSES, "logits", 3, top_k=2), (3,), classes=3),
    "classes_curves": Kind(of(CLASSES, "logits", 3, curves=True, resolution=16), (3,), classes=3),
    "classes_probable": Kind(of(CLASSES, "probabilities", 3, curves=True, resolution=16), (3,), classes=3),
    "exact_classes": Kind(lambda: own.MulticlassAUROC(3, thresholds=None, weighted=True), (3,), classes=3),
    "labels": Kind(of(LABELS, "logits", 3), (3,), (3,)),
    "labels_curves": Kind(of(LABELS, "probabilities", 3, curves=True, resolution=16), (3,), (3,)),
    "profile": Kind(lambda: own.LossProfile(weighted=True, ignore_index=-1), indices=True),
    "profile_of_classes": Kind(
        lambda: own.LossProfile(3, inputs="probabilities", weighted=True, ignore_index=-1),
        (3,),
        classes=3,
        indices=True,
    ),
    "profile_of_labels": Kind(lambda: own.LossProfile(num_labels=3, weighted=True), (3,), (3,), indices=True),
    "slices": Kind(lambda: Slices(of(BINARY, "logits")(), 2), groups=True),
    "slices_of_classes": Kind(lambda: Slices(of(CLASSES, "logits", 3)(), 2), (3,), classes=3, groups=True),
    "slices_of_labels": Kind(lambda: Slices(of(LABELS, "logits", 3)(), 2), (3,), (3,), groups=True),
}


@st.composite
def batches(draw: Any, kind: Kind) -> tuple[list[Tensor], Tensor]:
    """Good samples and, where the weight is 0, anything; and which samples weigh something."""
    there = torch.tensor(draw(st.lists(st.booleans(), min_size=6, max_size=6)))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    scores = torch.rand((6, *kind.scores), generator=generator)
    target = torch.randint(0, kind.classes, (6, *kind.targets), generator=generator)
    groups = torch.randint(0, 2, (6,), generator=generator)
    weight = torch.randint(1, 4, (6,), generator=generator).double()
    for place in (~there).nonzero().flatten().tolist():
        weight[place] = 0
        scores[place] = draw(st.sampled_from(WRONG_SCORES))
        target[place] = draw(st.sampled_from(WRONG_TARGETS))
        groups[place] = draw(st.sampled_from([0, -1, 5]))
    more = [groups] if kind.groups else [torch.arange(6)] if kind.indices else []
    return [scores, target, *more, weight], there


def state(metric: Any) -> list[Tensor]:
    """All numbers of the state but how many samples weighed nothing, which no readout reads."""
    tally = getattr(metric, "tally", metric)
    totals, cells = tally.totals, tally.counter.layout.integers
    for name in cells.sizes:
        if name.endswith("weightless"):
            cells.read(totals.integers, name).zero_()
    return [part for part in totals if part is not None]


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.filterwarnings("ignore")
@given(st.data(), st.booleans())
def test_a_sample_of_weight_zero_is_not_there(kind: Kind, data: Any, on_a_device: bool) -> None:
    batch, there = data.draw(batches(kind))
    metric, without = kind.build(), kind.build()
    modules = (counting.counter, counting.slices, counting.histogram)
    patches = [mock.patch.object(module, "is_deferred", return_value=True) for module in modules[: 2 * on_a_device]]
    for patch in patches:
        patch.start()
    try:
        metric.update(*batch)
    finally:
        for patch in patches:
            patch.stop()
    without.update(*(part[there] for part in batch))
    got, wanted = state(metric), state(without)
    if got[0].ndim > 1:  # rows of samples, of which the others hold nothing
        got = [part[there] for part in got]
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-6)
    if bool(there.any()):
        value = metric.compute()
        value = value[there] if getattr(metric, "multidim_average", "") == "samplewise" else value
        torch.testing.assert_close(value, without.compute(), equal_nan=True)


def test_losses_of_weight_zero_are_not_there() -> None:
    for build in (own.MeanLoss, lambda: own.WorstLossShare(0.5)):
        metric, without = build(), build()
        metric.update(torch.tensor([1.0, math.nan, 3.0, math.inf]), torch.tensor([1.0, 0.0, 2.0, 0.0]))
        without.update(torch.tensor([1.0, 3.0]), torch.tensor([1.0, 2.0]))
        assert list(map(torch.equal, state(metric), state(without))) == [True, True]


def test_guessing_does_not_look_at_scores_of_weight_zero() -> None:
    metric = own.BinaryAccuracy(weighted=True)
    metric.update(torch.tensor([0.4, 0.6, math.nan, 9.0]), torch.tensor([0, 1, 1, 1]), torch.tensor([1.0, 1, 0, 0]))
    assert float(metric.compute()) == 1.0


@pytest.mark.parametrize("kind", [KINDS["binary_logits"], KINDS["classes"], KINDS["labels"]], ids=["b", "c", "l"])
def test_a_complaint_is_about_samples_that_weigh_something(kind: Kind) -> None:
    scores, target = torch.zeros(3, *kind.scores), torch.zeros(3, *kind.targets, dtype=torch.int64)
    scores[0], scores[2], target[1] = math.nan, math.nan, 77
    with pytest.raises(InputError, match="expected every preds to be a number, got nan"):
        kind.build().update(scores, target, torch.tensor([0.0, 0.0, 1.0]))


def test_a_negative_weight_is_still_refused() -> None:
    with pytest.raises(InputError, match="sample_weight to be finite and not negative"):
        KINDS["binary_logits"].build().update(torch.zeros(2), torch.zeros(2), torch.tensor([0.0, -1.0]))
