"""Explanations say how sure two numbers are, and whether the difference between them is more than chance."""

from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from lightning_evalkit import BinaryEvaluation, Counts, MulticlassEvaluation, MultilabelEvaluation, explain
from lightning_evalkit.intervals import table_difference
from lightning_evalkit.statistics import STATISTICS, find

CERTAIN = "This does not depend on chance: they are equal for any samples."
cell = st.integers(0, 40)


def test_the_intervals_are_those_of_the_numbers():
    counts = Counts(tp=40, fp=5, fn=10, tn=80)
    finding, expected = explain(counts, "recall", "mcc"), counts.intervals("recall", "mcc")
    for name, interval in expected.items():
        found = finding.evidence["intervals"][name]
        assert (found["low"], found["high"], found["n"]) == (interval.low, interval.high, interval.n)
        assert f"{name} [{interval.low:.4f}, {interval.high:.4f}] from {interval.n} samples" in finding.text()
    low, high = proportion_confint(120, 135, method="wilson")
    assert f"Its 95% interval is [{low:.4f}, {high:.4f}], from 135 samples." in explain(counts, "accuracy").text()


@given(tp=cell, fp=cell, fn=cell, tn=cell)
def test_a_difference_is_negated_by_swapping_and_never_empty(tp: int, fp: int, fn: int, tn: int):
    counts = Counts(tp=tp, fp=fp, fn=fn, tn=tn)
    there, back = (table_difference(counts, *map(find, names)) for names in (("f1", "recall"), ("recall", "f1")))
    if there.value != there.value:
        assert not there.known
        return
    assert there.low <= there.value <= there.high
    assert there.low < there.high
    assert (back.low, back.high) == pytest.approx((-there.high, -there.low), abs=2e-3)


@pytest.mark.parametrize(("prevalence", "rejected"), [(0.5, (0.0, 0.08)), (0.2, (0.9, 1.0))])
def test_chance_is_told_from_a_difference_as_often_as_is_said(prevalence: float, rejected: tuple[float, float]):
    """With r = s = 0.8 accuracy and F1 of balanced data have the same expectation, and others have not."""
    cells = np.array([prevalence * 0.8, (1 - prevalence) * 0.2, prevalence * 0.2, (1 - prevalence) * 0.8])
    drawn = np.random.default_rng(3).multinomial(200, cells, 150).tolist()
    said = [explain(Counts(*each)).text() for each in drawn]
    share = sum("is more than chance" in text for text in said) / len(said)
    assert rejected[0] <= share <= rejected[1]
    assert all("chance" in text or "Other samples may show a difference" in text for text in said)


def test_only_two_names_of_one_number_are_certainly_equal():
    counts = Counts(tp=5, fp=5, fn=5, tn=5)
    pairs = list(combinations(map(find, STATISTICS), 2))
    certain = [pair for pair in pairs if table_difference(counts, *pair).method == "identity"]
    generic = [Counts(tp=17, fp=101, fn=41, tn=997), Counts(tp=613, fp=29, fn=83, tn=37)]
    equal = [
        pair
        for pair in pairs
        if all(abs(float(pair[0](each).value()) - float(pair[1](each).value())) < 1e-9 for each in generic)
    ]
    assert certain == equal
    assert "Other samples may show a difference" in explain(counts).text()
    for extreme in (Counts(tp=50, fp=0, fn=0, tn=50), Counts(tp=1, fp=0, fn=0, tn=0)):
        finding = explain(extreme)
        assert CERTAIN not in finding.text()
        assert finding.evidence["difference"]["low"] < finding.evidence["difference"]["high"]


def classes(matrix: list[list[int]], **options: object) -> MulticlassEvaluation:
    target, preds = (np.repeat(places.ravel(), np.ravel(matrix)) for places in np.indices(np.shape(matrix)))
    scores = 2.0 * torch.nn.functional.one_hot(torch.from_numpy(preds), len(matrix)) + torch.arange(len(matrix)) / 10
    evaluation = MulticlassEvaluation("logits", len(matrix), **options)
    evaluation.update(scores, torch.from_numpy(target))
    return evaluation


def test_micro_averages_are_the_accuracy_and_a_balanced_table_is_not():
    even = classes([[8, 1, 1], [1, 8, 1], [1, 1, 8]], confusion_matrix=True)
    assert CERTAIN in even.explain("accuracy", "f1/micro").text()
    for other in ("balanced_accuracy", "f1/macro"):
        finding = even.explain("accuracy", other)
        assert finding.evidence["difference"]["value"] == pytest.approx(0)
        assert CERTAIN not in finding.text()


def test_a_class_without_errors_is_not_sure_to_be_better():
    """18 of 18 right and 54 of 63: chance alone gives 18 of 18 in 6 % of cases."""
    finding = classes([[18, 0, 0], [0, 18, 0], [0, 9, 18]]).explain("accuracy", "recall/1")
    assert "The difference may be chance" in finding.text()


def test_the_difference_of_classes_contains_the_truth_as_often_as_it_says():
    joint = np.array([[0.42, 0.05, 0.03], [0.03, 0.25, 0.02], [0.05, 0.05, 0.10]])
    truth = joint.trace() - (joint.diagonal() / joint.sum(1)).mean()
    drawn = np.random.default_rng(4).multinomial(150, joint.ravel(), 150).reshape(-1, 3, 3)
    found = [classes(each.tolist()).explain("accuracy", "balanced_accuracy").evidence["difference"] for each in drawn]
    assert 0.90 <= np.mean([each["low"] <= truth <= each["high"] for each in found]) <= 1.0


def test_of_top_k_accuracies_one_contains_the_other():
    evaluation = classes([[18, 2, 0], [4, 16, 0], [3, 7, 10]], statistics=["accuracy", "top_2_accuracy"])
    accuracy, top = (float(evaluation.compute()[name]) for name in ("accuracy", "top_2_accuracy"))
    found = evaluation.explain("accuracy", "top_2_accuracy").evidence["difference"]
    assert found["value"] == pytest.approx(accuracy - top)
    more = round((top - accuracy) * 60)
    wilson = Counts(tp=more, fp=0, fn=60 - more, tn=0).intervals("recall")["recall"]
    assert (found["low"], found["high"]) == pytest.approx((-wilson.high, -wilson.low))


@pytest.mark.filterwarnings("ignore:.*is NaN")
def test_clusters_decide_how_sure_an_explanation_is():
    scores, target = torch.tensor([1, 1, 1, 0, 0, 0, 1, 0] * 40), torch.tensor([1, 1, 0, 0, 0, 1, 1, 0] * 40)
    alone, grouped = (BinaryEvaluation("labels", buckets=256) for _ in range(2))
    alone.update(scores, target, sample=torch.arange(320))
    grouped.update(scores, target, cluster=torch.arange(320) // 8)
    for names in (("accuracy",), ("precision", "specificity")):
        found = [each.explain(*names) for each in (alone, grouped)]
        assert len({finding.headline for finding in found}) == 1
        assert found[0].text() != found[1].text()
    assert f"[{grouped.interval('accuracy').low:.4f}, " in grouped.explain("accuracy").text()


def test_buckets_without_an_error_are_not_certain():
    evaluation = BinaryEvaluation("labels", buckets=64)
    evaluation.update(torch.arange(40) % 2, torch.arange(40) % 2, cluster=torch.arange(40))
    finding = evaluation.explain()
    assert CERTAIN not in finding.text()
    assert finding.evidence["difference"]["high"] > 0.05
    several = MulticlassEvaluation("labels", 3, buckets=64)
    several.update(torch.arange(40) % 3, torch.arange(40) % 3, sample=torch.arange(40))
    assert CERTAIN in several.explain("accuracy", "f1/micro").text()


def test_a_difference_of_shares_is_at_most_one() -> None:
    labels = MultilabelEvaluation("labels", 2, buckets=64)
    truth = torch.tensor([[1, 0], [1, 0], [1, 0]])
    labels.update(torch.tensor([[1, 0], [0, 0], [1, 1]]), truth, sample=torch.arange(3))
    found = labels.explain("exact_match", "hamming_accuracy").evidence["difference"]
    assert found["value"] == pytest.approx(-1 / 3)
    assert -1 <= found["low"] < found["value"] < found["high"] <= 1


def test_where_nothing_says_how_sure_it_is_the_reason_stands():
    labels = MultilabelEvaluation("labels", 2)
    labels.update(torch.tensor([[1, 0], [0, 1]] * 9), torch.tensor([[1, 0], [1, 1]] * 9))
    assert "is more than chance: the labels of a sample depend on each other" in labels.explain().text()
    weighted = BinaryEvaluation("labels", weighted=True)
    weighted.update(torch.tensor([1, 0, 1]), torch.tensor([1, 0, 0]), torch.tensor([0.5, 1.0, 2.0]))
    assert "is more than chance: sums of weights do not give" in weighted.explain().text()
    assert "interval" not in explain(Counts(tp=0, fp=0, fn=0, tn=9)).text()
