"""An update arranges its tensors once; a compute reads the totals once, and each statistic once for all classes."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Any, Literal

import pytest
import torch
from called import calls_of

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit.statistics import curves

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from lightning_evalkit.counts import Evidence

MOST_CALLS = 700
"""Of 92 numbers; 4,263 where every entry read the totals by itself."""


def classes(samples: int = 200) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(samples)
    return torch.randn(samples, 10, generator=generator), torch.randint(0, 10, (samples,), generator=generator)


def evaluation_of_92_numbers() -> MulticlassEvaluation:
    evaluation = MulticlassEvaluation(inputs="logits", num_classes=10, per_class=True, curves=True)
    evaluation.update(*classes())
    return evaluation


def test_computing_92_numbers_takes_few_calls() -> None:
    evaluation = evaluation_of_92_numbers()
    assert len(evaluation.compute()) == 92  # where bins begin is computed once per process
    evaluation.update(*classes(100))
    called = calls_of(evaluation.compute)
    assert called.count("readouts.py:value") == 92
    assert len(called) <= MOST_CALLS


def test_the_totals_are_read_once_for_all_entries() -> None:
    evaluation = evaluation_of_92_numbers()
    entries = [entry for _, entry in evaluation.items()]
    called = calls_of(lambda: [entry.compute() for entry in entries])  # as Lightning asks for them, one by one
    assert called.count("counts_and_scores.py:evidence") == 1
    assert called.count("curves.py:auroc_value") == called.count("thresholds.py:best_threshold") == 1


@pytest.mark.parametrize(
    ("evaluation", "batch"),
    [
        (BinaryEvaluation("logits", curves=True), (torch.tensor([0.5, -1.0]), torch.tensor([1, 0]))),
        (MulticlassEvaluation("logits", 10, curves=True), classes()),
        (MultilabelEvaluation("logits", 2, curves=True), (torch.tensor([[0.5, -1.0]]), torch.tensor([[1, 0]]))),
    ],
    ids=["binary", "multiclass", "multilabel"],
)
def test_an_update_with_curves_arranges_its_tensors_once(evaluation: Any, batch: tuple[Tensor, Tensor]) -> None:
    called = calls_of(lambda: (evaluation.update(*batch), evaluation.tally.count_pending()))
    assert sum(name.endswith(":arranged") for name in called) == 1
    assert sum(name.endswith(":count_arranged") for name in called) >= 2


def test_new_samples_are_new_evidence() -> None:
    evaluation = evaluation_of_92_numbers()
    before = evaluation.tally.compute()
    assert evaluation.tally.compute() is before
    evaluation.update(*classes(50))
    after = evaluation.tally.compute()
    assert after is not before
    assert int(after.counts.support.sum()) == 250
    assert int(before.counts.support.sum()) == 200
    evaluation.reset()
    evaluation.update(*classes(50))
    assert int(evaluation.tally.evidence.counts.support.sum()) == 50


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))], ids=["copy", "pickle"]
)
def test_a_copy_reads_its_own_evidence(copied: Callable[[Any], Any]) -> None:
    evaluation = evaluation_of_92_numbers()
    expected = evaluation.compute()
    other = copied(evaluation)
    assert other.tally.evidence is not evaluation.tally.evidence
    torch.testing.assert_close(other.compute(), expected, rtol=0, atol=0)


def test_what_was_computed_is_not_computed_again() -> None:
    evaluation = evaluation_of_92_numbers()
    evidence = evaluation.tally.compute()
    asked: list[tuple[float, ...]] = []

    def compute(found: Evidence, *given: float) -> int:
        asked.append(given)
        return int(found.counts.support.sum())

    assert [evidence.once(compute, 1.0), evidence.once(compute, 1.0), evidence.once(compute, 2.0)] == [200] * 3
    assert asked == [(1.0,), (2.0,)]


@pytest.mark.parametrize("weighted", [False, True])
def test_filled_bins_give_the_areas_of_all_bins(weighted: bool) -> None:
    evaluation = BinaryEvaluation("logits", curves=True, weighted=weighted)
    generator = torch.Generator().manual_seed(3)
    scores, target = torch.randn(300, generator=generator), torch.randint(0, 2, (300,), generator=generator)
    evaluation.update(scores, target, *([torch.rand(300, generator=generator)] if weighted else []))
    whole = evaluation.tally.compute().scores
    assert whole is not None
    filled = whole.filled()
    assert filled.yes.shape[-1] <= 300 < whole.yes.shape[-1]
    assert float(filled.yes.sum()) == pytest.approx(float(whole.yes.sum()), rel=1e-12)
    for area in (curves.auroc_value, curves.average_precision_value):
        torch.testing.assert_close(area(filled), area(whole), rtol=1e-14, atol=0)
    for bounded in (curves.auroc, curves.average_precision):
        low, value, high = bounded(whole)
        assert low <= value <= high


@pytest.mark.parametrize("inputs", ["logits", "probabilities"])
def test_a_caller_may_change_what_it_got(inputs: Literal["logits", "probabilities"]) -> None:
    """As is done to average in place: the evidence keeps every number, in double precision a threshold itself."""
    evaluation = BinaryEvaluation(inputs, curves=True)
    logits = torch.tensor([-2.0, -1.0, 1.0, 2.0])
    evaluation.update(logits if inputs == "logits" else logits.sigmoid(), torch.tensor([0, 1, 0, 1]))
    values = evaluation.compute()
    expected = {name: value.item() for name, value in values.items()}
    for value in (*values.values(), *(evaluation[name].compute() for name in values)):
        value.add_(1)
    assert {name: value.item() for name, value in evaluation.compute().items()} == expected
