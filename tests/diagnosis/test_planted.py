"""Every fault of numbers, planted in simulated data: its rule finds it at least as often as its page says."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from simulated import binary, labels

from lightning_evalkit import (
    BinaryEvaluation,
    Counts,
    MulticlassEvaluation,
    MultilabelEvaluation,
    diagnose,
)
from lightning_evalkit.diagnosis.rules import RULES, rules_about
from lightning_evalkit.diagnosis.rules.table import WHEREVER

if TYPE_CHECKING:
    from collections.abc import Callable

    from lightning_evalkit.diagnosis.report import Diagnosis

REPEATS, FEW = 100, 5
"""Data sets of a fault that chance may hide, and of one that it cannot."""


def cells(n: int, seed: int, prevalence: float, recall: float, specificity: float) -> Counts:
    """A table of n samples drawn from these rates."""
    random = np.random.default_rng(seed)
    positives = int(random.binomial(n, prevalence))
    tp, tn = int(random.binomial(positives, recall)), int(random.binomial(n - positives, specificity))
    return Counts(tp=tp, fp=n - positives - tn, fn=positives - tp, tn=tn)


def drawn(n: int, seed: int, middle: float = 0.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Calibrated logits around a middle, and targets drawn from them."""
    random = torch.Generator().manual_seed(seed)
    logits = middle + 2 * torch.randn(n, generator=random)
    return logits, (torch.rand(n, generator=random) < logits.sigmoid()).long()


def scored(logits: torch.Tensor, target: torch.Tensor, inputs: Any = "logits", **options: Any) -> Diagnosis:
    evaluation = BinaryEvaluation(inputs, curves=True, **{"resolution": 4096, "zero_division": 0.0, **options})
    evaluation.update(logits, target)
    return evaluation.diagnose()


def in_classes(preds: list[int], target: list[int], number: int, **options: Any) -> Diagnosis:
    evaluation = MulticlassEvaluation("labels", number, zero_division=0.0, **options)
    evaluation.update(torch.tensor(preds), torch.tensor(target))
    return evaluation.diagnose()


def random_classes(n: int, seed: int, **options: Any) -> Diagnosis:
    """Three classes, right in about 80 % of cases."""
    random = np.random.default_rng(seed)
    target = random.integers(0, 3, n)
    preds = np.where(random.random(n) < 0.8, target, random.integers(0, 3, n))
    return in_classes(preds.tolist(), target.tolist(), 3, **options)


def rare_classes_missed(n: int, seed: int) -> Diagnosis:
    random = np.random.default_rng(seed)
    target = random.choice(3, n, p=[0.9, 0.05, 0.05])
    preds = np.where(random.random(n) < 0.1, target, 0)
    return in_classes(preds.tolist(), target.tolist(), 3)


def together(n: int, seed: int) -> Diagnosis:
    random = torch.Generator().manual_seed(seed)
    target = torch.randint(0, 2, (n, 4), generator=random)
    evaluation = MultilabelEvaluation("labels", 4)
    evaluation.update(target ^ (torch.rand(n, 1, generator=random) < 0.15).long(), target)
    return evaluation.diagnose()


def swapped(n: int, seed: int) -> Diagnosis:
    return diagnose(cells(n, seed, 0.5, recall=0.3, specificity=0.3))


PLANTED: dict[str, Callable[[int, int], Diagnosis]] = {
    "EK201": lambda n, seed: diagnose(Counts(tp=40 + seed, fp=10, fn=3, tn=40 + seed)),
    "EK202": lambda n, seed: random_classes(300, seed, statistics=["accuracy", "f1/micro"]),
    "EK203": lambda n, seed: diagnose(Counts(tp=40 + seed, fp=10, fn=10, tn=40 + seed)),
    "EK204": lambda n, seed: diagnose(cells(n, seed, 0.1, recall=0.5, specificity=0.85)),
    "EK205": lambda n, seed: diagnose(cells(200, seed, 0.1, recall=0.0, specificity=1.0)),
    "EK206": swapped,
    "EK207": lambda n, seed: in_classes([0, 1, seed % 2], [0, 1, 1], 3),
    "EK208": lambda n, seed: diagnose(cells(100, seed, 0.05, recall=0.8, specificity=0.95)),
    "EK209": lambda n, seed: diagnose(cells(200, seed, 0.1, recall=0.0, specificity=1.0)),
    "EK210": lambda n, seed: diagnose(cells(n, seed, 0.1, recall=0.5, specificity=0.95)),
    "EK211": lambda n, seed: diagnose(cells(1_000, seed, 0.5, recall=0.8, specificity=0.8), prevalence=0.01),
    "EK212": lambda n, seed: random_classes(300, seed, statistics=["accuracy", "one_vs_rest_accuracy/macro"]),
    "EK213": together,
    "EK214": lambda n, seed: rare_classes_missed(500, seed),
    "EK215": lambda n, seed: scored(*drawn(n, seed, -3.2)),
    "EK216": lambda n, seed: scored(*moved(n, seed, 1.0986)),
    "EK217": lambda n, seed: scored(*sharpened(n, seed)),
    "EK218": lambda n, seed: scored(drawn(n, seed)[0].sigmoid(), drawn(n, seed)[1]),
    "EK219": lambda n, seed: scored(*drawn(500, seed), resolution=8),
    "EK220": lambda n, seed: diagnose(cells(n, seed, 0.1, recall=0.1, specificity=0.99)),
    "EK221": lambda n, seed: scored(*moved(n, seed, 2.1972)),
    "EK222": lambda n, seed: diagnose(Counts(tp=41, fp=10, fn=9, tn=40), against=Counts(tp=40, fp=10, fn=10, tn=40)),
    "EK223": lambda n, seed: diagnose(cells(n, seed, 0.3, 0.8, 0.8), train=cells(n, seed + REPEATS, 0.5, 0.8, 0.8)),
    "EK224": lambda n, seed: diagnose(cells(n, seed, 0.5, 0.8, 0.8), candidates={"accuracy": equally_good(n, seed)}),
}
"""What is planted for each rule, of n samples where its page says how many."""


def equally_good(n: int, seed: int) -> list[float]:
    """The accuracies of ten epochs that are right in 80 % of cases, on samples of their own."""
    return (np.random.default_rng(seed).binomial(n, 0.8, 10) / n).tolist()


def moved(n: int, seed: int, by: float) -> tuple[torch.Tensor, torch.Tensor]:
    logits, target = drawn(n, seed, -1.0)
    return logits + by, target


def sharpened(n: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    logits, target = drawn(n, seed)
    return 2 * logits, target


def found_in(code: str, repeats: int) -> float:
    """In which share of data sets the rule finds what was planted."""
    power, planted = RULES[code].power, PLANTED[code]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reports = [planted(power.samples if power else 0, seed) for seed in range(repeats)]
    return sum(code in {each.code for each in report.findings} for report in reports) / repeats


def test_every_rule_on_numbers_is_planted() -> None:
    assert [*PLANTED] == [rule.code for rule in rules_about("numbers")]


@pytest.mark.parametrize("code", PLANTED)
def test_a_planted_fault_is_found_as_often_as_the_page_says(code: str) -> None:
    power = RULES[code].power
    assert (power is None) <= (RULES[code].certainty == "certain"), "chance decides about tests and hints"
    assert str(power or WHEREVER) in RULES[code].page()
    assert found_in(code, REPEATS if power else FEW) >= (power.share if power else 1)


def test_a_power_that_is_too_high_would_be_noticed() -> None:
    """The test of the test: with ten samples hardly anything is significant."""
    few = [swapped(10, seed) for seed in range(REPEATS)]
    assert sum("EK206" in {each.code for each in report.findings} for report in few) < 20


# ---- what the findings say


def finding(report: Diagnosis, code: str) -> dict[str, Any]:
    [found] = [each for each in report.findings if each.code == code]
    return found.evidence


def test_the_temperature_is_the_one_that_was_planted() -> None:
    """Twice too sharp, half as sharp as it should be, and several classes, whose logits are three times too large."""
    logits, target = drawn(20_000, 1)
    assert finding(scored(2 * logits, target), "EK217")["temperature"] == pytest.approx(2, rel=0.05)
    assert finding(scored(logits / 2, target), "EK217")["temperature"] == pytest.approx(0.5, rel=0.05)
    assert finding(scored(2 * logits + 1, target), "EK217")["temperature"] == pytest.approx(2, rel=0.05)
    random = torch.Generator().manual_seed(0)
    several = 2 * torch.randn(5_000, 4, generator=random)
    drawn_classes = torch.multinomial(several.softmax(1), 1, generator=random).squeeze(1)
    evaluation = MulticlassEvaluation("logits", 4, curves=True, resolution=4096)
    evaluation.update(3 * several, drawn_classes)
    assert finding(evaluation.diagnose(), "EK217")["temperature"] == pytest.approx(3, rel=0.15)


def test_one_label_of_several_is_named() -> None:
    logits, target = labels(5_000, 0)
    evaluation = MultilabelEvaluation("logits", 3, label_names=["a", "b", "c"], curves=True, resolution=4096)
    evaluation.update(logits + torch.tensor([0.0, 2.2, 0.0]), target)
    issues = evaluation.diagnose().issues
    assert [(each.code, each.subject) for each in issues] == [("EK216", "probabilities of b")]


def test_what_scores_look_like() -> None:
    logits, target = binary(500, 1)
    twice = scored(logits.sigmoid().sigmoid(), target, "probabilities")
    assert "look like a sigmoid over probabilities" in twice.text()
    cut = scored((logits > 0).float(), target, "probabilities")
    assert "look like labels" in cut.text()
    assert "EK218" not in {each.code for each in scored(logits.sigmoid(), target, "probabilities").findings}


def test_the_gain_of_another_threshold_is_that_of_the_counts() -> None:
    logits, target = drawn(4_000, 3, -3.2)
    evaluation = BinaryEvaluation("logits", curves=True)
    evaluation.update(logits, target)
    best = evaluation.best_threshold("f1")
    f1 = [float(BinaryEvaluation.__call__(again, logits, target)["f1"]) for again in at(0.5, best)]
    gain = finding(evaluation.diagnose(), "EK215")
    assert gain["gain"] == pytest.approx(f1[1] - f1[0], abs=1e-4)
    assert gain["low"] < gain["gain"] < gain["high"]


def at(*thresholds: float) -> list[BinaryEvaluation]:
    return [BinaryEvaluation("logits", threshold=cut, statistics=["f1"]) for cut in thresholds]


def test_the_interval_of_a_gain_is_as_wide_as_the_gain_scatters() -> None:
    """Of 200 data sets cut at 0.5 and 0.3, against the standard deviation of the gain."""
    from lightning_evalkit.intervals.cuts import f1_gain

    random, found = np.random.default_rng(0), []
    for _ in range(200):
        logits = -1.5 + 2 * random.standard_normal(1_000)
        target = random.random(1_000) < 1 / (1 + np.exp(-logits))
        tables = [Counts(*cut_at(logits > cut, target)) for cut in (0.0, np.log(0.3 / 0.7))]
        found.append(f1_gain(*tables, 0.95))
    spread = np.std([each.value for each in found])
    assert np.mean([each.width for each in found]) / (2 * 1.96) == pytest.approx(spread, rel=0.15)


def cut_at(called: Any, target: Any) -> tuple[int, int, int, int]:
    return tuple(int((called == yes)[target == truth].sum()) for yes, truth in ((1, 1), (1, 0), (0, 1), (0, 0)))  # type: ignore[return-value]


def test_training_data_of_other_classes_are_refused() -> None:
    several = MulticlassEvaluation("labels", 3)
    several.update(torch.tensor([0, 1, 2]), torch.tensor([0, 1, 2]))
    with pytest.raises(ValueError, match="same classes or labels"):
        diagnose(Counts(tp=1, fp=1, fn=1, tn=1), train=several)


def test_a_comparison_that_is_decided_is_left_alone() -> None:
    one, other = Counts(tp=400, fp=100, fn=100, tn=400), Counts(tp=490, fp=10, fn=10, tn=490)
    assert "EK222" not in {each.code for each in diagnose(other, against=one).findings}
    assert "EK222" in diagnose(other, against=one).passed


def test_overconfidence_is_not_taken_for_a_shift() -> None:
    """Scores three times too sharp claim a smaller variance than they have; their mean is off by chance only."""
    found = [{each.code for each in scored(3 * logits, target).issues} for logits, target in map(of_seed, range(200))]
    assert sum("EK217" in codes for codes in found) == 200
    assert sum("EK216" in codes for codes in found) <= 4


def of_seed(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    return drawn(500, seed)


def test_many_small_or_absent_classes_are_told_of_at_once() -> None:
    target = list(range(20)) * 3 + [20] * 400
    found = in_classes([0] * len(target), target, 25).findings
    small, absent = ([each for each in found if each.code == code] for code in ("EK208", "EK207"))
    assert [each.subject for each in small] == ["classes"]
    assert small[0].headline.startswith("20 of 25 classes or labels have too few samples for a conclusion: 0, 1, 2,")
    assert len(small[0].evidence["classes"]) == 20
    assert absent[0].headline.startswith("24 of 25 classes or labels never occur as a target or are never predicted: 1")
