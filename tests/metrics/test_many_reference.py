"""Multiclass and multilabel metrics, functions and evaluations give the results of torchmetrics and scikit-learn.

Cases are generated from torchmetrics' own signatures; where its number is not the definition, a test shows both.
"""

from __future__ import annotations

import inspect
import math
import warnings
from itertools import product
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
import sklearn.metrics as reference
import torch
from torch import Tensor
from torchmetrics import classification as peer_metrics
from torchmetrics.functional import classification as peer_functions

from lightning_evalkit import MulticlassEvaluation, MultilabelEvaluation, functional, metrics
from lightning_evalkit.errors import DeclarationError, InputError
from lightning_evalkit.metrics.multiclass import MulticlassMetric
from lightning_evalkit.metrics.multilabel import MultilabelMetric

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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


def assert_same(ours: Tensor, theirs: Tensor, note: object = None) -> None:
    torch.testing.assert_close(
        ours,
        theirs,
        rtol=1e-5,
        atol=1e-6,
        equal_nan=True,
        check_dtype=False,
        msg=lambda text: f"{note}\n{text}",
    )


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


@pytest.mark.parametrize("name", ALL)
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

AVERAGES = ("micro", "macro", "weighted", "none", None)
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
CLASSES = (2, 3, 7)
LABELS = (2, 4)
SAMPLES = 8


class Case(NamedTuple):
    """One combination of arguments and data."""

    task: str
    reading: str
    number: int
    kind: str
    shape: tuple[int, ...]
    preds_type: torch.dtype
    target_type: torch.dtype
    ignored: str
    arguments: dict[str, Any]

    @property
    def ignore_index(self) -> int | None:
        """The ignored target; a mark outside is one that the types can hold, as torchmetrics writes it into both."""
        outside = 99 if torch.uint8 in (self.preds_type, self.target_type) else -1
        last = 1 if self.task == "multilabel" else self.number - 1
        return {"none": None, "outside": outside, "first": 0, "last": last}[self.ignored]

    def options(self, names: list[str]) -> dict[str, Any]:
        """What class or function is called with, as far as it has these parameters."""
        number = "num_classes" if self.task == "multiclass" else "num_labels"
        every = {number: self.number, "ignore_index": self.ignore_index, **self.arguments}
        return {name: every[name] for name in names if name in every}

    def batch(self) -> tuple[Tensor, Tensor]:
        """Predictions and targets."""
        return self._classes() if self.task == "multiclass" else self._labels()

    def _marked(self, truth: Tensor) -> Tensor:
        if self.ignored == "outside":
            share = 2.0 if self.kind == "all ignored" else 0.2
            truth = torch.where(torch.rand(truth.shape) < share, self.ignore_index, truth)
        elif self.ignored != "none" and self.kind == "all ignored":
            truth = torch.full_like(truth, self.ignore_index)
        return truth.to(self.target_type)

    def _classes(self) -> tuple[Tensor, Tensor]:
        shape, last = (SAMPLES, *self.shape), self.number - 1
        truth, said = torch.randint(self.number, shape), torch.randint(self.number, shape)
        fewer_truth, fewer_said = truth.clamp(max=max(last - 1, 0)), said.clamp(max=max(last - 1, 0))
        truth, said = {
            "mixed": (truth, said),
            "class without target": (fewer_truth, said),
            "class without prediction": (truth, fewer_said),
            "class absent": (fewer_truth, fewer_said),
            "one class": (torch.zeros_like(truth), torch.zeros_like(said)),
            "one class, missed": (torch.zeros_like(truth), torch.ones_like(said)),
            "right": (truth, truth),
            "all ignored": (truth, said),
        }[self.kind]
        preds = said.to(self.preds_type) if self.reading == "labels" else self._class_scores(said)
        return preds, self._marked(truth)

    def _class_scores(self, said: Tensor) -> Tensor:
        """Scores without ties in any precision, of which the largest belongs to what is said."""
        ranks = torch.rand(SAMPLES, self.number, *self.shape).argsort(1).argsort(1)
        ranks = ranks.scatter(1, said.unsqueeze(1), self.number).double()
        if self.reading == "probabilities":
            return ((ranks + 1) / (ranks + 1).sum(1, keepdim=True)).to(self.preds_type)
        return (3 * ranks - 7).to(self.preds_type)

    def _labels(self) -> tuple[Tensor, Tensor]:
        shape = (SAMPLES, self.number, *self.shape)
        truth, said = torch.randint(2, shape), torch.randint(2, shape)
        none = torch.arange(self.number).view(1, -1, *[1] * len(self.shape)) > 0
        truth, said = {
            "mixed": (truth, said),
            "class without target": (truth * none, said),
            "class without prediction": (truth, said * none),
            "class absent": (truth * none, said * none),
            "one class": (torch.ones_like(truth), torch.ones_like(said)),
            "one class, missed": (torch.ones_like(truth), torch.zeros_like(said)),
            "right": (truth, truth),
            "all ignored": (truth, said),
        }[self.kind]
        preds = said if self.reading == "labels" else self._label_scores(said)
        return preds.to(self.preds_type), self._marked(truth)

    def _label_scores(self, said: Tensor) -> Tensor:
        """Scores clearly on their side of the threshold, where a sigmoid's rounding cannot matter, or right on it."""
        size, cut = 0.05 + 0.95 * torch.rand(said.shape), self.arguments["threshold"]
        if self.reading == "probabilities":
            below = torch.where(size > 0.9, cut, cut * (1 - size))
            return torch.where(said == 1, cut + (1 - cut) * size, below)
        size.view(-1)[0] = 2.0  # outside [0, 1], so that the batch is read in one way
        return math.log(cut / (1 - cut)) + 4 * size * (2 * said - 1)


KINDS = (
    "mixed",
    "class without target",
    "class without prediction",
    "class absent",
    "one class",
    "one class, missed",
    "right",
    "all ignored",
)
IGNORED = ("none", "outside", "first", "last")
READINGS = ("logits", "probabilities", "labels")


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


@pytest.mark.parametrize("name", ALL)
def test_the_class_gives_the_results_of_torchmetrics(name: str) -> None:
    names = [each for each in parameters(getattr(peer_metrics, name)) if (name, each) not in WITHOUT_EFFECT]
    for case in compared(name):
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
    for case in compared(name):
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
    with pytest.raises(DeclarationError, match=r"expected num_classes for average='macro': only 'micro' does without"):
        getattr(metrics, f"Multiclass{name}")(average="macro")


@pytest.mark.parametrize("name", ALL)
def test_two_labels_of_booleans_are_counted_like_integers(name: str) -> None:
    shape = (SAMPLES,) if name in MULTICLASS else (SAMPLES, 2)
    options = {"num_classes" if name in MULTICLASS else "num_labels": 2}
    options |= {"beta": 2.0} if "FBeta" in name else {}
    said, truth = torch.randint(2, shape), torch.randint(2, shape)
    result = getattr(metrics, name)(**options)(said.bool(), truth.bool())
    assert_same(result, getattr(peer_metrics, name)(**options)(said, truth))


# ---- where torchmetrics' number is not the definition


def test_an_ignored_class_is_left_out_of_macro_averages() -> None:
    """Its samples are gone, so its recall is 0/0; torchmetrics averages in a 0 as soon as it is predicted.

    Two classes, class 0 ignored. Of the two samples of class 1 that remain one is found: recall 1/2, which is the
    mean over the one class there is; torchmetrics reports (0 + 1/2) / 2.
    """
    preds, target = torch.tensor([0, 1, 0, 1]), torch.tensor([0, 0, 1, 1])
    assert peer_metrics.MulticlassRecall(2, ignore_index=0)(preds, target) == 0.25
    assert metrics.MulticlassRecall(2, ignore_index=0)(preds, target) == 0.5
    assert functional.multiclass_recall(preds, target, 2, ignore_index=0) == 0.5


@pytest.mark.parametrize("average", ["macro", "weighted"])
@pytest.mark.parametrize("seed", range(5))
def test_several_ignored_classes_are_left_out(average: str, seed: int) -> None:
    """scikit-learn, given the samples that remain and the classes that are not ignored."""
    torch.manual_seed(seed)
    preds, target = torch.randint(6, (200,)), torch.randint(6, (200,))
    kept = (target != 1) & (target != 4)
    expected = reference.recall_score(target[kept], preds[kept], labels=[0, 2, 3, 5], average=average)
    metric = metrics.MulticlassRecall(6, average=average, ignore_index=(1, 4, -1))
    assert metric(preds, target).item() == pytest.approx(expected)


def test_the_labels_of_a_sample_are_weighted_by_the_support_of_that_sample() -> None:
    """Two samples of two labels and four places each.

    First sample: label 0 has 3 positives, all found; label 1 has 1, missed. By support 3 and 1 of 4 its true positives
    average (3·3 + 1·0) / 4 = 9/4. torchmetrics divides by the positives of both samples, 4 + 4, and reports 9/8.
    """
    target = torch.tensor([[[1, 1, 1, 0], [1, 0, 0, 0]], [[1, 1, 0, 0], [1, 1, 0, 0]]])
    preds = torch.tensor([[[1, 1, 1, 0], [0, 0, 0, 0]], [[1, 0, 0, 0], [1, 1, 0, 0]]])
    options = {"num_labels": 2, "average": "weighted", "multidim_average": "samplewise"}
    theirs = peer_metrics.MultilabelStatScores(**options)(preds, target)
    ours = metrics.MultilabelStatScores(**options)(preds, target)
    assert theirs[0, 0].item() == pytest.approx(9 / 8)
    assert ours[0, 0].item() == pytest.approx(9 / 4)
    alone = [metrics.MultilabelStatScores(2, average="weighted")(p.T, t.T) for p, t in zip(preds, target, strict=True)]
    assert_same(ours, torch.stack(alone))
    assert_same(functional.multilabel_stat_scores(preds, target, **options), ours)


@pytest.mark.parametrize("seed", range(5))
def test_weighted_stat_scores_of_samples_are_those_of_each_sample(seed: int) -> None:
    """torchmetrics is right where one sample is all there is."""
    torch.manual_seed(seed)
    preds, target = torch.rand(6, 3, 7), torch.randint(2, (6, 3, 7))
    ours = metrics.MultilabelStatScores(3, average="weighted", multidim_average="samplewise")(preds, target)
    single = peer_metrics.MultilabelStatScores(3, average="weighted")
    assert_same(ours, torch.stack([single(p.T, t.T) for p, t in zip(preds, target, strict=True)]))


def test_an_ignored_value_is_no_label_number() -> None:
    """The function of torchmetrics leaves label 0 out of the average when targets of 0 are ignored; its class does not.

    Without the targets of 0 label 0 has one of one found, label 1 one of two: (1 + 1/2) / 2 = 3/4.
    """
    preds, target = torch.tensor([[1, 1], [1, 0], [0, 1]]), torch.tensor([[1, 1], [0, 1], [0, 0]])
    assert peer_functions.multilabel_jaccard_index(preds, target, 2, ignore_index=0) == 0.5
    assert peer_metrics.MultilabelJaccardIndex(2, ignore_index=0)(preds, target) == 0.75
    assert functional.multilabel_jaccard_index(preds, target, 2, ignore_index=0) == 0.75
    assert metrics.MultilabelJaccardIndex(2, ignore_index=0)(preds, target) == 0.75


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("ignore_index", [0, 1])
def test_jaccard_of_labels_with_an_ignored_value_is_that_of_the_class(average: str, ignore_index: int) -> None:
    preds, target = torch.rand(40, 3), torch.randint(2, (40, 3))
    options = {"num_labels": 3, "average": average, "ignore_index": ignore_index}
    expected = peer_metrics.MultilabelJaccardIndex(**options)(preds, target)
    assert_same(metrics.MultilabelJaccardIndex(**options)(preds, target), expected)
    assert_same(functional.multilabel_jaccard_index(preds, target, **options), expected)


def test_top_zero_is_refused() -> None:
    """No target is among the none largest scores; torchmetrics reports 1/3 for predictions that are all right."""
    preds, target = torch.eye(3), torch.tensor([0, 1, 2])
    assert peer_metrics.MulticlassAccuracy(3, top_k=0)(preds, target).item() == pytest.approx(1 / 3)
    for top_k in (0, -1, 1.5, True):
        with pytest.raises(DeclarationError, match="expected top_k to be a whole number of at least 1, got"):
            metrics.MulticlassAccuracy(3, top_k=top_k)  # type: ignore[arg-type]
    with pytest.raises(DeclarationError, match="expected top_k of at most num_classes=3, got 4"):
        metrics.MulticlassAccuracy(3, top_k=4)


def test_a_label_that_is_no_class_is_refused() -> None:
    """Of three classes, torchmetrics counts label 7 as one more wrong prediction, or as another class."""
    preds, target = torch.tensor([7, 1, 2]), torch.tensor([0, 1, 2])
    assert peer_metrics.MulticlassAccuracy(3, average="micro")(preds, target).item() == pytest.approx(2 / 3)
    metric = metrics.MulticlassAccuracy(3, average="micro")
    for batch in ((preds, target), (target, preds)):
        with pytest.raises(InputError, match="to be a class from 0 to 2, got 7 at position 0"):
            metric.update(*batch)
    assert metric.update_count == 0


def test_negative_predictive_values_use_their_zero_division() -> None:
    """The class of torchmetrics takes the argument and ignores it; its function does not.

    Nothing is predicted negative for class 0, so its value is 0/0; for class 1 it is 0 of 2.
    """
    preds, target = torch.tensor([0, 0]), torch.tensor([0, 1])
    options = {"num_classes": 2, "average": "none", "zero_division": 1}
    expected = peer_functions.multiclass_negative_predictive_value(preds, target, **options)
    assert expected.tolist() == [1.0, 0.5]
    assert functional.multiclass_negative_predictive_value(preds, target, **options).tolist() == [1.0, 0.5]
    assert metrics.MulticlassNegativePredictiveValue(**options)(preds, target).tolist() == [1.0, 0.5]


# ---- evaluations against scikit-learn


def indicators(number: int) -> dict[str, Callable[..., float]]:
    """The names of a multiclass evaluation, by scikit-learn."""
    rows: dict[str, Callable[..., float]] = {
        "accuracy": reference.accuracy_score,
        "balanced_accuracy": reference.balanced_accuracy_score,
        "mcc": reference.matthews_corrcoef,
        "kappa": reference.cohen_kappa_score,
        "hamming_distance": reference.hamming_loss,
    }
    for name, score in AVERAGED.items():
        for average in ("micro", "macro", "weighted"):
            rows[f"{name}/{average}"] = _averaged(score, average, list(range(number)))
    return rows


AVERAGED = {
    "precision": reference.precision_score,
    "recall": reference.recall_score,
    "f1": reference.f1_score,
    "f2": lambda *args, **options: reference.fbeta_score(*args, beta=2, **options),
    "jaccard": reference.jaccard_score,
}


def _averaged(score: Callable[..., float], average: str, labels: list[int] | None) -> Callable[..., float]:
    given = {"zero_division": 0.0, "average": average} | ({} if labels is None else {"labels": labels})
    return lambda *args, **options: score(*args, **given, **options)


def quietly(score: Callable[..., float], *args: Any, **options: Any) -> float:
    """scikit-learn warns of classes that occur only on one side."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(score(*args, **options))


@pytest.mark.parametrize("number", CLASSES)
@pytest.mark.parametrize("ignored", IGNORED)
@pytest.mark.parametrize("kind", KINDS[:4])
def test_a_multiclass_evaluation_is_scikit_learn(number: int, ignored: str, kind: str) -> None:
    """Every second combination is weighted: each number, ignored index and kind with weights and without."""
    weighted = (CLASSES.index(number) + IGNORED.index(ignored) + KINDS.index(kind)) % 2 == 1
    expected = indicators(number)
    case = Case("multiclass", "logits", number, kind, (5,), torch.float32, torch.int64, ignored, {})
    evaluation = MulticlassEvaluation(
        "logits",
        number,
        statistics=list(expected),
        ignore_index=case.ignore_index,
        weighted=weighted,
        zero_division=0.0,
    )
    batches = [case.batch() for _ in range(2)]
    weights = [torch.rand(target.shape) for _, target in batches]
    for batch, weight in zip(batches, weights, strict=True):
        evaluation.update(*batch, *([weight] if weighted else []))
    said = torch.cat([preds.argmax(1).flatten() for preds, _ in batches])
    truth, weight = torch.cat([target.flatten() for _, target in batches]), torch.cat([w.flatten() for w in weights])
    kept = torch.ones_like(truth, dtype=torch.bool) if ignored == "none" else truth != case.ignore_index
    options = {"sample_weight": weight[kept].double().numpy()} if weighted else {}
    if not kept.any():  # scikit-learn refuses
        assert int(evaluation.counts.support.sum()) == 0
        return
    for name, value in evaluation.compute().items():
        if name.endswith("/macro") and ignored in ("first", "last"):
            base = name.partition("/")[0]
            others = [place for place in range(number) if place != case.ignore_index]
            score = _averaged(AVERAGED[base], "macro", others)
        else:
            score = expected[name]
        truth_and_said = truth[kept].numpy(), said[kept].numpy()
        number_there = quietly(score, *truth_and_said, **options)
        # scikit-learn's kappa and Matthews have their own value for 0/0.
        if name in ("mcc", "kappa") and len(np.unique(truth_and_said)) < 2:
            continue
        assert value.item() == pytest.approx(number_there, abs=1e-6), name


@pytest.mark.parametrize("weights", ["linear", "quadratic", None])
@pytest.mark.parametrize("number", CLASSES)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_kappa_of_ordered_classes_is_scikit_learn(weights: str | None, number: int, weighted: bool) -> None:
    preds, target, weight = torch.randint(number, (80,)), torch.randint(number, (80,)), torch.rand(80)
    metric = metrics.MulticlassCohenKappa(number, weights=weights, weighted=weighted)
    metric.update(preds, target, *([weight] if weighted else []))
    options = {"sample_weight": weight.double().numpy()} if weighted else {}
    expected = reference.cohen_kappa_score(target, preds, weights=weights, labels=range(number), **options)
    assert metric.compute().item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("number", [3, 7])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("ignore_index", [None, -1, 1])
def test_top_accuracies_are_scikit_learn(number: int, weighted: bool, ignore_index: int | None) -> None:
    scores, target, weight = torch.randn(60, number), torch.randint(number, (60,)), torch.rand(60)
    if ignore_index == -1:
        target[::5] = -1
    kept = torch.ones_like(target, dtype=torch.bool) if ignore_index is None else target != ignore_index
    names = {f"top_{k}_accuracy": k for k in range(1, number)}
    evaluation = MulticlassEvaluation(
        "logits", number, statistics=["accuracy", *names], weighted=weighted, ignore_index=ignore_index
    )
    evaluation.update(scores, target, *([weight] if weighted else []))
    values = evaluation.compute()
    options = {"sample_weight": weight[kept].double().numpy()} if weighted else {}
    for name, k in names.items():
        arguments = target[kept].numpy(), scores[kept].numpy()
        expected = reference.top_k_accuracy_score(*arguments, k=k, labels=range(number), **options)
        assert values[name].item() == pytest.approx(expected, abs=1e-6)
    assert values["top_1_accuracy"] == values["accuracy"]


@pytest.mark.parametrize("seed", range(3))
def test_per_class_numbers_are_scikit_learn(seed: int) -> None:
    torch.manual_seed(seed)
    preds, target = torch.randint(4, (70,)), torch.randint(4, (70,))
    names = ["precision/macro", "recall/macro", "f1/macro", "jaccard/macro"]
    evaluation = MulticlassEvaluation("labels", 4, list("abcd"), per_class=True, statistics=names)
    evaluation.update(preds, target)
    values = evaluation.compute()
    for base in ("precision", "recall", "f1", "jaccard"):
        expected = AVERAGED[base](target, preds, average=None)
        assert [values[f"{base}/{name}"].item() for name in "abcd"] == pytest.approx(list(expected))
    rest = [reference.accuracy_score(target == place, preds == place) for place in range(4)]
    assert [values[f"one_vs_rest_accuracy/{name}"].item() for name in "abcd"] == pytest.approx(rest)


OVER_SAMPLES = ("micro", "macro", "weighted", "samples")


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("kind", ["mixed", "class without target", "class without prediction", "class absent"])
@pytest.mark.parametrize("reading", READINGS)
def test_a_multilabel_evaluation_is_scikit_learn(weighted: bool, kind: str, reading: str) -> None:
    expected: dict[str, Callable[..., float]] = {
        f"{name}/{average}": _averaged(score, average, None)
        for name, score in AVERAGED.items()
        for average in OVER_SAMPLES
    }
    expected["exact_match"] = reference.accuracy_score
    expected["hamming_distance"] = reference.hamming_loss
    expected["hamming_accuracy"] = lambda *args, **options: 1 - reference.hamming_loss(*args, **options)
    kinds = torch.int64 if reading == "labels" else torch.float32
    case = Case("multilabel", reading, 4, kind, (), kinds, torch.int64, "none", {"threshold": 0.2})
    evaluation = MultilabelEvaluation(
        reading, 4, threshold=0.2, statistics=list(expected), weighted=weighted, zero_division=0.0
    )
    batches = [case.batch() for _ in range(3)]
    weights = [torch.rand(len(target)) for _, target in batches]
    for batch, weight in zip(batches, weights, strict=True):
        evaluation.update(*batch, *([weight] if weighted else []))
    cut = {"labels": 0.5, "probabilities": 0.2, "logits": math.log(0.2 / 0.8)}[reading]
    said, truth = torch.cat([preds > cut for preds, _ in batches]).long(), torch.cat([target for _, target in batches])
    options = {"sample_weight": torch.cat(weights).double().numpy()} if weighted else {}
    for name, value in evaluation.compute().items():
        there = quietly(expected[name], truth.numpy(), said.numpy(), **options)
        assert value.item() == pytest.approx(there, abs=1e-6), name


@pytest.mark.parametrize("seed", range(3))
def test_per_label_numbers_at_per_label_thresholds_are_scikit_learn(seed: int) -> None:
    torch.manual_seed(seed)
    scores, target, cuts = torch.rand(50, 3), torch.randint(2, (50, 3)), (0.2, 0.5, 0.8)
    evaluation = MultilabelEvaluation("probabilities", 3, list("xyz"), cuts, per_label=True, statistics=["f1/macro"])
    evaluation.update(scores, target)
    values = evaluation.compute()
    for place, (name, cut) in enumerate(zip("xyz", cuts, strict=True)):
        said, truth = scores[:, place] > cut, target[:, place]
        assert values[f"f1/{name}"].item() == pytest.approx(reference.f1_score(truth, said))
        assert values[f"accuracy/{name}"].item() == pytest.approx(reference.accuracy_score(truth, said))
    metric = metrics.MultilabelF1Score(3, threshold=cuts, average="none", inputs="probabilities")
    assert_same(metric(scores, target), torch.stack([values[f"f1/{name}"] for name in "xyz"]))


@pytest.mark.parametrize("zero_division", [math.nan, 0.0, 1.0])
def test_zero_division_of_averages_and_samples_is_scikit_learn(zero_division: float) -> None:
    """With NaN, classes, labels and samples without a value are left out of the average, as in scikit-learn."""
    scores = ("precision", "recall", "f1")
    names = [f"{name}/{average}" for name in scores for average in OVER_SAMPLES]
    truth, said = torch.randint(2, (12, 4)), torch.randint(2, (12, 4))
    truth[:4] = 0
    said[2:6] = 0
    truth[:, 3] = said[:, 3] = 0
    evaluation = MultilabelEvaluation("labels", 4, statistics=names, zero_division=zero_division)
    evaluation.update(said, truth)
    for name, value in evaluation.compute().items():
        base, _, average = name.partition("/")
        given = {"average": average, "zero_division": zero_division}
        there = quietly(AVERAGED[base], truth.numpy(), said.numpy(), **given)
        assert value.item() == pytest.approx(there, abs=1e-6, nan_ok=True), name


@pytest.mark.parametrize("zero_division", [math.nan, 0.0, 1.0])
def test_zero_division_of_class_averages_is_scikit_learn(zero_division: float) -> None:
    """Class 3 is never the target and class 4 never predicted; class 5 is neither."""
    names = [f"{name}/{average}" for name in ("precision", "recall", "f1") for average in ("micro", "macro")]
    said, truth = torch.randint(4, (40,)), torch.tensor([0, 1, 2, 4]).repeat(10)
    evaluation = MulticlassEvaluation("labels", 6, statistics=names, zero_division=zero_division)
    evaluation.update(said, truth)
    for name, value in evaluation.compute().items():
        base, _, average = name.partition("/")
        given = {"average": average, "zero_division": zero_division, "labels": range(6)}
        there = quietly(AVERAGED[base], truth.numpy(), said.numpy(), **given)
        assert value.item() == pytest.approx(there, abs=1e-6), name
