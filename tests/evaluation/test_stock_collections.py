"""explain of a stock torchmetrics collection: which members are equal, and by which identity."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torchmetrics import MeanMetric, MetricCollection, classification

from lightning_evalkit import BinaryEvaluation, Counts, explain
from lightning_evalkit.errors import InputError

TARGET, PREDS = torch.tensor([1, 1, 1, 0, 0, 0, 0, 0]), torch.tensor([1, 1, 0, 1, 1, 1, 0, 0])
"""tp = 2, tn = 2, fp = 3, fn = 1"""


def counted(*names: Any, preds: Any = PREDS, target: Any = TARGET, **options: Any) -> MetricCollection:
    made = {
        f"{name}{len(options_of) or ''}": getattr(classification, name)(**options, **options_of)
        for name, options_of in names
    }
    collection = MetricCollection(made)
    collection.update(preds, target)
    return collection


def test_accuracy_and_f1_of_a_binary_collection():
    collection = counted(("BinaryAccuracy", {}), ("BinaryF1Score", {}), ("BinarySpecificity", {}))
    finding = explain(collection)
    assert finding.headline == "BinaryAccuracy and BinaryF1Score are equal: both are 0.5."
    assert finding.reasons == explain(Counts(tp=2, fp=3, fn=1, tn=2)).reasons
    assert "BinarySpecificity" in finding.text()
    apart = explain(collection, "accuracy", "specificity")
    assert apart.headline == "BinaryAccuracy and BinarySpecificity differ by 0.1."


def test_states_of_matrices_are_the_same_counts():
    finding = explain(counted(("BinaryJaccardIndex", {}), ("BinaryPrecision", {})))
    assert finding.headline.endswith("differ by 0.0666667."), "2/6 and 2/5"
    many = counted(
        ("MulticlassJaccardIndex", {}), ("MulticlassRecall", {}), num_classes=3, preds=PREDS + 1, target=TARGET
    )
    assert explain(many).code != "different-tables"


def test_micro_averages_of_classes_are_accuracy():
    target, preds = torch.tensor([0, 1, 2, 2, 1]), torch.tensor([0, 2, 2, 1, 1])
    micro = {"average": "micro"}
    pairs = [("MulticlassAccuracy", micro), ("MulticlassF1Score", micro), ("MulticlassPrecision", micro)]
    finding = explain(counted(*pairs, num_classes=3, preds=preds, target=target))
    assert finding.headline == "3 pairs of the 3 numbers are equal."
    assert all("Equal by identity: every sample has one target and one prediction" in each for each in finding.reasons)
    macro = counted(("MulticlassAccuracy", {}), ("MulticlassRecall", {}), num_classes=3, preds=preds, target=target)
    assert explain(macro).reasons == ("Both are recall/macro, which torchmetrics has under both names.",)
    best = counted(
        ("MulticlassAccuracy", micro),
        ("MulticlassF1Score", micro),
        num_classes=3,
        preds=torch.rand(5, 3),
        target=target,
        top_k=2,
    )
    with pytest.raises(InputError, match="expected at least two metrics"):
        explain(best)


def test_equal_by_coincidence_of_two_thresholds():
    at = {"threshold": 0.2}
    collection = counted(("BinaryAccuracy", {}), ("BinaryF1Score", at), preds=torch.tensor([0.9, 0.4, 0.3, 0.1] * 2))
    assert explain(collection, "accuracy", "f1").reasons[0].startswith("They have counted different tables")


def test_no_two_are_equal_and_labels():
    target, preds = torch.tensor([[1, 0], [1, 1], [0, 0]]), torch.tensor([[1, 0], [0, 1], [0, 1]])
    options = {"num_labels": 2, "preds": preds, "target": target}
    pairs = [
        ("MultilabelAccuracy", {}),
        ("MultilabelF1Score", {"average": "micro"}),
        ("MultilabelRecall", {}),
        ("MultilabelSpecificity", {}),
    ]
    finding = explain(counted(*pairs, **options))
    values = {row[1]: float(row[2]) for row in finding.table.rows}  # type: ignore[union-attr]
    assert values == pytest.approx(
        {"accuracy/macro": 2 / 3, "f1/micro": 2 / 3, "recall/macro": 0.75, "specificity/macro": 0.75}, abs=1e-5
    )
    assert finding.headline == "2 pairs of the 4 numbers are equal."


def test_counts_and_evaluations_explain_themselves_and_others_are_refused():
    assert explain(Counts(40, 10, 10, 40)).headline == "accuracy and f1 are equal: both are 0.8."
    evaluation = BinaryEvaluation(inputs="labels")
    evaluation.update(PREDS, TARGET)
    assert explain(evaluation, "precision", "recall") == evaluation.explain("precision", "recall")
    with pytest.raises(
        InputError, match=r"expected Counts, an evaluation or a torchmetrics MetricCollection .* got dict"
    ):
        explain({})
    with pytest.raises(InputError, match="expected at least two metrics that are read from a confusion matrix"):
        explain(MetricCollection([MeanMetric(), classification.BinaryAUROC()]))
    with pytest.raises(InputError, match="nothing was counted by 'BinaryAccuracy'"):
        explain(MetricCollection([classification.BinaryAccuracy(), classification.BinaryF1Score()]))
    with pytest.raises(InputError, match="there is no 'mcc' to explain"):
        explain(counted(("BinaryAccuracy", {}), ("BinaryRecall", {})), "mcc", "accuracy")
