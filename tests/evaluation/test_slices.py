"""An evaluation for every group at once: each group has the counts of an evaluation that only saw its rows.

The numbers of a single group come from evaluations, which other tests hold against loops and scikit-learn, and from a
loop over samples here.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sliced import CASES, GROUPS, Case, binary, cells, classes, deferred, every_case, filled, same, state
from torch import Tensor

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation, Slices
from lightning_evalkit.errors import DeclarationError, InputError
from lightning_evalkit.evaluation.slices import Group
from lightning_evalkit.metrics import BinaryF1Score

if TYPE_CHECKING:
    from collections.abc import Callable


few = settings(max_examples=6, deadline=None)
seeds, sizes = st.integers(0, 10_000), st.integers(0, 12)


def rows_of(case: Case, batch: list[Tensor], rows: Any) -> Any:
    """An evaluation that saw only some rows."""
    preds, target, _, *weight = batch
    evaluation = case.template()
    evaluation.update(preds[rows], target[rows], *(each[rows] for each in weight))
    return evaluation


# ---- every group is an evaluation of its own


@pytest.mark.filterwarnings("ignore::lightning_evalkit.errors.UndefinedWarning")
@every_case
@few
@given(size=sizes, seed=seeds)
def test_a_group_is_an_evaluation_of_its_rows(case: Case, size: int, seed: int) -> None:
    batches = [case.batch(size, seed), case.batch(3, seed + 1)]
    slices, later = case.build(), case.build()
    for batch in batches:
        slices.update(*batch)
        with deferred():
            later.update(*batch)
    assert state(later) == state(slices)
    whole = [torch.cat(parts) for parts in zip(*batches, strict=True)]
    values, counts, group = slices.compute(), slices.counts, whole[2]
    for place in range(GROUPS):
        alone = rows_of(case, whole, group == place)
        assert [cell[place].tolist() for cell in counts.cells] == [cell.tolist() for cell in alone.counts.cells]
        if slices.sizes[place]:
            expected = {name: value.item() for name, value in alone.compute().items()}
            assert same({name: value[place].item() for name, value in values.items()}, expected)
        else:
            assert all(value[place].isnan() for value in values.values())


@every_case
@few
@given(size=sizes, seed=seeds)
def test_groups_add_up_to_the_evaluation_of_all_rows(case: Case, size: int, seed: int) -> None:
    batch = case.batch(size, seed)
    slices, everything = filled(case, batch), rows_of(case, batch, slice(None))
    totals = everything.tally.totals
    ledger = everything.tally.counter.ledger(totals)
    assert [cell.sum(0).tolist() for cell in slices.counts.cells] == [c.tolist() for c in everything.counts.cells]
    assert slices.counter.ledger(slices.totals) == ledger
    assert slices.update_count == ledger.updates == 1


@pytest.mark.parametrize("name", ["binary_cuts", "binary_weighted", "classes", "classes_matrix", "labels"])
@few
@given(size=sizes, seed=seeds, order=st.permutations(range(GROUPS)))
def test_other_numbers_for_the_groups_move_their_counts(name: str, size: int, seed: int, order: list[int]) -> None:
    case = CASES[name]
    preds, target, group, *weight = case.batch(size, seed)
    slices, moved = filled(case, [preds, target, group, *weight]), case.build()
    rows = torch.randperm(size, generator=torch.Generator().manual_seed(seed))
    moved.update(*(each[rows] for each in (preds, target, torch.tensor(order)[group], *weight)))
    assert [cell[order].tolist() for cell in moved.counts.cells] == cells(slices.counts)
    assert moved.sizes[order].tolist() == slices.sizes.tolist()


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.weighted])
@few
@given(size=sizes, seed=seeds)
def test_whole_number_weights_are_repetitions(name: str, size: int, seed: int) -> None:
    case = CASES[name]
    preds, target, group, weight = case.batch(size, seed)
    times = weight.long()
    repeated = [each.repeat_interleave(times, 0) for each in (preds, target, group)]
    weighed, ones = case.build(), case.build()
    weighed.update(preds, target, group, weight)
    ones.update(*repeated, torch.ones(len(repeated[0])))
    assert cells(weighed.counts) == cells(ones.counts)
    there = ones.sizes > 0
    for name, value in ones.compute().items():
        assert same(weighed.compute()[name][there].tolist(), value[there].tolist())


def test_real_weights_add_up_to_rounding() -> None:
    torch.manual_seed(1)
    case, weight = CASES["binary_weighted"], torch.rand(300, dtype=torch.float64)
    preds, target, group, _ = case.batch(300)
    slices = filled(case, [preds, target, group, weight])
    for place in range(GROUPS):
        there = (group == place) & (preds > 0.5) & (target == 1)
        assert slices.counts.tp[place].item() == pytest.approx(math.fsum(weight[there].tolist()), rel=1e-12)


def test_a_loop_over_samples_counts_the_same() -> None:
    preds, target, group = CASES["binary"].batch(200)
    found: Counter[tuple[int, bool, int]] = Counter()
    for score, truth, place in zip(preds.tolist(), target.tolist(), group.tolist(), strict=True):
        found[place, score > 0.5, truth] += 1
    order = ((True, 1), (True, 0), (False, 1), (False, 0))
    expected = [[found[place, said, truth] for place in range(GROUPS)] for said, truth in order]
    slices = filled(CASES["binary"], [preds, target, group])
    assert cells(slices.counts) == expected
    assert slices.sizes.tolist() == [sum(column) for column in zip(*expected, strict=True)]


def test_scikit_learn_finds_the_same_in_every_group() -> None:
    from sklearn.metrics import accuracy_score, f1_score, recall_score  # late: the processes below do without

    preds, target, group = CASES["classes"].batch(400)
    statistics = ["accuracy", "recall/macro", "f1/weighted"]
    slices = filled(Case(classes(statistics=statistics), classes=3), [preds, target, group])
    for place in range(GROUPS):
        truth, said = target[group == place].numpy(), preds[group == place].argmax(1).numpy()
        expected = [
            accuracy_score(truth, said),
            recall_score(truth, said, average="macro"),
            f1_score(truth, said, average="weighted"),
        ]
        assert same([slices.compute()[name][place].item() for name in statistics], expected)


# ---- what is given back


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("binary", ()),
        ("binary_images", ()),
        ("binary_cuts", (3,)),
        ("classes", (3,)),
        ("labels_of_elements", (3,)),
    ],
)
def test_counts_have_the_groups_first(name: str, shape: tuple[int, ...]) -> None:
    slices = filled(CASES[name], CASES[name].batch(6))
    assert {cell.shape for cell in slices.counts.cells} == {(GROUPS, *shape)}
    assert {value.shape for value in slices.compute().values()} == {(GROUPS,)}


@pytest.mark.parametrize(
    ("name", "sizes"), [("binary_images", [6, 12]), ("labels", [1, 2]), ("labels_of_elements", [2, 4])]
)
def test_sizes_are_elements_and_of_labels_samples(name: str, sizes: list[int]) -> None:
    case = Case(CASES[name].template, shape=CASES[name].shape)
    preds, target, _ = case.batch(3)
    slices = filled(case, [preds, target, torch.tensor([1, 0, 1])], groups=2)
    assert slices.sizes.tolist() == sizes


def test_a_sample_counts_if_any_of_its_labels_is_looked_at() -> None:
    slices = Slices(MultilabelEvaluation("labels", 2, ignore_index=-1), 2)
    slices.update(torch.ones(3, 2), torch.tensor([[1, -1], [-1, -1], [0, 1]]), torch.tensor([0, 0, 1]))
    assert slices.sizes.tolist() == [1, 1]


def test_names_have_the_prefix_of_the_template() -> None:
    slices = filled(Case(binary(prefix="val/", postfix="/x", statistics=["recall"])), CASES["binary"].batch(9))
    assert list(slices.compute()) == ["val/recall/x"]
    assert slices.worst("recall") == slices.worst("val/recall/x")


def test_small_groups_have_no_value_but_counts() -> None:
    slices = Slices(BinaryEvaluation("labels", statistics=["accuracy"], zero_division=0.0), 3, minimum=2)
    slices.update(torch.tensor([1, 1, 0]), torch.tensor([1, 1, 1]), torch.tensor([2, 0, 2]))
    assert same(slices.compute()["accuracy"].tolist(), [math.nan, math.nan, 0.5])
    assert slices.sizes.tolist() == [1, 0, 2]
    assert slices.counts.tp.tolist() == [1, 0, 1]
    assert slices.table() == [{"group": "2", "size": 2, "accuracy": 0.5}]


def test_the_table_is_a_frame_too() -> None:
    slices = Slices(BinaryEvaluation("labels", statistics=["accuracy", "recall"]), 3, group_names=["a", "b", "c"])
    slices.update(torch.tensor([1, 1, 0]), torch.tensor([1, 1, 1]), torch.tensor([2, 0, 2]))
    frame, rows = slices.to_pandas(), slices.table()
    assert [{"group": name, **row} for name, row in frame.iterrows()] == rows
    few = Slices(BinaryEvaluation("labels", statistics=["accuracy"]), 3, minimum=2)
    few.update(torch.tensor([1]), torch.tensor([1]), torch.tensor([2]))
    assert few.to_pandas().empty
    assert list(few.to_pandas().columns) == ["size", "accuracy"]


def test_nothing_of_nothing_is_what_the_template_says() -> None:
    batch = torch.tensor([0, 1]), torch.tensor([0, 1]), torch.tensor([0, 1])
    for value in (math.nan, 0.0, 1.0):
        slices = Slices(BinaryEvaluation("labels", statistics=["recall"], zero_division=value), 2)
        slices.update(*batch)
        assert same(slices.compute()["recall"].tolist(), [value, 1.0])


def test_the_worst_groups_come_first() -> None:
    statistics = ["recall", "false_negative_rate", "prevalence"]
    slices = Slices(
        BinaryEvaluation("labels", statistics=statistics), 5, group_names=["a", "b", "c", "d", "e"], minimum=2
    )
    predicted = torch.tensor([1, 1, 1, 0, 0, 0, 1, 0, 0, 1])
    target = torch.tensor([1, 1, 1, 1, 1, 1, 0, 0, 1, 1])
    slices.update(predicted, target, torch.tensor([0, 0, 1, 1, 2, 2, 3, 3, 4, 1]))
    expected = [Group("c", 2, 0.0), Group("b", 3, 2 / 3), Group("a", 2, 1.0)]
    found = slices.worst("recall")
    assert [(group.name, group.size) for group in found] == [(group.name, group.size) for group in expected]
    assert same([group.value for group in found], [group.value for group in expected])
    assert slices.worst("recall", 1) == [Group("c", 2, 0.0)]
    assert [group.name for group in slices.worst("false_negative_rate", 2)] == ["c", "b"]
    assert [row["group"] for row in slices.table()] == ["a", "b", "c", "d"]
    with pytest.raises(InputError, match="expected a statistic of which more is better or worse, got 'prevalence'"):
        slices.worst("prevalence")
    with pytest.raises(DeclarationError, match="there is no entry 'recal': did you mean 'recall'"):
        slices.worst("recal")


def test_a_confusion_matrix_for_every_group() -> None:
    predicted, target = torch.tensor([0, 2, 2, 1]), torch.tensor([0, 1, 2, 1])
    slices = Slices(MulticlassEvaluation("labels", 3, confusion_matrix=True), 2)
    slices.update(predicted, target, torch.tensor([0, 0, 1, 1]))
    assert slices.confusion_matrix.tolist() == [
        [[1, 0, 0], [0, 0, 1], [0, 0, 0]],
        [[0, 0, 0], [0, 1, 0], [0, 0, 1]],
    ]
    with pytest.raises(DeclarationError, match="no confusion matrix was kept"):
        _ = CASES["classes"].build().confusion_matrix


# ---- what is refused


WRONG_GROUPS = {
    "names": (
        ["de", "fr", "de"],
        "expected every text in groups to be one of .*, got 'de' at position 0: declare group_names",
    ),
    "negative": (torch.tensor([0, 1, -1]), r"from 0 to 3, got -1 at position 2 \(1 of 3 values are wrong\)"),
    "too_large": (torch.tensor([5, 1, 7]), r"from 0 to 3, got 5 at position 0 \(2 of 3 values are wrong\)"),
    "real": (torch.tensor([0.0, 1.0, 2.0]), r"numbers of groups \(integers\), got torch.float32"),
    "of_other_samples": (torch.tensor([0, 1]), r"one group for every sample, shape \(3,\), got \(2,\)"),
    "of_elements": (torch.zeros(3, 3, dtype=torch.int64), r"shape \(3,\), got \(3, 3\): flatten samples"),
}


@pytest.mark.parametrize("call", ["update", "forward"])
@pytest.mark.parametrize("wrong", WRONG_GROUPS.values(), ids=WRONG_GROUPS)
@pytest.mark.parametrize("name", ["binary", "binary_weighted", "classes", "labels"])
def test_wrong_groups_are_refused_and_change_nothing(name: str, wrong: tuple[Any, str], call: str) -> None:
    slices = filled(CASES[name], CASES[name].batch(7, 1))
    before, (groups, message) = state(slices), wrong
    preds, target, _, *weight = CASES[name].batch(3)
    with pytest.raises(InputError, match=message):
        getattr(slices, call)(preds, target, groups, *weight)
    assert state(slices) == before


BAD = {
    "scores": (torch.tensor([0.2, math.nan]), torch.tensor([1, 1]), "expected every preds to be a number, got nan"),
    "targets": (torch.tensor([0.2, 0.3]), torch.tensor([1, 2]), "expected every target to be 0 or 1, got 2"),
    "shapes": (torch.zeros(2, 1), torch.zeros(2), r"call preds.squeeze\(-1\)"),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_bad_batches_change_nothing(bad: tuple[Tensor, Tensor, str], weighted: bool) -> None:
    case = CASES["binary_weighted" if weighted else "binary"]
    slices = filled(case, case.batch(7))
    before, (preds, target, message) = state(slices), bad
    weight = [torch.ones(2)] if weighted else []
    with pytest.raises(InputError, match=message):
        slices.update(preds, target, torch.tensor([0, 1]), *weight)
    assert state(slices) == before


def test_weights_are_declared_by_the_template() -> None:
    preds, target, group = CASES["binary"].batch(3)
    with pytest.raises(InputError, match="got sample_weight, but the metric counts unweighted"):
        CASES["binary"].build().update(preds, target, group, torch.ones(3))
    with pytest.raises(InputError, match="declared weighted=True, so update needs sample_weight"):
        CASES["binary_weighted"].build().update(preds, target, group)
    with pytest.raises(InputError, match="expected every sample_weight to be finite and not negative, got -1"):
        CASES["binary_weighted"].build().update(preds, target, group, torch.tensor([1.0, -1.0, 1.0]))


@pytest.mark.parametrize("name", ["binary_ignoring", "classes_weighted"])
@pytest.mark.parametrize("way", ["at_once", "deferred"])
def test_what_is_ignored_needs_no_group(name: str, way: str) -> None:
    slices = CASES[name].build()
    preds, target, _, *weight = CASES[name].batch(3)
    target, weight = torch.tensor([-1, 1, -1]), [each + 1 for each in weight]
    with deferred() if way == "deferred" else mock.MagicMock():
        slices.update(preds, target, torch.tensor([-1, 2, 99]), *weight)
    slices.compute()
    assert slices.sizes.tolist() == [0, 0, 1, 0]
    assert slices.counter.ledger(slices.totals).ignored == 2


def test_a_complaint_is_not_about_what_is_ignored() -> None:
    with pytest.raises(InputError, match="expected every target to be 0 or 1 or ignore_index=-1, got 7 at position 1"):
        CASES["binary_ignoring"].build().update(torch.rand(2), torch.tensor([-1, 7]), torch.tensor([99, 0]))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Slices(BinaryEvaluation("logits", curves=True), 3), "expected an evaluation without curves"),
        (lambda: Slices(BinaryF1Score(), 3), "expected a BinaryEvaluation, .* got BinaryF1Score"),
        (
            lambda: Slices(BinaryEvaluation("logits"), 0),
            "expected num_groups to be a whole number of at least 1, got 0",
        ),
        (lambda: Slices(BinaryEvaluation("logits"), 2.0), "expected num_groups to be a whole number"),
        (lambda: Slices(BinaryEvaluation("logits"), 3, minimum=0), "minimum to be a whole number of at least 1"),
        (lambda: Slices(BinaryEvaluation("logits"), 3, ["a", "b"]), "expected 3 group names, got 2"),
        (lambda: Slices(BinaryEvaluation("logits"), 2, ["a", "a"]), "expected different group names, got 'a' more"),
        (
            lambda: Slices(MulticlassEvaluation("logits", 1000), 100_000),
            r"at most 2 GiB, got 2.2 GiB for 100,000 groups with 3,000 numbers each: declare fewer ",
        ),
        (
            lambda: Slices(MulticlassEvaluation("logits", 100, confusion_matrix=True), 100_000),
            r"got 7.5 GiB for 100,000 groups with 10,000 numbers each: .* or no confusion matrix",
        ),
    ],
)
def test_declarations_that_cannot_be_sliced(build: Callable[[], Slices], message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        build()


# ---- looking


def test_one_line_and_a_table_of_groups_with_their_sizes() -> None:
    slices = Slices(BinaryEvaluation("labels", statistics=["accuracy", "recall"]), 3, ["de", "fr", "it"])
    said = "Slices(3 groups of BinaryEvaluation('labels'))"
    assert repr(slices) == str(slices) == f"{said}: nothing counted"
    slices.update(torch.tensor([1, 0, 1, 0, 1]), torch.tensor([1, 1, 1, 0, 0]), torch.tensor([0, 0, 2, 2, 2]))
    assert repr(slices) == f"{said}: 5 samples in 2 of them"
    lines = str(slices).splitlines()
    assert lines[0] == repr(slices)
    rows = [line.split() for line in lines[2:]]
    assert rows == [
        ["group", "accuracy", "recall", "n"],
        ["de", "0.5000", "0.5000", "2"],
        ["it", "0.6667", "1.0000", "3"],
    ]
    assert "| it | 0.6667 | 1.0000 | 3 |" in slices._repr_markdown_()


def test_statistics_that_do_not_fit_into_80_columns_are_named_below() -> None:
    shown = ["accuracy", "recall", "precision", "specificity", "f1", "balanced_accuracy"]
    left_out = ["jaccard", "mcc", "informedness"]
    slices = Slices(BinaryEvaluation("labels", statistics=[*shown, *left_out]), 2)
    slices.update(torch.tensor([1, 0, 1, 0]), torch.tensor([1, 1, 0, 0]), torch.tensor([0, 1, 0, 1]))
    lines = str(slices).splitlines()
    assert lines[2].split() == ["group", *shown, "n"]
    assert lines[-1] == "not shown: jaccard, mcc, informedness; table() has them all"
    assert max(map(len, lines)) <= 80
    assert slices._repr_markdown_().endswith("not shown: jaccard, mcc, informedness; table() has them all")
    assert {*shown, *left_out} <= {*slices.table()[0]}


def test_of_many_groups_the_first_are_shown_and_other_statistics_where_the_main_ones_are_not_counted() -> None:
    slices = Slices(BinaryEvaluation("labels", statistics=["recall"], prefix="val/"), 50, minimum=2)
    groups = torch.arange(50).repeat(2)[:-1]  # one sample only of the last group
    slices.update(torch.ones(99).long(), torch.ones(99).long(), groups)
    lines = str(slices).splitlines()
    assert lines[2].split() == ["group", "val/recall", "n"]
    assert lines[3].split() == ["0", "1.0000", "2"]
    assert len(lines) == 2 + 1 + 20 + 1 + 2
    assert lines[-3].strip() == "… 29 more"
    assert lines[-1] == "1 group of fewer than 2 samples left out"
