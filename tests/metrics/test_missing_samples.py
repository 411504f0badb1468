"""Missing positive or negative samples: torchmetrics' values with its warnings; only averages leave classes out."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import pytest
import torch
import torchmetrics.functional.classification as peer
from versions import EER, UNDEFINED, compared

from lightning_evalkit import BinaryEvaluation, functional, metrics

BOUNDS = {"min_precision": 0.6, "min_recall": 0.6, "min_specificity": 0.6, "min_sensitivity": 0.6}
CURVES = ("roc", "precision_recall_curve", "auroc", "average_precision", "eer", "logauc")
POINTS = (
    "recall_at_fixed_precision",
    "precision_at_fixed_recall",
    "sensitivity_at_specificity",
    "specificity_at_sensitivity",
)
SCORES = torch.tensor([0.1, 0.4, 0.35, 0.8])
MANY = torch.tensor([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1], [0.1, 0.2, 0.7], [0.3, 0.4, 0.3]])
BATCHES: dict[str, tuple[str, torch.Tensor, torch.Tensor]] = {
    "no_positives": ("binary", SCORES, torch.zeros(4, dtype=torch.int64)),
    "no_negatives": ("binary", SCORES, torch.ones(4, dtype=torch.int64)),
    "no_class_2": ("multiclass", MANY, torch.tensor([0, 1, 1, 0])),
    "only_class_1": ("multiclass", MANY, torch.ones(4, dtype=torch.int64)),
    "labels": ("multilabel", MANY, torch.tensor([[0, 1, 1], [0, 1, 0], [0, 1, 0], [0, 1, 1]])),
}


def called(function: Any, *args: Any, **options: Any) -> tuple[Any, set[str]]:
    """The result, and what was warned of it."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        result = function(*args, **options)
    own = ("memory", "To copy construct")  # of torchmetrics' own doing, the second before 1.9
    return result, {str(each.message) for each in said if not any(words in str(each.message) for words in own)}


@pytest.mark.parametrize("thresholds", [None, 5], ids=str)
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("name", compared([*CURVES, *POINTS], EER, UNDEFINED))
def test_values_and_warnings_are_those_of_torchmetrics(name: str, batch: str, thresholds: Any) -> None:
    task, preds, target = BATCHES[batch]
    ours, theirs = (getattr(module, f"{task}_{name}") for module in (functional, peer))
    known = inspect.signature(theirs).parameters
    options = {key: value for key, value in (BOUNDS | {"num_classes": 3, "num_labels": 3}).items() if key in known}
    options |= {"thresholds": thresholds} | ({"average": None} if "average" in known else {})
    for more in ({}, {"max_fpr": 0.5}) if "max_fpr" in known else ({},):
        found, said = called(ours, preds, target, **options, **more)
        expected, their_words = called(theirs, preds, target, **options, **more)
        torch.testing.assert_close(found, expected, equal_nan=True)
        assert their_words <= said  # with given thresholds torchmetrics says nothing
        if thresholds is None and name not in POINTS:
            assert said == their_words


@pytest.mark.parametrize("thresholds", ["fine", None, 5], ids=str)
def test_a_metric_says_it_too(thresholds: Any) -> None:
    metric = metrics.BinaryAUROC(max_fpr=0.5, thresholds=thresholds)
    metric.update(SCORES, torch.zeros(4, dtype=torch.int64))
    with pytest.warns(UserWarning, match="No positive samples in targets, true positive value should be meaningless"):
        assert metric.compute() == 0.0
    evaluation = BinaryEvaluation("probabilities", curves=True, statistics=["auroc"])
    evaluation.update(SCORES, torch.zeros(4, dtype=torch.int64))
    with pytest.warns(UserWarning, match="auroc"):
        assert evaluation.compute()["auroc"].isnan()  # which is no name of torchmetrics


@pytest.mark.parametrize("name", ["auroc", "average_precision", "logauc"])
def test_only_averages_leave_classes_out(name: str) -> None:
    _, preds, target = BATCHES["no_class_2"]
    function = getattr(functional, f"multiclass_{name}")
    each, _ = called(function, preds, target, 3, average=None)
    with pytest.warns(UserWarning, match="1 of 3 classes or labels have no positive .*: the macro average leaves them"):
        macro = function(preds, target, 3, average="macro")
    torch.testing.assert_close(macro, each[:2].mean())
    everything, _ = called(function, preds, torch.tensor([0, 1, 2, 0]), 3, average="macro")
    assert not everything.isnan()


def test_class_0_alone_is_not_taken_for_no_positives() -> None:
    """torchmetrics looks at the class numbers, finds nothing but 0, and sets the recall of class 0 to 1 everywhere."""
    target = torch.zeros(4, dtype=torch.int64)
    (_, recall, _), _ = called(functional.multiclass_precision_recall_curve, MANY, target, 3)
    (_, theirs, _), _ = called(peer.multiclass_precision_recall_curve, MANY, target, 3)
    assert recall[0].tolist() == [1.0, 0.75, 0.5, 0.25, 0.0]
    assert theirs[0].tolist() == [1.0, 1.0, 1.0, 1.0, 0.0]
