"""Laws of counting many classes and labels: counts by their definition, order, merging, renaming, weights, bounds.

Beside them what an evaluation promises about names, refusals, copies, explanations, and the facades for all tasks.
"""

from __future__ import annotations

import inspect
import math
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from many_batches import (
    METRICS,
    SAMPLEWISE,
    Batch,
    assert_same_totals,
    batch_for,
    close,
    counted,
    joined,
    made,
    of_classes,
    of_labels,
    plain,
    same,
)
from torch import Tensor

from lightning_evalkit import MulticlassEvaluation, metrics
from lightning_evalkit.counts import MulticlassCounter, MultilabelCounter
from lightning_evalkit.errors import InputError
from lightning_evalkit.inputs import Multiclass, Multilabel
from lightning_evalkit.statistics import STATISTICS

pytestmark = pytest.mark.filterwarnings("ignore::lightning_evalkit.errors.UndefinedWarning")

few = settings(max_examples=12, deadline=None)

AVERAGES = ("micro", "macro", "weighted")
ALL_OF_CLASSES = ["accuracy", "balanced_accuracy", "hamming_distance", "mcc", "kappa", "top_2_accuracy"] + [
    f"{'one_vs_rest_accuracy' if name == 'accuracy' else name}/{average}" for name in STATISTICS for average in AVERAGES
]
ALL_OF_LABELS = ["exact_match", "hamming_accuracy", "hamming_distance"] + [
    f"{name}/{average}" for name in STATISTICS for average in (*AVERAGES, "samples")
]


# ---- batches


@st.composite
def numbers(draw: st.DrawFn, shape: tuple[int, ...], values: st.SearchStrategy[float]) -> Tensor:
    size = math.prod(shape)
    return torch.tensor(draw(st.lists(values, min_size=size, max_size=size))).reshape(shape)


@st.composite
def class_batch(draw: st.DrawFn, classes: int, least: int = 1, extra: tuple[int, ...] = ()) -> Batch:
    """Scores without ties, and targets."""
    size = draw(st.integers(least, 9))
    orders = st.permutations(range(classes))
    places = size * math.prod(extra)
    scores = torch.tensor(draw(st.lists(orders, min_size=places, max_size=places)), dtype=torch.float32)
    scores = scores.reshape(size, *extra, classes).movedim(-1, 1)
    return scores, draw(numbers((size, *extra), st.integers(0, classes - 1))).long()


@st.composite
def label_batch(draw: st.DrawFn, labels: int, least: int = 1) -> Batch:
    size = draw(st.integers(least, 9))
    yes_or_no = numbers((size, labels), st.integers(0, 1))
    return draw(yes_or_no).long(), draw(yes_or_no).long()


@cache
def built(task: str, name: str) -> Any:
    """Everything that can be said about three classes or labels; building takes longer than counting."""
    if task == "classes":
        return of_classes(3, per_class=True, statistics=ALL_OF_CLASSES)
    return of_labels(3, per_label=True, statistics=ALL_OF_LABELS)


def full(task: str, name: str = "one") -> Any:
    """One of several such evaluations, with nothing counted."""
    evaluation = built(task, name)
    evaluation.reset()
    return evaluation


# ---- counts are what they are by definition, element by element


def class_tables(task: Multiclass, scores: Tensor, target: Tensor, weight: Tensor) -> dict[str, Any]:
    """Count by a loop over elements."""
    classes = task.classes
    found: dict[str, Any] = {
        "matrix": [[0.0] * classes for _ in range(classes)],
        "hits": dict.fromkeys(task.hits, 0.0),
        "ignored": 0,
    }
    for row, truth, unit in zip(scores.movedim(1, -1).reshape(-1, classes), target.flatten(), weight, strict=True):
        order = sorted(range(classes), key=lambda place, row=row: -row[place].item())
        label = int(truth)
        if unit == 0:
            continue  # as if it were not there
        if label in task.ignored:
            found["ignored"] += unit.item() != 0  # what weighs nothing is not there
            continue
        said = label if label in order[: task.top_k] else order[0]
        found["matrix"][label][said] += unit.item()
        for k in task.hits:
            found["hits"][k] += unit.item() * (label in order[:k])
    return found


@given(st.data())
def test_class_counts_are_the_definition(data: st.DataObject) -> None:
    classes = data.draw(st.integers(2, 4))
    extra = data.draw(st.sampled_from([(), (2,), (2, 1)]))
    scores, target = data.draw(class_batch(classes, extra=extra))
    ignored = data.draw(st.sampled_from([None, 0, -1, (0, -1), (1, classes - 1)]))
    weighted, matrix = data.draw(st.booleans()), data.draw(st.booleans())
    hits = data.draw(st.sampled_from([(), (1,), (1, 2)]))
    task = Multiclass(
        "logits", ignored, weighted, num_classes=classes, top_k=data.draw(st.integers(1, 2)), hits=hits, matrix=matrix
    )
    if -1 in task.ignored:
        target = torch.where(data.draw(numbers(tuple(target.shape), st.booleans())), -1, target)
    weight = data.draw(numbers(tuple(target.shape), st.sampled_from([0.0, 0.25, 1.0, 3.0])))
    counter = MulticlassCounter(task)
    totals = counter.count(scores, target, weight if weighted else None).tensors()
    expected = class_tables(task, scores, target, weight.flatten() if weighted else torch.ones(target.numel()))
    table = torch.tensor(expected["matrix"], dtype=torch.float64)
    counts = counter.counts(totals)
    assert counts.tp.tolist() == table.diagonal().tolist()
    assert counts.fp.tolist() == (table.sum(0) - table.diagonal()).tolist()
    assert counts.fn.tolist() == (table.sum(1) - table.diagonal()).tolist()
    assert counts.total.tolist() == [table.sum().item()] * classes
    assert counter.ledger(totals).ignored == expected["ignored"]
    assert counter.ledger(totals).invalid == 0
    assert {k: counter.hits(totals, k).item() for k in hits} == expected["hits"]
    if matrix:
        assert counter.matrix(totals).tolist() == expected["matrix"]


def label_tables(preds: Tensor, target: Tensor, weight: Tensor, ignored: int | None) -> list[list[float]]:
    """tp, fp, fn, tn of each label by a loop over elements."""
    tables = [[0.0] * 4 for _ in range(preds.shape[1])]
    for said_row, truth_row, units in zip(preds.tolist(), target.tolist(), weight.tolist(), strict=True):
        for table, said, truth, unit in zip(tables, said_row, truth_row, units, strict=True):
            if truth != ignored:
                table[{(1, 1): 0, (1, 0): 1, (0, 1): 2, (0, 0): 3}[said, truth]] += unit
    return tables


def exact_rows(preds: Tensor, target: Tensor, weight: Tensor, ignored: int | None) -> tuple[float, float]:
    """The weight of samples whose labels are right where they are looked at, and of all samples."""
    right = ((preds == target) | (target == ignored if ignored is not None else False)).all(1)
    return weight[right].sum().item(), weight.sum().item()


@given(st.data())
def test_label_counts_are_the_definition(data: st.DataObject) -> None:
    labels = data.draw(st.integers(2, 4))
    preds, target = data.draw(label_batch(labels))
    ignored, weighted = data.draw(st.sampled_from([None, 0, 1, -1])), data.draw(st.booleans())
    if ignored == -1:
        target = torch.where(data.draw(numbers(tuple(target.shape), st.booleans())), -1, target)
    weight = data.draw(numbers((len(target),), st.sampled_from([0.0, 0.25, 1.0, 3.0])))
    counter = MultilabelCounter(
        Multilabel("labels", ignored, weighted, num_labels=labels, sample_sums=("samples", "exact_match"))
    )
    totals = counter.count(preds, target, weight if weighted else None).tensors()
    unit = weight if weighted else torch.ones(len(target))
    cells = torch.stack(counter.counts(totals).cells, -1).tolist()
    assert cells == label_tables(preds, target, unit[:, None].expand(target.shape), ignored)
    exact, looked, _, samples = (
        part.item() for name in ("exact_match", "samples") for part in counter.sample_sums(totals, name)
    )
    # A sample of which every label is ignored counts as matched under torchmetrics' name.
    assert (exact + samples - looked, samples) == exact_rows(preds, target, unit, ignored)
    assert counter.ledger(totals).ignored == (0 if ignored is None else int((target == ignored)[unit != 0].sum()))


@given(st.data())
def test_exact_matches_of_classes_are_the_definition(data: st.DataObject) -> None:
    scores, target = data.draw(class_batch(3, extra=(2,)))
    ignored = data.draw(st.sampled_from([None, 0, -1, (0, 1)]))
    target[0, 0] = -1 if ignored == -1 else target[0, 0]
    weight = data.draw(numbers((len(target),), st.sampled_from([0.0, 0.5, 2.0])))
    said, marks = scores.argmax(1), () if ignored is None else ignored if isinstance(ignored, tuple) else (ignored,)
    left_out = torch.zeros_like(target, dtype=torch.bool)
    for mark in marks:
        left_out |= target == mark
    right = ((said == target) | left_out).all(1)
    whole, part = weight.sum().item(), weight[right].sum().item()
    metric = metrics.MulticlassExactMatch(3, ignore_index=ignored, weighted=True)
    assert metric(scores, target, weight).item() == pytest.approx(part / whole if whole else 0.0)
    each = metrics.MulticlassExactMatch(3, "samplewise", ignored)
    assert each(scores, target).tolist() == right.float().tolist()


# ---- a monoid that does not look at the order


@given(st.data())
def test_batches_of_classes_add_up(data: st.DataObject) -> None:
    first, second = data.draw(class_batch(3)), data.draw(class_batch(3))
    whole, apart = counted(of_classes(3), joined(first, second)), counted(of_classes(3), first, second)
    assert_same_totals(whole, apart)
    one, other = counted(of_classes(3), second), counted(of_classes(3), first)
    one.merge_state(other)
    assert_same_totals(whole, one)
    assert one.tally.update_count == 2
    assert plain(one) == same(plain(whole))
    with_nothing = of_classes(3)
    with_nothing.merge_state(one)
    assert_same_totals(with_nothing, whole)


@given(st.data())
def test_batches_of_labels_add_up(data: st.DataObject) -> None:
    first, second = data.draw(label_batch(3)), data.draw(label_batch(3))
    whole, apart = counted(of_labels(3), joined(first, second)), counted(of_labels(3), first, second)
    assert_same_totals(whole, apart)
    one, other = counted(of_labels(3), second), counted(of_labels(3), first)
    one.merge_state(other)
    assert_same_totals(whole, one)
    assert plain(one) == same(plain(whole))


@given(st.data())
def test_the_order_of_samples_does_not_matter(data: st.DataObject) -> None:
    for build, batch in ((of_classes, data.draw(class_batch(3))), (of_labels, data.draw(label_batch(3)))):
        order = torch.tensor(data.draw(st.permutations(range(len(batch[0])))))
        shuffled = tuple(tensor[order] for tensor in batch)
        assert_same_totals(counted(build(3), batch), counted(build(3), shuffled))


@few
@given(st.data(), st.integers(2, 4))
def test_duplication_changes_no_value(data: st.DataObject, times: int) -> None:
    for task, batch in (("classes", data.draw(class_batch(3))), ("labels", data.draw(label_batch(3)))):
        once, often = counted(full(task, "one"), batch), counted(full(task, "other"), *[batch] * times)
        assert [cell.tolist() for cell in often.counts.cells] == [(times * c).tolist() for c in once.counts.cells]
        assert plain(often) == same(plain(once))


def renumbered(values: dict[str, float], order: list[int]) -> dict[str, float]:
    """The same values when class or label c is called order[c]."""
    parts = {name: name.partition("/") for name in values}
    moved = {name: f"{base}/{order[int(over)]}" for name, (base, _, over) in parts.items() if over.isdigit()}
    assert moved
    return {moved.get(name, name): value for name, value in values.items()}


@few
@given(st.data())
def test_classes_may_be_renumbered(data: st.DataObject) -> None:
    """Per-class values move along, averages and values of the whole table stay."""
    scores, target = data.draw(class_batch(3))
    order = torch.tensor(data.draw(st.permutations(range(3))))
    moved = torch.empty_like(scores)
    moved[:, order] = scores
    before, after = counted(full("classes", "one"), (scores, target)), full("classes", "other")
    after.update(moved, order[target])
    assert plain(after) == same(renumbered(plain(before), order.tolist()))


@few
@given(st.data())
def test_labels_may_be_renumbered(data: st.DataObject) -> None:
    batch, order = data.draw(label_batch(3)), torch.tensor(data.draw(st.permutations(range(3))))
    before, after = counted(full("labels", "one"), batch), full("labels", "other")
    moved = [torch.empty_like(tensor) for tensor in batch]
    for there, here in zip(moved, batch, strict=True):
        there[:, order] = here
    after.update(*moved)
    assert plain(after) == same(renumbered(plain(before), order.tolist()))


# ---- bounds and identities


@given(st.data(), st.integers(2, 5))
def test_exact_match_lies_between_its_bounds(data: st.DataObject, labels: int) -> None:
    """1 - L (1 - H) ≤ exact match ≤ the smallest accuracy of a label, and H is the mean accuracy of the labels."""
    statistics = ["exact_match", "hamming_accuracy"]
    evaluation = counted(of_labels(labels, statistics=statistics, per_label=True), data.draw(label_batch(labels)))
    values = plain(evaluation)
    accuracies = [values[f"accuracy/{label}"] for label in range(labels)]
    exact, hamming = values["exact_match"], values["hamming_accuracy"]
    assert hamming == pytest.approx(sum(accuracies) / labels, abs=1e-6)
    assert 1 - labels * (1 - hamming) - 1e-6 <= exact <= min(accuracies) + 1e-6


def test_both_bounds_of_exact_match_are_reached() -> None:
    target = torch.zeros(4, 2, dtype=torch.int64)
    spread, together = torch.tensor([[1, 0], [0, 1], [0, 0], [0, 0]]), torch.tensor([[1, 1], [0, 0], [0, 0], [0, 0]])
    lower, upper = (plain(counted(of_labels(2, statistics=None), (preds, target))) for preds in (spread, together))
    assert lower["exact_match"] == 1 - 2 * (1 - lower["hamming_accuracy"]) == 0.5
    assert upper["exact_match"] == upper["hamming_accuracy"] == 0.75


@given(st.data(), st.integers(2, 5), st.sampled_from([None, -1]))
def test_micro_averages_are_the_accuracy(data: st.DataObject, classes: int, ignored: int | None) -> None:
    scores, target = data.draw(class_batch(classes))
    target = target.clone()
    target[1:2] = ignored if ignored is not None else target[1:2]
    names = ["accuracy", "precision/micro", "recall/micro", "f1/micro", "top_1_accuracy"]
    values = plain(counted(of_classes(classes, statistics=names, ignore_index=ignored), (scores, target)))
    used = target >= 0
    expected = (scores.argmax(1) == target)[used].double().mean().item()
    assert values == same(dict.fromkeys(names, expected))


@given(st.data(), st.integers(2, 6))
def test_mean_one_vs_rest_accuracy_nears_one(data: st.DataObject, classes: int) -> None:
    """1 - 2 (1 - accuracy) / C."""
    names = ["accuracy", "one_vs_rest_accuracy/macro"]
    evaluation = of_classes(classes, statistics=names, per_class=True)
    values = plain(counted(evaluation, data.draw(class_batch(classes))))
    expected = 1 - 2 * (1 - values["accuracy"]) / classes
    rest = [values[f"one_vs_rest_accuracy/{place}"] for place in range(classes)]
    assert values["one_vs_rest_accuracy/macro"] == pytest.approx(expected, abs=1e-6)
    assert sum(rest) / classes == pytest.approx(expected, abs=1e-6)


@given(st.data(), st.integers(2, 5))
def test_macro_recall_is_balanced_accuracy(data: st.DataObject, classes: int) -> None:
    """By definition when every class occurs; absent classes are left out of both unless 0/0 is given a value."""
    scores, target = data.draw(class_batch(classes))
    names = ["balanced_accuracy", "recall/macro"]
    values = plain(counted(of_classes(classes, statistics=names), (scores, target)))
    right = scores.argmax(1) == target
    recalls = [right[target == place].double().mean().item() for place in target.unique()]
    assert values == same(dict.fromkeys(names, sum(recalls) / len(recalls)))
    zero = plain(counted(of_classes(classes, statistics=names, zero_division=0.0), (scores, target)))
    assert zero == same({"balanced_accuracy": sum(recalls) / len(recalls), "recall/macro": sum(recalls) / classes})


@few
@given(st.data())
def test_values_stay_within_their_bounds(data: st.DataObject) -> None:
    for task, batch in (("classes", data.draw(class_batch(3))), ("labels", data.draw(label_batch(3)))):
        evaluation = counted(full(task), batch)
        for name, value in plain(evaluation).items():
            low, high = evaluation[name].readout.statistic.bounds
            assert math.isnan(value) or low - 1e-6 <= value <= high + 1e-6, name


# ---- weights


WEIGHABLE_ROWS = [name for name in SAMPLEWISE if "ExactMatch" not in name]


def test_the_laws_of_weights_are_for_all_metrics() -> None:
    assert len(METRICS) == 18 + 14 + 13
    tasks = [[name for name in WEIGHABLE_ROWS if name.startswith(task)] for task in ("Binary", "Multicl", "Multil")]
    assert [len(names) for names in tasks] == [14, 9, 9]


def variants(name: str) -> list[dict[str, Any]]:
    arguments = inspect.signature(getattr(metrics, name)).parameters
    chosen: list[dict[str, Any]] = [{}]
    if "average" in arguments:
        chosen = [{"average": average} for average in (*AVERAGES, "none")]
    if "top_k" in arguments:
        chosen.append({"top_k": 2})
    if "weights" in arguments:
        chosen += [{"weights": "linear"}, {"weights": "quadratic"}]
    if "normalize" in arguments:
        chosen += [{"normalize": "true"}]
    return chosen


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("extra", [(), (4,)], ids=["samples", "samples_of_four"])
@pytest.mark.filterwarnings("ignore:.* NaN values found in confusion matrix:UserWarning")
def test_whole_weights_are_repetitions_and_zero_is_removal(name: str, extra: tuple[int, ...]) -> None:
    for options in variants(name):
        weighted, repeated = made(name, weighted=True, **options), made(name, **options)
        for size in (2, 5, 25):
            preds, target = batch_for(name, size, extra)
            weight = torch.randint(4, (size,))
            weight[:2] = torch.tensor([0, 2])
            again = preds.repeat_interleave(weight, 0), target.repeat_interleave(weight, 0)
            close(weighted(preds, target, weight.float()), repeated(*again))
        close(weighted.compute(), repeated.compute())


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.filterwarnings("ignore:.* NaN values found in confusion matrix:UserWarning")
def test_zero_weight_is_removal_also_of_a_class_that_occurs_nowhere_else(name: str) -> None:
    preds, target = batch_for(name, 12)
    target[:] = torch.where(target == 2, 1, target)
    preds.select(-1, -1).zero_()
    more = preds.flip(-1)[:3], torch.full_like(target[:3], 2 if name.startswith("Multiclass") else 1)
    for options in variants(name):
        weighted, removed = made(name, weighted=True, **options), made(name, **options)
        weight = torch.cat((torch.ones(12), torch.zeros(3)))
        close(weighted(*joined((preds, target), more), weight), removed(preds, target))


@pytest.mark.parametrize("name", WEIGHABLE_ROWS)
def test_places_of_a_sample_are_weighted_too(name: str) -> None:
    """Every row by itself, with each of its places repeated."""
    preds, target = batch_for(name, 4, (6,))
    weight = torch.randint(1, 4, (4, 6))
    full = weight if not name.startswith("Multilabel") else weight.unsqueeze(1).expand(target.shape)
    rows = made(name, weighted=True, multidim_average="samplewise")(preds, target, full.float())
    for row, said, truth, units in zip(rows, preds, target, weight, strict=True):
        again = said.repeat_interleave(units, -1).movedim(-1, 0), truth.repeat_interleave(units, -1).movedim(-1, 0)
        close(row, made(name)(*again))


@pytest.mark.parametrize("name", SAMPLEWISE)
def test_the_weight_of_a_sample_does_not_change_its_own_value(name: str) -> None:
    if "StatScores" in name:
        return  # which are the weighted counts
    preds, target = batch_for(name, 5, (6,))
    options = {"multidim_average": "samplewise"}
    weighted, alike = made(name, weighted=True, **options), made(name, **options)
    close(weighted(preds, target, torch.tensor([1.0, 2.0, 0.5, 7.0, 3.0])), alike(preds, target))


@pytest.mark.parametrize("name", [name for name in METRICS if name.startswith("Multilabel") and "Exact" not in name])
def test_labels_may_have_weights_of_their_own(name: str) -> None:
    """Each label of a multilabel problem is a binary one with that label's weights."""
    preds, target, weight = *batch_for(name, 30), torch.randint(4, (30, 3))
    if "MatthewsCorrCoef" in name:  # one table of all labels
        pairs = [tensor.flatten().repeat_interleave(weight.flatten()) for tensor in (preds, target)]
        close(made(name, weighted=True)(preds, target, weight.float()), metrics.BinaryMatthewsCorrCoef()(*pairs))
        return
    average = {} if "Confusion" in name else {"average": "none"}
    per_label = made(name, weighted=True, **average)(preds, target, weight.float())
    binary = name.replace("Multilabel", "Binary")
    for place, value in enumerate(per_label):
        pairs = [tensor[:, place].repeat_interleave(weight[:, place]) for tensor in (preds, target)]
        close(value, made(binary)(*pairs))


def test_samples_are_weighed_as_a_whole_where_samples_are_counted() -> None:
    elementwise = torch.tensor([[1.0, 5.0], [3.0, 9.0]])
    words = r"expected one sample_weight per sample, shape \(2,\)"
    labels = torch.tensor([[0, 1], [1, 1]])
    with pytest.raises(InputError, match=words):
        metrics.MultilabelExactMatch(2, weighted=True)(labels, labels, elementwise)
    with pytest.raises(InputError, match=words):
        counted(of_labels(2, weighted=True), (labels, labels, elementwise))
    with pytest.raises(InputError, match="expected one sample_weight per sample"):
        metrics.MulticlassExactMatch(3, weighted=True)(labels, labels, elementwise)


@given(st.data())
def test_evaluations_weigh_by_repetition(data: st.DataObject) -> None:
    for build, batch in ((of_classes, data.draw(class_batch(3))), (of_labels, data.draw(label_batch(3)))):
        weight = data.draw(numbers((len(batch[0]),), st.integers(0, 3)))
        weight[0] = 1
        again = tuple(tensor.repeat_interleave(weight, 0) for tensor in batch)
        weighted = counted(build(3, weighted=True), (*batch, weight.double()))
        assert plain(weighted) == same(plain(counted(build(3), again)))


@pytest.mark.parametrize("seed", range(20))
def test_rounded_weights_do_not_make_an_undefined_value_defined(seed: int) -> None:
    """Everything is predicted as class 0, so nothing is predicted as not being it: 0/0, whatever the weights."""
    torch.manual_seed(seed)
    said, truth = torch.zeros(9, dtype=torch.int64), torch.tensor([0, 1, 2, 0, 1, 2, 0, 1, 2])
    weight = torch.randint(1, 10, (9,)).double() / 10
    evaluation = MulticlassEvaluation(
        "labels", 3, weighted=True, per_class=True, statistics=["negative_predictive_value/macro", "specificity/macro"]
    )
    values = plain(counted(evaluation, (said, truth, weight)))
    assert math.isnan(values["negative_predictive_value/0"])
    assert values["specificity/0"] == pytest.approx(0.0, abs=1e-12)
    assert min(evaluation.counts.tn.tolist()) >= 0
    evaluation.reset()
    evaluation.update(truth, said, weight)  # now class 0 is the only target
    assert math.isnan(plain(evaluation)["specificity/0"])
