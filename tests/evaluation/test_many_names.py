"""Evaluations of many classes and labels: nothing counted, many classes, names, and over how many an average is."""

from __future__ import annotations

import math
import pickle
import warnings
from typing import Any

import pytest
import torch
from many_batches import METRICS, SAMPLEWISE, batch_for, close, counted, made, of_classes, of_labels, plain, same

from lightning_evalkit import MulticlassEvaluation, MultilabelEvaluation, metrics
from lightning_evalkit.errors import DeclarationError, InputError, UndefinedWarning
from lightning_evalkit.inputs import Multiclass

pytestmark = pytest.mark.filterwarnings("ignore::lightning_evalkit.errors.UndefinedWarning")


# ---- nothing at all


@pytest.mark.parametrize("name", METRICS)
def test_an_empty_batch_in_between_changes_nothing(name: str) -> None:
    metric, other = made(name), made(name)
    for size in (6, 0, 3):
        batch = batch_for(name, size)
        metric.update(*batch)
        if size:
            other.update(*batch)
    close(metric.compute(), other.compute())


@pytest.mark.parametrize("name", SAMPLEWISE)
def test_an_empty_batch_adds_no_row(name: str) -> None:
    metric, other = (made(name, multidim_average="samplewise") for _ in range(2))
    for size in (3, 0, 2):
        batch = batch_for(name, size, (4,))
        metric.update(*batch)
        if size:
            other.update(*batch)
    assert len(metric.compute()) == 5
    close(metric.compute(), other.compute())


@pytest.mark.parametrize("weighted", [False, True])
def test_an_evaluation_counts_an_empty_batch(weighted: bool) -> None:
    for build, batch in (
        (of_classes, (torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64))),
        (of_labels, (torch.zeros(0, 3, dtype=torch.int64), torch.zeros(0, 3, dtype=torch.int64))),
    ):
        evaluation = counted(build(3, weighted=weighted), (*batch, *([torch.zeros(0)] if weighted else [])))
        assert evaluation.tally.update_count == 1
        assert evaluation.counts.total.tolist() == [0, 0, 0]


@pytest.mark.parametrize("zero_division", [0.0, 1.0])
def test_zero_division_is_the_value_of_everything_that_is_undefined(zero_division: float) -> None:
    """The warning about NaN promises that a number given as zero_division is reported instead."""
    classes = MulticlassEvaluation("labels", 3, ignore_index=0, zero_division=zero_division)
    classes.update(torch.tensor([1, 2]), torch.tensor([0, 0]))
    assert plain(classes) == dict.fromkeys(classes.keys(), zero_division)
    labels = MultilabelEvaluation("labels", 3, ignore_index=0, zero_division=zero_division)
    labels.update(torch.ones(2, 3).long(), torch.zeros(2, 3).long())
    assert plain(labels) == dict.fromkeys(labels.keys(), zero_division)


# ---- many classes


def test_ten_thousand_classes_take_memory_in_proportion() -> None:
    classes = 10_000
    target = torch.randint(classes, (512,))
    preds = torch.where(torch.rand(512) < 0.3, target, torch.randint(classes, (512,)))
    evaluation = MulticlassEvaluation("labels", classes, statistics=["accuracy", "f1/macro", "mcc", "kappa"])
    evaluation.update(preds, target)
    right = preds == target
    assert evaluation.compute()["accuracy"].item() == pytest.approx(right.double().mean().item())
    assert evaluation.counts.tp.tolist() == torch.bincount(target[right], minlength=classes).tolist()
    for metric in (
        evaluation.tally,
        metrics.MulticlassMatthewsCorrCoef(classes),
        metrics.MulticlassCohenKappa(classes),
        metrics.MulticlassF1Score(classes, weighted=True),
        metrics.MulticlassExactMatch(classes),
    ):
        totals = metric.totals
        assert totals.integers.numel() <= 3 * classes + 8
        assert totals.reals is None or totals.reals.numel() <= 3 * classes + 8


def test_scores_of_ten_thousand_classes_are_counted() -> None:
    scores, target = torch.rand(16, 10_000), torch.arange(16)
    scores[:10].scatter_(1, target[:10, None], 2.0)
    evaluation = MulticlassEvaluation("logits", 10_000, statistics=["accuracy", "top_5_accuracy"])
    evaluation.update(scores, target)
    assert plain(evaluation) == same({"accuracy": 0.625, "top_5_accuracy": 0.625})


class Compared(str):
    """A name that counts how often it is compared."""

    __slots__ = ()
    __hash__ = str.__hash__
    times = 0

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return str.__eq__(self, other)


def test_names_of_many_classes_are_not_compared_with_each_other() -> None:
    """Each with each would be a million comparisons, and seconds for ten thousand classes."""
    Compared.times = 0
    names = [Compared(place) for place in range(1000)]
    MulticlassEvaluation("labels", 1000, names, statistics=["accuracy"])
    assert Compared.times < 20_000


@pytest.mark.parametrize("kind", [torch.uint8, torch.int8, torch.int16, torch.int64], ids=str)
@pytest.mark.parametrize("classes", [128, 256, 300])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_more_classes_than_a_narrow_type_holds_are_no_problem(kind: torch.dtype, classes: int, weighted: bool) -> None:
    """Compared in eight bits, every byte would be below 256 and at least 256."""
    labels = torch.tensor([0, 5, 100, min(classes - 1, torch.iinfo(kind).max)]).to(kind)
    metric = metrics.MulticlassStatScores(classes, average="micro", weighted=weighted)
    scores = metric(labels, labels, *([torch.ones(4)] if weighted else []))
    assert scores[[0, 1, 3]].tolist() == [4, 0, 0]


def test_a_large_matrix_is_refused_with_its_size() -> None:
    words = r"at most 4096 classes for a confusion matrix, got 10000 \(0\.7 GiB per copy\)"
    with pytest.raises(DeclarationError, match=words):
        metrics.MulticlassConfusionMatrix(10_000)
    with pytest.raises(DeclarationError, match="got 4097"):
        metrics.MulticlassCohenKappa(4_097, weights="linear")
    assert Multiclass(num_classes=4_096, matrix=True).classes == 4_096
    metrics.MulticlassCohenKappa(4_097)


def test_several_values_are_ignored() -> None:
    preds, target = torch.tensor([0, 1, 2, 1, 0, 2, 1]), torch.tensor([0, 1, 2, 2, -1, 255, 0])
    evaluation = MulticlassEvaluation("labels", 3, ignore_index=(0, -1, 255), statistics=["accuracy", "recall/macro"])
    evaluation.update(preds, target)
    assert plain(evaluation) == same({"accuracy": 2 / 3, "recall/macro": 0.75})
    assert evaluation.tally.counter.ledger(evaluation.tally.totals).ignored == 4
    assert evaluation.averaged_over() == {"recall/macro": 2}
    with pytest.raises(InputError, match=r"or ignore_index=\(0, -1, 255\), got 7"):
        evaluation.update(torch.tensor([1]), torch.tensor([7]))
    with pytest.raises(DeclarationError, match=r"expected ignore_index to be None or one integer, got \(0, 1\)"):
        MultilabelEvaluation("labels", 3, ignore_index=(0, 1))  # type: ignore[arg-type]


# ---- names


STRANGE = ["a.b", "a/b", "with space", "ü.ö/ä", "0", "accuracy"]


def test_classes_may_have_any_name_and_keep_their_order() -> None:
    evaluation = MulticlassEvaluation(
        "labels", 6, STRANGE, per_class=True, statistics=["f0.5/macro", "accuracy"], prefix="val/"
    )
    evaluation.update(torch.tensor([0, 1, 2, 3, 4, 5, 0]), torch.tensor([0, 1, 2, 3, 4, 5, 5]))
    expected = ["f0.5/macro", "accuracy"]
    expected += [f"{base}/{name}" for base in ("f0.5", "recall", "one_vs_rest_accuracy") for name in STRANGE]
    values = evaluation.compute()
    assert list(values) == [f"val/{name}" for name in expected]
    assert list(evaluation.keys(keep_base=True)) == expected
    recalls = [values[f"val/recall/{name}"].item() for name in STRANGE]
    assert recalls == [1, 1, 1, 1, 1, 0.5]
    assert evaluation["recall/accuracy"].compute() == 0.5
    assert pickle.loads(pickle.dumps(evaluation)).compute() == values


def test_labels_may_have_any_name_and_keep_their_order() -> None:
    evaluation = MultilabelEvaluation("labels", 6, STRANGE, per_label=True, statistics=["f1/samples", "f1/macro"])
    target = torch.eye(6).long()
    preds = target.clone()
    preds[1, 0] = 1
    evaluation.update(preds, target)
    expected = ["f1/samples", "f1/macro", *(f"{base}/{name}" for base in ("accuracy", "f1") for name in STRANGE)]
    values = evaluation.compute()
    assert list(values) == expected
    assert [values[f"accuracy/{name}"].item() for name in STRANGE] == pytest.approx([5 / 6, 1, 1, 1, 1, 1])


def test_names_that_look_alike_are_different() -> None:
    """A dot and the character that stands for it in the name of a module."""
    names = ["a.b", "a\N{ONE DOT LEADER}b"]
    evaluation = MulticlassEvaluation("labels", 2, names, per_class=True, statistics=["recall/macro"])
    evaluation.update(torch.tensor([0, 1, 1]), torch.tensor([0, 0, 1]))
    values = evaluation.compute()
    assert [values[f"recall/{name}"].item() for name in names] == [0.5, 1]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["a", "a", "b"], "expected different class names, got 'a' more than once"),
        (["a", "b"], "expected 3 class names, got 2"),
        (["a", "b", 3], "expected class names to be text"),
        (["a", "macro", "b"], "expected class names that are no averages, got 'macro'"),
    ],
)
def test_bad_names_are_refused(names: Any, words: str) -> None:
    with pytest.raises(DeclarationError, match=words):
        MulticlassEvaluation("labels", 3, names)
    with pytest.raises(DeclarationError, match=words.replace("class", "label")):
        MultilabelEvaluation("labels", 3, names)


@pytest.mark.parametrize(
    ("build", "name", "words"),
    [
        (MulticlassEvaluation, "accuracy/macro", "'accuracy/macro' has two meanings: say one_vs_rest_accuracy/macro"),
        (MulticlassEvaluation, "recall", "needs an average: say 'recall/micro' or 'recall/macro'"),
        (MulticlassEvaluation, "recall/mean", "'recall/mean' ends in no average, class or label"),
        (MulticlassEvaluation, "recall/samples", "'recall/samples' ends in no average, class or label"),
        (MulticlassEvaluation, "recal/macro", "there is no statistic 'recal': did you mean 'recall/macro'"),
        (MulticlassEvaluation, "top_4_accuracy", "expected top_k of at most num_classes=3, got 4"),
        (MulticlassEvaluation, "top_0_accuracy", "expected top_k to be a whole number of at least 1, got 0"),
        (MultilabelEvaluation, "accuracy", "'accuracy' has several meanings for many labels: say 'exact_match'"),
        (MultilabelEvaluation, "f1", "needs an average: say 'f1/micro' or .* or 'f1/samples'"),
        (MultilabelEvaluation, "f1/x", "'f1/x' ends in no average, class or label"),
    ],
)
def test_a_name_without_one_meaning_is_refused(build: Any, name: str, words: str) -> None:
    with pytest.raises(DeclarationError, match=words):
        build("logits", 3, statistics=[name])


def test_one_class_or_label_is_not_many() -> None:
    for number in (1, 0, 2.0, True, "3"):
        with pytest.raises(DeclarationError, match="expected num_classes to be a whole number of at least 2, got"):
            MulticlassEvaluation("labels", number)  # type: ignore[arg-type]
        with pytest.raises(DeclarationError, match="expected num_labels to be a whole number of at least 2, got"):
            MultilabelEvaluation("labels", number)  # type: ignore[arg-type]
    for build in (MulticlassEvaluation, MultilabelEvaluation):
        with pytest.raises(DeclarationError, match="an evaluation does not guess: declare inputs='logits'"):
            build("auto", 3)
    with pytest.raises(DeclarationError, match="expected one threshold or one for each of 3 labels, got 2"):
        MultilabelEvaluation("logits", 3, threshold=[0.1, 0.2])


def test_by_default_the_meanings_stand_side_by_side() -> None:
    labels = ["exact_match", "hamming_accuracy", "f1/micro", "f1/macro", "f1/samples", "jaccard/samples"]
    classes = ["accuracy", "balanced_accuracy", "precision/macro", "recall/macro", "f1/macro", "mcc"]
    assert list(MultilabelEvaluation("logits", 3).keys()) == labels
    assert list(MulticlassEvaluation("logits", 3).keys()) == classes
    per_label = [f"{base}/{place}" for base in ("accuracy", "f1") for place in range(3)]
    assert list(MultilabelEvaluation("logits", 3, per_label=True).keys()) == labels + per_label
    bases = ("recall", "precision", "f1", "one_vs_rest_accuracy")
    per_class = [f"{base}/{place}" for base in bases for place in range(3)]
    assert list(MulticlassEvaluation("logits", 3, per_class=True).keys()) == classes + per_class


# ---- averages say over how many they are


def test_averages_say_over_how_many_classes_they_are_defined() -> None:
    """Class 2 is never the target, class 3 never predicted, class 4 neither."""
    names = ["precision/macro", "recall/weighted", "f1/macro", "f1/micro", "specificity/macro", "balanced_accuracy"]
    evaluation = MulticlassEvaluation("labels", 5, statistics=names)
    evaluation.update(torch.tensor([0, 1, 2, 1]), torch.tensor([0, 1, 0, 3]))
    expected = {"precision/macro": 3, "recall/weighted": 3, "f1/macro": 4, "specificity/macro": 5}
    assert evaluation.averaged_over() == expected | {"balanced_accuracy": 3}


def test_averages_say_over_how_many_labels_they_are_defined() -> None:
    evaluation = MultilabelEvaluation("labels", 3, statistics=["precision/macro", "recall/macro", "f1/micro"])
    evaluation.update(torch.tensor([[1, 0, 0], [1, 0, 0]]), torch.tensor([[1, 1, 0], [0, 1, 0]]))
    assert evaluation.averaged_over() == {"precision/macro": 1, "recall/macro": 2}


def test_an_undefined_value_is_nan_with_a_reason_said_once() -> None:
    classes = MulticlassEvaluation("labels", 3, statistics=["mcc", "recall/macro"])
    classes.update(torch.tensor([1, 1]), torch.tensor([1, 1]))
    with pytest.warns(UndefinedWarning, match="mcc is NaN, because it is 0/0: only one class occurs"):
        values = plain(classes)
    assert values == same({"mcc": math.nan, "recall/macro": 1.0})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        classes.compute()
    labels = MultilabelEvaluation("labels", 3, statistics=["f1/samples", "recall/macro"])
    labels.update(torch.zeros(2, 3).long(), torch.zeros(2, 3).long())
    with pytest.warns(UndefinedWarning, match="f1/samples is NaN, because it is 0/0: no sample has a value"):
        labels.compute()


@pytest.mark.parametrize(
    ("kind", "names", "number"),
    [
        (MulticlassEvaluation, "class_names", "num_classes"),
        (MultilabelEvaluation, "label_names", "num_labels"),
    ],
)
def test_names_say_how_many_there_are(kind: Any, names: str, number: str) -> None:
    named = kind("labels", **{names: ["cat", "dog", "fox"]})
    assert getattr(named, number) == 3
    assert named.tally.counter.task == kind("labels", 3, ["cat", "dog", "fox"]).tally.counter.task
    assert getattr(named.replace(prefix="val/"), number) == 3
    with pytest.raises(DeclarationError, match=f"expected {number}, or {names}, whose number it is: got neither"):
        kind("labels")
    with pytest.raises(DeclarationError, match=r"expected 2 .* names, got 3"):
        kind("labels", 2, ["cat", "dog", "fox"])
    with pytest.raises(DeclarationError, match=f"expected {names} to be a list, got 'abc'"):
        kind("labels", **{names: "abc"})
