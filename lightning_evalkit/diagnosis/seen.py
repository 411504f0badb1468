"""What a run shows of its metrics and logs: plain facts, gathered by a callback and judged by rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection

    from lightning_evalkit.counts import Counts

Source = Literal["object", "value", "plain"]
"""A metric itself, a tensor that a metric returned, or any other number."""

SANITY = "sanity check"
STEPS = ("training_step", "validation_step", "test_step")
EVALUATING = ("validation_step", "test_step", "elsewhere")


class Owner(NamedTuple):
    """Who has counted into a state since it was last empty."""

    stage: str
    dataloader: int = 0
    epoch: int = 0


@dataclass
class SeenMetric:
    """One metric object, by the path of its attribute."""

    path: str
    kind: str
    options: dict[str, Any] = field(default_factory=dict)
    """Arguments that decide about its number: average, threshold, ignore_index, top_k, num_classes, …"""
    held_in: Literal["module", "container", "callback"] = "module"
    together: set[frozenset[Owner]] = field(default_factory=set)
    """Owners that were in one state at one time, where there were several."""
    lasting: bool = False
    """Whether it is meant to live over epochs: the best value so far, or a window over the last ones."""
    computes: int = 0
    computed_in_steps: int = 0
    forwards: int = 0
    low_precision: tuple[str, ...] = ()
    """Sums that are kept in 16 bits."""
    list_bytes: int = 0
    scores: SeenScores | None = None
    absent: SeenAbsence | None = None
    table: Counts | None = None
    """The four counts of the last epoch's own samples, where the state of a binary metric holds them."""
    truth: float | None = None
    """The value of the last epoch's own samples, where something is mixed into it and it can be taken apart."""

    last_loader: SeenLastLoader | None = None

    def mixed(self, part: Literal["stage", "dataloader", "epoch"]) -> list[Any]:
        """The most stages, dataloaders or epochs that were in one state at one time, if more than one."""
        sets = [sorted({getattr(owner, part) for owner in owners}) for owners in self.together]
        most = max(sets, key=len, default=[])
        return most if len(most) > 1 else []


class SeenLastLoader(NamedTuple):
    """The last of several dataloaders that one state counted: the value of its own samples, and what was reported."""

    dataloader: int
    truth: float
    reported: float | None = None


class SeenAbsence(NamedTuple):
    """Classes that never were a target, the macro average that counts them as 0, and that over the others."""

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
    on_epoch: bool = True
    on_step: bool = False
    sync_dist: bool = False
    batch_size_given: bool = False
    batches: int = 0
    higher_is_better: bool | None = None
    reported: float | None = None


@dataclass
class SeenMonitor:
    """A callback or scheduler that waits for a number to get better."""

    owner: str
    name: str
    mode: str


@dataclass
class SeenLoader:
    """What an evaluation loader gives to all ranks together."""

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
    """A rank that waits for another to join a metric, while the other has ended the epoch without doing so."""

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
    """Members of a MetricCollection that torchmetrics has merged into one state, by path."""
    loaders: list[SeenLoader] = field(default_factory=list)
    ambiguous_batch: str = ""
    """The sizes that Lightning could choose from, where it had to guess the batch size."""
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

    def numbers(self, metric: SeenMetric, hooks: Collection[str] = EVALUATING) -> tuple[str, dict[str, Any]]:
        """What was reported of a metric and what is true, as the end of a sentence and as evidence."""
        reported = [log.reported for log in self.logs_of(metric) if log.hook in hooks and log.reported is not None]
        if metric.truth is None or not reported:
            return "", {}
        words = f": {reported[-1]:.4f} is reported, and {metric.truth:.4f} is the value of the epoch's own samples"
        return words, {"reported": reported[-1], "truth": metric.truth}
