"""A state that someone holds is only changed by counting: resets, loads, merges and joins make another one."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import torch
import torchmetrics.classification as stock
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torchmetrics import MetricCollection, MetricTracker
from torchmetrics.wrappers import BootStrapper, ClasswiseWrapper, MinMaxMetric, Running

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit import metrics as own
from lightning_evalkit.errors import InputError
from lightning_evalkit.evaluation import Slices

if TYPE_CHECKING:
    from collections.abc import Callable


class Kind(NamedTuple):
    """A metric and what a batch of it is."""

    build: Callable[[], Any]
    task: str = "binary"
    more: tuple[str, ...] = ()

    def batch(self, seed: int) -> tuple[Tensor, ...]:
        generator = torch.Generator().manual_seed(seed)
        shape = {"binary": (8,), "rows": (4, 3), "losses": (8,)}.get(self.task, (8, 3))
        scores = torch.rand(shape, generator=generator)
        target = torch.randint(0, 2, shape, generator=generator)
        if self.task == "multiclass":
            target = torch.randint(0, 3, (8,), generator=generator)
        if self.task == "losses":
            return (scores,)
        more = {"weight": torch.rand(len(target), generator=generator), "groups": torch.arange(len(target)) % 2}
        return (scores, target, *(more[name] for name in self.more))


KINDS = {
    "counts": Kind(own.BinaryF1Score),
    "weighted": Kind(lambda: own.BinaryF1Score(weighted=True), more=("weight",)),
    "samplewise": Kind(lambda: own.BinaryStatScores(multidim_average="samplewise"), "rows"),
    "multiclass": Kind(lambda: own.MulticlassConfusionMatrix(3), "multiclass"),
    "multilabel": Kind(lambda: own.MultilabelExactMatch(3), "multilabel"),
    "fine_bins": Kind(own.BinaryAUROC),
    "exact_scores": Kind(lambda: own.MulticlassAUROC(3, None), "multiclass"),
    "calibration": Kind(own.BinaryCalibrationError),
    "losses": Kind(own.MeanLoss, "losses"),
    "worst_losses": Kind(own.WorstLossShare, "losses"),
    "loss_profile": Kind(lambda: own.LossProfile(inputs="probabilities")),
    "evaluation": Kind(lambda: BinaryEvaluation("probabilities", curves=True, zero_division=0.0)),
    "many_classes": Kind(lambda: MulticlassEvaluation("probabilities", 3, zero_division=0.0), "multiclass"),
    "many_labels": Kind(lambda: MultilabelEvaluation("probabilities", 3, zero_division=0.0), "multilabel"),
    "slices": Kind(lambda: Slices(BinaryEvaluation("probabilities"), 2), more=("groups",)),
}
every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def states(metric: Any) -> dict[str, Any]:
    """What a user holds of a metric."""
    state: dict[str, Any] = metric.metric_state
    return state.get("tally", state)


def loaded(metric: Any, kind: Kind) -> None:
    other = kind.build()
    other.persistent(True)
    other.update(*kind.batch(90))
    metric.load_state_dict(other.state_dict(), strict=False)


def merged(metric: Any, kind: Kind) -> None:
    other = kind.build()
    other.update(*kind.batch(91))
    metric.merge_state(other)


def joined(metric: Any, kind: Kind) -> None:
    tally = getattr(metric, "tally", metric)
    tally.sync(dist_sync_fn=lambda tensor, group: [tensor, tensor], distributed_available=lambda: True)
    tally.unsync()


OPERATIONS: dict[str, Callable[[Any, Kind], Any]] = {
    "update": lambda metric, kind: metric.update(*kind.batch(1)),
    "forward": lambda metric, kind: metric(*kind.batch(2)),
    "reset": lambda metric, kind: metric.reset(),
    "compute": lambda metric, kind: metric.compute(),
    "load": loaded,
    "merge": merged,
    "join": joined,
    "clone": lambda metric, kind: metric.clone().reset(),
    "cast": lambda metric, kind: metric.half(),
}


def equal(one: dict[str, Any], other: dict[str, Any]) -> bool:
    pairs = [(one[name], other[name]) for name in one if name != "own"]  # which is no number
    return all(
        len(a) == len(b) and all(map(torch.equal, a, b)) if isinstance(a, list) else torch.equal(a, b) for a, b in pairs
    )


@every_kind
@pytest.mark.filterwarnings("ignore")
@given(st.lists(st.sampled_from(sorted(OPERATIONS)), min_size=2, max_size=6), st.booleans())
def test_a_held_state_is_changed_by_counting_alone(kind: Kind, operations: list[str], inference: bool) -> None:
    metric, held = kind.build(), []
    for name in ["update", *operations]:
        live = states(metric)
        with torch.inference_mode(inference):
            OPERATIONS[name](metric, kind)
        if name == "update":  # adds to the state in place, and to no other
            held = [(each, copy) for each, copy in held if not _same(each, live)]
        assert all(equal(each, copy) for each, copy in held), name
        held.append((states(metric), deepcopy(states(metric))))


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(one[name] is other[name] for name in one)


@every_kind
@pytest.mark.filterwarnings("ignore")
def test_a_reset_metric_counts_as_a_new_one(kind: Kind) -> None:
    metric, fresh = kind.build(), kind.build()
    metric.update(*kind.batch(1))
    metric.reset()
    for each in (metric, fresh):
        each.update(*kind.batch(2))
    assert equal(states(metric), states(fresh))


# ---- torchmetrics' wrappers hold states


@every_kind
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", ["update", "forward"])
def test_running_is_about_the_last_batches(kind: Kind, call: str) -> None:
    if isinstance(kind.build(), MetricCollection):
        pytest.skip("torchmetrics' Running takes single metrics")
    running, expected = Running(kind.build(), window=2), kind.build()
    for seed in range(5):
        getattr(running, call)(*kind.batch(seed))
    for seed in (3, 4):
        expected.update(*kind.batch(seed))
    for value, wanted in zip(_flat(running.compute()), _flat(expected.compute()), strict=True):
        torch.testing.assert_close(value, wanted, equal_nan=True)


def _flat(value: Any) -> list[Tensor]:
    return list(value.values()) if isinstance(value, dict) else [value]


WRAPPERS: dict[str, Callable[[Any, Any], Any]] = {
    "running": lambda binary, many: Running(binary(), window=3),
    "tracker": lambda binary, many: MetricTracker(binary()),
    "least_and_most": lambda binary, many: MinMaxMetric(binary()),
    "bootstrap": lambda binary, many: BootStrapper(binary(), num_bootstraps=4, raw=True),
    "composed": lambda binary, many: binary() + 2 * binary(),
    "collection": lambda binary, many: MetricCollection([binary()]),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
@pytest.mark.parametrize("call", ["update", "forward"])
def test_wrappers_give_what_they_give_around_torchmetrics_own(wrap: Callable[..., Any], call: str) -> None:
    found = []
    for source in (own, stock):
        torch.manual_seed(0)
        wrapped, values = wrap(source.BinaryF1Score, source.MulticlassRecall), []
        for epoch in range(2):
            if isinstance(wrapped, MetricTracker):
                wrapped.increment()
            for seed in range(3):
                getattr(wrapped, call)(*KINDS["counts"].batch(10 * epoch + seed))
            values.append(wrapped.compute())
            if not isinstance(wrapped, MetricTracker):
                wrapped.reset()
        found.append(values)
    torch.testing.assert_close(*found)


def test_classes_of_a_wrapped_metric_are_those_of_torchmetrics() -> None:
    found = []
    for source in (own, stock):
        wrapped = ClasswiseWrapper(source.MulticlassRecall(3, average=None))
        values = [wrapped(*KINDS["multiclass"].batch(seed)) for seed in range(2)]
        found.append([*values, wrapped.compute()])
    torch.testing.assert_close(*found)


# ---- a state that does not fit


@pytest.mark.parametrize("change", [lambda t: t[:1], lambda t: t.float(), lambda t: t[0]], ids=["few", "real", "one"])
def test_a_changed_state_is_refused_and_leaves_the_metric(change: Callable[[Tensor], Tensor]) -> None:
    metric = own.BinaryF1Score()
    metric.persistent(True)
    metric.update(*KINDS["counts"].batch(1))
    saved, before = metric.state_dict(), deepcopy(states(metric))
    saved["integers"] = change(saved["integers"])
    with pytest.raises((InputError, RuntimeError), match="expected a state of"):
        metric.load_state_dict(saved)
    assert equal(states(metric), before)
