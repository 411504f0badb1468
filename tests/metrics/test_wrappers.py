"""torchmetrics' wrappers take this package's metrics and evaluations, and give what they give of torchmetrics' own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torchmetrics
from torchmetrics.classification import BinaryAccuracy as PeerAccuracy
from torchmetrics.classification import MulticlassRecall as PeerRecall
from torchmetrics.wrappers import (
    BootStrapper,
    ClasswiseWrapper,
    MetricTracker,
    MinMaxMetric,
    MultioutputWrapper,
    MultitaskWrapper,
    Running,
)

from lightning_evalkit import BinaryEvaluation
from lightning_evalkit.metrics import BinaryAccuracy, BinaryAUROC, MulticlassRecall

GENERATOR = torch.Generator().manual_seed(0)
BATCHES = [(torch.rand(20, generator=GENERATOR), torch.randint(0, 2, (20,), generator=GENERATOR)) for _ in range(4)]
SCORES, TARGET = (torch.cat(parts) for parts in zip(*BATCHES, strict=True))
accuracy = pytest.mark.parametrize("kind", [BinaryAccuracy, PeerAccuracy], ids=["ours", "theirs"])


def evaluation() -> BinaryEvaluation:
    return BinaryEvaluation("probabilities", statistics=["accuracy", "recall"])


def followed(wrapper: Any) -> list[Any]:
    """What a wrapper gives for each batch, and for all."""
    return [*(wrapper(*batch) for batch in BATCHES), wrapper.compute()]


def test_running_is_over_the_last_batches() -> None:
    torch.testing.assert_close(followed(Running(BinaryAccuracy(), 2)), followed(Running(PeerAccuracy(), 2)))
    last = [torch.cat(parts) for parts in zip(*BATCHES[-2:], strict=True)]
    running = Running(BinaryAUROC(thresholds=None), 2)
    followed(running)
    torch.testing.assert_close(running.compute(), BinaryAUROC(thresholds=None)(*last))


def test_the_least_and_the_largest_value_are_remembered() -> None:
    torch.testing.assert_close(followed(MinMaxMetric(BinaryAccuracy())), followed(MinMaxMetric(PeerAccuracy())))


def test_classes_get_names_and_outputs_their_own_metric() -> None:
    many, classes = torch.rand(20, 3, generator=GENERATOR), torch.randint(0, 3, (20,), generator=GENERATOR)
    ours, theirs = (
        ClasswiseWrapper(kind(3, average=None), labels=["cat", "dog", "eel"]) for kind in (MulticlassRecall, PeerRecall)
    )
    torch.testing.assert_close(ours(many, classes), theirs(many, classes))
    two = SCORES.view(40, 2), TARGET.view(40, 2)
    ours, theirs = (MultioutputWrapper(kind(), num_outputs=2) for kind in (BinaryAccuracy, PeerAccuracy))
    torch.testing.assert_close(torch.as_tensor(ours(*two)), torch.as_tensor(theirs(*two)))
    torch.testing.assert_close(torch.as_tensor(ours.compute()), torch.as_tensor(theirs.compute()))


def test_tasks_take_metrics_and_evaluations() -> None:
    tasks = MultitaskWrapper({"one": BinaryAccuracy(), "other": evaluation()})
    for scores, target in BATCHES:
        tasks.update({"one": scores, "other": 1 - scores}, {"one": target, "other": target})
    expected = evaluation()
    expected.update(1 - SCORES, TARGET)
    torch.testing.assert_close(tasks.compute(), {"one": PeerAccuracy()(SCORES, TARGET), "other": expected.compute()})


@accuracy
def test_a_tracker_finds_the_best_epoch_of_a_metric(kind: Any) -> None:
    tracker = MetricTracker(kind(), maximize=True)
    values = []
    for batch in BATCHES:
        tracker.increment()
        tracker.update(*batch)
        values.append(float(PeerAccuracy()(*batch)))
    assert tracker.compute_all().tolist() == pytest.approx(values)
    best, step = tracker.best_metric(return_step=True)
    assert (best, step) == (pytest.approx(max(values)), values.index(max(values)))


def test_a_tracker_finds_the_best_epochs_of_an_evaluation() -> None:
    tracker = MetricTracker(evaluation(), maximize=[True, True])
    for batch in BATCHES:
        tracker.increment()
        tracker.update(*batch)
    each = [evaluation()(*batch) for batch in BATCHES]
    for name, values in tracker.compute_all().items():
        assert values.tolist() == pytest.approx([float(epoch[name]) for epoch in each])
    assert tracker.best_metric()["accuracy"] == pytest.approx(max(float(epoch["accuracy"]) for epoch in each))


@accuracy
def test_a_bootstrap_has_the_mean_of_its_draws(kind: Any) -> None:
    torch.manual_seed(7)
    wrapper = BootStrapper(kind(), num_bootstraps=50, raw=True, sampling_strategy="multinomial")
    wrapper.update(SCORES, TARGET)
    found = wrapper.compute()
    assert found["raw"].shape == (50,)
    assert float(found["std"]) > 0
    assert float(found["mean"]) == pytest.approx(float(PeerAccuracy()(SCORES, TARGET)), abs=4 * float(found["std"]))


def test_metrics_join_stock_collections_and_arithmetic() -> None:
    collection = torchmetrics.MetricCollection({"ours": BinaryAccuracy(), "theirs": PeerAccuracy()})
    values = collection(SCORES, TARGET)
    torch.testing.assert_close(values["ours"], values["theirs"])
    error = 1 - BinaryAccuracy()
    torch.testing.assert_close(error(SCORES, TARGET), 1 - values["theirs"])
