"""With curves, counts and scores of a batch on the CPU are counted together, and its values are checked once."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from lightning_evalkit import BinaryEvaluation, MultilabelEvaluation
from lightning_evalkit.counts import binary, multilabel, scores_at_once
from lightning_evalkit.errors import InputError

READINGS = ("logits", "probabilities")
EVALUATIONS = {
    "binary": (BinaryEvaluation, {}, (64,)),
    "labels": (MultilabelEvaluation, {"num_labels": 3}, (64, 3)),
}
every_evaluation = pytest.mark.parametrize(("kind", "declared", "shape"), EVALUATIONS.values(), ids=EVALUATIONS)
every_reading = pytest.mark.parametrize("reading", READINGS)


def batch(shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    scores = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    return scores, (scores > 0.4).long()


def counted_checks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds of every array that is checked from now on: "f" for scores, "i" for targets."""
    seen: list[str] = []

    def watched(check: Any) -> Any:
        return lambda values, *rest: seen.append(values.dtype.kind) or check(values, *rest)

    for room in (binary, multilabel, scores_at_once):
        for name in ("within_unit", "without_nan", "within", "ones_among"):
            if hasattr(room, name):
                monkeypatch.setattr(room, name, watched(getattr(room, name)))
    return seen


@every_reading
@every_evaluation
def test_counting_a_batch_checks_scores_and_targets_once(
    monkeypatch: pytest.MonkeyPatch, kind: Any, declared: dict[str, Any], shape: tuple[int, ...], reading: str
) -> None:
    evaluation = kind(reading, curves=True, **declared)
    seen = counted_checks(monkeypatch)
    evaluation.tally.counter.count(*batch(shape), None)
    assert sorted(seen) == ["f", "i"]


@pytest.mark.parametrize("wrong", ["scores", "targets"])
@every_reading
@every_evaluation
def test_what_is_checked_once_is_refused_and_nothing_is_counted(
    kind: Any, declared: dict[str, Any], shape: tuple[int, ...], reading: str, wrong: str
) -> None:
    evaluation = kind(reading, curves=True, **declared)
    scores, target = batch(shape)
    evaluation.update(scores, target)
    before = [part.clone() for part in evaluation.tally.totals if part is not None]
    bad = scores.clone(), target.clone()
    bad[0 if wrong == "scores" else 1].view(-1)[-1] = float("nan") if wrong == "scores" else 2
    with pytest.raises(InputError):
        evaluation.update(*bad)
    after = [part for part in evaluation.tally.totals if part is not None]
    assert all(map(torch.equal, before, after))


@every_reading
def test_a_batch_with_more_scores_than_bins_counts_as_its_parts_do(reading: str) -> None:
    scores, target = batch((3_000,))
    if reading == "logits":
        scores = scores.logit()
    whole, parts = (BinaryEvaluation(reading, curves=True, resolution=256) for _ in range(2))
    whole.update(scores, target)  # more than 512 cells: written out
    for part in zip(scores.split(100), target.split(100), strict=True):
        parts.update(*part)
    found, expected = whole.compute(), parts.compute()
    assert list(found) == list(expected)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)
    assert whole.counts == parts.counts
