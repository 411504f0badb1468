"""Hinge losses and label rankings beside torchmetrics and scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
import torchmetrics.classification as peer_metrics
import torchmetrics.functional.classification as peer
from device import DEVICE, Operators, deferred, pretend_on_device
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import coverage_error, label_ranking_average_precision_score, label_ranking_loss
from torch._subclasses.fake_tensor import FakeTensorMode

from lightning_evalkit import functional, metrics
from lightning_evalkit.errors import DeclarationError, InputError

if TYPE_CHECKING:
    from collections.abc import Callable

RANKINGS: dict[str, Callable[..., float]] = {
    "coverage_error": coverage_error,
    "ranking_average_precision": label_ranking_average_precision_score,
    "ranking_loss": label_ranking_loss,
}
CLASSES = {
    "coverage_error": "MultilabelCoverageError",
    "ranking_average_precision": "MultilabelRankingAveragePrecision",
    "ranking_loss": "MultilabelRankingLoss",
}
HINGES: dict[str, tuple[str, dict[str, Any]]] = {
    "binary": ("Binary", {}),
    "binary_squared": ("Binary", {"squared": True}),
    "crammer": ("Multiclass", {"num_classes": 4}),
    "crammer_squared": ("Multiclass", {"num_classes": 4, "squared": True}),
    "each": ("Multiclass", {"num_classes": 4, "multiclass_mode": "one-vs-all"}),
    "each_squared": ("Multiclass", {"num_classes": 4, "multiclass_mode": "one-vs-all", "squared": True}),
}


def batch(task: str, scale: float, more: tuple[int, ...] = ()) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(len(more))
    if task == "Binary":
        preds, target = torch.randn(40, *more) * scale, torch.randint(0, 2, (40, *more))
        return (preds if scale > 1 else preds.sigmoid()), target
    preds, target = torch.randn(40, 4, *more) * scale, torch.randint(0, 4, (40, *more))
    return (preds if scale > 1 else preds.softmax(1)), target


@pytest.mark.parametrize("more", [(), (3, 2)], ids=["flat", "pixels"])
@pytest.mark.parametrize("scale", [1.0, 3.0], ids=["probabilities", "logits"])
@pytest.mark.parametrize("hinge", HINGES)
def test_a_hinge_loss_is_that_of_torchmetrics(hinge: str, scale: float, more: tuple[int, ...]) -> None:
    task, options = HINGES[hinge]
    preds, target = batch(task, scale, more)
    target.view(-1)[::7] = -1
    options = {**options, "ignore_index": -1}
    function = f"{task.lower()}_hinge_loss"
    expected = getattr(peer, function)(preds, target, **options)
    torch.testing.assert_close(getattr(functional, function)(preds, target, **options), expected)
    named = functional.hinge_loss(preds, target, task=task.lower(), **options)
    torch.testing.assert_close(named, expected)
    ours, theirs = (getattr(module, f"{task}HingeLoss")(**options) for module in (metrics, peer_metrics))
    for part in range(2):
        rows = slice(part * 20, part * 20 + 20)
        torch.testing.assert_close(ours(preds[rows], target[rows]), theirs(preds[rows], target[rows]))
    torch.testing.assert_close(ours.compute(), theirs.compute())
    assert ours.totals.integers.numel() + ours.totals.reals.numel() <= 6 + 5  # whatever the number of samples


tables = st.integers(2, 6).flatmap(
    lambda labels: st.lists(
        st.tuples(
            st.lists(st.sampled_from([0.1, 0.25, 0.5, 0.75, 0.9]), min_size=labels, max_size=labels),
            st.lists(st.sampled_from([0, 1]), min_size=labels, max_size=labels),
        ),
        min_size=1,
        max_size=8,
    )
)


@given(rows=tables)
@pytest.mark.parametrize("name", RANKINGS)
def test_a_ranking_is_that_of_scikit_learn_with_equal_scores_too(name: str, rows: list[Any]) -> None:
    preds, target = torch.tensor([row[0] for row in rows]), torch.tensor([row[1] for row in rows])
    expected = RANKINGS[name](target.numpy(), preds.numpy())
    found = getattr(functional, f"multilabel_{name}")(preds, target, preds.shape[1])
    assert float(found) == pytest.approx(expected, rel=1e-6)
    metric = getattr(metrics, CLASSES[name])(preds.shape[1], inputs="logits")
    for scores, truth in zip(preds, target, strict=True):
        metric.update(scores.logit().unsqueeze(0), truth.unsqueeze(0))  # ranks are those of the logits
    assert float(metric.compute()) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", RANKINGS)
def test_a_ranking_is_that_of_torchmetrics_where_scores_differ(name: str) -> None:
    torch.manual_seed(0)
    preds, target = torch.randn(50, 7, 3), torch.randint(0, 2, (50, 7, 3))
    expected = getattr(peer, f"multilabel_{name}")(preds, target, 7)
    torch.testing.assert_close(getattr(functional, f"multilabel_{name}")(preds, target, 7), expected)


@pytest.mark.parametrize("name", RANKINGS)
def test_whole_weights_are_repetition_and_ignored_labels_are_absent(name: str) -> None:
    torch.manual_seed(1)
    preds, target, weight = torch.rand(20, 5), torch.randint(0, 2, (20, 5)), torch.randint(0, 4, (20,))
    function = getattr(functional, f"multilabel_{name}")
    repeated = [part.repeat_interleave(weight, 0) for part in (preds, target)]
    torch.testing.assert_close(function(preds, target, 5, sample_weight=weight), function(*repeated, 5))
    marked = torch.cat((target, torch.full((20, 2), -1)), 1)
    scored = torch.cat((preds, torch.full((20, 2), 2.0)), 1)  # high and no probabilities, but ignored
    found = function(scored, marked, 7, ignore_index=-1, inputs="probabilities")
    torch.testing.assert_close(found, function(preds, target, 5))
    metric = getattr(metrics, CLASSES[name])(7, ignore_index=-1)
    metric.update(torch.rand(3, 7), torch.full((3, 7), -1))  # samples of which every label is ignored
    metric.update(scored, marked)
    torch.testing.assert_close(metric.compute(), found)


def test_weights_of_a_hinge_loss_are_repetition() -> None:
    preds, target = batch("Multiclass", 3.0)
    weight = torch.arange(40) % 3
    repeated = [part.repeat_interleave(weight, 0) for part in (preds, target)]
    found = functional.multiclass_hinge_loss(preds, target, 4, inputs="logits", sample_weight=weight)
    torch.testing.assert_close(found, functional.multiclass_hinge_loss(*repeated, 4, inputs="logits"))


@pytest.mark.parametrize(
    ("build", "preds", "target", "words"),
    [
        (
            lambda: metrics.BinaryHingeLoss(),
            [0.1, float("nan")],
            [0, 1],
            "expected every preds to be a number, got nan",
        ),
        (lambda: metrics.BinaryHingeLoss(), [0.1, 0.2], [0, 2], "expected every target to be 0 or 1, got 2"),
        (lambda: metrics.BinaryHingeLoss(inputs="probabilities"), [0.1, 2.0], [0, 1], r"a probability in \[0, 1\]"),
        (lambda: metrics.BinaryHingeLoss(), [0, 1], [0, 1], "labels have no order"),
        (lambda: metrics.MulticlassHingeLoss(2), [[0.1, 0.9]], [2], "expected every target to be a class from 0 to 1"),
        (lambda: metrics.MultilabelRankingLoss(2), [[0.1, 0.9]], [[0, 3]], "expected every target to be 0 or 1, got 3"),
    ],
)
def test_bad_values_are_refused_and_nothing_is_added(build: Any, preds: Any, target: Any, words: str) -> None:
    metric = build()
    with pytest.raises(InputError, match=words):
        metric.update(torch.tensor(preds), torch.tensor(target))
    assert not metric.update_called


def test_unequal_losses_never_share_a_state() -> None:
    plain, squared = metrics.BinaryHingeLoss(), metrics.BinaryHingeLoss(squared=True)
    assert plain.storage.names != squared.storage.names
    with pytest.raises(InputError, match="hinge"):
        plain.merge_state(squared)


def test_wrong_options_are_told() -> None:
    with pytest.raises(DeclarationError, match="multiclass_mode to be 'crammer-singer' or 'one-vs-all', got 'both'"):
        metrics.MulticlassHingeLoss(3, multiclass_mode="both")
    with pytest.raises(DeclarationError, match="squared to be True or False, got 1"):
        functional.binary_hinge_loss(torch.rand(2), torch.tensor([0, 1]), squared=1)


# ---- groups


@pytest.mark.parametrize("scale", [1.0, 3.0], ids=["probabilities", "logits"])
def test_fairness_is_that_of_torchmetrics(scale: float) -> None:
    torch.manual_seed(2)
    preds, target = batch("Binary", scale)
    groups = torch.arange(40) % 4
    expected = peer.binary_fairness(preds, target, groups)
    for found in (
        functional.binary_fairness(preds, target, groups.unsqueeze(1)),
        functional.demographic_parity(preds, groups) | functional.equal_opportunity(preds, target, groups),
        functional.binary_fairness(preds.tolist(), target.numpy(), groups.tolist()),
    ):
        torch.testing.assert_close(found, expected)
    metric = metrics.BinaryFairness(4)
    rates, their_rates = metrics.BinaryGroupStatRates(4), peer_metrics.BinaryGroupStatRates(4)
    for rows in (slice(0, 20), slice(20, 40)):
        for each in (metric, rates, their_rates):
            each.update(preds[rows], target[rows], groups[rows])
    torch.testing.assert_close(metric.compute(), expected)
    torch.testing.assert_close(rates.compute(), their_rates.compute())
    torch.testing.assert_close(functional.binary_groups_stat_rates(preds, target, groups, 4), their_rates.compute())
    assert metric.totals.integers.numel() == 4 * 4 + 5  # four cells for each group, and the ledger


def test_forward_gives_the_rates_of_the_batch_and_keeps_all() -> None:
    preds, target = batch("Binary", 3.0)
    groups = torch.arange(40) % 2
    ours, theirs = metrics.BinaryGroupStatRates(2), peer_metrics.BinaryGroupStatRates(2)
    fairness, their_fairness = metrics.BinaryFairness(2), peer_metrics.BinaryFairness(2)
    for rows in (slice(0, 20), slice(20, 40)):
        parts = preds[rows], target[rows], groups[rows]
        torch.testing.assert_close(ours(*parts), theirs(*parts))
        torch.testing.assert_close(fairness(*parts), their_fairness(*parts))
    torch.testing.assert_close(ours.compute(), theirs.compute())
    torch.testing.assert_close(fairness.compute(), their_fairness.compute())


def test_parity_needs_no_target() -> None:
    preds, groups = torch.tensor([1, 0, 1, 1]), torch.tensor([0, 0, 1, 1])
    metric = metrics.BinaryFairness(2, task="demographic_parity")
    metric.update(preds, None, groups)
    assert metric.compute() == {"DP_0_1": torch.tensor(0.5)} == functional.demographic_parity(preds, groups)
    with pytest.warns(UserWarning, match="does not require a target"):
        metric.update(preds, preds, groups)
    with pytest.raises(InputError, match="got NoneType as target"):
        metrics.BinaryFairness(2).update(preds, None, groups)


def test_a_group_that_a_batch_lacks_changes_no_other() -> None:
    """torchmetrics numbers the groups of each batch anew: without group 1 it takes group 2 for it."""
    batches = [([1, 0], [1, 1], [0, 2]), ([1, 1], [1, 1], [1, 2])]
    ours, theirs = metrics.BinaryGroupStatRates(3), peer_metrics.BinaryGroupStatRates(3)
    for each in batches:
        ours.update(*each)
        theirs.update(*map(torch.tensor, each))
    assert [rate.tolist() for rate in ours.compute().values()] == [[1, 0, 0, 0], [1, 0, 0, 0], [0.5, 0, 0, 0.5]]
    assert theirs.compute()["group_1"].tolist() == [0.5, 0, 0, 0.5]


def test_groups_without_a_rate_are_left_out() -> None:
    preds, target, groups = torch.tensor([1, 0, 1, 1]), torch.tensor([1, 1, 1, 1]), torch.tensor([0, 0, 2, 2])
    found = functional.binary_fairness(preds, target, groups)
    assert found == {"DP_0_2": torch.tensor(0.5), "EO_0_2": torch.tensor(0.5)}
    nobody = functional.demographic_parity(torch.zeros(4).long(), groups)
    assert nobody == {"DP_0_0": torch.tensor(0.0)}  # 0/0, of which torchmetrics' value is 0


def test_weights_of_groups_are_repetition() -> None:
    preds, target = batch("Binary", 3.0)
    groups, weight = torch.arange(40) % 3, torch.arange(40) % 4
    repeated = [part.repeat_interleave(weight, 0) for part in (preds, target, groups)]
    found = functional.binary_fairness(preds, target, groups, sample_weight=weight)
    torch.testing.assert_close(found, functional.binary_fairness(*repeated))


@pytest.mark.parametrize("weighted", [False, True])
def test_batches_of_groups_that_were_guessed_in_two_ways_are_told(weighted: bool) -> None:
    metric = metrics.BinaryFairness(2, weighted=weighted)
    more = (torch.ones(2),) if weighted else ()
    metric.update(torch.tensor([0.2, 0.7]), torch.tensor([0, 1]), torch.tensor([0, 1]), *more)
    metric.update(torch.tensor([-2.0, 0.7]), torch.tensor([0, 1]), torch.tensor([0, 1]), *more)
    with pytest.warns(UserWarning, match="logits in 1 batches and probabilities in 1"):
        metric.compute()


# ---- the area over the logarithm of the false-positive rate


def log_area(preds: torch.Tensor, target: torch.Tensor, thresholds: Any, fpr_range: tuple[float, float]) -> float:
    """As torchmetrics defines it, with NumPy's interpolation.

    torchmetrics' own sorts points of one false-positive rate in any order, and is off where there are several.
    """
    fpr, tpr, _ = (part.double().numpy() for part in peer.binary_roc(preds, target, thresholds))
    heights, rates = np.sort([*tpr, *np.interp(fpr_range, fpr, tpr)]), np.sort([*fpr, *fpr_range])
    first, last = (np.flatnonzero(rates == end)[-1] for end in np.float64(fpr_range))
    widths = np.log10(rates[first : last + 1])
    inner = heights[first : last + 1]
    return float(((inner[1:] + inner[:-1]) / 2 * np.diff(widths)).sum() / (widths[-1] - widths[0]))


@pytest.mark.parametrize("thresholds", [None, 50, "fine"])
@pytest.mark.parametrize("fpr_range", [(0.001, 0.1), (0.05, 0.5), (0.2, 1.0)])
def test_log_auc_is_that_of_its_definition(fpr_range: tuple[float, float], thresholds: Any) -> None:
    torch.manual_seed(3)
    known = None if thresholds == "fine" else thresholds
    close = {"rel": 1e-3 if thresholds == "fine" else 1e-5}
    many, classes = torch.randn(300, 4).softmax(1).mul(100).round().div(100), torch.randint(0, 4, (300,))
    labels = torch.nn.functional.one_hot(classes, 4)
    expected = [log_area(many[:, k], labels[:, k], known, fpr_range) for k in range(4)]
    found = functional.binary_logauc(many[:, 0], labels[:, 0], fpr_range, thresholds)
    assert float(found) == pytest.approx(expected[0], **close)
    for name, truth in (("multiclass", classes), ("multilabel", labels)):
        of_each = getattr(functional, f"{name}_logauc")(many, truth, 4, fpr_range, None, thresholds)
        assert of_each.tolist() == pytest.approx(expected, **close)
        metric = getattr(metrics, f"{name.capitalize()}LogAUC")(4, fpr_range, "macro", thresholds)
        assert float(metric(many, truth)) == pytest.approx(np.mean(expected), **close)


@pytest.mark.filterwarnings("ignore:To copy construct from a tensor")  # of torchmetrics before 1.9
def test_log_auc_is_that_of_torchmetrics_where_few_points_share_a_rate() -> None:
    torch.manual_seed(3)
    target = torch.randint(0, 2, (300,))
    preds = (torch.randn(300) + target).sigmoid()
    expected = peer.binary_logauc(preds, target, (0.2, 1.0))
    torch.testing.assert_close(functional.binary_logauc(preds, target, (0.2, 1.0)), expected)


def test_log_auc_of_a_curve_that_is_known() -> None:
    """One positive above all ten negatives, one below five: tpr is 1/2 up to fpr 1/2, and 1 from there on."""
    preds, target = (
        torch.cat((torch.tensor([0.99, 0.5]), torch.arange(10) / 20 + 0.27)),
        torch.tensor([1, 1] + [0] * 10),
    )
    expected = (0.5 * np.log10(5) + 1.0 * np.log10(2)) / np.log10(10)
    assert float(functional.binary_logauc(preds, target, (0.1, 1.0))) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("wrong", [(0.0, 0.1), (0.2, 0.1), (0.1,), 0.1, (0.1, 2.0), "ab", (None, 1.0)])
def test_a_wrong_range_is_told(wrong: Any) -> None:
    with pytest.raises(DeclarationError, match="expected fpr_range to be"):
        metrics.BinaryLogAUC(wrong)


# ---- on a device

DEVICE_BATCHES: dict[str, tuple[Callable[[], Any], Callable[[], tuple[torch.Tensor, ...]]]] = {
    "hinge": (metrics.BinaryHingeLoss, lambda: batch("Binary", 3.0)),
    "crammer": (lambda: metrics.MulticlassHingeLoss(4, ignore_index=-1), lambda: batch("Multiclass", 3.0)),
    "each": (
        lambda: metrics.MulticlassHingeLoss(4, True, "one-vs-all", weighted=True),
        lambda: (*batch("Multiclass", 3.0), torch.ones(40)),
    ),
    **{
        name: (
            lambda kind=kind: getattr(metrics, kind)(4, ignore_index=-1),
            lambda: (torch.rand(40, 4), torch.eye(4).long().repeat(10, 1)),
        )
        for name, kind in CLASSES.items()
    },
    "fairness": (
        lambda: metrics.BinaryFairness(3, weighted=True),
        lambda: (*batch("Binary", 3.0), torch.arange(40) % 3, torch.ones(40)),
    ),
}


@pytest.mark.parametrize("name", DEVICE_BATCHES)
def test_an_update_reads_nothing_back_from_a_device(name: str) -> None:
    build, tensors = DEVICE_BATCHES[name]
    metric, given_batch = build(), tensors()
    shapes = [(part.shape, part.dtype) for part in given_batch]
    with FakeTensorMode(), Operators() as operators:
        pretend_on_device(metric)
        fakes = [torch.zeros(shape, dtype=kind, device=DEVICE) for shape, kind in shapes]
        operators.names.clear()
        metric.update(*fakes)
    assert operators.names
    assert not operators.waiting


@pytest.mark.parametrize("name", DEVICE_BATCHES)
def test_counting_later_is_counting_at_once(name: str) -> None:
    build, tensors = DEVICE_BATCHES[name]
    at_once, later, given_batch = build(), build(), tensors()
    at_once.update(*given_batch)
    with deferred():
        later.update(*given_batch)
    for one, other in zip(at_once.totals, later.totals, strict=True):
        assert one is other is None or torch.allclose(one, other, rtol=1e-12)
