"""Arrays, series, data frames, lists and numbers are counted as the tensors of the same numbers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation, functional, metrics
from lightning_evalkit.errors import InputError
from lightning_evalkit.evaluation import Slices
from lightning_evalkit.inputs import arrays
from lightning_evalkit.rescaling import PriorCorrection, TemperatureScaling, VectorScaling

if TYPE_CHECKING:
    from collections.abc import Callable

P = "probabilities"
SCORES, TARGET = torch.tensor([0.1, 0.75, 0.625, 0.25], dtype=torch.float64), torch.tensor([0, 1, 0, 0])
MANY, ONE_OF = torch.eye(4, 3).double().add(0.1).softmax(1), torch.tensor([0, 1, 2, 0])
LABELS, GROUPS, WEIGHT = torch.eye(4, 3).long(), torch.tensor([0, 1, 0, 1]), torch.tensor([1.0, 2.0, 0.5, 3.0]).double()
COUNTED: dict[str, tuple[Callable[[], Any], tuple[Tensor, ...]]] = {
    "binary": (lambda: BinaryEvaluation(P), (SCORES, TARGET)),
    "weighted_curves": (lambda: BinaryEvaluation(P, curves=True, weighted=True), (SCORES, TARGET, WEIGHT)),
    "classes": (lambda: MulticlassEvaluation(P, 3), (MANY, ONE_OF)),
    "labels": (lambda: MultilabelEvaluation(P, 3), (MANY, LABELS)),
    "metric": (metrics.BinaryF1Score, (SCORES, TARGET)),
    "exact_curve": (lambda: metrics.MulticlassAUROC(3, "none", thresholds=None), (MANY, ONE_OF)),
    "loss": (metrics.MeanLoss, (SCORES, WEIGHT)),
    "profile": (lambda: metrics.LossProfile(inputs=P), (SCORES, TARGET, GROUPS)),
    "slices": (lambda: Slices(MulticlassEvaluation(P, 3, weighted=True), 2), (MANY, ONE_OF, GROUPS, WEIGHT)),
}
KINDS: dict[str, Callable[[Tensor], Any]] = {
    "array": Tensor.numpy,
    "read_only": lambda values: np.broadcast_to(values.numpy(), values.shape),
    "reversed": lambda values: values.flip(0).numpy()[::-1],
    "big_endian": lambda values: values.numpy().astype(values.numpy().dtype.newbyteorder(">")),
    "pandas": lambda values: (pd.Series if values.ndim == 1 else pd.DataFrame)(values.numpy()),
    "list": Tensor.tolist,
    "tuple_of_tensors": lambda values: tuple(values),
}
ignored = pytest.mark.filterwarnings("ignore::lightning_evalkit.errors.UndefinedWarning")


def same(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


@ignored
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("counted", COUNTED)
def test_they_are_counted_as_the_tensors_of_the_same_numbers(counted: str, kind: str) -> None:
    build, batch = COUNTED[counted]
    expected, all_of_it, one_of_it = build(), build(), build()
    same(all_of_it(*map(KINDS[kind], batch)), expected(*batch))
    for place, values in enumerate(batch):
        one_of_it.update(*batch[:place], KINDS[kind](values), *batch[place + 1 :])
        expected.update(*batch)
        all_of_it.update(*map(KINDS[kind], batch))
    same(all_of_it.compute(), expected.compute())
    one_of_it.update(*batch)
    same(one_of_it.compute(), expected.compute())
    if counted == "profile":
        assert all_of_it.hardest() == expected.hardest() == one_of_it.hardest()


@pytest.mark.parametrize("kind", KINDS)
def test_functions_take_them_too(kind: str) -> None:
    form = KINDS[kind]
    same(functional.binary_auroc(form(SCORES), TARGET), functional.binary_auroc(SCORES, TARGET))
    same(
        functional.multiclass_accuracy(form(MANY), form(ONE_OF), 3, sample_weight=form(WEIGHT)),
        functional.multiclass_accuracy(MANY, ONE_OF, 3, sample_weight=WEIGHT),
    )


@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_rescaled_too(kind: str) -> None:
    form, logits = KINDS[kind], torch.tensor([4.0, 4.0, 4.0, -4.0, -4.0]).double()
    target = torch.tensor([1, 1, 0, 0, 1])
    for scaling in (TemperatureScaling, VectorScaling):
        expected = scaling().fit(logits, target, torch.ones(5))(logits)
        same(scaling().fit(form(logits), form(target), form(torch.ones(5)))(form(logits)), expected)
    same(PriorCorrection(pos_weight=9.0)(form(logits)), PriorCorrection(pos_weight=9.0)(logits))


def test_single_numbers_are_counted() -> None:
    evaluation = BinaryEvaluation(P, statistics=["accuracy"])
    evaluation.update(0.75, 1)
    evaluation.update(np.float32(0.75), False)
    assert evaluation.compute()["accuracy"] == 0.5


# ---- names in the place of numbers

NAMES = ["cat", "dog", "eel"]


@pytest.mark.parametrize("form", [list, np.array, pd.Series, lambda names: pd.Series(names, dtype="category")])
def test_classes_may_be_called_by_name(form: Callable[[list[str]], Any]) -> None:
    named, numbered = (MulticlassEvaluation("labels", 3, NAMES) for _ in range(2))
    named.update(form(["dog", "cat", "eel"]), form(["dog", "eel", "eel"]))
    numbered.update(torch.tensor([1, 0, 2]), torch.tensor([1, 2, 2]))
    same(named.tally.totals.integers, numbered.tally.totals.integers)
    profile = metrics.LossProfile(class_names=["ham", "spam"])
    profile.update([2.0, -1.0], form(["spam", "ham"]))
    assert profile.hardest()[0].group == 0


def test_groups_may_be_called_by_name() -> None:
    slices = Slices(BinaryEvaluation("labels", statistics=["accuracy"]), 2, ["de", "fr"])
    slices.update([1, 0, 1], [1, 1, 1], groups=pd.Series(["fr", "de", "fr"]))
    assert slices.compute()["accuracy"].tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (["dog", "bird"], "expected every text in target to be one of 'cat', 'dog', 'eel', got 'bird' at position 1"),
        (["dog", None], "got None at position 1"),
        ([["dog"], ["cat", "eel"]], "its rows are of different lengths"),
    ],
)
def test_other_names_are_refused_and_nothing_is_counted(target: Any, words: str) -> None:
    evaluation = MulticlassEvaluation("labels", 3, NAMES)
    with pytest.raises(InputError, match=words):
        evaluation.update([1, 0], target)
    assert not evaluation.tally.update_called


def test_names_of_classes_that_were_never_declared_are_refused() -> None:
    with pytest.raises(InputError, match="got 'cat' at position 0: declare class_names"):
        MulticlassEvaluation("labels", 3).update(["cat"], ["dog"])
    with pytest.raises(InputError, match="expected numbers as preds, got 'cat'"):
        MultilabelEvaluation("labels", 3).update([["cat", "dog", "eel"]], torch.eye(1, 3).long())


@pytest.mark.parametrize("build", [MulticlassEvaluation, MultilabelEvaluation])
def test_columns_in_another_order_are_not_taken_for_other_classes(build: Any) -> None:
    evaluation, columns = build("logits", 3, NAMES), pd.DataFrame(MANY.numpy(), columns=NAMES)
    target = ONE_OF if build is MulticlassEvaluation else LABELS
    with pytest.raises(InputError, match=r"got eel, cat, dog: pass preds\[\['cat', 'dog', 'eel'\]\]"):
        evaluation.update(columns[["eel", "cat", "dog"]], target)
    assert not evaluation.tally.update_called
    evaluation.update(columns, target)
    evaluation.update(pd.DataFrame(MANY.numpy(), columns=["x", "y", "z"]), target)


@pytest.mark.parametrize("form", [lambda values: values.astype(object), lambda values: pd.Series(values, dtype=object)])
def test_numbers_may_be_objects(form: Callable[[Any], Any]) -> None:
    evaluation, expected = (BinaryEvaluation("logits") for _ in range(2))
    evaluation.update(form(SCORES.numpy()), form(TARGET.numpy()))
    expected.update(SCORES, TARGET)
    same(evaluation.tally.totals.integers, expected.tally.totals.integers)
    many, numbered = (MulticlassEvaluation("labels", 3, NAMES) for _ in range(2))
    many.update(form(ONE_OF.numpy()), form(ONE_OF.numpy()))
    numbered.update(ONE_OF, ONE_OF)
    same(many.tally.totals.integers, numbered.tally.totals.integers)


@pytest.mark.parametrize(
    ("evaluation", "preds", "target", "words"),
    [
        (BinaryEvaluation("logits"), ["0.5"], [1], "expected numbers as preds, got '0.5' at position 0."),
        (BinaryEvaluation("logits"), [0.5], ["ham"], "compare with the positive class, as in numpy.asarray(target) =="),
        (MulticlassEvaluation("logits", 3, NAMES), ["cat"], ["cat"], "expected numbers as preds, got 'cat'"),
        (MulticlassEvaluation("labels", 3, NAMES), ["cat", None], [0, 1], "leave out samples whose value is missing"),
        (MulticlassEvaluation("labels", 3, NAMES), [0], pd.Series([pd.NA], dtype="string"), "leave out samples whose"),
        (MulticlassEvaluation("labels", 3, NAMES), [0, 1], np.array(["cat", 1], object), "use names or numbers, not"),
    ],
)
def test_the_remedy_fits_what_is_wrong(evaluation: Any, preds: Any, target: Any, words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        evaluation.update(preds, target)


# ---- tensors pay nothing


def test_tensors_are_never_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("tensors were converted")

    for name in ("as_tensors", "tensor_of"):
        monkeypatch.setattr(arrays, name, never)
    monkeypatch.setattr("lightning_evalkit.state.tally.as_tensors", never)
    for build, batch in COUNTED.values():
        build().update(*batch)


# ---- two scores for one question


def test_one_hot_targets_of_two_classes_are_told_to_count_twice() -> None:
    logits, target = torch.randn(8, 2), torch.arange(8) % 2
    with pytest.warns(UserWarning, match=r"like one-hot targets .* Pass logits\[:, 1\] - logits\[:, 0\] and target"):
        BinaryEvaluation("logits").update(logits, torch.nn.functional.one_hot(target, 2))
    labels = torch.nn.functional.one_hot(target, 2).bool()
    with pytest.warns(UserWarning, match=r"Pass preds\[:, 1\] and target"):
        metrics.BinaryAccuracy(inputs="labels").update(labels, labels)
    BinaryEvaluation("logits").update(logits, torch.ones(8, 2))  # warnings are errors
    BinaryEvaluation("logits").update(logits[:7], torch.nn.functional.one_hot(target[:7], 2))


@pytest.mark.parametrize(
    ("inputs", "instead"), [("logits", "logits[:, 1] - logits[:, 0]"), (P, "preds[:, 1]"), ("labels", "preds[:, 1]")]
)
def test_two_scores_per_sample_are_told_what_to_pass(inputs: Any, instead: str) -> None:
    with pytest.raises(InputError) as said:
        BinaryEvaluation(inputs).update(torch.rand(4, 2), TARGET)
    assert f"pass {instead}, the score of the positive class" in str(said.value)
    assert "micro-averaged precision, recall and F1 are all the accuracy" in str(said.value)


def test_two_classes_explain_that_micro_f1_is_not_the_f1_of_the_positive_class() -> None:
    evaluation, binary = MulticlassEvaluation("labels", 2), BinaryEvaluation("labels")
    batch = torch.tensor([0, 0, 0, 1, 0]), torch.tensor([0, 0, 0, 1, 1])
    evaluation.update(*batch)
    binary.update(*batch)
    said = str(evaluation.explain("accuracy", "f1/micro"))
    assert f"F1 usually means the F1 of the positive class: here {float(binary['f1'].compute()):.6g}" in said
