"""The state of many classes and labels is a state like any other; facades and explanations read it."""

from __future__ import annotations

import inspect
import io
import pickle
from typing import TYPE_CHECKING, Any

import pytest
import torch
from many_batches import (
    LABELLED,
    METRICS,
    SCORED,
    YES,
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
from torchmetrics import classification as peer_metrics
from versions import IGNORED_LABELS, compared

from lightning_evalkit import MulticlassEvaluation, MultilabelEvaluation, metrics
from lightning_evalkit.errors import DeclarationError, InputError
from lightning_evalkit.metrics.base import CountMetric
from lightning_evalkit.metrics.facade import Facade

if TYPE_CHECKING:
    from collections.abc import Callable


pytestmark = pytest.mark.filterwarnings("ignore::lightning_evalkit.errors.UndefinedWarning")


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
    assert ": 0.4 and 0.5;" in finding.headline
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


@pytest.mark.parametrize("name", compared(FACADES, IGNORED_LABELS))
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
