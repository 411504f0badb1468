"""A state is taken apart at a mark: the values after it are those of a metric that was reset there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from misused import KITS
from states import VARIANTS
from torch import Tensor
from torchmetrics import MaxMetric, MeanMetric, MinMaxMetric

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit.callbacks.diagnosing.epoch_state import attributes_of, epoch_state, tally_of

if TYPE_CHECKING:
    from collections.abc import Callable

    Made = Callable[[Any], Any]

BINARY: dict[str, Made] = {
    "f1": lambda kit: kit.BinaryF1Score(),
    "area in bins": lambda kit: kit.BinaryAUROC(thresholds=20),
    "area of stored scores": lambda kit: kit.BinaryAUROC(thresholds=None),
    "calibration": lambda kit: kit.BinaryCalibrationError(),
    "hinge": lambda kit: kit.BinaryHingeLoss(),
    "matrix": lambda kit: kit.BinaryConfusionMatrix(),
    "sample by sample": lambda kit: kit.BinaryStatScores(multidim_average="samplewise"),
}
CLASSES: dict[str, Made] = {
    "recall": lambda kit: kit.MulticlassRecall(3, average="macro"),
    "matrix": lambda kit: kit.MulticlassConfusionMatrix(3),
    "kappa": lambda kit: kit.MulticlassCohenKappa(3, weights="linear"),
    "area": lambda kit: kit.MulticlassAUROC(3, thresholds=20),
    "exact": lambda kit: kit.MulticlassExactMatch(3),
}
LABELS: dict[str, Made] = {
    "f1": lambda kit: kit.MultilabelF1Score(3),
    "ranking": lambda kit: kit.MultilabelRankingLoss(3),
    "exact": lambda kit: kit.MultilabelExactMatch(3),
}
EVALUATIONS: dict[str, tuple[str, Callable[[], Any]]] = {
    "binary": ("binary", lambda: BinaryEvaluation("probabilities", curves=True, prefix="val/")),
    "thresholds": ("binary", lambda: BinaryEvaluation("probabilities", [0.2, 0.5])),
    "classes": ("classes", lambda: MulticlassEvaluation("probabilities", 3, per_class=True)),
    "labels": ("labels", lambda: MultilabelEvaluation("probabilities", 3)),
}


def batch(task: str, seed: int, elements: bool = False) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    shape = {"binary": (40, 2) if elements else (40,), "classes": (40, 3, 2) if elements else (40, 3)}
    scores = torch.rand(shape.get(task, (40, 3)), generator=random)
    if task == "classes":
        scores = scores / scores.sum(1, keepdim=True)
        return scores, torch.randint(0, 3, (40, 2) if elements else (40,), generator=random)
    return scores, torch.randint(0, 2, scores.shape, generator=random)


def after_a_mark(made: Callable[[], Any], first: tuple[Any, ...], second: tuple[Any, ...]) -> tuple[Any, Any]:
    """The state of a metric that counts a batch before the mark and one after it; and a metric of the second alone."""
    metric, alone, count = made(), made(), [1]
    metric.update(*first)
    state = epoch_state(metric, lambda: attributes_of(metric), lambda: count[0])
    assert state.values() == {}
    assert state.table() is None
    metric.update(*second)
    count[0] = 2
    alone.update(*second)
    return state, alone


CASES = [
    *(("binary", name, made) for name, made in BINARY.items()),
    *(("classes", name, made) for name, made in CLASSES.items()),
    *(("labels", name, made) for name, made in LABELS.items()),
]


@pytest.mark.parametrize("kit", KITS)
@pytest.mark.parametrize(("task", "name", "made"), CASES, ids=[f"{task} {name}" for task, name, _ in CASES])
def test_single_metrics(task: str, name: str, made: Made, kit: str) -> None:
    elements = name == "sample by sample" or (task, name) == ("classes", "exact")
    batches = batch(task, 0, elements), batch(task, 1, elements)
    state, alone = after_a_mark(lambda: made(KITS[kit]), *batches)
    assert state.values().keys() == {""}
    torch.testing.assert_close(state.values()[""].squeeze(), alone.compute().squeeze())  # as torchmetrics does
    assert not torch.allclose(state.values()[""].double(), made_of(made, kit, batches[0]).double())


def made_of(made: Made, kit: str, given: tuple[Tensor, Tensor]) -> Tensor:
    metric = made(KITS[kit])
    metric.update(*given)
    value: Tensor = metric.compute()
    return value


@pytest.mark.parametrize("name", EVALUATIONS)
def test_evaluations(name: str) -> None:
    task, made = EVALUATIONS[name]
    state, alone = after_a_mark(made, batch(task, 0), batch(task, 1))
    expected = {entry.name: entry.compute() for _, entry in alone._entries()}
    assert state.values().keys() == expected.keys()
    for entry, value in state.values().items():
        torch.testing.assert_close(value, expected[entry], equal_nan=True)


@pytest.mark.parametrize("name", VARIANTS)
def test_every_kind_of_state(name: str) -> None:
    variant = VARIANTS[name]
    state, alone = after_a_mark(variant.build, variant.batch(0), variant.batch(1))
    totals = tally_of(alone).totals
    for found, expected in zip(state.totals(), totals, strict=True):
        assert found is expected is None or torch.equal(found, expected)


@pytest.mark.parametrize("kit", KITS)
def test_tables_and_targets(kit: str) -> None:
    first, second = batch("binary", 0), batch("binary", 1)
    state, _ = after_a_mark(KITS[kit].BinaryF1Score, first, second)
    scores, target = second
    said = scores > 0.5
    cells = [int((said & (target == 1)).sum()), int((said & (target == 0)).sum())]
    assert list(state.table().cells)[:2] == cells
    assert (state.table().positives, state.table().total) == (int(target.sum()), 40)
    several, _ = after_a_mark(lambda: KITS[kit].MulticlassF1Score(3), batch("classes", 0), batch("classes", 1))
    assert several.targets().tolist() == torch.bincount(batch("classes", 1)[1], minlength=3).tolist()
    assert several.table() is None


def test_what_cannot_be_taken_apart_has_no_value() -> None:
    for made in (MaxMetric, lambda: MinMaxMetric(MeanMetric())):
        state, _ = after_a_mark(made, (torch.tensor(1.0),), (torch.tensor(2.0),))
        assert state.values() == {}
