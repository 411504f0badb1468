"""Rules on numbers: healthy classifiers are left alone, planted faults are found, and all tasks can ask.

A healthy classifier here is calibrated: targets are drawn from its own probabilities, so that nothing about its numbers
is wrong except chance.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import TYPE_CHECKING

import pytest
import torch
from simulated import binary, classes, evaluated

from lightning_evalkit import (
    BinaryEvaluation,
    Counts,
    MulticlassEvaluation,
    MultilabelEvaluation,
    diagnose,
)
from lightning_evalkit.errors import InputError

if TYPE_CHECKING:
    from lightning_evalkit.diagnosis.report import Diagnosis

SIZES = (200, 1_000, 5_000, 20_000, 100_000)
EACH = {200: 300, 1_000: 250, 5_000: 100, 20_000: 15, 100_000: 5}
"""How many classifiers of each size and task: 670 of each task, 2,010 in all."""


@cache
def healthy(task: str) -> list[Diagnosis]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [evaluated(task, n, 1_000 * n + k).diagnose() for n in SIZES for k in range(EACH[n])]


@pytest.mark.slow
@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel"])
def test_healthy_classifiers_are_left_alone(task: str) -> None:
    """At most one in a hundred has an issue: the tests of a report are exact or conservative, and Holm's together."""
    found = healthy(task)
    assert len(found) == 670
    with_issues = [each for each in found if each.issues]
    codes = [finding.code for each in with_issues for finding in each.issues]
    assert len(with_issues) <= 0.01 * len(found), codes


# ---- planted faults


def codes(found: Diagnosis) -> set[str]:
    return {finding.code for finding in found.findings}


@pytest.mark.parametrize("n", [500, 5_000])
def test_a_weighted_loss_s_shift_is_found(n: int) -> None:
    """A pos_weight of 9 moves logits by ln 9 = 2.2: found in every one of twenty runs, with its size."""
    for seed in range(20):
        evaluation = BinaryEvaluation("logits", curves=True)
        evaluation.update(*binary(n, seed, shift=2.2))
        [finding] = [each for each in evaluation.diagnose().issues if each.code == "EK216"]
        assert 0.5 < finding.evidence["shift"] < 2.5  # of the mean probability: less than that of the logits


def test_swapped_labels_are_found() -> None:
    for seed in range(20):
        logits, target = binary(300, seed)
        evaluation = BinaryEvaluation("logits")
        evaluation.update(logits, 1 - target)
        assert "EK206" in codes(evaluation.diagnose())
        scores, truth = classes(2_000, seed)
        several = MulticlassEvaluation("logits", scores.shape[1])
        several.update(scores, (truth + 1) % scores.shape[1])
        assert "EK206" in codes(several.diagnose())


def test_one_class_and_the_majority() -> None:
    target = torch.tensor([0] * 90 + [1] * 10)
    always = BinaryEvaluation("labels", zero_division=0.0)
    always.update(torch.zeros(100).long(), target)
    found = always.diagnose()
    assert "EK205" in codes(found)
    assert "EK209" not in codes(found)
    wrong = BinaryEvaluation("labels")
    wrong.update(torch.tensor([1] * 40 + [0] * 60), target)
    assert "EK204" in codes(wrong.diagnose())


def test_probabilities_declared_as_logits() -> None:
    logits, target = binary(500, 1)
    evaluation = BinaryEvaluation("logits", curves=True, zero_division=0.0)
    evaluation.update(logits.sigmoid(), target)
    assert "EK218" in codes(evaluation.diagnose())


def test_the_place_of_use() -> None:
    counts = Counts(tp=400, fp=100, fn=100, tn=400)
    found = [each for each in diagnose(counts, prevalence=0.01).issues if each.code == "EK211"]
    assert [each.subject for each in found] == ["precision", "f1"]
    # precision at 1 %: 0.8 · 0.01 / (0.8 · 0.01 + 0.2 · 0.99)
    assert found[0].evidence["there"] == pytest.approx(0.008 / (0.008 + 0.198))
    assert not [each for each in diagnose(counts, prevalence=0.5).findings if each.code == "EK211"]
    with pytest.raises(ValueError, match="prevalence"):
        diagnose(counts, prevalence=1.5)


def test_micro_averages_and_absent_classes() -> None:
    scores, target = classes(500, 0)
    evaluation = MulticlassEvaluation("logits", 3, statistics=["accuracy", "f1/micro", "one_vs_rest_accuracy/macro"])
    evaluation.update(scores, target)
    assert {"EK202", "EK212"} <= codes(evaluation.diagnose())
    more = MulticlassEvaluation("labels", 4, class_names=["a", "b", "c", "d"])
    more.update(torch.tensor([0, 1, 2, 2]), torch.tensor([0, 1, 2, 1]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = more.diagnose()
    assert "d never occurs as a target." in found.text()


def test_errors_of_labels_that_come_together() -> None:
    random = torch.Generator().manual_seed(0)
    target = torch.randint(0, 2, (400, 4), generator=random)
    together = target ^ (torch.rand(400, 1, generator=random) < 0.15).long()
    evaluation = MultilabelEvaluation("labels", 4)
    evaluation.update(together, target)
    [finding] = [each for each in evaluation.diagnose().findings if each.code == "EK213"]
    accuracies = (together == target).double().mean(0)
    assert finding.evidence["independent"] == pytest.approx(float(accuracies.prod()))


# ---- asking


def test_accuracy_equals_f1_by_its_cause() -> None:
    found = diagnose(Counts(tp=40, fp=10, fn=10, tn=40))
    assert "as many true positives as true negatives (TP = TN = 40)" in found.text()
    assert found.issues == ()
    assert "EK201" not in codes(diagnose(Counts(tp=40, fp=0, fn=0, tn=60)))


def test_weights_are_not_counted_as_samples() -> None:
    evaluation = BinaryEvaluation("labels", weighted=True)
    target = torch.tensor([0] * 90 + [1] * 10)
    evaluation.update(torch.tensor([1] * 40 + [0] * 60), target, torch.full((100,), 0.3))
    found = evaluation.diagnose()
    assert {"EK204", "EK206", "EK210"} <= {*found.not_applicable}


def test_ignored_known_and_several_thresholds() -> None:
    counts = Counts(tp=40, fp=10, fn=10, tn=40)
    assert "EK201" not in codes(diagnose(counts, ignore=["EK201"]))
    fingerprint = next(each.fingerprint for each in diagnose(counts).findings)
    assert fingerprint not in [each.fingerprint for each in diagnose(counts, known=[fingerprint]).findings]
    several = BinaryEvaluation("probabilities", threshold=[0.2, 0.8])
    several.update(torch.tensor([0.9, 0.1]), torch.tensor([1, 0]))
    with pytest.raises(InputError, match="one threshold"):
        several.diagnose()
