"""explain of a stock torchmetrics collection: which members are equal, and by which identity."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torchmetrics import MeanMetric, MetricCollection, classification

from lightning_evalkit import BinaryEvaluation, Counts, MulticlassEvaluation, MultilabelEvaluation, explain
from lightning_evalkit.errors import InputError
from lightning_evalkit.evaluation.stock import NAMES

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


AVERAGES = [{"average": average} for average in ("micro", "macro", "weighted")]
ONE_NUMBER = ("CohenKappa", "ExactMatch", "MatthewsCorrCoef")


def stock_of(task: str, **options: Any) -> MetricCollection:
    """Every count statistic of torchmetrics for a task, in every average it has."""
    made = {}
    for name in NAMES:
        kind = getattr(classification, f"{task}{name}", None)
        more = {"beta": 2.0} if name == "FBetaScore" else {}
        for chosen in [{}] if task == "Binary" or name in ONE_NUMBER else AVERAGES:
            if kind is not None and (task, name) != ("Multiclass", "ExactMatch"):
                made[f"{name}{chosen.get('average', '')}"] = kind(**options, **chosen, **more)
    return MetricCollection(made, compute_groups=False)


@pytest.mark.parametrize(
    ("task", "size", "options", "least"),
    [("Binary", (), {}, 11), ("Multiclass", (), {"num_classes": 3}, 29), ("Multilabel", (3,), {"num_labels": 3}, 29)],
)
def test_every_statistic_of_torchmetrics_has_the_name_of_ours(
    task: str, size: tuple[int, ...], options: dict[str, int], least: int
):
    torch.manual_seed(0)
    most = 3 if task == "Multiclass" else 2
    preds, target = torch.randint(most, (60, *size)), torch.randint(most, (60, *size))
    stock = stock_of(task, **options)
    stock.update(preds, target)
    rows = explain(stock).table.rows  # type: ignore[union-attr]
    assert len(rows) == len(stock) >= least, "none is left out"
    values = {name: float(value) for name, value in stock.compute().items()}
    kind = {"Binary": BinaryEvaluation, "Multiclass": MulticlassEvaluation, "Multilabel": MultilabelEvaluation}[task]
    ours = kind(inputs="labels", statistics=[*{row[1]: None for row in rows}], **options)  # type: ignore[operator]
    ours.update(preds, target)
    assert {row[0]: float(ours.compute()[row[1]]) for row in rows} == pytest.approx(values, abs=1e-6)


def test_exact_match_beside_the_accuracy_of_labels():
    target, preds = torch.tensor([[1, 0], [1, 1], [0, 0]]), torch.tensor([[1, 0], [0, 1], [0, 0]])
    pair = [("MultilabelExactMatch", {}), ("MultilabelAccuracy", {"average": "micro"})]
    given = {"num_labels": 2, "preds": preds, "target": target}
    full = explain(counted(*pair, **given))
    assert full.code == "exact-match-and-hamming"
    assert "the accuracy of the worst label (0)" in full.reasons[1], "2 of 3 right, the other label 3 of 3"
    apart = explain(counted(pair[0], ("MultilabelRecall", {}), **given))
    assert apart.reasons[0].startswith("exact_match counts samples that are right in every place, recall/macro")
    pair[0] = ("MultilabelExactMatch", {"threshold": 0.2})
    assert explain(counted(*pair, **given), "exact_match", "accuracy/micro").code == "different-tables"


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
