"""What is no tensor to count, and arguments of the wrong kind, are refused in a sentence, never by a raw error."""

from __future__ import annotations

import contextlib
import inspect
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torchmetrics import Metric

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation, functional, metrics
from lightning_evalkit.errors import DeclarationError, InputError
from lightning_evalkit.evaluation import Slices

if TYPE_CHECKING:
    from collections.abc import Callable

SCORES, TARGET, WEIGHT = torch.tensor([0.1, 0.7, 0.6, 0.2]), torch.tensor([0, 1, 1, 0]), torch.ones(4)
MANY, ONE_OF = torch.eye(4, 3).add(0.1).softmax(1), torch.tensor([0, 1, 2, 0])
LABELS, GROUPS = torch.eye(4, 3).long(), torch.tensor([0, 1, 0, 1])
P = "probabilities"
COUNTED: dict[str, tuple[Callable[[], Any], tuple[Tensor, ...]]] = {
    "binary": (lambda: BinaryEvaluation(P), (SCORES, TARGET)),
    "binary_labels": (lambda: BinaryEvaluation("labels"), (TARGET, TARGET)),
    "binary_weighted": (lambda: BinaryEvaluation(P, weighted=True), (SCORES, TARGET, WEIGHT)),
    "binary_curves": (lambda: BinaryEvaluation(P, curves=True), (SCORES, TARGET)),
    "weighted_curves": (lambda: BinaryEvaluation(P, curves=True, weighted=True), (SCORES, TARGET, WEIGHT)),
    "classes": (lambda: MulticlassEvaluation(P, 3), (MANY, ONE_OF)),
    "classes_weighted": (lambda: MulticlassEvaluation(P, 3, weighted=True), (MANY, ONE_OF, WEIGHT)),
    "labels": (lambda: MultilabelEvaluation(P, 3), (MANY, LABELS)),
    "labels_weighted": (lambda: MultilabelEvaluation(P, 3, weighted=True), (MANY, LABELS, WEIGHT)),
    "metric": (metrics.BinaryF1Score, (SCORES, TARGET)),
    "exact_curve": (lambda: metrics.MulticlassAUROC(3, thresholds=None), (MANY, ONE_OF)),
    "loss": (metrics.MeanLoss, (SCORES, WEIGHT)),
    "profile": (lambda: metrics.LossProfile(inputs=P), (SCORES, TARGET)),
    "slices": (lambda: Slices(BinaryEvaluation(P), 2), (SCORES, TARGET, GROUPS)),
    "weighted_slices": (lambda: Slices(MulticlassEvaluation(P, 3, weighted=True), 2), (MANY, ONE_OF, GROUPS, WEIGHT)),
}
OTHERS: dict[str, Callable[[Tensor], Any]] = {
    "ragged": lambda values: [[1], [1, 0]],
    "mixed": lambda values: [1, None, "x"],
    "text": lambda _: "yes",
    "dict": lambda values: {"preds": values},
    "sparse": Tensor.to_sparse,
    "complex": lambda values: values.to(torch.complex64),
    "meta": lambda values: values.to("meta"),
    "nested": lambda values: torch.nested.nested_tensor([values[:2].float(), values[2:3].float()]),
}
WORDS = {
    "ragged": r"got list as \w+: its rows are of different lengths",
    "text": r"got str as \w+: pass the numbers themselves",
    "dict": r"got dict as \w+: pass the numbers themselves",
    "sparse": r"got torch\.sparse_coo as \w+: call \w+\.to_dense\(\)",
}


@pytest.mark.filterwarnings("ignore:.*nested tensors.*")
@pytest.mark.parametrize("kind", COUNTED)
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("call", ["update", "forward"])
def test_what_is_no_tensor_to_count_is_said(kind: str, other: str, call: str) -> None:
    build, batch = COUNTED[kind]
    for place, values in enumerate(batch):
        metric, changed = build(), list(batch)
        metric.update(*batch)
        before = [part.clone() for part in getattr(metric, "tally", metric).totals if part is not None]
        changed[place] = OTHERS[other](values)
        with pytest.raises(InputError, match=WORDS.get(other, "expected")):
            getattr(metric, call)(*changed)
        after = [part for part in getattr(metric, "tally", metric).totals if part is not None]
        assert all(map(torch.equal, before, after))


def test_nothing_at_all_is_said() -> None:
    with pytest.raises(InputError, match="got NoneType as preds: look for a step that returns nothing"):
        BinaryEvaluation(P).update(None, TARGET)
    with pytest.raises(InputError, match="got NoneType as target"):
        functional.binary_accuracy(SCORES, None)


@pytest.mark.parametrize("kind", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_eight_bit_scores_are_refused_with_what_to_do(kind: torch.dtype) -> None:
    with pytest.raises(InputError, match=r"got torch\.float8_\w+ as preds: call preds\.float\(\)"):
        BinaryEvaluation(P).update(SCORES.to(kind), TARGET)


@pytest.mark.parametrize("kind", [torch.uint16, torch.uint32], ids=str)
def test_a_type_that_torch_hardly_knows_is_counted_or_refused(kind: torch.dtype) -> None:
    evaluation = BinaryEvaluation(P)
    evaluation.update(SCORES, TARGET.to(kind))
    assert float(evaluation.compute()["accuracy"]) == 1.0
    with pytest.raises(InputError, match=r"as target: call target\.long\(\)"):
        BinaryEvaluation(P, weighted=True).update(SCORES, TARGET.to(kind), WEIGHT)


def test_functions_say_it_too() -> None:
    with pytest.raises(InputError, match="got str as preds"):
        functional.binary_accuracy("yes", TARGET)
    with pytest.raises(InputError, match="got dict as target"):
        functional.multiclass_auroc(MANY, {"target": ONE_OF}, num_classes=3)


def test_an_error_of_the_package_keeps_its_words() -> None:
    with pytest.raises(InputError, match="one shape"):
        BinaryEvaluation(P).update(SCORES, TARGET[:2])
    with pytest.raises(TypeError, match="unexpected keyword"):
        BinaryEvaluation(P).update(SCORES, TARGET, weights=WEIGHT)


# ---- arguments of constructors

NEEDED = {
    "inputs": "logits",
    "num_classes": 3,
    "num_labels": 3,
    "beta": 1.0,
    "evaluation": BinaryEvaluation("logits"),
    "num_groups": 2,
    "min_precision": 0.5,
    "min_recall": 0.5,
    "min_specificity": 0.5,
    "min_sensitivity": 0.5,
}
WRONG = [None, "x", "", [], [1], [None], {}, object(), -1, 2.5, float("nan"), 1e200, True, np.float32(0.5), b"x", int]
SAID_BY_TORCHMETRICS = ("prefix", "postfix")
CONSTRUCTED = [
    BinaryEvaluation,
    MulticlassEvaluation,
    MultilabelEvaluation,
    Slices,
    *(kind for kind in vars(metrics).values() if inspect.isclass(kind) and issubclass(kind, Metric)),
]


@pytest.mark.parametrize("kind", CONSTRUCTED, ids=lambda kind: kind.__name__)
def test_no_argument_makes_a_raw_error(kind: type) -> None:
    """Accepted, or refused by this package in its own words."""
    arguments = inspect.signature(kind.__init__).parameters
    needed = {name: NEEDED[name] for name in arguments if name in NEEDED and arguments[name].default is inspect._empty}
    for name in arguments.keys() - {"self", "kwargs", "validate_args", *SAID_BY_TORCHMETRICS}:
        for wrong in WRONG:
            with contextlib.suppress(DeclarationError, InputError):
                kind(**{**needed, name: wrong})


def test_all_metrics_are_constructed() -> None:
    assert len(CONSTRUCTED) > 60


@pytest.mark.parametrize("half", [np.float32(0.5), np.float64(0.5), np.array(0.5), torch.tensor(0.5)], ids=str)
@pytest.mark.parametrize(
    "build",
    [
        lambda half: BinaryEvaluation(P, threshold=half),
        lambda half: MultilabelEvaluation(P, 3, threshold=half),
        lambda half: metrics.BinaryF1Score(threshold=half),
        lambda half: metrics.MultilabelF1Score(3, threshold=half),
        lambda half: metrics.MultilabelF1Score(3, threshold=[half, 0.5, half]),
    ],
    ids=["binary", "labels", "metric", "metric_of_labels", "one_each"],
)
def test_a_single_number_of_numpy_or_torch_is_a_threshold(build: Callable[[Any], Any], half: Any) -> None:
    """And the same declaration as Python's number, so that states can be merged."""
    build(half).merge_state(build(0.5))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"threshold": None}, r"expected threshold to be a number in \[0, 1\] .* got None"),
        ({"zero_division": None}, "expected zero_division to be a number, such as 0.0, or nan, got None"),
        ({"statistics": [1]}, "expected statistics to be names of statistics, such as 'accuracy', got 1"),
        ({"statistics": 7}, "expected statistics to be a list, got 7"),
        ({"statistics": ["f1e200"]}, r"expected beta from 1e-50 to 1e\+50, got 1e\+200"),
        ({"weighted": "yes"}, "expected weighted to be True or False, got 'yes'"),
        ({"curves": 1}, "expected curves to be True or False, got 1"),
    ],
)
def test_a_wrong_argument_is_said(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(DeclarationError, match=words):
        BinaryEvaluation("logits", **arguments)


def test_letters_are_no_names_of_classes() -> None:
    with pytest.raises(DeclarationError, match="expected class_names to be a list, got 'abc'"):
        MulticlassEvaluation("labels", 3, "abc")


def test_curves_need_a_number_of_classes() -> None:
    with pytest.raises(DeclarationError, match="expected num_classes for curves"):
        metrics.MulticlassAUROC(None)


@pytest.mark.parametrize("beta", [1e-50, 1e-9, 1e9, 1e50])
def test_f_of_an_extreme_beta_is_precision_or_recall(beta: float) -> None:
    batch = torch.tensor([1, 1, 1, 0]), torch.tensor([1, 0, 0, 1])
    expected = functional.binary_recall(*batch) if beta > 1 else functional.binary_precision(*batch)
    torch.testing.assert_close(functional.binary_fbeta_score(*batch, beta=beta), expected)


def test_an_evaluation_takes_no_more_metrics() -> None:
    evaluation = BinaryEvaluation("logits")
    with pytest.raises(DeclarationError, match="name them as statistics when it is constructed"):
        evaluation.add_metrics(metrics.BinaryF1Score())
