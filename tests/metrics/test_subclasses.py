"""What people do with torchmetrics' classes beyond calling them: deriving, changing attributes, grouping by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torchmetrics.classification as peer
from torch import Tensor
from torchmetrics import MetricCollection

from lightning_evalkit import metrics as ours
from lightning_evalkit.errors import DeclarationError

PREDS, TARGET = torch.tensor([0.9, 0.6, 0.2]), torch.tensor([1, 0, 0])
MORE = torch.tensor([0.8, 0.7, 0.1, 0.3]), torch.tensor([1, 1, 1, 0])


def error_rate(base: type) -> Any:
    class ErrorRate(base):  # type: ignore[misc]
        def compute(self) -> Tensor:
            return 1 - super().compute()

    return ErrorRate()


@pytest.mark.parametrize("collected", [False, True], ids=["alone", "collected"])
def test_an_overridden_compute_is_what_forward_returns(collected: bool) -> None:
    metrics = [error_rate(package.BinaryAccuracy) for package in (ours, peer)]
    here, there = ([MetricCollection({"error": each}) for each in metrics] if collected else metrics)  # fmt: skip
    for batch in ((PREDS, TARGET), MORE):
        found, expected = here(*batch), there(*batch)
        assert found == expected
        assert here.compute() == there.compute()


def test_an_overridden_compute_of_scores_has_the_batch_alone() -> None:
    class Gini(ours.BinaryAUROC):
        def compute(self) -> Tensor:
            return 2 * super().compute() - 1

    metric = Gini()
    assert float(metric(torch.tensor([0.1, 0.9]), torch.tensor([1, 0]))) == -1
    assert float(metric(torch.tensor([0.1, 0.9]), torch.tensor([0, 1]))) == 1
    assert -1 < float(metric.compute()) < 1


class Turned:
    """Computes otherwise, and is no metric itself."""

    def compute(self) -> Tensor:
        return 1 - super().compute()  # type: ignore[misc,no-any-return]


def test_a_compute_of_another_base_is_what_forward_returns() -> None:
    here, there = (type("ErrorRate", (Turned, package.BinaryAccuracy), {})() for package in (ours, peer))
    assert here(PREDS, TARGET) == there(PREDS, TARGET)
    assert here.compute() == there.compute()


def test_a_value_below_an_overridden_compute_is_part_of_it() -> None:
    class Halved(type(error_rate(ours.BinaryAccuracy))):  # type: ignore[misc]
        def value_of(self, totals: Any) -> Any:
            return super().value_of(totals) / 2

    metric = Halved()
    assert metric(PREDS, TARGET) == metric.compute()


def test_a_value_and_its_compute_belong_together() -> None:
    class Doubled(ours.BinaryAccuracy):
        def compute(self) -> Tensor:
            return 2 * super().compute()

    class Named(Doubled):
        """A class that changes nothing computes as its base does."""

    assert float(Named()(PREDS, TARGET)) == pytest.approx(4 / 3)


@pytest.mark.parametrize("calls", [0, 1, 2])
def test_an_update_may_count_none_or_several_batches(calls: int) -> None:
    def repeating(base: type) -> Any:
        class Repeating(base):  # type: ignore[misc]
            def update(self, preds: Tensor, target: Tensor) -> None:
                for _ in range(calls):
                    super().update(preds, target)

        return Repeating()

    here, there = (repeating(package.BinaryStatScores) for package in (ours, peer))
    for batch in ((PREDS, TARGET), MORE):
        assert here(*batch).tolist() == there(*batch).tolist()
    if calls:
        assert here.compute().tolist() == there.compute().tolist()
    assert here.update_count == 2 * calls


def test_a_state_that_no_reset_would_touch_is_refused() -> None:
    class Seen(ours.BinaryAccuracy):
        def __init__(self) -> None:
            super().__init__()
            self.add_state("n", torch.tensor(0), "sum")

    with pytest.raises(DeclarationError, match="no further state, got 'n': Seen has one state"):
        Seen()


@pytest.mark.parametrize(
    ("metric", "name", "value"),
    [
        (ours.BinaryF1Score(), "threshold", 0.95),
        (ours.BinaryAccuracy(), "ignore_index", -1),
        (ours.MulticlassAccuracy(3), "top_k", 2),
        (ours.BinaryFBetaScore(2.0), "beta", 0.5),
        (ours.BinaryAUROC(), "max_fpr", 0.1),
        (ours.BinaryCalibrationError(), "n_bins", 5),
        (ours.BinaryHingeLoss(), "squared", True),
        (ours.BinaryRecallAtFixedPrecision(0.5), "min_precision", 0.9),
        (ours.MultilabelAUROC(3), "thresholds", 10),
    ],
    ids=lambda each: each if isinstance(each, str) else None,
)
def test_an_argument_is_not_changed_afterwards(metric: Any, name: str, value: Any) -> None:
    before = getattr(metric, name)
    kind = type(metric).__name__
    with pytest.raises(DeclarationError, match=rf"expected {name} when the metric is made.*{kind}\(\.\.\., {name}="):
        setattr(metric, name, value)
    assert getattr(metric, name) == before


def test_other_attributes_are_the_users() -> None:
    metric = ours.BinaryAccuracy()
    metric.note = "mine"
    metric.note = "still mine"
    assert metric.note == "still mine"
    averaged = ours.MulticlassRecall(3, average="macro")
    averaged.average = "micro"
    assert float(averaged(torch.tensor([0, 1, 1]), torch.tensor([0, 1, 2]))) == pytest.approx(2 / 3)


def test_metrics_that_count_otherwise_cannot_be_grouped_by_hand() -> None:
    names = ["MulticlassConfusionMatrix", "MulticlassMatthewsCorrCoef"]
    grouped = MetricCollection([getattr(ours, name)(2) for name in names], compute_groups=[names])
    labels = torch.tensor([0, 1, 1])
    with pytest.raises(DeclarationError, match="leave compute_groups of the MetricCollection out"):
        grouped.update(labels, labels), grouped.compute()
    found = MetricCollection([getattr(ours, name)(2) for name in names])
    found.update(labels, labels)
    assert float(found.compute()[names[1]]) == 1


def test_metrics_of_one_declaration_can_be_grouped_by_hand() -> None:
    names = ["BinaryAccuracy", "BinaryRecall"]
    grouped = MetricCollection([getattr(ours, name)() for name in names], compute_groups=[names])
    expected = MetricCollection([getattr(peer, name)() for name in names])
    for batch in ((PREDS, TARGET), MORE):
        grouped.update(*batch)
        expected.update(*batch)
    assert grouped.compute() == expected.compute()
