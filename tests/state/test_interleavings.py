"""Whatever happens to the ranks of a run, in whatever order, no count changes but by what was counted.

Several metrics are the ranks; what they send each other passes through the functions that torchmetrics lets a user
give. Beside each stands a model that counts sample by sample.
"""

from __future__ import annotations

import copy
import io
import math
import pickle
from contextlib import nullcontext
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from torch import Tensor, nn
from torchmetrics.utilities.exceptions import TorchMetricsUserError

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation, Slices
from lightning_evalkit.errors import InputError
from lightning_evalkit.metrics import BinaryStatScores, MulticlassRecall

if TYPE_CHECKING:
    from collections.abc import Callable

Sample = tuple[tuple[float, ...], tuple[int, ...], int, int]
"""Scores and targets of its elements, its group and its weight."""

LEVELS = (0.0, 0.1, 0.3, 0.6, 0.8, 1.0)
GROUPS = 3

# ---- what is declared, and a model of it


@dataclass(frozen=True)
class Kind:
    """A declaration: how it is built, the cells of one sample, a value of cells, and which tensors it takes."""

    build: Callable[..., Any]
    cells: Callable[[Sample], np.ndarray]
    value: Callable[[np.ndarray], np.ndarray]
    reported: tuple[str, ...] = ()
    elements: int = 1
    classes: int = 0
    grouped: bool = False
    weighted: bool = False
    rowwise: bool = False

    def samples(self, seed: int, size: int) -> list[Sample]:
        choose = np.random.default_rng(seed)
        number = self.classes or 2
        scores = range(self.classes) if self.classes else LEVELS
        return [
            (
                tuple(choose.choice(scores, self.elements).tolist()),
                tuple(choose.integers(0, number, self.elements).tolist()),
                int(choose.integers(GROUPS)),
                int(choose.integers(4)),
            )
            for _ in range(size)
        ]

    def tensors(self, samples: list[Sample]) -> list[Tensor]:
        shape = (len(samples), self.elements) if self.elements > 1 else (len(samples),)
        kind = torch.int64 if self.classes else torch.float32
        preds = torch.tensor([sample[0] for sample in samples]).to(kind).reshape(shape)
        target = torch.tensor([sample[1] for sample in samples]).long().reshape(shape)
        group = torch.tensor([sample[2] for sample in samples]).long()
        weight = torch.tensor([sample[3] for sample in samples]).double()
        return [preds, target, *[group] * self.grouped, *[weight] * self.weighted]

    def counted(self, samples: list[Sample]) -> np.ndarray:
        nothing = np.zeros_like(self.cells(((0.0,) * self.elements, (0,) * self.elements, 0, 0)))
        found = [self.cells(sample) * (sample[3] if self.weighted else 1) for sample in samples]
        return np.array(found).reshape(-1, *nothing.shape) if self.rowwise else sum(found, start=nothing)

    def joined(self, parts: list[np.ndarray]) -> np.ndarray:
        return np.concatenate(parts) if self.rowwise else sum(parts[1:], start=parts[0])


def cell(positive: bool, truth: bool) -> list[int]:
    """tp, fp, fn, tn of one decision."""
    return [int((positive, truth) == each) for each in ((True, True), (True, False), (False, True), (False, False))]


def at_thresholds(*thresholds: float) -> Callable[[Sample], np.ndarray]:
    return lambda sample: np.array([cell(sample[0][0] > cut, sample[1][0] == 1) for cut in thresholds])


def one_against_the_rest(sample: Sample) -> np.ndarray:
    return np.array([cell(sample[0][0] == k, sample[1][0] == k) for k in range(3)])


def of_labels(sample: Sample) -> np.ndarray:
    return np.array([cell(score > 0.5, truth == 1) for score, truth in zip(*sample[:2], strict=True)])


def of_elements(sample: Sample) -> np.ndarray:
    return of_labels(sample).sum(0, keepdims=True)


def of_groups(cells: Callable[[Sample], np.ndarray]) -> Callable[[Sample], np.ndarray]:
    def found(sample: Sample) -> np.ndarray:
        return np.stack([cells(sample) * (sample[2] == group) for group in range(GROUPS)])

    return found


def share_right(cells: np.ndarray) -> np.ndarray:
    return divided(cells[..., 0] + cells[..., 3], cells.sum(-1))


def share_found(cells: np.ndarray) -> np.ndarray:
    right = cells[..., 0].sum(-1)
    return divided(right, right + cells[..., 2].sum(-1))


def divided(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.divide(part, whole, out=np.full(np.shape(part), np.nan), where=whole != 0)


def stat_scores(cells: np.ndarray) -> np.ndarray:
    tp, fp, fn, tn = np.moveaxis(cells[..., 0, :], -1, 0)
    return np.stack((tp, fp, tn, fn, tp + fn), -1)


def binary(**declared: Any) -> Callable[..., Any]:
    return lambda **options: BinaryEvaluation("probabilities", **declared, **options)


def sliced(template: Callable[[], Any]) -> Callable[..., Any]:
    return lambda **options: Slices(template(), GROUPS, **options)


ACCURACY = ("accuracy",)
AT_HALF = at_thresholds(0.5)
KINDS = {
    "binary": Kind(
        binary(threshold=[0.2, 0.7]), at_thresholds(0.2, 0.7), share_right, ("accuracy@0.2", "accuracy@0.7")
    ),
    "weighted": Kind(binary(weighted=True), AT_HALF, share_right, ACCURACY, weighted=True),
    "curves": Kind(binary(curves=True, resolution=64), AT_HALF, share_right, ACCURACY),
    "multiclass": Kind(
        lambda **options: MulticlassEvaluation("labels", 3, **options),
        one_against_the_rest,
        share_found,
        ACCURACY,
        classes=3,
    ),
    "multilabel": Kind(
        lambda **options: MultilabelEvaluation("probabilities", 3, **options),
        of_labels,
        lambda cells: share_right(cells.sum(-2)),
        ("hamming_accuracy",),
        elements=3,
    ),
    "metric": Kind(lambda **options: BinaryStatScores(inputs="probabilities", **options), AT_HALF, stat_scores),
    "multiclass_metric": Kind(
        lambda **options: MulticlassRecall(
            num_classes=3, inputs="labels", average="micro", zero_division=math.nan, **options
        ),
        one_against_the_rest,
        share_found,
        classes=3,
    ),
    "samplewise": Kind(
        lambda **options: BinaryStatScores(inputs="probabilities", multidim_average="samplewise", **options),
        of_elements,
        stat_scores,
        elements=3,
        rowwise=True,
    ),
    "slices": Kind(sliced(binary()), of_groups(AT_HALF), share_right, ACCURACY, grouped=True),
    "weighted_slices": Kind(
        sliced(lambda: MulticlassEvaluation("labels", 3, weighted=True)),
        of_groups(one_against_the_rest),
        share_found,
        ACCURACY,
        classes=3,
        grouped=True,
        weighted=True,
    ),
}


@dataclass(eq=False)
class Held:
    """What a rank should hold: cells by the model, and how many samples were not what was declared."""

    cells: np.ndarray
    invalid: int = 0


@dataclass(eq=False)
class Rank:
    """A metric with its model; ``joined`` is what it shows between ``sync`` and ``unsync``."""

    metric: Any
    held: Held
    joined: Held | None = None

    @property
    def tally(self) -> Any:
        return getattr(self.metric, "tally", self.metric)

    @property
    def shown(self) -> Held:
        return self.held if self.joined is None else self.joined


# ---- ranks that talk


RANKS: list[Rank] = []
"""Those of the machine that is running: a copy of a metric talks to them too."""


@dataclass(frozen=True)
class Gather:
    """The ``dist_sync_fn`` of one rank: a list of what every rank sends."""

    place: int

    def __call__(self, tensor: Tensor, group: Any = None) -> list[Tensor]:
        return [tensor if place == self.place else _sent(rank) for place, rank in enumerate(RANKS)]


def _sent(rank: Rank) -> Tensor:
    """What a rank would send, found by synchronising a copy of it with itself alone."""
    sent: list[Tensor] = []

    def alone(tensor: Tensor, group: Any = None) -> list[Tensor]:
        sent.append(tensor.clone())
        return [tensor]

    tally = rank.tally.clone()
    if tally._is_synced:
        tally.unsync()
    tally.sync(dist_sync_fn=alone, distributed_available=always)
    assert len(sent) == 1  # one collective
    return sent[0]


def always() -> bool:
    return True


# ---- what may happen

COPIES: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda metric: pickle.loads(pickle.dumps(metric)),
    "deepcopy": copy.deepcopy,
    "clone": lambda metric: metric.clone(),
    "in_a_module": lambda metric: copy.deepcopy(nn.ModuleList([metric]))[0],
    "to_another_process": lambda metric: pickle.loads(ForkingPickler.dumps(metric)),
}
CASTS: dict[str, Callable[[Any], Any]] = {
    "half": lambda metric: metric.half(),
    "double": lambda metric: metric.double(),
    "bfloat16": lambda metric: metric.to(torch.bfloat16),
    "device_and_float16": lambda metric: metric.to("cpu", torch.float16),
    "set_dtype": lambda metric: metric.set_dtype(torch.bfloat16),
    "in_a_module": lambda metric: nn.ModuleList([metric]).to(torch.bfloat16),
}
MOST = 3
places, seeds, sizes, modes = st.integers(0, MOST - 1), st.integers(0, 2**16), st.integers(0, 4), st.booleans()


class Interleavings(RuleBasedStateMachine):
    """Every rank holds what its model holds."""

    def __init__(self, kind: Kind) -> None:
        super().__init__()
        self.kind = kind

    @initialize(number=st.integers(1, MOST), sharing=st.booleans())
    def start(self, number: int, sharing: bool) -> None:
        """Ranks that join in ``compute`` do so every time: what is cached on one does not know of the others."""
        self.sharing = sharing
        self.options = {"distributed_available_fn": always, "compute_with_cache": False} if sharing else {}
        RANKS[:] = [Rank(self.fresh(place), self.nothing()) for place in range(number)]

    def fresh(self, place: int) -> Any:
        return self.kind.build(dist_sync_fn=Gather(place), **self.options)

    def nothing(self) -> Held:
        return Held(self.kind.counted([]))

    def together(self, parts: list[Held]) -> Held:
        return Held(self.kind.joined([part.cells for part in parts]), sum(part.invalid for part in parts))

    # ---- counting

    @rule(place=places, seed=seeds, size=sizes, inference=modes)
    def update(self, place: int, seed: int, size: int, inference: bool) -> None:
        rank, samples = self.at(place), self.kind.samples(seed, size)
        with torch.inference_mode(inference), refused_if(rank.joined):
            rank.metric.update(*self.kind.tensors(samples))
            self.add(rank, samples)

    @rule(place=places, seed=seeds, size=sizes, inference=modes)
    def forward(self, place: int, seed: int, size: int, inference: bool) -> None:
        rank, samples = self.at(place), self.kind.samples(seed, size)
        with torch.inference_mode(inference), refused_if(rank.joined):
            self.agree(rank.metric(*self.kind.tensors(samples)), self.kind.counted(samples))
            self.add(rank, samples)

    @rule(place=places, seed=seeds, size=sizes, call=st.sampled_from(["update", "forward"]))
    def fail(self, place: int, seed: int, size: int, call: str) -> None:
        rank = self.at(place)
        refusal = InputError if rank.joined is None else TorchMetricsUserError
        with pytest.raises(refusal):
            getattr(rank.metric, call)(*self.bad(self.kind.samples(seed, size + 1)))

    @rule(place=places, seed=seeds, size=sizes)
    def update_as_on_a_device(self, place: int, seed: int, size: int) -> None:
        rank, samples = self.at(place), self.kind.samples(seed, size + 1)
        with mock.patch.object(torch.compiler, "is_compiling", return_value=True), refused_if(rank.joined):
            rank.metric.update(*self.bad(samples))
            self.add(rank, samples[:-1])
            if self.kind.rowwise:  # also a sample that is not counted has a row
                rank.held.cells = self.kind.joined([rank.held.cells, 0 * self.kind.counted(samples[-1:])])
            rank.held.invalid += self.kind.elements

    def bad(self, samples: list[Sample]) -> list[Tensor]:
        """The last sample is not what is declared in any of its elements, and weighs something: 0 equals removal."""
        preds, target, *others = self.kind.tensors(samples)
        target[-1] = 7
        if self.kind.weighted:
            others[-1][-1] = 1.0
        return [preds, target, *others]

    def add(self, rank: Rank, samples: list[Sample]) -> None:
        rank.held.cells = self.kind.joined([rank.held.cells, self.kind.counted(samples)])

    def at(self, place: int) -> Rank:
        return RANKS[place % len(RANKS)]

    # ---- reading

    @rule(place=places)
    def compute(self, place: int) -> None:
        rank = self.at(place)
        expected = rank.shown
        if self.sharing and rank.joined is None:
            expected = self.together([each.held for each in RANKS])
        if expected.invalid:
            with pytest.raises(InputError, match=f"^{expected.invalid} samples"):
                rank.metric.compute()
        else:
            self.agree(rank.metric.compute(), expected.cells)
        counts = torch.stack(rank.tally.counter.evidence(rank.tally.global_totals).counts.cells, -1)
        assert counts.tolist() == expected.cells.tolist()

    def agree(self, computed: Any, cells: np.ndarray) -> None:
        """A value that was computed is the model's."""
        if self.kind.reported:
            computed = torch.stack([computed[name] for name in self.kind.reported])
        expected = torch.as_tensor(self.kind.value(cells)).reshape(computed.shape)
        torch.testing.assert_close(computed.double(), expected.double(), rtol=1e-6, atol=0, equal_nan=True)

    # ---- joining ranks by hand

    @rule(place=places, wanted=modes)
    def sync(self, place: int, wanted: bool) -> None:
        rank = self.at(place)
        with refused_if(rank.joined if wanted else None):
            rank.tally.sync(should_sync=wanted, distributed_available=always)
            if wanted:
                rank.joined = self.together([each.held for each in RANKS])

    @rule(place=places, wanted=modes)
    def unsync(self, place: int, wanted: bool) -> None:
        rank = self.at(place)
        with refused_if(wanted and rank.joined is None):
            rank.tally.unsync(should_unsync=wanted)
            if wanted:
                rank.joined = None

    # ---- the monoid

    @rule(place=places, inference=modes)
    def reset(self, place: int, inference: bool) -> None:
        rank = self.at(place)
        with torch.inference_mode(inference):
            rank.metric.reset()
        rank.held, rank.joined = self.nothing(), None

    @rule(place=places, other=places, as_state=modes)
    def merge(self, place: int, other: int, as_state: bool) -> None:
        rank, peer = self.at(place), self.at(other)
        with refused_if(rank.joined):
            rank.tally.merge_state(peer.tally.metric_state if as_state else peer.tally)
            rank.held = self.together([rank.held, peer.shown])

    # ---- copies, casts, checkpoints

    @rule(place=places, how=st.sampled_from(sorted(COPIES)), inference=modes)
    def go_on_with_a_copy(self, place: int, how: str, inference: bool) -> None:
        rank = self.at(place)
        with torch.inference_mode(inference):
            duplicate = COPIES[how](rank.metric)
        rank.metric.reset()  # which is no longer that of the rank
        rank.metric = duplicate

    @rule(place=places, how=st.sampled_from(sorted(CASTS)))
    def cast(self, place: int, how: str) -> None:
        CASTS[how](self.at(place).metric)

    @rule(place=places, anew=modes)
    def go_on_from_a_checkpoint(self, place: int, anew: bool) -> None:
        """What is saved between ``sync`` and ``unsync`` is of all ranks, as in torchmetrics."""
        rank, file = self.at(place), io.BytesIO()
        rank.metric.persistent(True)
        torch.save(rank.metric.state_dict(), file)
        file.seek(0)
        rank.metric = self.fresh(place % len(RANKS)) if anew else rank.metric
        rank.metric.load_state_dict(torch.load(file, weights_only=True))
        rank.held, rank.joined = rank.shown, None

    @invariant()
    def every_rank_holds_what_its_model_holds(self) -> None:
        """In its state and, where ranks do not join, in what it computed, which is asked for after every step."""
        for rank in RANKS:
            tally = rank.tally
            for totals in (tally.totals, *([] if self.sharing else [tally.global_totals])):
                counts = torch.stack(tally.counter.evidence(totals).counts.cells, -1)
                assert counts.tolist() == rank.shown.cells.tolist()
                assert tally.counter.ledger(totals).invalid == rank.shown.invalid


def refused_if(condition: Any) -> Any:
    return pytest.raises(TorchMetricsUserError, match="synced") if condition else nullcontext()


few = settings(max_examples=10, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.filterwarnings("ignore::lightning_evalkit.errors.UndefinedWarning")
@pytest.mark.filterwarnings("ignore:The ``compute`` method")
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_no_interleaving_changes_a_count(kind: Kind) -> None:
    try:
        run_state_machine_as_test(lambda: Interleavings(kind), settings=few)
    finally:
        RANKS.clear()
