"""Laws of all statistics of scores; reliability diagrams; what is undefined."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from calibrated import (
    ADDED,
    DEFAULT,
    EDGES,
    GROUPS,
    PARTS,
    TASKS,
    batch_of,
    build,
    classed,
    counted,
    every_task,
    every_weighting,
    tensor_parts,
    values_of,
    widest,
)

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation
from lightning_evalkit.errors import DeclarationError, InputError, UndefinedWarning
from lightning_evalkit.statistics import SCORE_STATISTICS

if TYPE_CHECKING:
    Rows = tuple[np.ndarray, np.ndarray, np.ndarray]
    """Probabilities of yes, answers and weights."""


# ---- laws of all statistics of scores


def test_every_statistic_of_scores_has_an_entry_in_every_task() -> None:
    assert set(ADDED + PARTS) < set(SCORE_STATISTICS)
    assert len(SCORE_STATISTICS) >= 16
    for task in TASKS:
        assert {name.partition("/")[0] for name in build(task, "logits").keys()} == set(SCORE_STATISTICS)  # noqa: SIM118
    assert all(SCORE_STATISTICS[name].higher_is_better is False for name in (*ADDED, *PARTS[:2]))


@pytest.mark.parametrize(
    ("task", "resolution"), [("binary", "bfloat16"), *((task, number) for task in TASKS for number in (None, 64))]
)
def test_order_batches_merging_and_duplicates_change_nothing(task: str, resolution: Any) -> None:
    preds, y, _ = batch_of(task, 90, seed=7)
    preds = preds.round(decimals=1)
    once, other, twice = (build(task, "logits", resolution=resolution) for _ in range(3))
    once.update(preds, y)
    order = torch.randperm(len(y))
    for number, places in enumerate(order.split(17)):
        (other if number in (1, 4) else twice).update(preds[places], y[places])
    twice.merge_state(other)
    twice.update(preds, y)
    expected, name = values_of(once), "bee" if task == "labels" else None
    for entry, value in expected.items():
        low, high = SCORE_STATISTICS[entry.partition("/")[0]].bounds
        assert low <= value <= high, entry
    assert values_of(twice) == pytest.approx(expected, abs=2e-6)
    parts = [tensor_parts(each.brier_decomposition(name)) for each in (once, twice)]
    assert parts[0] == pytest.approx(parts[1], abs=1e-7)


@every_task
@pytest.mark.parametrize("resolution", [None, 64], ids=str)
def test_weights_are_repetitions(task: str, resolution: Any) -> None:
    preds, y, _ = batch_of(task, 60, seed=8)
    preds, weight = preds.round(decimals=1), torch.randint(0, 4, (60,))
    weighted, repeated = (build(task, "logits", resolution=resolution, weighted=each) for each in (True, False))
    weighted.update(preds, y, weight.double())
    repeated.update(*(each.repeat_interleave(weight, 0) for each in (preds, y)))
    assert values_of(weighted) == pytest.approx(values_of(repeated), abs=1e-6)
    name = None if task != "labels" else "cat"
    parts = (each.brier_decomposition(name) for each in (weighted, repeated))
    one, other = (tensor_parts(each) for each in parts)
    assert one == pytest.approx(other, abs=1e-7)


# ---- diagrams


@every_weighting
def test_the_diagram_of_a_class_is_of_this_class_against_the_rest(weighted: bool) -> None:
    evaluation, asked = counted("classes", weighted, 600, seed=9)
    for name, rows in asked.items():
        confidence, happened, samples = evaluation.reliability(name)
        numbers = np.searchsorted(EDGES, rows[0], side="right")
        for k in range(GROUPS):
            inside = tuple(part[numbers == k] for part in rows)
            assert float(samples[k]) == pytest.approx(inside[2].sum(), abs=1e-9)
            if len(inside[0]):
                expected = [np.average(part, weights=inside[2]) for part in inside[:2]]
                assert [float(confidence[k]), float(happened[k])] == pytest.approx(expected, abs=widest(DEFAULT) / 2)
            else:
                assert confidence[k].isnan()
                assert happened[k].isnan()
    predicted = evaluation.reliability()
    assert float(predicted.samples.sum()) == pytest.approx(float(evaluation.reliability("ant").samples.sum()))
    assert predicted.samples[:3].sum() == 0  # of four classes the predicted one has at least a quarter


def test_a_diagram_is_asked_for_by_name() -> None:
    one, many, several = (counted(task, False, 20)[0] for task in TASKS)
    for question in ("reliability", "brier_decomposition"):
        with pytest.raises(InputError, match="expected no name, as there is one curve, got 'ant'"):
            getattr(one, question)("ant")
        with pytest.raises(InputError, match="expected the name of a class or label, got 'ants': did you mean 'ant'"):
            getattr(many, question)("ants")
        with pytest.raises(
            InputError, match="expected the name of a class or label, got None: expected one of ant, bee"
        ):
            getattr(several, question)()
        with pytest.raises(DeclarationError, match=r"the scores were not kept: .* curves=True"):
            getattr(BinaryEvaluation("logits"), question)()


def test_classes_have_no_single_part_of_the_brier_score_but_one_each() -> None:
    with pytest.raises(DeclarationError, match="'brier_calibration' is no statistic of scores here: did you mean"):
        MulticlassEvaluation("logits", 3, curves=True, statistics=["brier_calibration"])
    with pytest.raises(DeclarationError, match=r"'max_calibration_error/macro' is no .* mean 'max_calibration_error'"):
        MulticlassEvaluation("logits", 3, curves=True, statistics=["max_calibration_error/macro"])
    with pytest.raises(DeclarationError, match="'adaptive_calibration_error' needs the scores: declare curves=True"):
        BinaryEvaluation("logits", statistics=["adaptive_calibration_error"])


# ---- undefined


@every_task
@pytest.mark.filterwarnings("ignore:The ``compute`` method")
def test_without_samples_nothing_is_defined(task: str) -> None:
    evaluation = build(task, "logits", (*ADDED, *PARTS))
    with pytest.warns(UndefinedWarning, match="no samples were counted"):
        assert all(math.isnan(value) for value in values_of(evaluation).values())
    parts = evaluation.brier_decomposition(None if task != "labels" else "ant")
    assert all(part.isnan() for part in parts)
    assert set(values_of(build(task, "logits", (*ADDED, *PARTS), zero_division=0.0)).values()) == {0.0}


@pytest.mark.parametrize("kind", [0, 1])
def test_one_class_is_certain(kind: int) -> None:
    """Its uncertainty and refinement are 0, and its errors are how far confidences are from it."""
    p = torch.tensor([0.1, 0.3, 0.35, 0.9])
    evaluation = build("binary", "probabilities", (*ADDED, *PARTS))
    evaluation.update(p, torch.full((4,), kind))
    off = (p - kind).abs()
    values = values_of(evaluation)
    assert [values[name] for name in ADDED] == pytest.approx([float(off.max()), *[float(off.mean())] * 2], abs=1e-4)
    parts = tensor_parts(evaluation.brier_decomposition())
    assert (parts["refinement"], parts["uncertainty"]) == (0, 0)
    assert parts["brier"] == pytest.approx(float((off**2).mean()), abs=1e-6)


def test_labels_without_samples_and_ignored_classes_are_left_out_of_averages() -> None:
    labels = build("labels", "probabilities", (*ADDED, *PARTS), ignore_index=-1)
    labels.update(torch.tensor([[0.2, 0.9, 0.5], [0.4, 0.8, 0.5]]), torch.tensor([[0, 1, -1], [1, 1, -1]]))
    with pytest.warns(UndefinedWarning):
        values = values_of(labels)
    for base in (*ADDED, *PARTS):
        assert math.isnan(values[f"{base}/cat"])
        assert values[f"{base}/macro"] == pytest.approx((values[f"{base}/ant"] + values[f"{base}/bee"]) / 2)
        assert labels.averaged_over()[f"{base}/macro"] == 2
    classes = build("classes", "logits", ADDED, ignore_index=1)
    logits, y, _ = classed(80, 4, seed=2)
    classes.update(logits, y)
    values = values_of(classes)
    for base in ADDED[1:]:
        each = [values[f"{base}/{name}"] for name in ("ant", "cat", "dog")]
        assert values[f"{base}/macro"] == pytest.approx(np.mean(each), abs=1e-6)
        assert classes.averaged_over()[f"{base}/macro"] == 3
        assert values[f"{base}/bee"] > 0.05  # of a class that is predicted and never there
