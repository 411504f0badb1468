"""Tensors and declarations that are refused, and what is said."""

from __future__ import annotations

import copy
import math
import re
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nan

from lightning_evalkit import BinaryEvaluation, functional, metrics
from lightning_evalkit.errors import DeclarationError, InputError

GOOD, TRUTH = torch.tensor([0.9, 0.2, 0.6, 0.4]), torch.tensor([1, 0, 0, 1])
# ---- refusals


class Refusal(NamedTuple):
    """A batch that contradicts its declaration, and the words that say so."""

    words: str
    preds: Tensor
    target: Tensor
    declared: dict[str, Any]
    sample_weight: Tensor | None = None

    def subjects(self) -> list[Any]:
        """An evaluation and metrics of this declaration."""
        weighted = {"weighted": True, **self.declared} if self.sample_weight is not None else self.declared
        metric_names = ("BinaryF1Score", "BinaryConfusionMatrix", "BinaryStatScores")
        return [BinaryEvaluation(**weighted), *(getattr(metrics, name)(**weighted) for name in metric_names)]


LOGITS, PROBABILITIES, LABELS = {"inputs": "logits"}, {"inputs": "probabilities"}, {"inputs": "labels"}


def replaced(tensor: Tensor, position: int, value: float) -> Tensor:
    changed = tensor.clone() if isinstance(value, int) else tensor.to(torch.float32, copy=True)
    changed[position] = value
    return changed


REFUSALS = {
    "preds with one column": Refusal(
        "expected preds and target of one shape, got (4, 1) and (4,): call preds.squeeze(-1) to drop the last",
        GOOD[:, None],
        TRUTH,
        PROBABILITIES,
    ),
    "target with one column": Refusal(
        "got (4,) and (4, 1): call target.squeeze(-1)", GOOD, TRUTH[:, None], PROBABILITIES
    ),
    "multiclass scores": Refusal(
        "got (4, 3) and (4,): scores for 3 classes are a multiclass problem", torch.rand(4, 3), TRUTH, PROBABILITIES
    ),
    "multiclass images": Refusal(
        "got (4, 3, 5) and (4, 5): scores for 3 classes are a multiclass problem",
        torch.rand(4, 3, 5),
        torch.zeros(4, 5),
        PROBABILITIES,
    ),
    "other length": Refusal(
        "expected preds and target of one shape, got (4,) and (5,).", GOOD, torch.ones(5), PROBABILITIES
    ),
    "decided preds as logits": Refusal(
        "expected preds to be floating-point logits, got torch.int64: declare inputs='labels'", TRUTH, TRUTH, LOGITS
    ),
    "decided preds as probabilities": Refusal(
        "expected preds to be floating-point probabilities, got torch.bool", TRUTH.bool(), TRUTH, PROBABILITIES
    ),
    "class 2": Refusal(
        "expected every target to be 0 or 1, got 2 at position 3 (1 of 4 values are wrong); soft targets and class "
        "numbers above 1 are no binary problem.",
        GOOD,
        replaced(TRUTH, 3, 2),
        PROBABILITIES,
    ),
    "undeclared -1": Refusal(
        "expected every target to be 0 or 1, got -1 at position 1 (1 of 4 values are wrong); if it marks samples to "
        "leave out, declare ignore_index=-1.",
        GOOD,
        replaced(TRUTH, 1, -1),
        PROBABILITIES,
    ),
    "soft target": Refusal("got 0.25 at position 2", GOOD, replaced(TRUTH, 2, 0.25), PROBABILITIES),
    "NaN target": Refusal("expected every target to be 0 or 1, got nan", GOOD, replaced(TRUTH, 2, nan), LOGITS),
    "other than ignored": Refusal(
        "expected every target to be 0 or 1 or ignore_index=-1, got 7 at position 0 (1 of 4",
        GOOD,
        torch.tensor([7, -1, 0, 1]),
        {**PROBABILITIES, "ignore_index": -1},
    ),
    "NaN logit": Refusal(
        "expected every preds to be a number, got nan at position 2 (1 of 4 values are wrong); look for a division",
        replaced(GOOD, 2, nan),
        TRUTH,
        LOGITS,
    ),
    "NaN probability": Refusal("a number, got nan at position 0", replaced(GOOD, 0, nan), TRUTH, PROBABILITIES),
    "NaN in float16": Refusal("a number, got nan at position 0", replaced(GOOD, 0, nan).half(), TRUTH, LOGITS),
    "NaN beside ignored NaN": Refusal(
        "a number, got nan at position 2 (1 of 4",
        torch.tensor([0.5, nan, nan, 0.1]),
        torch.tensor([1, -1, 0, 1]),
        {**LOGITS, "ignore_index": -1},
    ),
    "probability above 1": Refusal(
        "expected every preds to be a probability in [0, 1], got 1.5 at position 1 (1 of 4 values are wrong); "
        "declare inputs='logits' if no sigmoid or softmax was applied.",
        replaced(GOOD, 1, 1.5),
        TRUTH,
        PROBABILITIES,
    ),
    "negative probability": Refusal(
        "a probability in [0, 1], got -0.5 at position 3", replaced(GOOD, 3, -0.5), TRUTH, PROBABILITIES
    ),
    "infinite probability": Refusal("got inf at position 3", replaced(GOOD, 3, math.inf), TRUTH, PROBABILITIES),
    "two wrong probabilities": Refusal("(2 of 4 values are wrong)", GOOD * 2, TRUTH, PROBABILITIES),
    "label 2": Refusal(
        "expected every preds to be the label 0 or 1, got 2 at position 0 (1 of 4 values are wrong); declare "
        "inputs='logits' or inputs='probabilities' for scores.",
        replaced(TRUTH, 0, 2),
        TRUTH,
        LABELS,
    ),
    "score as label": Refusal("the label 0 or 1, got 0.9 at position 0 (4 of 4", GOOD, TRUTH, LABELS),
    "NaN label": Refusal("the label 0 or 1, got nan", replaced(TRUTH, 1, nan), TRUTH, LABELS),
    "weight missing": Refusal(
        "declared weighted=True, so update needs sample_weight", GOOD, TRUTH, {**PROBABILITIES, "weighted": True}
    ),
    "weight unexpected": Refusal(
        "got sample_weight, but the metric counts unweighted: construct it with weighted=True.",
        GOOD,
        TRUTH,
        {**PROBABILITIES, "weighted": False},
        torch.ones(4),
    ),
    "weight too short": Refusal(
        "expected sample_weight to have the shape of target, (4,), or of its first dimensions, got (3,).",
        GOOD,
        TRUTH,
        PROBABILITIES,
        torch.ones(3),
    ),
    "weight with one column": Refusal(
        "of its first dimensions, got (4, 1)", GOOD, TRUTH, PROBABILITIES, torch.ones(4, 1)
    ),
    "negative weight": Refusal(
        "expected every sample_weight to be finite and not negative, got -0.5 at position 1 (1 of 4 values are "
        "wrong); 0 leaves a sample out.",
        GOOD,
        TRUTH,
        PROBABILITIES,
        torch.tensor([1, -0.5, 1, 1]),
    ),
    "NaN weight": Refusal("not negative, got nan at position 2", GOOD, TRUTH, LOGITS, torch.tensor([1, 1, nan, 1])),
    "infinite weight": Refusal("got inf at position 0", GOOD, TRUTH, LOGITS, torch.tensor([math.inf, 1, 1, 1])),
    "weighted NaN": Refusal("a number, got nan at position 1", replaced(GOOD, 1, nan), TRUTH, LOGITS, torch.ones(4)),
    "weighted class 2": Refusal("target to be 0 or 1, got 2", GOOD, replaced(TRUTH, 1, 2), LOGITS, torch.ones(4)),
    "weighted label 2": Refusal("the label 0 or 1, got 2", replaced(TRUTH, 1, 2), TRUTH, LABELS, torch.ones(4)),
    "weighted probability": Refusal("a probability in [0, 1], got 1.8", GOOD * 2, TRUTH, PROBABILITIES, torch.ones(4)),
    "other device": Refusal(
        "expected tensors on cpu, where the metric is, got meta: call .to('meta') on the metric",
        GOOD.to("meta"),
        TRUTH.to("meta"),
        PROBABILITIES,
    ),
    "two devices": Refusal(
        "expected preds and target on one device, got cpu and meta.", GOOD, TRUTH.to("meta"), PROBABILITIES
    ),
    "weight on another device": Refusal(
        "expected sample_weight on the device of target, got meta and cpu.",
        GOOD,
        TRUTH,
        PROBABILITIES,
        torch.ones(4, device="meta"),
    ),
}


def tally_of(subject: Any) -> Any:
    return subject.tally if isinstance(subject, BinaryEvaluation) else subject


def snapshot(subject: Any) -> tuple[Any, ...]:
    """All that an update changes."""
    tally = tally_of(subject)
    return copy.deepcopy(tuple(tally.totals)), tally.update_count, id(tally._computed), id(tally._forward_cache)


def assert_refused(subject: Any, refusal: Refusal, call: Any) -> None:
    reported, before = subject.compute(), snapshot(subject)
    with pytest.raises(InputError, match=re.escape(refusal.words)):
        call(refusal.preds, refusal.target, sample_weight=refusal.sample_weight)
    state, *others = snapshot(subject)
    torch.testing.assert_close(state, before[0], rtol=0, atol=0)
    assert others == list(before[1:])
    torch.testing.assert_close(subject.compute(), reported, rtol=0, atol=0)


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refused_update_changes_nothing(name: str) -> None:
    refusal = REFUSALS[name]
    for subject in refusal.subjects():
        tally = tally_of(subject)
        weight = torch.full((6,), 0.5) if tally.counter.task.weighted else None
        subject(torch.tensor([1.0, 0, 1, 0, 1, 0]), torch.tensor([1, 1, 0, 0, 1, 0]), sample_weight=weight)
        subject.compute()
        assert tally._computed is not None
        assert_refused(subject, refusal, subject.update)
        assert_refused(subject, refusal, subject)


NO_FAULT_OF_A_FUNCTION = ("weight missing", "weight unexpected", "other device")
"""A function is weighted where it is given weights, and is on no device."""


@pytest.mark.parametrize("name", [name for name in REFUSALS if name not in NO_FAULT_OF_A_FUNCTION])
def test_a_function_refuses_the_same(name: str) -> None:
    refusal = REFUSALS[name]
    declared = {key: value for key, value in refusal.declared.items() if key != "weighted"}
    for function in (functional.binary_f1_score, functional.binary_confusion_matrix, functional.binary_cohen_kappa):
        with pytest.raises(InputError, match=re.escape(refusal.words)):
            function(refusal.preds, refusal.target, sample_weight=refusal.sample_weight, **declared)


def is_about_values(name: str, refusal: Refusal) -> bool:
    return refusal.preds.shape == refusal.target.shape and not name.startswith("weight ") and name != "two devices"


@pytest.mark.parametrize("name", [name for name, refusal in REFUSALS.items() if is_about_values(name, refusal)])
def test_samples_counted_one_by_one_are_refused_too(name: str) -> None:
    words, preds, target, declared, sample_weight = REFUSALS[name]
    weight = None if sample_weight is None else sample_weight[None]
    metric = metrics.BinaryRecall(multidim_average="samplewise", weighted=weight is not None, **declared)
    good = torch.eye(4)
    metric.update(good, good, sample_weight=None if weight is None else good)
    refusal = Refusal(words, preds[None], target[None], declared, weight)
    assert_refused(metric, refusal, metric.update)
    assert_refused(metric, refusal, metric)


def test_samplewise_needs_two_dimensions() -> None:
    metric = metrics.BinaryAccuracy(multidim_average="samplewise")
    with pytest.raises(
        InputError, match=re.escape("expected at least 2 dimensions, (N, ...), to count samplewise, got shape (4,)")
    ):
        metric.update(GOOD, TRUTH)


@pytest.mark.parametrize("kind", [ValueError, RuntimeError])
def test_code_that_catches_what_torchmetrics_raises_catches_refusals(kind: type[Exception]) -> None:
    with pytest.raises(kind):
        metrics.BinaryAccuracy().update(GOOD, torch.full((4,), 3))


def test_a_function_checks_parameters_too() -> None:
    """Neither a subclass of Tensor nor one that carries gradients loses its NaN, or warns of anything else."""
    preds = torch.nn.Parameter(torch.tensor([nan, 0.9]))
    with pytest.raises(InputError, match=r"not what was declared|to be a number"):
        functional.binary_accuracy(preds, torch.tensor([1, 1]), inputs="logits")


# ---- declarations


@pytest.mark.parametrize("threshold", [1.5, -0.1, "0.5", True, nan, math.inf])
def test_a_threshold_is_a_probability(threshold: Any) -> None:
    words = r"expected threshold to be a number in \[0, 1\] \(on probabilities.*\)( or a list of such)?, got "
    for declare in (
        lambda: BinaryEvaluation(inputs="logits", threshold=[threshold]),
        lambda: metrics.BinaryF1Score(threshold=threshold),
        lambda: functional.binary_f1_score(GOOD, TRUTH, threshold=threshold),
    ):
        with pytest.raises(DeclarationError, match=words):
            declare()


WRONG_EVALUATIONS = {
    "an evaluation does not guess: declare inputs='logits', inputs='probabilities' or inputs='labels'": {
        "inputs": "auto"
    },
    "expected inputs to be one of 'logits', 'probabilities', 'labels', 'auto', got 'scores'": {"inputs": "scores"},
    "expected at least one threshold, got an empty list": {"threshold": []},
    "expected different thresholds, got [0.5, 0.5]": {"threshold": [0.5, 0.5]},
    "expected ignore_index to be None or an integer, got 0.5": {"ignore_index": 0.5},
    "expected ignore_index to be None or an integer, got True": {"ignore_index": True},
    "expected statistics to be a list of names, got a text: write ['f1']": {"statistics": "f1"},
    "expected at least one statistic, got an empty list": {"statistics": []},
    "there is no statistic 'acuracy': did you mean 'accuracy'": {"statistics": ["acuracy"]},
    "the statistic 'sensitivity' is called 'recall' here": {"statistics": ["sensitivity"]},
    "the statistic 'f05' is called 'f0.5' here": {"statistics": ["f05"]},
    "expected different statistics, got 'f1' twice": {"statistics": ["f1", "f1"]},
}


@pytest.mark.parametrize("words", WRONG_EVALUATIONS)
def test_a_wrong_evaluation_says_what_is_wrong(words: str) -> None:
    with pytest.raises(DeclarationError, match=re.escape(words)):
        BinaryEvaluation(**{"inputs": "logits", **WRONG_EVALUATIONS[words]})


def test_an_evaluation_needs_to_know_its_inputs() -> None:
    with pytest.raises(TypeError, match="inputs"):
        BinaryEvaluation()  # type: ignore[call-arg]


def test_an_unknown_entry_names_the_nearest() -> None:
    evaluation = BinaryEvaluation(inputs="logits", threshold=[0.5, 0.9], statistics=["precision"])
    with pytest.raises(DeclarationError, match=re.escape("there is no entry 'precision': did you mean 'precision@0.")):
        evaluation["precision"]


WRONG_METRICS = {
    "expected multidim_average to be 'global' or 'samplewise', got 'sample'": (
        "accuracy",
        {"multidim_average": "sample"},
    ),
    "expected inputs to be one of 'logits', 'probabilities', 'labels', 'auto', got None": ("recall", {"inputs": None}),
    "expected ignore_index to be None or an integer, got '0'": ("recall", {"ignore_index": "0"}),
    "expected normalize to be None or one of 'true', 'pred', 'all', 'none', got 'rows'": (
        "confusion_matrix",
        {"normalize": "rows"},
    ),
    "expected weights to be None or one of 'linear', 'quadratic', 'none', got 'cubic'": (
        "cohen_kappa",
        {"weights": "cubic"},
    ),
    "expected beta to be a finite number above 0, got -1": ("fbeta_score", {"beta": -1}),
}
CLASSES = {"confusion_matrix": "ConfusionMatrix", "cohen_kappa": "CohenKappa", "fbeta_score": "FBetaScore"}


@pytest.mark.parametrize("words", WRONG_METRICS)
def test_a_wrong_metric_says_what_is_wrong(words: str) -> None:
    name, declared = WRONG_METRICS[words]
    with pytest.raises(DeclarationError, match=re.escape(words)):
        getattr(metrics, f"Binary{CLASSES.get(name, name.capitalize())}")(**declared)
    with pytest.raises(DeclarationError, match=re.escape(words)):
        getattr(functional, f"binary_{name}")(GOOD, TRUTH, **declared)
