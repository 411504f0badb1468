"""Intervals of the entries of evaluations: all three tasks, every kind of entry, refusals with reasons."""

from itertools import pairwise
from math import log, sqrt

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from lightning_evalkit import BinaryEvaluation, Counts, MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.evaluation.base import Evaluation
from lightning_evalkit.intervals import Interval, intervals
from lightning_evalkit.intervals.binomial import wilson


def binary(samples: int = 300, **declared: object) -> BinaryEvaluation:
    generator = torch.Generator().manual_seed(samples)
    target = torch.randint(2, (samples,), generator=generator)
    evaluation = BinaryEvaluation("logits", **declared)
    evaluation.update(torch.randn(samples, generator=generator) + target, target)
    return evaluation


def multiclass(matrix: list[list[int]], **declared: object) -> MulticlassEvaluation:
    evaluation = MulticlassEvaluation("labels", len(matrix), **declared)
    target, label = (places.repeat_interleave(torch.tensor(matrix).flatten()) for places in _places(len(matrix)))
    evaluation.update(label, target)
    return evaluation


def _places(classes: int) -> tuple[Tensor, Tensor]:
    return torch.arange(classes).repeat_interleave(classes), torch.arange(classes).repeat(classes)


MATRIX = [[30, 2, 1], [4, 25, 3], [0, 1, 34]]


# ---- one table


def test_every_entry_is_the_interval_of_its_counts():
    evaluation = binary(prefix="val/")
    names = [*evaluation.keys(keep_base=True)]
    expected = intervals(evaluation.counts, *names, level=0.9)
    assert evaluation.intervals(level=0.9) == {f"val/{name}": found for name, found in expected.items()}
    values = evaluation.compute()
    assert all(torch.tensor(found.value).float() == values[name] for name, found in evaluation.intervals().items())
    assert evaluation.interval("val/f1", method="anytime").method == "anytime"


def test_of_several_thresholds_each_has_its_own():
    evaluation = binary(threshold=[0.3, 0.7], statistics=["recall"])
    counts = evaluation.counts
    for place, name in enumerate(("recall@0.3", "recall@0.7")):
        assert evaluation.interval(name) == intervals(counts.at(place), "recall")["recall"]


@pytest.mark.parametrize(
    ("name", "method", "reason"),
    [
        ("accuracy", "dirichlet", "which is not computed from one table"),
        ("accuracy", "smoothed", "which is not an average over classes"),
        ("f1/macro", "wilson", "which is not a share of samples"),
        ("top_2_accuracy", "bca", "which is not computed from one table"),
        ("auroc/0", "jeffreys", "which is not a share of samples"),
    ],
)
def test_the_reason_is_that_of_the_method(name: str, method: str, reason: str):
    statistics = ["accuracy", "f1/macro", "top_2_accuracy", "auroc/0"]
    evaluation = MulticlassEvaluation("logits", 3, statistics=statistics, curves=True)
    evaluation.update(torch.eye(3).repeat(20, 1), torch.arange(60) % 3)
    with pytest.raises(DeclarationError, match=f"method='{method}' does not hold for .*, {reason}"):
        evaluation.interval(name, method=method)


def test_a_method_that_does_not_hold_is_refused_or_named():
    evaluation = binary()
    with pytest.raises(DeclarationError, match="'wilson' does not hold for mcc"):
        evaluation.interval("mcc", method="wilson")
    found = evaluation.intervals(method="wilson")
    assert found["recall"].method == "wilson"
    assert not found["mcc"].known
    assert "does not hold for mcc" in found["mcc"].reason
    with pytest.raises(DeclarationError, match=r"expected method to be one of auto, .*, got 'wald'"):
        evaluation.intervals(method="wald")
    with pytest.raises(DeclarationError, match="expected level to be a number between 0 and 1"):
        evaluation.intervals(95)
    assert "at most 0.999" in evaluation.intervals(0.9999)["mcc"].reason
    with pytest.raises(DeclarationError, match="there is no entry 'f3'"):
        evaluation.interval("f3")


@pytest.mark.filterwarnings("ignore::lightning_evalkit.errors.UndefinedWarning")
def test_the_value_of_nothing_is_that_of_compute():
    evaluation = BinaryEvaluation("labels", zero_division=0.0)
    evaluation.update(torch.tensor([0, 0]), torch.tensor([0, 0]))
    found = evaluation.interval("recall")
    assert (found.value, found.known, found.n) == (0.0, False, 0)
    assert "0/0" in found.reason
    assert evaluation.interval("specificity") == Interval(1.0, *wilson(2, 2, 0.95), 0.95, "wilson", 2)


def test_at_another_prevalence():
    evaluation = binary()
    found = evaluation.intervals(prevalence=0.01)
    expected = evaluation.at_prevalence(0.01)
    assert all(torch.tensor(found[name].value).float() == value for name, value in expected.items())
    assert found["precision"].low < found["precision"].value < found["precision"].high
    with pytest.raises(DeclarationError, match="only a binary evaluation can be projected"):
        multiclass(MATRIX).interval("accuracy", prevalence=0.1)


# ---- all classes


def test_shares_of_all_classes_are_shares():
    evaluation = multiclass(MATRIX, statistics=["accuracy", "f1/micro", "hamming_distance", "recall/1", "f1/2"])
    right = Interval(0.89, *wilson(89, 100, 0.95), 0.95, "wilson", 100)
    found = evaluation.intervals()
    assert found["accuracy"] == right
    assert (found["f1/micro"].low, found["f1/micro"].high) == pytest.approx((right.low, right.high))
    assert found["hamming_distance"].high == pytest.approx(1 - right.low)
    assert found["recall/1"] == Interval(25 / 32, *wilson(25, 32, 0.95), 0.95, "wilson", 32)
    assert found["f1/2"] == intervals(Counts(tp=34, fp=4, fn=1, tn=61), "f1")["f1"]


@pytest.mark.parametrize("name", ["f1/macro", "f1/weighted", "precision/macro", "balanced_accuracy", "mcc", "kappa"])
def test_averages_are_as_wide_as_their_resamples(name: str):
    large = [[20 * cell for cell in row] for row in MATRIX]
    evaluation = multiclass(large, statistics=[name], confusion_matrix=True)
    found, resampled = evaluation.interval(name), evaluation.interval(name, method="bootstrap")
    assert (found.method, resampled.method, found.n) == ("smoothed", "bootstrap", 2000)
    assert found.width == pytest.approx(resampled.width, rel=0.12)
    assert found.low == pytest.approx(resampled.low, abs=found.width / 10)


@pytest.mark.parametrize("name", ["f1/macro", "mcc", "kappa", "recall/macro"])
@given(cells=st.lists(st.integers(0, 30), min_size=9, max_size=9))
def test_without_the_matrix_intervals_are_no_narrower(name: str, cells: list[int]):
    matrix = [cells[:3], cells[3:6], cells[6:]]
    if not sum(cells):
        return
    with_matrix = multiclass(matrix, statistics=[name], confusion_matrix=True, zero_division=0.0).interval(name)
    without = multiclass(matrix, statistics=[name], zero_division=0.0).interval(name)
    assert with_matrix.known == without.known
    assert not without.known or without.width >= with_matrix.width * (1 - 1e-9)
    assert not without.known or without.low <= without.value <= without.high


def test_one_class_without_errors_is_not_certain():
    found = multiclass([[10, 0], [0, 0]], statistics=["f1/macro"]).interval("f1/macro")
    alone = intervals(Counts(tp=10, fp=0, fn=0, tn=0), "f1")["f1"]  # the average is over this class
    assert (found.low, found.high) == pytest.approx((alone.low, 1), abs=0.02)


def test_an_average_over_classes_with_few_samples_has_no_interval():
    """At most one class in ten may have fewer than five samples."""
    enough, few = [[5, 0, 0], [0, 5, 0], [1, 0, 90]], [[4, 0, 0], [0, 5, 0], [1, 0, 90]]
    for name in ("f1/macro", "precision/macro", "recall/macro", "balanced_accuracy"):
        assert multiclass(enough, statistics=[name]).interval(name).known
        found = multiclass(few, statistics=[name]).interval(name)
        assert not found.known
        assert "1 of the 3 classes that it averages has fewer than 5 samples" in found.reason
    found = multiclass(few, statistics=["accuracy", "f1/0", "f1/weighted", "mcc", "kappa"]).intervals()
    assert all(interval.known for interval in found.values())
    ten = torch.diag(torch.tensor([1] + [20] * 9)).tolist()
    assert multiclass(ten, statistics=["f1/macro"]).interval("f1/macro").known
    eleven = torch.diag(torch.tensor([1, 1] + [20] * 9)).tolist()
    assert not multiclass(eleven, statistics=["f1/macro"]).interval("f1/macro").known


def test_classes_that_do_not_occur_are_no_part_of_an_average():
    matrix = [[30, 2, 0, 0], [1, 30, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert multiclass(matrix, statistics=["f1/macro"]).interval("f1/macro").known


def test_an_average_is_no_surer_than_its_classes():
    """The class of five, all right, has Wilson's [0.566, 1]: a quarter of that far below the mean of four classes."""
    found = multiclass(torch.diag(torch.tensor([5, 10**6, 10**6, 10**6])).tolist(), statistics=["recall/macro"])
    assert found.interval("recall/macro").low <= 1 - (1 - wilson(5, 5, 0.95)[0]) / 4


@pytest.mark.parametrize("name", ["mcc", "kappa"])
def test_classes_are_not_compared_with_one_that_hardly_occurs(name: str):
    assert multiclass([[90, 2], [1, 4]], statistics=[name]).interval(name).known
    found = multiclass([[90, 2], [1, 3]], statistics=[name]).interval(name)
    assert (found.known, found.reason) == (
        False,
        "only 4 samples are not of the most frequent class, too few to compare with",
    )


def test_resamples_need_the_matrix():
    with pytest.raises(DeclarationError, match="needs the confusion matrix: construct the evaluation with"):
        multiclass(MATRIX).interval("f1/macro", method="bootstrap")


def test_an_average_without_a_largest_value_has_none():
    found = multiclass(MATRIX, statistics=["lift/macro"]).interval("lift/macro")
    assert not found.known
    assert "no largest value" in found.reason


def test_top_k_and_exact_match_are_shares():
    evaluation = MulticlassEvaluation("logits", 3, statistics=["top_2_accuracy"])
    evaluation.update(torch.tensor([[3.0, 2, 1], [1, 2, 3], [3, 2, 1]]), torch.tensor([0, 0, 1]))
    assert evaluation.interval("top_2_accuracy") == Interval(2 / 3, *wilson(2, 3, 0.95), 0.95, "wilson", 3)
    labels = MultilabelEvaluation("labels", 2)
    labels.update(torch.tensor([[1, 0], [1, 1], [0, 0]]), torch.tensor([[1, 0], [1, 0], [0, 0]]))
    assert labels.interval("exact_match") == Interval(2 / 3, *wilson(2, 3, 0.95), 0.95, "wilson", 3)


# ---- reasons


def test_what_has_no_honest_interval_says_why():
    labels = MultilabelEvaluation("labels", 2, per_label=True)
    labels.update(torch.tensor([[1, 0], [1, 1], [0, 0]]), torch.tensor([[1, 0], [1, 0], [0, 0]]))
    found = labels.intervals()
    assert "depend on each other" in found["f1/micro"].reason
    assert "how much they differ" in found["f1/samples"].reason
    assert found["accuracy/0"].known
    scores = binary(curves=True).intervals()
    for name in ("average_precision", "brier", "log_loss", "calibration_error"):
        assert "how much single samples contribute" in scores[name].reason
        assert scores[name].value == pytest.approx(float(binary(curves=True).compute()[name]))
    weighted = BinaryEvaluation("labels", weighted=True)
    weighted.update(torch.tensor([1, 0]), torch.tensor([1, 1]), torch.tensor([2.0, 1.0]))
    assert "do not give the number of samples" in weighted.interval("recall").reason


# ---- AUROC


def _delong(positive: np.ndarray, negative: np.ndarray) -> tuple[float, float]:
    """Area and variance from all pairs."""
    won = (positive[:, None] > negative) + (positive[:, None] == negative) / 2
    rows, columns = won.mean(1), won.mean(0)
    return won.mean(), rows.var(ddof=1) / len(rows) + columns.var(ddof=1) / len(columns)


@pytest.mark.parametrize("distance", [0.5, 1.5])
@pytest.mark.parametrize("resolution", [256, 65_536])
def test_auroc_equals_the_unbinned_reference_within_the_bound(distance: float, resolution: int):
    """Where scores are many, the interval is DeLong's on the scale of log-odds with half a pair more."""
    rng = np.random.default_rng(3)
    negative, positive = rng.normal(0, 1, 500), rng.normal(distance, 1, 80)
    evaluation = BinaryEvaluation("logits", curves=True, resolution=resolution)
    scores = torch.from_numpy(np.concatenate((negative, positive))).float()
    evaluation.update(scores, (torch.arange(580) >= 500).long())
    area, variance = _delong(positive.astype(np.float32), negative.astype(np.float32))
    inside = (area * 40_000 + 0.5) / 40_001
    reach = 1.959963984540054 * sqrt(variance) / (inside * (1 - inside))
    ends = [1 / (1 + np.exp(-(log(inside / (1 - inside)) + side * reach))) for side in (-1, 1)]
    low, _, high = map(float, evaluation.bounds("auroc"))
    found = evaluation.interval("auroc")
    assert (found.method, found.n) == ("delong", 580)
    assert found.value == pytest.approx(area, abs=high - low)
    for end, expected, bound in ((found.low, ends[0], low), (found.high, ends[1], high)):
        # The area moves by at most the bound, the ends by little more: the error moves with it.
        assert end == pytest.approx(expected, abs=1.5 * abs(bound - found.value) + 1e-9)


def test_coarse_bins_widen_the_interval():
    fine, coarse = (binary(curves=True, resolution=each).interval("auroc") for each in (4096, 8))
    bounds = binary(curves=True, resolution=8).bounds("auroc")
    assert coarse.width - fine.width > float(bounds.high - bounds.low) / 2
    assert coarse.low <= fine.low
    assert fine.high <= coarse.high


@pytest.mark.parametrize("method", ["delong", "hanley-mcneil"])
def test_no_wrong_pair_is_not_certain(method: str):
    evaluation = BinaryEvaluation("probabilities", statistics=["auroc", "gini"], curves=True)
    evaluation.update(torch.tensor([0.1, 0.2, 0.3, 0.7, 0.8, 0.9]), torch.tensor([0, 0, 0, 1, 1, 1]))
    found = evaluation.interval("auroc", method=method)
    assert 0.2 < found.low < 0.8
    assert found.high == 1
    gini = evaluation.interval("gini", method=method)
    assert (gini.low, gini.high) == pytest.approx((2 * found.low - 1, 1))


def test_turned_scores_have_the_turned_interval():
    one, other = BinaryEvaluation("logits", curves=True), BinaryEvaluation("logits", curves=True)
    scores, target = torch.linspace(-2, 2, 40), (torch.arange(40) % 3 == 0).long()
    one.update(scores, target)
    other.update(-scores, target)
    a, b = one.interval("auroc"), other.interval("auroc")
    assert (a.low, a.high) == pytest.approx((1 - b.high, 1 - b.low), abs=1e-3)


# ---- law 10


def _repeated(kind: str, times: int) -> Evaluation:
    generator = torch.Generator().manual_seed(5)
    evaluation: Evaluation = BinaryEvaluation("logits", curves=True)
    if kind != "scores":
        evaluation = MulticlassEvaluation("logits", 3, per_class=True, confusion_matrix=kind == "matrix")
    target = torch.randint(3 if kind != "scores" else 2, (60,), generator=generator)
    noise = torch.randn((60, 3) if kind != "scores" else (60,), generator=generator)
    for _ in range(times):
        evaluation.update(noise + (target if kind == "scores" else torch.nn.functional.one_hot(target, 3)), target)
    return evaluation


@pytest.mark.parametrize("kind", ["scores", "classes", "matrix"])
def test_more_data_never_widens_and_a_higher_level_never_narrows(kind: str):
    once, compared = _repeated(kind, 1), 0
    for more in (2, 3, 10):
        found = _repeated(kind, more).intervals()
        for name, interval in once.intervals().items():
            assert not interval.known or found[name].width < interval.width, name
            compared += interval.known
    assert compared >= 3 * 8
    levels = [once.intervals(level=level) for level in (0.5, 0.8, 0.95, 0.99, 0.999)]
    for less, more in pairwise(levels):
        for name, interval in less.items():
            assert not interval.known or more[name].low <= interval.low <= interval.high <= more[name].high, name


@pytest.mark.parametrize("zero_division", [0.0, 1.0])
def test_an_interval_is_around_what_compute_reports_where_zero_division_has_a_value(zero_division: float):
    evaluation = MulticlassEvaluation("labels", 4, zero_division=zero_division)  # two classes never occur
    evaluation.update(torch.tensor([0, 1, 0, 1, 0, 1] * 10), torch.tensor([0, 1, 1, 1, 0, 0] * 10))
    values = evaluation.compute()
    found = evaluation.intervals()
    for name, interval in found.items():
        assert interval.value == pytest.approx(float(values[name])), name
        assert not interval.known or interval.low < interval.value < interval.high
    unknown = {
        name for name, interval in found.items() if not interval.known
    }  # numbers that stand for 0/0 tell nothing
    assert unknown == {"precision/macro", "recall/macro", "f1/macro"}
