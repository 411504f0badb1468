"""Multiclass and multilabel metrics, functions and evaluations give the results of torchmetrics and scikit-learn.

Cases are generated from torchmetrics' own signatures; where its number is not the definition, a test shows both.
"""

from __future__ import annotations

import inspect
from itertools import product
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
import torch
from many_metrics import AVERAGES, CLASSES, IGNORED, KINDS, READINGS, SAMPLES, Case, assert_same
from torch import Tensor
from torchmetrics import classification as peer_metrics
from torchmetrics.functional import classification as peer_functions
from versions import IGNORED_LABELS, TOP_K
from versions import compared as compared_names

from lightning_evalkit import functional, metrics
from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.metrics.multiclass import MulticlassMetric
from lightning_evalkit.metrics.multilabel import MultilabelMetric

if TYPE_CHECKING:
    from collections.abc import Iterator


pytestmark = pytest.mark.filterwarnings(
    # torchmetrics, of its own matrix when a class is absent.
    "ignore:.* NaN values found in confusion matrix:UserWarning",
)

FAMILIES = {
    "StatScores": "stat_scores",
    "ConfusionMatrix": "confusion_matrix",
    "Accuracy": "accuracy",
    "Precision": "precision",
    "Recall": "recall",
    "Specificity": "specificity",
    "NegativePredictiveValue": "negative_predictive_value",
    "F1Score": "f1_score",
    "FBetaScore": "fbeta_score",
    "JaccardIndex": "jaccard_index",
    "HammingDistance": "hamming_distance",
    "MatthewsCorrCoef": "matthews_corrcoef",
    "CohenKappa": "cohen_kappa",
    "ExactMatch": "exact_match",
}
MULTICLASS = {f"Multiclass{name}": f"multiclass_{function}" for name, function in FAMILIES.items()}
MULTILABEL = {
    f"Multilabel{name}": f"multilabel_{function}" for name, function in FAMILIES.items() if name != "CohenKappa"
}
ALL = MULTICLASS | MULTILABEL


def parameters(callable_: Any) -> dict[str, inspect.Parameter]:
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {name: one for name, one in inspect.signature(callable_).parameters.items() if one.kind in kinds}


# ---- none is forgotten


@pytest.mark.parametrize(("base", "rows"), [(MulticlassMetric, MULTICLASS), (MultilabelMetric, MULTILABEL)])
def test_every_metric_and_function_has_a_row(base: type, rows: dict[str, str]) -> None:
    classes = [name for name in metrics.__all__ if isinstance(getattr(metrics, name), type)]
    assert {name for name in classes if issubclass(getattr(metrics, name), base)} == rows.keys()
    task = next(iter(rows.values())).partition("_")[0]
    of_counts = [name for name in functional.__all__ if getattr(functional, name).__module__.endswith(f".{task}")]
    assert {name for name in of_counts if name.startswith(task)} == set(rows.values())


# ---- signatures


def assert_signature(ours: Any, theirs: Any) -> None:
    expected, actual = parameters(theirs), parameters(ours)
    assert [name for name in actual if name in expected] == list(expected)
    for name in expected.keys() - {"zero_division"}:  # None here, which stands for the 0 of there
        # The number of classes may be left out of more functions here.
        assert actual[name].default == expected[name].default or actual[name].default is None, name


@pytest.mark.parametrize("name", ALL)
def test_the_constructor_has_the_arguments_of_torchmetrics(name: str) -> None:
    assert_signature(getattr(metrics, name), getattr(peer_metrics, name))


@pytest.mark.parametrize("name", ALL.values())
def test_the_function_has_the_arguments_of_torchmetrics(name: str) -> None:
    assert_signature(getattr(functional, name), getattr(peer_functions, name))


GIVEN: dict[str, Any] = {
    "num_classes": 3,
    "num_labels": 3,
    "threshold": 0.3,
    "average": "weighted",
    "top_k": 2,
    "multidim_average": "samplewise",
    "ignore_index": 7,
    "validate_args": False,
    "zero_division": 1,
    "normalize": "all",
    "weights": "linear",
    "beta": 2.0,
}


@pytest.mark.parametrize("name", compared_names(ALL, TOP_K, IGNORED_LABELS))
def test_arguments_by_position_mean_the_same(name: str) -> None:
    names = list(parameters(getattr(peer_metrics, name)))
    metric = getattr(metrics, name)(*(GIVEN[each] for each in names))
    assert {each: getattr(metric, each) for each in names} == {each: GIVEN[each] for each in names}
    function = ALL[name]
    order = list(parameters(getattr(peer_functions, function)))[2:]
    if name in MULTICLASS:
        batch = torch.rand(6, 3, 5), torch.randint(3, (6, 5))
    else:
        batch = torch.rand(6, 3, 5), torch.randint(2, (6, 3, 5))
    batch[1][0] = 7
    # torchmetrics weighs the labels of a sample by the support of all samples: see below.
    given = GIVEN | ({"average": "none"} if name == "MultilabelStatScores" else {})
    arguments = [given[each] for each in order]
    ours, theirs = getattr(functional, function), getattr(peer_functions, function)
    assert_same(ours(*batch, *arguments), theirs(*batch, *arguments))


# ---- generated batches


MULTIDIM = ("global", "samplewise")
SCORES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.uint8)
SHAPES: tuple[tuple[int, ...], ...] = ((), (5,), (3, 2))
CHOICES: dict[str, tuple[Any, ...]] = {
    "multidim_average": MULTIDIM,
    "zero_division": (0, 1),
    "weights": (None, "none", "linear", "quadratic"),
    "normalize": (None, "none", "true", "pred", "all"),
    "beta": (0.5, 1.0, 2.0, 3.7),
    "threshold": (0.5, 0.2, 0.85),
}
# torchmetrics' classes take it and do not use it; ours do.
WITHOUT_EFFECT = {("MulticlassNegativePredictiveValue", "zero_division")}

LABELS = (2, 4)


def cases(name: str) -> Iterator[Case]:
    """Every number of classes, ignored index and average; the other arguments and the data are drawn in turn."""
    draw = Random(name)
    task = "multiclass" if name in MULTICLASS else "multilabel"
    known = parameters(getattr(peer_metrics, name)).keys() | parameters(getattr(peer_functions, ALL[name])).keys()
    averages, times = (AVERAGES, 2) if "average" in known else (("none",), 3)
    every = product(CLASSES if task == "multiclass" else LABELS, IGNORED, averages, range(times))
    for place, (number, ignored, average, _) in enumerate(every):
        reading, kind = READINGS[place % 3], KINDS[place // 2 % len(KINDS)] if place % 2 else "mixed"
        shape = draw.choice(SHAPES)
        arguments = {each: draw.choice(choices) for each, choices in CHOICES.items() if each in known}
        if not shape and "multidim_average" in known:
            arguments["multidim_average"] = "global"
        arguments["average"] = average
        if "top_k" in known:
            arguments["top_k"] = 1 if reading == "labels" else draw.randint(1, min(number, 3))
        # torchmetrics marks ignored labels by negative numbers, which bytes cannot hold.
        integers = INTEGERS[:2] if task == "multilabel" and ignored != "none" else INTEGERS
        preds_type = draw.choice(integers if reading == "labels" else SCORES)
        target_type = draw.choice(integers)
        yield Case(task, reading, number, kind, shape, preds_type, target_type, ignored, arguments)


def deviates(name: str, case: Case) -> bool:
    """Whether torchmetrics' number is known not to be the definition; the tests of deviations look at these."""
    if name == "MultilabelStatScores":
        return (case.arguments["average"], case.arguments["multidim_average"]) == ("weighted", "samplewise")
    return name == "MultilabelJaccardIndex" and case.ignored in ("first", "last")


def leaves_a_class_out(name: str, case: Case) -> bool:
    """Whether a macro average is over fewer classes here: torchmetrics averages in what an ignored class has."""
    averaged = name in MULTICLASS and name not in ("MulticlassStatScores", "MulticlassJaccardIndex")
    return averaged and case.arguments["average"] == "macro" and case.ignored in ("first", "last")


def macro_of_the_others(values: Tensor, scores: Tensor, ignored: int) -> Tensor:
    """The mean over the classes that occur as target or prediction, by definition without the ignored one."""
    tp, fp, _, fn, _ = scores.unbind(-1)
    occurs = (tp + fp + fn) != 0
    occurs[..., ignored] = False
    return (values * occurs).sum(-1) / occurs.sum(-1).clamp(min=1)


def without(options: dict[str, Any], *names: str, **changes: Any) -> dict[str, Any]:
    return {name: value for name, value in (options | changes).items() if name not in names}


class Peer:
    """torchmetrics' metric of a name, with macro averages over the classes that are not ignored."""

    def __init__(self, name: str, case: Case, options: dict[str, Any]) -> None:
        self.case, self.corrects = case, leaves_a_class_out(name, case)
        if self.corrects:
            options = without(options, average="none")
            scores = without(options, "zero_division", "beta")
            self.scores = peer_metrics.MulticlassStatScores(**scores)
        self.metric = getattr(peer_metrics, name)(**options)

    def update(self, *batch: Tensor) -> None:
        self.metric.update(*batch)
        if self.corrects:
            self.scores.update(*batch)

    def __call__(self, *batch: Tensor) -> Tensor:
        value = self.metric(*batch)
        return self._corrected(value, self.scores(*batch)) if self.corrects else value

    def compute(self) -> Tensor:
        value = self.metric.compute()
        return self._corrected(value, self.scores.compute()) if self.corrects else value

    def _corrected(self, values: Tensor, scores: Tensor) -> Tensor:
        assert self.case.ignore_index is not None
        return macro_of_the_others(values, scores, self.case.ignore_index)


def compared(name: str) -> list[Case]:
    """The cases in which torchmetrics' number is the definition, or becomes it by leaving the ignored class out."""
    chosen = [case for case in cases(name) if not deviates(name, case)]
    # With top_k above 1 torchmetrics chooses the classes of an average by other rules for some names.
    return [case for case in chosen if not (leaves_a_class_out(name, case) and case.arguments.get("top_k", 1) > 1)]


def installed(name: str) -> list[Case]:
    """Those of them that the installed release of torchmetrics knows how to count."""
    chosen = compared(name)
    if not TOP_K.is_here():
        chosen = [case for case in chosen if not (case.arguments.get("top_k", 1) > 1 and case.shape)]
    if name == "MultilabelExactMatch" and not IGNORED_LABELS.is_here():
        chosen = [case for case in chosen if case.ignored == "none"]
    assert chosen
    return chosen


@pytest.mark.parametrize("name", ALL)
def test_the_class_gives_the_results_of_torchmetrics(name: str) -> None:
    names = [each for each in parameters(getattr(peer_metrics, name)) if (name, each) not in WITHOUT_EFFECT]
    for case in installed(name):
        options = case.options(names)
        metric, other = getattr(metrics, name)(**options), Peer(name, case, options)
        batch = case.batch()
        assert_same(metric(*batch), other(*batch), case)
        batch = case.batch()
        metric.update(*batch)
        other.update(*batch)
        assert_same(metric.compute(), other.compute(), case)


@pytest.mark.parametrize("name", ALL)
def test_the_function_gives_the_results_of_torchmetrics(name: str) -> None:
    ours, theirs = getattr(functional, ALL[name]), getattr(peer_functions, ALL[name])
    names = list(parameters(theirs))
    for case in installed(name):
        options, batch = case.options(names), case.batch()
        result = ours(*batch, **options)
        if leaves_a_class_out(name, case):
            none = without(options, average="none")
            scores = peer_functions.multiclass_stat_scores(*batch, **without(none, "zero_division", "beta"))
            assert case.ignore_index is not None
            expected = macro_of_the_others(theirs(*batch, **none), scores, case.ignore_index)
        else:
            expected = theirs(*batch, **options)
        assert_same(result, expected, case)
        assert_same(ours(*batch, **options, inputs=case.reading), result, case)


def test_the_cases_reach_every_argument_and_data() -> None:
    """Otherwise the comparison could pass by leaving out."""
    for name in ALL:
        known = parameters(getattr(peer_metrics, name))
        own = compared(name)
        assert len(own) > 20, name
        assert {case.kind for case in own} == set(KINDS), name
        assert {case.ignored for case in own} == (
            {"none", "outside"} if name == "MultilabelJaccardIndex" else set(IGNORED)
        )
        assert {case.reading for case in own} == set(READINGS)
        assert {case.number for case in own} == set(CLASSES if name in MULTICLASS else LABELS)
        if "average" in known:
            assert {case.arguments["average"] for case in own} == set(AVERAGES), name
        if "top_k" in known:
            assert {case.arguments["top_k"] for case in own} == {1, 2, 3}, name
        for each, choices in CHOICES.items():
            if each in known:
                assert {case.arguments[each] for case in own} == set(choices), (name, each)
    every = [case for name in ALL for case in compared(name)]
    assert {case.shape for case in every if case.arguments.get("multidim_average") == "samplewise"} == {*SHAPES[1:]}
    assert {case.preds_type for case in every} == {*SCORES, *INTEGERS}
    assert {case.target_type for case in every} == {*INTEGERS}
    assert sum(leaves_a_class_out(name, case) for name in MULTICLASS for case in compared(name)) > 40


@pytest.mark.parametrize("name", ["Accuracy", "Precision", "Recall", "F1Score", "HammingDistance"])
@pytest.mark.parametrize("ignore_index", [None, 0, -1])
def test_micro_averages_need_no_number_of_classes(name: str, ignore_index: int | None) -> None:
    """Right and wrong are enough; torchmetrics also allows it (and needs the number for its true negatives)."""
    target = torch.randint(9, (50,))
    if ignore_index == -1:
        target[:7] = -1
    batch = torch.randint(9, (50,)), target
    metric = getattr(metrics, f"Multiclass{name}")(average="micro", ignore_index=ignore_index)
    expected = getattr(peer_metrics, f"Multiclass{name}")(num_classes=9, average="micro", ignore_index=ignore_index)
    assert_same(metric(*batch), expected(*batch))
    with pytest.raises(DeclarationError, match=r"num_classes for average='macro': only 'micro' works without it\."):
        getattr(metrics, f"Multiclass{name}")(average="macro")


@pytest.mark.parametrize("name", ALL)
def test_two_labels_of_booleans_are_counted_like_integers(name: str) -> None:
    shape = (SAMPLES,) if name in MULTICLASS else (SAMPLES, 2)
    options = {"num_classes" if name in MULTICLASS else "num_labels": 2}
    options |= {"beta": 2.0} if "FBeta" in name else {}
    said, truth = torch.randint(2, shape), torch.randint(2, shape)
    result = getattr(metrics, name)(**options)(said.bool(), truth.bool())
    assert_same(result, getattr(peer_metrics, name)(**options)(said, truth))
