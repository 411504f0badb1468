"""One number, one value: what explanations state is what ``compute`` gives, to the printed digits."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from printed import agrees, computed

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit.reports.snapshot import explanation

if TYPE_CHECKING:
    from lightning_evalkit.diagnosis import Finding

NUMBER = r"(-?(?:inf|nan|\d+(?:\.\d+)?(?:e[+-]?\d+)?))"
BOTH, EACH = re.compile(rf"both are {NUMBER}"), re.compile(rf"differ by {NUMBER}: {NUMBER} and {NUMBER}")
COUNTED = ("accuracy", "f1", "precision", "recall", "specificity", "balanced_accuracy", "mcc", "kappa", "lift")
MANY = ("accuracy", "hamming_distance", "mcc", "kappa", "balanced_accuracy", "top_2_accuracy")
AVERAGED = ("f1", "precision", "recall", "specificity", "jaccard", "one_vs_rest_accuracy")
zero_divisions = st.sampled_from([math.nan, 0.0, 1.0, 0.5])


def stated(headline: str) -> tuple[float, float] | None:
    """The two numbers of a headline; none where it says that one has no value."""
    if both := BOTH.search(headline):
        return float(both[1]), float(both[1])
    found = EACH.search(headline)
    assert found or "cannot be compared" in headline, headline
    return (float(found[2]), float(found[3])) if found else None


def states(finding: Finding, values: dict[str, float], first: str, second: str) -> None:
    """Headline, evidence and reasons are about the numbers of these names."""
    said, expected = stated(finding.headline), (values[first], values[second])
    if said is None:
        assert any(map(math.isnan, expected)), finding.headline
        return
    assert all(agrees(*pair, 6) for pair in zip(said, expected, strict=True)), (finding.headline, expected)
    assert ("are equal" in finding.headline) is math.isclose(*expected, rel_tol=1e-6, abs_tol=1e-7) or said[0] == said[
        1
    ]
    if "Equal by identity" in finding.text() or "Equal because" in finding.text():
        assert said[0] == said[1], finding.text()


def counted(evaluation: Any, scores: torch.Tensor, target: torch.Tensor, weights: list[float] | None) -> Any:
    weight = None if weights is None else torch.tensor(weights, dtype=torch.float64)[: len(target)]
    evaluation.update(scores, target, weight)
    return evaluation


rows = st.integers(1, 6)
seeds = st.integers(0, 10**6)
weights = st.none() | st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=6, max_size=6)


def labels_of(shape: tuple[int, ...], classes: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Few samples of few classes, so that some classes are missing."""
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randint(0, classes, shape, generator=generator) for _ in range(2))  # type: ignore[return-value]


@given(rows, seeds, zero_divisions, weights, st.sampled_from([0.5, [0.5], [0.2, 0.7]]), st.permutations(COUNTED))
def test_binary_explanations_state_what_compute_gives(
    number: int, seed: int, zero: float, weight: list[float] | None, threshold: Any, names: list[str]
) -> None:
    evaluation = BinaryEvaluation(
        "probabilities", threshold, COUNTED, weighted=weight is not None, ignore_index=-1, zero_division=zero
    )
    generator = torch.Generator().manual_seed(seed)
    scores, target = torch.rand(number, generator=generator), torch.randint(-1, 2, (number,), generator=generator)
    counted(evaluation, scores, target, weight)
    values = computed(evaluation)
    for end in [""] if threshold == 0.5 else [f"@{cut:g}" for cut in threshold]:
        first, second = (name + end for name in names[:2])
        states(evaluation.explain(first, second), values, first, second)
    if threshold != 0.5:
        return
    if target.eq(1).sum() > 0 and target.eq(0).any() and (weight is None or min(weight) > 0):
        finding, there = evaluation.explain(*names[:2]), evaluation.at_prevalence(0.1)
        assert finding.table is not None
        [row] = [row for row in finding.table.rows if row[0] == "10%"]
        for said, name in zip(row[1:], names, strict=False):
            assert agrees(math.nan if said == "undefined" else float(said), float(there[name]), 6)


@given(zero_divisions, st.sampled_from([[0.5], [0.2, 0.7]]))
def test_texts_of_several_thresholds_state_what_compute_gives(zero: float, threshold: list[float]) -> None:
    evaluation = BinaryEvaluation("probabilities", threshold, ["accuracy", "f1"], zero_division=zero)
    evaluation.update(torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0, 0, 0]))
    values, texts = computed(evaluation), explanation(evaluation).split("#### ")[1:]
    for cut, text in zip(threshold, texts, strict=True):
        said, expected = stated(text), (values[f"accuracy@{cut:g}"], values[f"f1@{cut:g}"])
        assert said == pytest.approx(expected) if said else any(map(math.isnan, expected))


many_names = st.sampled_from(
    [*MANY, *(f"{base}/{over}" for base in AVERAGED for over in ("macro", "micro", "weighted", "a", "d"))]
)


@given(rows, seeds, zero_divisions, weights, st.sampled_from([None, -1, 0, (0, 5)]), many_names, many_names)
@example(4, 3, 0.0, None, None, "balanced_accuracy", "recall/macro")
def test_multiclass_explanations_state_what_compute_gives(
    number: int, seed: int, zero: float, weight: list[float] | None, ignored: Any, first: str, second: str
) -> None:
    names = [*dict.fromkeys([first, second])]
    evaluation = MulticlassEvaluation(
        "logits",
        4,
        [*"abcd"],
        statistics=names,
        weighted=weight is not None,
        ignore_index=ignored,
        zero_division=zero,
    )
    generator = torch.Generator().manual_seed(seed)
    scores, (_, target) = torch.randn(number, 4, generator=generator), labels_of((number,), 4, seed)
    counted(evaluation, scores, target, weight)
    if len(names) == 2:
        states(evaluation.explain(first, second), computed(evaluation), first, second)


label_names = st.sampled_from(
    ["exact_match", "hamming_accuracy", "hamming_distance"]
    + [f"{base}/{over}" for base in AVERAGED[:5] for over in ("macro", "micro", "weighted", "samples", "a", "c")]
)


@given(rows, seeds, zero_divisions, weights, label_names, label_names)
@example(1, 0, 0.0, None, "exact_match", "hamming_accuracy")
def test_multilabel_explanations_state_what_compute_gives(
    number: int, seed: int, zero: float, weight: list[float] | None, first: str, second: str
) -> None:
    if first == second:
        return
    evaluation = MultilabelEvaluation(
        "labels",
        3,
        [*"abc"],
        statistics=[first, second],
        per_label=True,
        weighted=weight is not None,
        ignore_index=-1,
        zero_division=zero,
    )
    predicted, target = labels_of((number, 3), 2, seed)
    target[:, 1] = torch.where(predicted[:, 2] == 1, -1, target[:, 1])
    counted(evaluation, predicted, target, weight)
    values, finding = computed(evaluation), evaluation.explain(first, second)
    states(finding, values, first, second)
    assert finding.table is not None
    statistic = finding.table.headings[1]  # accuracy, or what two averages are means of
    for name, said, *_ in finding.table.rows:
        assert agrees(math.nan if said == "undefined" else float(said), values[f"{statistic}/{name}"], 6)
