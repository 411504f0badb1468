"""Laws of counting many classes and labels: counts by their definition, order, merging, renaming, weights, bounds.

Beside them what an evaluation promises about names, refusals, copies, explanations, and the facades for all tasks.
"""

from __future__ import annotations

import inspect
import io
import math
import pickle
import warnings
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torchmetrics import classification as peer_metrics

from lightning_evalkit import MulticlassEvaluation, MultilabelEvaluation, metrics
from lightning_evalkit.counts import MulticlassCounter, MultilabelCounter
from lightning_evalkit.errors import DeclarationError, InputError, UndefinedWarning
from lightning_evalkit.inputs import Multiclass, Multilabel
from lightning_evalkit.metrics.base import CountMetric
from lightning_evalkit.metrics.facade import Facade
from lightning_evalkit.statistics import STATISTICS

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.filterwarnings("ignore::lightning_evalkit.errors.UndefinedWarning")

few = settings(max_examples=12, deadline=None)

AVERAGES = ("micro", "macro", "weighted")
ALL_OF_CLASSES = ["accuracy", "balanced_accuracy", "hamming_distance", "mcc", "kappa", "top_2_accuracy"] + [
    f"{'one_vs_rest_accuracy' if name == 'accuracy' else name}/{average}" for name in STATISTICS for average in AVERAGES
]
ALL_OF_LABELS = ["exact_match", "hamming_accuracy", "hamming_distance"] + [
    f"{name}/{average}" for name in STATISTICS for average in (*AVERAGES, "samples")
]
# Laws of the counts make do with one entry of every kind.
SOME_OF_CLASSES = ["accuracy", "balanced_accuracy", "mcc", "kappa", "top_2_accuracy", "f1/micro", "f2/macro"]
SOME_OF_CLASSES += ["specificity/weighted", "negative_predictive_value/macro"]
SOME_OF_LABELS = ["exact_match", "hamming_accuracy", "f1/micro", "f2/macro", "precision/weighted", "jaccard/samples"]


# ---- batches

Batch = tuple[Tensor, ...]


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


def joined(*batches: Batch) -> Batch:
    return tuple(torch.cat(parts) for parts in zip(*batches, strict=True))


def of_classes(classes: int, **options: Any) -> MulticlassEvaluation:
    return MulticlassEvaluation("logits", classes, **({"statistics": SOME_OF_CLASSES} | options))


def of_labels(labels: int, **options: Any) -> MultilabelEvaluation:
    return MultilabelEvaluation("labels", labels, **({"statistics": SOME_OF_LABELS} | options))


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


def counted(evaluation: Any, *batches: Batch) -> Any:
    for batch in batches:
        evaluation.update(*batch)
    return evaluation


def plain(evaluation: Any) -> dict[str, float]:
    return {name: value.item() for name, value in evaluation.compute().items()}


def same(values: dict[str, float]) -> Any:
    """Equal to float32, in which values are reported."""
    return pytest.approx(values, rel=1e-5, abs=1e-6, nan_ok=True)


def assert_same_totals(one: Any, other: Any) -> None:
    """The same state, but for the number of updates, which is last; sums of reals to rounding."""
    ours, theirs = one.tally.totals, other.tally.totals
    assert ours.integers[:-1].tolist() == theirs.integers[:-1].tolist()
    assert (ours.reals is None) == (theirs.reals is None)
    if ours.reals is not None:
        torch.testing.assert_close(ours.reals, theirs.reals, rtol=1e-12, atol=1e-12)


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
    totals = counter.count(scores, target, weight if weighted else None)
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
    totals = counter.count(preds, target, weight if weighted else None)
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


def is_metric(name: str) -> bool:
    kind = getattr(metrics, name)
    return isinstance(kind, type) and issubclass(kind, CountMetric)


METRICS = [name for name in metrics.__all__ if is_metric(name)]
SAMPLEWISE = [name for name in METRICS if "multidim_average" in inspect.signature(getattr(metrics, name)).parameters]
WEIGHABLE_ROWS = [name for name in SAMPLEWISE if "ExactMatch" not in name]


def made(name: str, **options: Any) -> Any:
    number = {"Multiclass": {"num_classes": 3}, "Multilabel": {"num_labels": 3}}.get(name[:10], {})
    return getattr(metrics, name)(**number, **({"beta": 2.0} if "FBeta" in name else {}), **options)


def batch_for(name: str, size: int, extra: tuple[int, ...] = ()) -> Batch:
    """Scores and targets for a metric with three classes or labels."""
    if name.startswith("Binary"):
        return torch.rand(size, *extra), torch.randint(2, (size, *extra))
    if name.startswith("Multilabel"):
        return torch.rand(size, 3, *extra), torch.randint(2, (size, 3, *extra))
    return torch.rand(size, 3, *extra), torch.randint(3, (size, *extra))


def close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6, equal_nan=True, check_dtype=False)


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


# ---- refusals

LABELLED = torch.tensor([0, 1, 2, 1])
SCORED = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.3, 0.4, 0.3]])
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
    "other samples": ("logits", (SCORED, LABELLED[:3]), r"beside targets \(N, ...\), got torch.float32 \(4, 3\) and"),
    "other samples of labels": ("labels", (LABELLED, LABELLED[:3]), r"expected integer labels \(N, ...\)"),
    "other places": ("logits", (torch.rand(4, 3, 2), torch.zeros(4, 5).long()), r"scores \(N, 3, ...\) beside targets"),
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


YES = torch.tensor([[1, 0, 1], [0, 0, 1], [1, 1, 1], [0, 1, 0]])
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


# ---- a state like any other

KEPT: dict[str, tuple[Callable[[], Any], Callable[[], Batch]]] = {
    "classes": (lambda: of_classes(3, per_class=True), lambda: (torch.rand(8, 3), torch.randint(3, (8,)))),
    "weighted_classes": (
        lambda: of_classes(3, weighted=True),
        lambda: (torch.rand(8, 3), torch.randint(3, (8,)), torch.rand(8)),
    ),
    "labels": (
        lambda: of_labels(3, per_label=True),
        lambda: (torch.randint(2, (8, 3)), torch.randint(2, (8, 3))),
    ),
    "weighted_labels": (
        lambda: of_labels(3, weighted=True),
        lambda: (torch.randint(2, (8, 3)), torch.randint(2, (8, 3)), torch.rand(8)),
    ),
}
kept = pytest.mark.parametrize(("build", "batch"), KEPT.values(), ids=KEPT)


@kept
def test_forward_gives_the_batch_and_keeps_all(build: Callable[[], Any], batch: Callable[[], Batch]) -> None:
    batches, evaluation = [batch() for _ in range(3)], build()
    for each in batches:
        assert {name: value.item() for name, value in evaluation(*each).items()} == same(plain(counted(build(), each)))
    assert plain(evaluation) == same(plain(counted(build(), *batches)))
    assert evaluation.tally.update_count == 3


@kept
def test_copies_go_on_by_themselves(build: Callable[[], Any], batch: Callable[[], Batch]) -> None:
    first, second = batch(), batch()
    evaluation = counted(build(), first)
    for duplicate in (evaluation.clone(), pickle.loads(pickle.dumps(evaluation))):
        assert plain(duplicate) == same(plain(evaluation))
        duplicate.update(*second)
        assert plain(duplicate) == same(plain(counted(build(), first, second)))
    assert evaluation.tally.update_count == 1
    renamed = evaluation.clone(prefix="test/")
    assert {name.removeprefix("test/"): value for name, value in plain(renamed).items()} == same(plain(evaluation))


@kept
def test_a_saved_state_goes_on(build: Callable[[], Any], batch: Callable[[], Batch]) -> None:
    first, second = batch(), batch()
    evaluation = counted(build(), first)
    assert not evaluation.state_dict()
    evaluation.persistent(True)
    file = io.BytesIO()
    torch.save(evaluation.state_dict(), file)
    file.seek(0)
    restored = build()
    restored.load_state_dict(torch.load(file, weights_only=True))
    assert_same_totals(restored, evaluation)
    restored.update(*second)
    assert plain(restored) == same(plain(counted(build(), first, second)))
    evaluation.reset()
    assert [total.any().item() for total in evaluation.tally.totals if total is not None].count(True) == 0


def test_states_of_other_declarations_are_refused() -> None:
    classes = MulticlassEvaluation("labels", 3)
    others = [
        MulticlassEvaluation("labels", 4),
        MulticlassEvaluation("logits", 3),
        MulticlassEvaluation("labels", 3, ignore_index=(0, 1)),
        MultilabelEvaluation("labels", 3),
    ]
    for other in others:
        with pytest.raises(InputError, match="only counts of one declaration can be merged"):
            classes.merge_state(other)
        other.persistent(True)
        with pytest.raises(RuntimeError, match="was counted under another declaration"):
            classes.load_state_dict(other.state_dict())
    labels = MultilabelEvaluation("logits", 3, threshold=[0.1, 0.2, 0.3])
    with pytest.raises(InputError, match="only counts of one declaration can be merged"):
        labels.merge_state(MultilabelEvaluation("logits", 3, threshold=[0.1, 0.2, 0.4]))


@pytest.mark.parametrize("name", [name for name in METRICS if name.startswith("Multi")])
def test_single_metrics_are_copied_merged_and_saved(name: str) -> None:
    first, second = batch_for(name, 9), batch_for(name, 4)
    metric, other, whole = made(name), made(name), made(name)
    metric.update(*first)
    other.update(*second)
    whole.update(*joined(first, second))
    duplicate, loaded = pickle.loads(pickle.dumps(metric)), made(name)
    metric.persistent(True)
    loaded.load_state_dict(metric.state_dict())
    for each in (metric.clone(), duplicate, loaded):
        each.merge_state(other)
        close(each.compute(), whole.compute())
    close(metric.compute(), made(name)(*first))


# ---- explanations


def test_micro_averages_are_explained_as_the_accuracy() -> None:
    evaluation = counted(MulticlassEvaluation("labels", 3), (torch.tensor([0, 1, 2, 1]), torch.tensor([0, 1, 2, 2])))
    for second in ("f1/micro", "precision/micro", "recall/micro"):
        finding = evaluation.explain("accuracy", second)
        assert finding.code == "micro-is-accuracy"
        assert finding.headline == f"accuracy and {second} are equal: both are 0.75."
        assert "ΣTP / N = 3 / 4" in finding.text()
    assert finding.evidence["samples"] == 4
    assert finding.evidence["correct"] == 3
    assert evaluation.explain("f1/micro", "recall/micro").code == "micro-is-accuracy"


def test_one_vs_rest_accuracy_is_explained_as_inflated() -> None:
    target = torch.arange(10)
    evaluation = counted(MulticlassEvaluation("labels", 10), (torch.where(target < 5, target, 0), target))
    finding = evaluation.explain("accuracy", "one_vs_rest_accuracy/macro")
    assert finding.code == "one-vs-rest-inflates"
    assert finding.headline == "accuracy and one_vs_rest_accuracy/macro differ by 0.4: 0.5 and 0.9."
    assert "1 − 2·0.5/10 = 0.9" in finding.reasons[0]


def test_an_ignored_class_does_not_make_an_explanation_wrong() -> None:
    """The average is over the two classes that are left, so the identity for three must not be printed as its value."""
    evaluation = MulticlassEvaluation("labels", 3, ignore_index=0)
    evaluation.update(torch.tensor([0, 1, 2, 1, 2, 0]), torch.tensor([0, 1, 2, 2, 1, 1]))
    finding = evaluation.explain("accuracy", "one_vs_rest_accuracy/macro")
    assert finding.headline.endswith("0.4 and 0.5.")
    assert finding.code != "one-vs-rest-inflates" or "= 0.5." in finding.reasons[0]


def test_weighted_counts_are_explained_with_their_own_numbers() -> None:
    evaluation = MulticlassEvaluation("labels", 3, weighted=True)
    evaluation.update(torch.tensor([0, 1, 2, 1]), torch.tensor([0, 1, 2, 2]), torch.full((4,), 0.5))
    finding = evaluation.explain()
    assert (finding.evidence["correct"], finding.evidence["samples"]) == (1.5, 2.0)
    inflated = evaluation.explain("accuracy", "one_vs_rest_accuracy/macro")
    assert f"= {1 - 2 * 0.25 / 3:.6g}." in inflated.reasons[0]


def test_balanced_accuracy_is_explained_as_macro_recall() -> None:
    evaluation = counted(MulticlassEvaluation("labels", 4), (torch.tensor([0, 1, 3, 1]), torch.tensor([0, 1, 2, 2])))
    finding = evaluation.explain("balanced_accuracy", "recall/macro")
    assert finding.code == "balanced-accuracy-is-macro-recall"
    assert "here 3 of 4" in finding.reasons[0]
    assert finding.evidence["values"]["balanced_accuracy"] == pytest.approx(2 / 3)


def test_exact_match_and_hamming_are_explained_by_their_bounds() -> None:
    evaluation = MultilabelEvaluation("labels", 3, ["x", "y", "z"])
    evaluation.update(torch.tensor([[0, 1, 1], [1, 0, 0]]), torch.tensor([[0, 1, 0], [1, 1, 0]]))
    finding = evaluation.explain()
    assert finding.code == "exact-match-and-hamming"
    assert finding.headline == "exact_match and hamming_accuracy differ by 0.666667: 0 and 0.666667."
    assert "= 0 ≤ exact_match ≤ 0.5, the accuracy of the worst label (y)" in finding.reasons[1]
    assert finding.evidence["accuracy"] == {"x": 1.0, "y": 0.5, "z": 0.5}
    assert finding.table is not None
    assert finding.table.rows == (("x", "1"), ("y", "0.5"), ("z", "0.5"))
    assert evaluation.explain("f1/micro", "f1/macro").code == "two-means"


def test_ignored_labels_do_not_make_an_explanation_wrong() -> None:
    """Sample 1 is looked at for label y alone, which is wrong, and sample 2 for label x, which is right.

    So exact match is 1/2 and y has accuracy 0: the accuracy of the worst label is no bound where labels are left out.
    """
    evaluation = MultilabelEvaluation("labels", 2, ["x", "y"], ignore_index=-1)
    evaluation.update(torch.tensor([[0, 1], [1, 0]]), torch.tensor([[-1, 0], [1, -1]]))
    finding = evaluation.explain()
    assert finding.headline.endswith("are equal: both are 0.5.")
    assert not any("≤ exact_match ≤ 0, the accuracy of the worst label (y)" in reason for reason in finding.reasons)


def test_a_pair_without_identity_or_value_says_so() -> None:
    evaluation = counted(MulticlassEvaluation("labels", 3), (torch.tensor([1, 1]), torch.tensor([1, 1])))
    assert evaluation.explain("accuracy", "specificity/macro").code == "no-identity"
    undefined = evaluation.explain("accuracy", "mcc")
    assert undefined.code == "undefined"
    assert "cannot be compared" in undefined.headline
    with pytest.raises(InputError, match="expected two different numbers, got 'accuracy' twice"):
        evaluation.explain("accuracy", "accuracy")
    with pytest.raises(DeclarationError, match="there is no statistic"):
        evaluation.explain("accuracy", "nonsense/macro")


def test_what_was_not_counted_cannot_be_explained() -> None:
    scores = counted(MulticlassEvaluation("logits", 3), (SCORED, LABELLED))
    with pytest.raises(DeclarationError, match="top_2_accuracy"):
        scores.explain("accuracy", "top_2_accuracy")
    labels = counted(MultilabelEvaluation("labels", 3), (YES, YES))
    with pytest.raises(DeclarationError, match="there is no entry 'recall/samples'"):
        labels.explain("exact_match", "recall/samples")


# ---- facades

FACADES = [
    name
    for name in metrics.__all__
    if Facade in getattr(metrics, name).__mro__
    if issubclass(getattr(metrics, name).tasks["multiclass"], CountMetric)  # those of scores have a file of their own
]
TASKS = ("binary", "multiclass", "multilabel")


def tasks_of(name: str) -> tuple[str, ...]:
    return {"CohenKappa": TASKS[:2], "ExactMatch": TASKS[1:]}.get(name, TASKS)


def test_every_family_has_a_facade() -> None:
    families = {name.removeprefix("Multiclass") for name in METRICS if name.startswith("Multiclass")}
    assert set(FACADES) == families


@pytest.mark.parametrize("name", FACADES)
def test_a_facade_makes_the_metric_of_the_task_with_the_defaults_of_torchmetrics(name: str) -> None:
    for task in tasks_of(name):
        options = {"task": task, "num_classes": 3, "num_labels": 3}
        if name == "CohenKappa":
            del options["num_labels"]
        ours, theirs = getattr(metrics, name)(**options), getattr(peer_metrics, name)(**options)
        assert type(ours) is getattr(metrics, type(theirs).__name__)
        for attribute in ("average", "top_k", "threshold", "multidim_average", "num_classes", "num_labels", "beta"):
            if hasattr(theirs, attribute) and hasattr(ours, attribute):
                assert getattr(ours, attribute) == getattr(theirs, attribute), (task, attribute)
        batch = batch_for(type(theirs).__name__, 20)
        close(ours(*batch), theirs(*batch))


GIVEN: dict[str, Any] = {
    "task": None,
    "beta": 2.0,
    "threshold": 0.3,
    "num_classes": 3,
    "num_labels": 3,
    "average": "weighted",
    "multidim_average": "global",
    "top_k": 2,
    "ignore_index": 1,
    "validate_args": True,
    "normalize": "all",
    "weights": "quadratic",
    "zero_division": 1,
}


@pytest.mark.parametrize("name", FACADES)
@pytest.mark.parametrize("how", ["by_name", "by_position"])
def test_arguments_of_a_facade_mean_what_they_mean_in_torchmetrics(name: str, how: str) -> None:
    facade, peer = getattr(metrics, name), getattr(peer_metrics, name)
    order = [each for each in inspect.signature(peer.__new__).parameters if each in GIVEN]
    for task in tasks_of(name):
        given = {each: (GIVEN | {"task": task})[each] for each in order}
        if how == "by_name":
            ours, theirs = facade(**given), peer(**given)
        else:
            ours, theirs = facade(*given.values()), peer(*given.values())
        preds, target = batch_for(type(theirs).__name__, 40)
        close(ours(preds, target), theirs(preds, target))


@pytest.mark.parametrize("name", FACADES)
def test_facades_refuse_unknown_tasks_and_missing_numbers(name: str) -> None:
    facade = getattr(metrics, name)
    with pytest.raises(DeclarationError, match=f"expected task to be one of '{tasks_of(name)[0]}', .*got 'regression'"):
        facade(task="regression")
    if "multilabel" in tasks_of(name):
        with pytest.raises(DeclarationError, match="expected num_labels for task='multilabel', got None"):
            facade(task="multilabel")
    else:
        with pytest.raises(DeclarationError, match="one of 'binary', 'multiclass', got 'multilabel'"):
            facade(task="multilabel", num_labels=3)
    with pytest.raises(DeclarationError, match="expected num_classes for task='multiclass', got None"):
        facade(task="multiclass")
    if "binary" not in tasks_of(name):
        with pytest.raises(DeclarationError, match="one of 'multiclass', 'multilabel', got 'binary'"):
            facade(task="binary")


def test_what_counts_samples_is_kept_only_where_samples_are_reported() -> None:
    assert MultilabelEvaluation("labels", 3, statistics=["f1/macro"]).tally.totals.reals is None
    rows = MultilabelEvaluation("labels", 3, statistics=["exact_match"]).tally.totals.reals
    assert rows is not None
    assert rows.numel() == 4  # two sums and two numbers of samples: of exact matches, and of all
