"""Facts about the metrics and logs of a run, which a callback gathers and rules judge."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isnan
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lightning_evalkit.counts import Counts

Source = Literal["object", "value", "plain"]
"""Whether a metric itself was logged, a tensor that a metric returned, or any other number."""

SANITY = "sanity check"
STEPS = ("training_step", "validation_step", "test_step")
EVALUATING = ("validation_step", "test_step", "elsewhere")


class Owner(NamedTuple):
    """The stage, dataloader and epoch whose samples a state holds."""

    stage: str
    dataloader: int = 0
    epoch: int = 0


@dataclass
class SeenMetric:
    """One metric object, named by the path of its attribute."""

    path: str
    kind: str
    options: dict[str, Any] = field(default_factory=dict)
    """Arguments that its number depends on: average, threshold, ignore_index, top_k, num_classes, …"""
    held_in: Literal["module", "container", "callback"] = "module"
    together: set[frozenset[Owner]] = field(default_factory=set)
    """Sets of several owners whose samples were in the state at the same time."""
    lasting: bool = False
    """Whether it is meant to outlast an epoch, as the best value so far or a window over the last ones is."""
    computes: int = 0
    computed_in_steps: int = 0
    forwards: int = 0
    low_precision: tuple[str, ...] = ()
    """The states that keep a sum in 16 bits."""
    list_bytes: int = 0
    scores: SeenScores | None = None
    absent: SeenAbsence | None = None
    table: Counts | None = None
    """The four counts of the last epoch's own samples, if the state of a binary metric holds them."""
    truths: dict[str, float] = field(default_factory=dict)
    """The values of the last epoch's own samples, if the state mixes them with others and they can be separated.

    The values of an evaluation have the names of its entries, and the value of a single metric has an empty name.
    """
    last_loader: SeenLastLoader | None = None

    def mixed(self, part: Literal["stage", "dataloader", "epoch"]) -> list[Any]:
        """The stages, dataloaders or epochs that shared the state at one time, the most of them; empty if one did."""
        sets = [sorted({getattr(owner, part) for owner in owners}) for owners in self.together]
        most = max(sets, key=len, default=[])
        return most if len(most) > 1 else []


class SeenLastLoader(NamedTuple):
    """The last of several dataloaders that one state counted: the values of its own samples, and what was reported."""

    dataloader: int
    truths: dict[str, float]
    reported: SeenValue | None = None


class SeenValue(NamedTuple):
    """The value that was reported under a name, and the true one."""

    name: str
    reported: float
    truth: float

    @property
    def distance(self) -> float:
        """The distance of the reported value from the true one; -1 if one of them is NaN."""
        apart = abs(self.reported - self.truth)
        return -1.0 if isnan(apart) else apart


class SeenAbsence(NamedTuple):
    """Classes that never occur as a target, the macro average that counts them as 0, and the one over the others."""

    classes: tuple[int, ...]
    reported: float
    truth: float


@dataclass
class SeenScores:
    """The predictions that a metric was given, over an epoch."""

    batches: int = 0
    outside_unit: int = 0
    """Batches with a value outside of 0 to 1, which torchmetrics reads as logits."""
    lowest: float = 0.0
    highest: float = 1.0
    only_labels: bool = False
    """Whether every value was exactly 0 or 1."""


@dataclass
class SeenLog:
    """One name that was logged."""

    name: str
    hook: str
    source: Source = "plain"
    metric: str = ""
    entry: str = ""
    """The name of the entry, if the metric is an evaluation."""
    loss: str = ""
    """The path of the weighted loss that returned the value in validation or test."""
    loss_of_epoch: float | None = None
    """The value of that loss for the epoch as one batch."""
    on_epoch: bool = True
    on_step: bool = False
    sync_dist: bool = False
    batch_size_given: bool = False
    batches: int = 0
    higher_is_better: bool | None = None
    reported: float | None = None


@dataclass
class SeenMonitor:
    """A callback or scheduler that monitors a number."""

    owner: str
    name: str
    mode: str


@dataclass
class SeenLoader:
    """The rows that an evaluation loader gives to all ranks together, and how many are repeats."""

    stage: str
    dataloader: int
    rows: int
    repeats: int


class SeenGuard(NamedTuple):
    """A ``compute`` in the source of the module that only some ranks reach."""

    metric: str
    function: str
    condition: str


class SeenWait(NamedTuple):
    """A rank that waits for another to synchronise a metric, although the other has ended the epoch without it."""

    metric: str
    rank: int
    syncs: int
    other: int
    other_syncs: int


class SeenRefusal(NamedTuple):
    """A name under which several values were logged, which Lightning refuses; and the metric that they came from."""

    name: str
    metric: str
    shape: tuple[int, ...]


@dataclass
class SeenRun:
    """Everything that the rules on a run look at."""

    metrics: dict[str, SeenMetric] = field(default_factory=dict)
    logs: dict[str, SeenLog] = field(default_factory=dict)
    monitors: list[SeenMonitor] = field(default_factory=list)
    groups: list[tuple[str, ...]] = field(default_factory=list)
    """The paths of members of a MetricCollection that torchmetrics has merged into one state."""
    loaders: list[SeenLoader] = field(default_factory=list)
    ambiguous_batch: str = ""
    """The sizes that Lightning could choose from, if it had to guess the batch size."""
    class_weights: tuple[str, ...] = ()
    """Losses with class weights, by path: their mean over batches is not their mean over samples."""
    guards: list[SeenGuard] = field(default_factory=list)
    waits: list[SeenWait] = field(default_factory=list)
    refusals: list[SeenRefusal] = field(default_factory=list)
    inference_states: list[str] = field(default_factory=list)
    """Metrics whose update raised, because their state was made in inference mode."""
    ranks: int = 1
    exact: bool = False
    """Whether repeats of padded samplers are left out by ExactDistributedEvaluation."""

    def logs_of(self, metric: SeenMetric) -> list[SeenLog]:
        """The names under which a metric or a value of it was logged."""
        return [log for log in self.logs.values() if log.metric == metric.path]

    def numbers(self, metric: SeenMetric) -> tuple[str, dict[str, Any]]:
        """The reported and the true value of a metric in validation or test, as the end of a sentence and as evidence.

        For an evaluation, these are of the entry that is furthest from its true value.
        """
        values = [value for log in self.logs_of(metric) if (value := self.value(log))]
        return told(furthest(values), "the epoch's own samples", is_named=len(values) > 1)

    def value(self, log: SeenLog) -> SeenValue | None:
        """The value that validation or test reported under a name and the true one, if both are known."""
        metric = self.metrics.get(log.metric) if log.hook in EVALUATING else None
        truth = None if metric is None else metric.truths.get(log.entry)
        return None if truth is None or log.reported is None else SeenValue(log.name, log.reported, truth)


def furthest(values: Sequence[SeenValue]) -> SeenValue | None:
    """The value that is furthest from its true one."""
    return max(values, key=lambda value: value.distance, default=None)


def told(value: SeenValue | None, samples: str, is_named: bool = False) -> tuple[str, dict[str, Any]]:
    """A reported and a true value as the end of a sentence and as evidence; nothing if they are not known."""
    if value is None:
        return "", {}
    name = f"{value.name} = " if is_named else ""
    words = f": {name}{value.reported:.4f} is reported, but {samples} give {value.truth:.4f}"
    return words, {"reported": value.reported, "truth": value.truth} | ({"name": value.name} if is_named else {})
