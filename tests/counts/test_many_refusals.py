"""Batches and declarations of many classes and labels that are refused, and what is said."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
import torch
from many_batches import LABELLED, SCORED, YES, Batch, counted
from torch import Tensor

from lightning_evalkit import MulticlassEvaluation, MultilabelEvaluation, metrics
from lightning_evalkit.errors import DeclarationError, InputError

if TYPE_CHECKING:
    from collections.abc import Callable


pytestmark = pytest.mark.filterwarnings("ignore::lightning_evalkit.errors.UndefinedWarning")

NOT_A_NUMBER = SCORED.clone().index_fill_(0, torch.tensor([2]), math.nan)
NUMBERED = r"classes are numbered from 0: declare a larger num_classes"
CLASS_REFUSALS: dict[str, tuple[str, Batch, str]] = {
    "target above": (
        "labels",
        (LABELLED, torch.tensor([0, 3, 2, 4])),
        r"every target to be a class from 0 to 2, got 3 at position 1 \(2 of 4 values are wrong\); " + NUMBERED,
    ),
    "target above, beside scores": ("logits", (SCORED, torch.tensor([0, 1, 2, 3])), "target to be a class from 0 to 2"),
    "target below": (
        "labels",
        (LABELLED, torch.tensor([0, -1, 2, 1])),
        "got -1 at position 1 .* if it marks samples to leave out, declare ignore_index=-1",
    ),
    "label above": (
        "labels",
        (torch.tensor([0, 1, 7, 1]), LABELLED),
        "every preds to be a class from 0 to 2, got 7 at position 2 .* " + NUMBERED,
    ),
    "label below": ("labels", (torch.tensor([0, 1, -2, 1]), LABELLED), "every preds to be a class from 0 to 2, got -2"),
    "not a number": (
        "logits",
        (NOT_A_NUMBER, LABELLED),
        r"every preds to be a number, got nan at position 2 \(1 of 4 values are wrong\); look for a division by zero",
    ),
    "one score is not a number": (
        "logits",
        (torch.where(torch.arange(12).view(4, 3) == 4, math.nan, SCORED), LABELLED),
        "every preds to be a number, got nan at position 1",
    ),
    "no probability": (
        "probabilities",
        (SCORED * 3, LABELLED),
        r"every preds to be a probability in \[0, 1\], got 2.1 at position 0 .* declare inputs='logits'",
    ),
    "fewer scores": ("logits", (SCORED[:, :2], LABELLED), r"scores of shape \(N, 3, ...\), got \(4, 2\) \(two scores"),
    "more scores": ("logits", (torch.rand(4, 5), LABELLED), r"scores of shape \(N, 3, ...\), got \(4, 5\)"),
    "real targets": (
        "logits",
        (SCORED, LABELLED.float()),
        r"targets to be class numbers \(integers\), got torch.float32: call target.long\(\)",
    ),
    "real targets of labels": ("labels", (LABELLED, LABELLED.float()), "targets to be class numbers"),
    "a column of targets": ("logits", (SCORED, LABELLED.unsqueeze(1)), r"call target.squeeze\(-1\)"),
    "other samples": ("logits", (SCORED, LABELLED[:3]), r"for targets \(N, ...\), got torch.float32 \(4, 3\) and"),
    "other samples of labels": ("labels", (LABELLED, LABELLED[:3]), r"expected integer labels \(N, ...\)"),
    "other places": ("logits", (torch.rand(4, 3, 2), torch.zeros(4, 5).long()), r"scores \(N, 3, ...\) for targets"),
    "one-hot": ("logits", (torch.rand(4, 3), torch.eye(4, 3).long()), "call target.argmax\\(1\\) if it is one-hot"),
    "one score": ("logits", (torch.rand(4), LABELLED), "one score per element is a binary problem"),
    "labels for scores": ("logits", (LABELLED, LABELLED), r"expected scores \(N, 3, ...\)"),
    "scores for labels": ("labels", (SCORED, LABELLED), r"expected integer labels \(N, ...\)"),
}


def weighed(batch: Batch, weighted: bool) -> Batch:
    return (*batch, torch.ones(len(batch[1]))) if weighted else batch


def refuses(evaluation: Any, batch: Batch, words: str) -> None:
    """Say why, and leave the state as it was."""
    before = [None if total is None else total.tolist() for total in evaluation.tally.totals]
    with pytest.raises(InputError, match=words):
        evaluation.update(*batch)
    with pytest.raises(InputError, match=words):
        evaluation(*batch)
    assert [None if total is None else total.tolist() for total in evaluation.tally.totals] == before
    assert evaluation.tally.update_count == 1


@pytest.mark.parametrize("case", CLASS_REFUSALS.values(), ids=CLASS_REFUSALS)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_classes_that_are_not_what_was_declared_are_refused(case: tuple[str, Batch, str], weighted: bool) -> None:
    inputs, batch, words = case
    evaluation = MulticlassEvaluation(inputs, 3, weighted=weighted)  # type: ignore[arg-type]
    good = (LABELLED if inputs == "labels" else SCORED, LABELLED)
    evaluation.update(*weighed(good, weighted))
    refuses(evaluation, weighed(batch, weighted), words)


@pytest.mark.parametrize("inputs", ["logits", "probabilities"])
def test_top_accuracies_refuse_what_is_not_a_number(inputs: Any) -> None:
    evaluation = counted(MulticlassEvaluation(inputs, 3, statistics=["top_2_accuracy"]), (SCORED, LABELLED))
    refuses(evaluation, (NOT_A_NUMBER, LABELLED), "every preds to be a number, got nan at position 2")


def test_what_is_ignored_may_be_anything() -> None:
    target = torch.tensor([0, 1, -1, 1])
    scores = counted(MulticlassEvaluation("probabilities", 3, ignore_index=-1), (NOT_A_NUMBER, target))
    assert int(scores.counts.support.sum()) == 3
    labels = counted(MulticlassEvaluation("labels", 3, ignore_index=-1), (torch.tensor([0, 1, 99, 1]), target))
    assert labels.counts.tp.tolist() == [1, 2, 0]
    many = MultilabelEvaluation("probabilities", 2, ignore_index=-1)
    many.update(torch.tensor([[math.nan, 0.9], [0.1, 7.0]]), torch.tensor([[-1, 1], [0, -1]]))
    assert [cell.tolist() for cell in many.counts.cells] == [[0, 1], [0, 0], [0, 0], [1, 0]]


CHANCES = torch.tensor([[0.9, 0.2, 0.7], [0.1, 0.3, 0.6], [0.8, 0.9, 0.7], [0.2, 0.9, 0.1]])


def with_value(values: Tensor, value: float) -> Tensor:
    changed = values.clone()
    changed[1, 2] = value
    return changed


LABEL_REFUSALS: dict[str, tuple[str, Batch, str]] = {
    "target": (
        "labels",
        (YES, with_value(YES, 2)),
        r"every target to be 0 or 1, got 2 at position 5 \(1 of 12 values are wrong\); soft targets and class numbers",
    ),
    "soft target": ("logits", (CHANCES, with_value(YES.float(), 0.5)), "every target to be 0 or 1, got 0.5 at"),
    "mark": ("labels", (YES, with_value(YES, -1)), "if it marks samples to leave out, declare ignore_index=-1"),
    "label": (
        "labels",
        (with_value(YES, 3), YES),
        "every preds to be the label 0 or 1, got 3 at position 5 .* declare inputs='logits' or inputs='probabilities'",
    ),
    "not a number": ("logits", (with_value(CHANCES, math.nan), YES), "preds to be a number, got nan at position 5"),
    "no probability": (
        "probabilities",
        (with_value(CHANCES, 1.5), YES),
        r"every preds to be a probability in \[0, 1\], got 1.5 at position 5 .* declare inputs='logits'",
    ),
    "negative probability": ("probabilities", (with_value(CHANCES, -0.5), YES), r"probability in \[0, 1\], got -0.5"),
    "integers for scores": ("logits", (YES, YES), "expected preds to be floating-point logits, got torch.int64"),
    "more labels": (
        "logits",
        (torch.rand(4, 5), torch.zeros(4, 5)),
        r"shape \(N, 3\), labels in the second dimension, got \(4, 5\)",
    ),
    "one dimension": ("logits", (torch.rand(3), torch.zeros(3)), r"labels in the second dimension, got \(3,\)"),
    "other samples": ("logits", (CHANCES, YES[:3]), r"preds and target of one shape, got \(4, 3\) and \(3, 3\)"),
}


@pytest.mark.parametrize("case", LABEL_REFUSALS.values(), ids=LABEL_REFUSALS)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_labels_that_are_not_what_was_declared_are_refused(case: tuple[str, Batch, str], weighted: bool) -> None:
    inputs, batch, words = case
    evaluation = MultilabelEvaluation(inputs, 3, weighted=weighted)  # type: ignore[arg-type]
    good = (YES if inputs == "labels" else CHANCES, YES)
    evaluation.update(*weighed(good, weighted))
    refuses(evaluation, weighed(batch, weighted), words)


WEIGHT_REFUSALS: dict[str, tuple[Tensor, str]] = {
    "negative": (torch.tensor([1.0, 1.0, -2.0, 1.0]), "every sample_weight to be finite and not negative, got -2"),
    "not a number": (torch.tensor([1.0, math.nan, 1.0, 1.0]), "sample_weight to be finite and not negative, got nan"),
    "infinite": (torch.tensor([math.inf, 1.0, 1.0, 1.0]), "sample_weight to be finite and not negative, got inf"),
    "too few": (torch.ones(3), r"expected sample_weight to have the shape of target"),
}


@pytest.mark.parametrize("case", WEIGHT_REFUSALS.values(), ids=WEIGHT_REFUSALS)
def test_bad_weights_are_refused(case: tuple[Tensor, str]) -> None:
    weight, words = case
    classes = MulticlassEvaluation("labels", 3, weighted=True)
    classes.update(LABELLED, LABELLED, torch.ones(4))
    refuses(classes, (LABELLED, LABELLED, weight), words)
    labels = MultilabelEvaluation("labels", 3, weighted=True)
    labels.update(YES, YES, torch.ones(4))
    refuses(labels, (YES, YES, weight), words)


def test_weights_are_declared() -> None:
    classes = counted(MulticlassEvaluation("labels", 3), (LABELLED, LABELLED))
    refuses(classes, (LABELLED, LABELLED, torch.ones(4)), "construct it with weighted=True")
    labels = MultilabelEvaluation("labels", 3, weighted=True)
    labels.update(YES, YES, torch.ones(4))
    refuses(labels, (YES, YES), "declared weighted=True, so update needs sample_weight")


def test_samplewise_counting_needs_places() -> None:
    with pytest.raises(InputError, match="expected targets with at least 2 dimensions"):
        metrics.MulticlassAccuracy(3, multidim_average="samplewise").update(LABELLED, LABELLED)
    with pytest.raises(InputError, match=r"expected preds and target of shape \(N, 3, ...\)"):
        metrics.MultilabelAccuracy(3, multidim_average="samplewise").update(YES, YES)


def test_labels_have_no_order() -> None:
    with pytest.raises(DeclarationError, match="expected scores for top_k above 1, got inputs='labels'"):
        MulticlassEvaluation("labels", 3, statistics=["top_2_accuracy"])
    with pytest.raises(InputError, match="for top_k above 1, got labels: labels have no order"):
        metrics.MulticlassAccuracy(3, top_k=2).update(LABELLED, LABELLED)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: metrics.MulticlassRecall(3, average="samples"), "expected average to be None or one of 'micro'"),
        (lambda: metrics.MulticlassRecall(3, multidim_average="rows"), "to be 'global' or 'samplewise', got 'rows'"),
        (lambda: metrics.MulticlassConfusionMatrix(3, normalize="rows"), "expected normalize to be None or one of"),
        (lambda: metrics.MulticlassCohenKappa(3, weights="cubic"), "expected weights to be None or one of 'linear'"),
        (lambda: metrics.MulticlassFBetaScore(-1.0, 3), "expected beta to be a finite number above 0"),
        (lambda: metrics.MulticlassRecall(3, ignore_index="x"), "expected ignore_index to be None or an integer"),
        (lambda: metrics.MultilabelRecall(3, threshold=1.5), r"expected threshold to be a number in \[0, 1\]"),
        (lambda: metrics.MultilabelRecall(3, average="samples"), "expected average to be None or one of 'micro'"),
        (lambda: metrics.MultilabelRecall(1), "expected num_labels to be a whole number of at least 2, got 1"),
    ],
)
def test_bad_arguments_are_refused(build: Callable[[], Any], words: str) -> None:
    with pytest.raises(DeclarationError, match=words):
        build()
