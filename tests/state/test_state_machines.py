"""Any interleaving of updates, copies, merges and checkpoints gives the counts of the samples."""

from __future__ import annotations

import copy
import math
import warnings
from dataclasses import dataclass, field
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from states import CASTS, COPIES, Metric, counted, saved_and_loaded, values
from torch import Tensor

from lightning_evalkit import BinaryEvaluation
from lightning_evalkit.counts import Counts
from lightning_evalkit.errors import InputError
from lightning_evalkit.metrics import BinaryStatScores

LEVELS = (0.0, 0.1, 0.3, 0.6, 0.8, 1.0)
samples = st.lists(
    st.tuples(st.sampled_from(LEVELS), st.sampled_from((-1, 0, 1)), st.integers(0, 3)), min_size=0, max_size=6
)
batches = samples.map(lambda rows: np.array(rows, dtype=np.float64).reshape(-1, 3))


@dataclass
class Model:
    """What a metric should hold, as a NumPy array per threshold."""

    thresholds: tuple[float, ...]
    weighted: bool
    cells: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.cells = np.zeros((len(self.thresholds), 4))

    def of(self, rows: np.ndarray) -> np.ndarray:
        score, target, weight = rows[rows[:, 1] >= 0].T
        weight = weight if self.weighted else np.ones_like(weight)
        cells = [
            [weight[(score > cut) == yes][target[(score > cut) == yes] == truth].sum() for yes, truth in ORDER]
            for cut in self.thresholds
        ]
        return np.array(cells)


ORDER = ((True, 1), (True, 0), (False, 1), (False, 0))


class Interleavings(RuleBasedStateMachine):
    """Whatever happens between two readings, the counts are those of the model."""

    weighted = False
    thresholds: tuple[float, ...] = (0.2, 0.7)

    @initialize()
    def build(self) -> None:
        self.metric = self.fresh()
        self.model = Model(self.thresholds, self.weighted)

    def fresh(self) -> Metric:
        return BinaryEvaluation(
            "probabilities", threshold=self.thresholds, weighted=self.weighted, ignore_index=-1, zero_division=0.0
        )

    def tensors(self, rows: np.ndarray) -> tuple[Tensor, ...]:
        scores, target, weight = (torch.from_numpy(column.copy()) for column in rows.T)
        return (scores.float(), target.long(), weight) if self.weighted else (scores.float(), target.long())

    @rule(rows=batches)
    def update(self, rows: np.ndarray) -> None:
        self.metric.update(*self.tensors(rows))
        self.model.cells += self.model.of(rows)

    @rule(rows=batches)
    def forward(self, rows: np.ndarray) -> None:
        given = self.metric(*self.tensors(rows))
        self.model.cells += self.model.of(rows)
        assert values(given) == self.accuracies(self.model.of(rows), given)

    def accuracies(self, cells: np.ndarray, given: dict[str, Tensor]) -> dict[str, float]:
        """The accuracies by NumPy, the other values as given."""
        expected = values(given)
        for cut, (tp, fp, fn, tn) in zip(self.thresholds, cells, strict=True):
            total = tp + fp + fn + tn
            expected[f"accuracy@{cut:g}"] = float(np.float32((tp + tn) / total)) if total else 0.0
        return expected

    @rule()
    def compute(self) -> None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The ``compute`` method", UserWarning)
            given = self.metric.compute()
            counts = torch.stack(self.metric.counts.cells, -1)
        assert values(given) == self.accuracies(self.model.cells, given)
        assert counts.tolist() == self.model.cells.tolist()

    @rule()
    def reset(self) -> None:
        self.metric.reset()
        self.model.cells[:] = 0

    @rule(how=st.sampled_from(sorted(COPIES)))
    def go_on_with_a_copy(self, how: str) -> None:
        self.metric = COPIES[how](self.metric)

    @rule(how=st.sampled_from(sorted(CASTS)))
    def cast(self, how: str) -> None:
        CASTS[how](self.metric)

    @rule()
    def merge_with_a_clone(self) -> None:
        self.metric.merge_state(self.metric.clone())
        self.model.cells *= 2

    @rule()
    def go_on_from_a_checkpoint(self) -> None:
        self.metric.persistent(True)
        loaded = self.fresh()
        loaded.load_state_dict(saved_and_loaded(self.metric.state_dict()))
        self.metric = loaded

    @rule(call=st.sampled_from(["update", "forward"]), rows=batches)
    def fail(self, call: str, rows: np.ndarray) -> None:
        bad = np.concatenate((rows, [[math.nan, 1, 1]]))
        with pytest.raises(InputError, match="expected every preds to be a"):
            getattr(self.metric, call)(*self.tensors(bad))

    @invariant()
    def state_is_that_of_the_model(self) -> None:
        if hasattr(self, "metric"):
            assert counted(self.metric) == [self.model.cells.tolist()]


class WeightedInterleavings(Interleavings):
    weighted = True


class SingleInterleavings(Interleavings):
    thresholds = (0.5,)

    def fresh(self) -> Metric:
        return BinaryStatScores(inputs="probabilities", ignore_index=-1)

    def accuracies(self, cells: np.ndarray, given: Tensor) -> list[float]:
        tp, fp, fn, tn = cells[0].tolist()
        return [tp, fp, tn, fn, tp + fn]


few = settings(max_examples=20, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck))
for machine in (Interleavings, WeightedInterleavings, SingleInterleavings):
    machine.TestCase.settings = few

TestInterleavings = Interleavings.TestCase
TestWeightedInterleavings = WeightedInterleavings.TestCase
TestSingleInterleavings = SingleInterleavings.TestCase


def test_a_copy_that_inference_mode_made_of_a_synced_metric_counts_on() -> None:
    metric = BinaryEvaluation("labels", dist_sync_fn=lambda wire, _: [wire, wire])
    metric.update(torch.tensor([1, 0]), torch.tensor([1, 1]))
    metric.tally.sync(distributed_available=lambda: True)
    assert metric.tally.totals.integers[0] == 2
    with torch.inference_mode():
        duplicate = copy.deepcopy(metric)
    duplicate.tally.unsync()
    with mock.patch.object(torch.compiler, "is_compiling", return_value=True):  # adds through torch, not NumPy
        duplicate.update(torch.tensor([1, 0]), torch.tensor([1, 1]))
    assert duplicate.counts == Counts(tp=2, fp=0, fn=2, tn=0)
