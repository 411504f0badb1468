"""Pairs over classes, labels and samples: every identity that is stated is computed again from the samples."""

from __future__ import annotations

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sklearn

from lightning_evalkit import BinaryEvaluation, Counts, MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit.diagnosis import Finding, explain

NAMES = ["cat", "dog", "fox", "owl"]
labels = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=20)


def evaluated(pairs: list[tuple[int, int]], **options: float) -> tuple[MulticlassEvaluation, list[int], list[int]]:
    said, truth = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    evaluation = MulticlassEvaluation("labels", 4, NAMES, **options)
    evaluation.update(torch.tensor(said), torch.tensor(truth))
    return evaluation, said, truth


def stated(finding: Finding) -> float:
    """The number with which the identity ends."""
    [reason] = [reason for reason in finding.reasons if " − " in reason and " interval " not in reason]
    return float(re.findall(r"= (-?[\d.]+(?:e[+-]?\d+)?):", reason)[-1])


@given(labels)
def test_accuracy_and_the_plain_means_are_two_means_of_the_same_values(pairs: list[tuple[int, int]]):
    evaluation, said, truth = evaluated(pairs, zero_division=0.0)
    accuracy = sklearn.accuracy_score(truth, said)
    seen = sorted({*truth})
    plain = {
        "balanced_accuracy": sklearn.recall_score(truth, said, labels=seen, average="macro", zero_division=0.0),
        "f1/macro": sklearn.f1_score(truth, said, labels=range(4), average="macro", zero_division=0.0),
        "precision/macro": sklearn.precision_score(truth, said, labels=range(4), average="macro", zero_division=0.0),
    }
    for name, value in plain.items():
        finding = evaluation.explain("accuracy", name)
        assert finding.code == "two-means", name
        assert stated(finding) == pytest.approx(accuracy - value, rel=1e-4, abs=1e-9)
        weights = [float(row[2]) for row in finding.table.rows]
        assert sum(weights) == pytest.approx(1, abs=1e-3)


def test_means_of_labels_are_explained_by_their_weights():
    evaluation = MultilabelEvaluation("labels", 2, ["often", "seldom"])
    truth = torch.tensor([[1, 0]] * 9 + [[1, 1]])
    evaluation.update(torch.tensor([[1, 0]] * 10), truth)
    finding = evaluation.explain("f1/micro", "f1/macro")
    assert finding.code == "two-means"
    assert stated(finding) == pytest.approx(20 / 21 - 0.5, rel=1e-4)  # 2·10 of 2·10 + 1, and the mean of 1 and 0
    assert re.search("(seldom|often) contributes most, as its F1 is", finding.text())


@given(labels)
def test_accuracy_and_the_recall_of_a_class(pairs: list[tuple[int, int]]):
    evaluation, said, truth = evaluated(pairs)
    finding = evaluation.explain("accuracy", "recall/dog")
    if 1 not in truth or {*truth} == {1}:
        assert finding.code in ("undefined", "no-identity")
        return
    gap = sklearn.accuracy_score(truth, said) - sklearn.recall_score(truth, said, labels=[1], average="macro")
    assert finding.code == "accuracy-and-recall-of-class"
    assert stated(finding) == pytest.approx(gap, rel=1e-4, abs=1e-9)


@given(labels)
def test_recall_and_one_vs_rest_accuracy_of_a_class(pairs: list[tuple[int, int]]):
    evaluation, said, truth = evaluated(pairs)
    finding = evaluation.explain("one_vs_rest_accuracy/dog", "recall/dog")
    if 1 not in truth or {*truth} == {1}:
        assert finding.code in ("undefined", "accuracy-recall")
        return
    mine = [[int(label == 1) for label in each] for each in (truth, said)]
    gap = sklearn.accuracy_score(*mine) - sklearn.recall_score(*mine)
    assert finding.code == "accuracy-recall"
    assert "class dog against the rest" in finding.text()
    assert stated(finding) == pytest.approx(gap, rel=1e-4, abs=1e-9)


@given(st.lists(st.tuples(*[st.integers(0, 1)] * 6), min_size=1, max_size=12))
def test_exact_match_and_f1_of_samples(rows: list[tuple[int, ...]]):
    said, truth = (torch.tensor([row[part] for row in rows]) for part in (slice(0, 3), slice(3, 6)))
    evaluation = MultilabelEvaluation("labels", 3)
    evaluation.update(said, truth)
    finding = evaluation.explain("exact_match", "f1/samples")
    wrong = (said != truth).any(1)
    assert finding.code in ("exact-match-and-samples", "undefined")
    if wrong.any():
        mean = sklearn.f1_score(truth[wrong], said[wrong], average="samples", zero_division=0.0)
        number = "1 sample with an error counts" if wrong.sum() == 1 else f"{wrong.sum()} samples with an error count"
        assert f"The {number} 0 for exact_match and {mean:.4g}" in finding.text()
    empty = int(((said + truth).sum(1) == 0).sum())
    number = "1 sample has" if empty == 1 else f"{empty} samples have"
    assert (f"{number} no label and no prediction" in finding.text()) is bool(empty)


def test_one_sample_and_one_error_are_singular():
    one = BinaryEvaluation("labels")
    one.update([1], [1])
    assert repr(one).startswith("BinaryEvaluation('labels'): 1 sample, accuracy 1")
    assert str(one).startswith("BinaryEvaluation('labels'): 1 sample\n")
    binary = BinaryEvaluation("labels")
    binary.update([1, 0, 0], [1, 1, 0])
    several = MulticlassEvaluation("labels", 3)
    several.update([0, 1, 2], [0, 1, 1])
    tags = MultilabelEvaluation("labels", 2)
    tags.update([[0, 1], [0, 0]], [[1, 1], [0, 0]])
    texts = [
        *(each.explain().text() for each in (one, binary, several, tags)),
        *(each.explain("accuracy").text() for each in (one, binary, several)),
        several.explain("accuracy", "recall/0").text(),
        tags.explain("exact_match", "f1/samples").text(),
        *(each.diagnose().text() for each in (binary, several, tags)),
    ]
    assert "With E = FP + FN = 1 error of N = 3" in texts[1]
    assert "so the 1 error is a false positive" in texts[2]
    assert "recall of 0 is 1.0000 [0.2065, 1.0000], from 1 sample." in texts[-2]
    assert "0 occurs 1 time and is never predicted" in texts[-1]
    assert not [text for text in texts if re.search(r"(?<![\d.,])1 (sample|error|time)s\b", text)]


# ---- nearly equal


def test_numbers_are_nearly_equal_if_one_sample_closes_the_gap():
    # One true negative more than true positives: deciding it otherwise makes both 80 of 101.
    finding = explain(Counts(tp=40, fp=10, fn=10, tn=41))
    closes = "one changed prediction would close or reverse the gap."
    assert finding.headline == f"accuracy and f1 are nearly equal and differ by 0.0019802: 0.80198 and 0.8; {closes}"
    assert finding.evidence["equal"] is False
    few = explain(Counts(tp=1, fp=1, fn=0, tn=4))  # 5 of 6 and 2 of 3: with the false positive right, both are 1
    assert few.headline == f"accuracy and f1 are nearly equal and differ by 0.166667: 0.833333 and 0.666667; {closes}"
    assert closes not in explain(Counts(tp=40, fp=10, fn=10, tn=60)).headline


def test_within_a_thousandth_is_nearly_equal():
    near = explain(Counts(tp=400_000, fp=100_000, fn=100_000, tn=401_000))
    assert "nearly equal" in near.headline  # 0.0002 apart, and it takes a thousand samples to close that
    assert "nearly" not in explain(Counts(tp=400_000, fp=100_000, fn=100_000, tn=440_000)).headline
    assert "nearly" not in explain(Counts(tp=40, fp=10, fn=10, tn=40)).headline
    assert "nearly" not in explain(Counts(tp=40, fp=10, fn=10, tn=60)).headline


def test_two_numbers_of_many_classes_are_nearly_equal():
    evaluation, *_ = evaluated([(0, 0), (1, 1), (2, 2), (3, 3)] * 500 + [(1, 0)])
    assert "are nearly equal and differ by" in evaluation.explain("accuracy", "balanced_accuracy").headline


def test_numbers_of_many_classes_are_nearly_equal_if_one_prediction_counts_more_than_the_gap():
    evaluation, *_ = evaluated([(0, 0), (0, 0), (1, 1), (2, 2), (3, 3), (1, 0)])
    # 5 of 6, and the mean of 2/3, 1, 1 and 1: the gap is 1/12, less than the 1/6 of one sample.
    headline = evaluation.explain("accuracy", "balanced_accuracy").headline
    assert headline == (
        "accuracy and balanced_accuracy are nearly equal and differ by 0.0833333: 0.833333 and 0.916667; "
        "one prediction counts more than this gap."
    )


def test_the_larger_f1_counts_true_positives_twice():
    evaluation = BinaryEvaluation("labels")
    evaluation.update(torch.tensor([1, 1, 1, 1, 0]), torch.tensor([1, 1, 1, 0, 0]))
    assert evaluation.explain().reasons[0] == (
        "F1 is larger because there are more true positives than true negatives, and F1 counts TP twice."
    )
