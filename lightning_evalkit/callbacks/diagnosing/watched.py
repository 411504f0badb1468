"""Watches one metric of a run: which steps update it, with which inputs, and which values it returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torchmetrics.wrappers import Running

from lightning_evalkit.callbacks.diagnosing.epoch_state import (
    attributes_of,
    epoch_state,
    stock_table,
    table_of,
    tally_of,
)
from lightning_evalkit.callbacks.diagnosing.given import Given
from lightning_evalkit.callbacks.diagnosing.owners import Owners
from lightning_evalkit.callbacks.diagnosing.training_shares import tables_in
from lightning_evalkit.diagnosis.rules.scores import GUESSING, RANKING
from lightning_evalkit.diagnosis.seen import SeenAbsence, SeenLastLoader, SeenMetric
from lightning_evalkit.evaluation.base import Evaluation
from lightning_evalkit.metrics.binary import BinaryMetric
from lightning_evalkit.state import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torchmetrics import Metric

    from lightning_evalkit.callbacks.diagnosing.epoch_state import EpochState
    from lightning_evalkit.callbacks.diagnosing.given import Facts
    from lightning_evalkit.callbacks.diagnosing.training_shares import Tables
    from lightning_evalkit.callbacks.diagnosing.values import ReturnedValues
    from lightning_evalkit.callbacks.parts.method_patch import MethodPatches
    from lightning_evalkit.counts import Counts, Totals
    from lightning_evalkit.state.global_totals import GlobalTotals

OPTIONS = ("average", "threshold", "ignore_index", "top_k", "num_classes", "num_labels", "thresholds")
LOW = (torch.float16, torch.bfloat16)
EXTREMES = {"dim_zero_max", "dim_zero_min"}


class WatchedMetric:
    """Hooks around one metric; ``leave`` removes them."""

    def __init__(
        self,
        path: str,
        metric: Metric | Evaluation,
        values: ReturnedValues,
        facts: Mapping[bool, Facts],
        in_step: Callable[[], bool],
    ) -> None:
        self.metric, self._values, self._in_step = metric, values, in_step
        self._holder = metric
        options = {name: getattr(metric, name) for name in OPTIONS if hasattr(metric, name)}
        if isinstance(metric, Evaluation | Tally):
            options["inputs"] = tally_of(metric).counter.task.inputs
        self.seen = SeenMetric(path, type(metric).__name__, options, lasting=_is_lasting(metric))
        self._inside = False
        self._given = Given(facts[self.seen.kind.endswith(RANKING)])
        self._handles: list[Any] = []
        self._epoch: EpochState | None = None
        self._loader: tuple[int, EpochState] | None = None
        self._joined: GlobalTotals | None = None
        self._trained: Totals | None = None
        self.dataloaders: frozenset[int] = frozenset()
        """The dataloaders whose samples were in the state at the end of the last validation or test."""
        self.shape: tuple[int, ...] = ()
        """The shape of the last computed value, if it held several numbers."""
        self.owners: Owners

    def enter(self, patches: MethodPatches) -> None:
        """Watch until the patches are removed and ``leave`` is called."""
        self.owners = Owners(self.metric, patches, self._given.look if self._has_scores() else None)
        self._handles = [
            self.metric.register_forward_pre_hook(self._before_forward),
            self.metric.register_forward_hook(self._after_forward, always_call=True),
        ]
        patches.place(self.metric, "compute", self._compute)

    def _has_scores(self) -> bool:
        """Whether predictions may be scores; those of an evaluation with curves are judged by the rules on numbers."""
        if isinstance(self.metric, Evaluation) and self.metric.tally.counter.task.binning is not None:
            return False
        return self.seen.kind.startswith(GUESSING) and self.seen.options.get("inputs") != "labels"

    def follow(self, leader: WatchedMetric) -> None:
        """Read the state of the metric that counts for a group.

        Older releases of torchmetrics pass that state on to the group only when it is computed.
        """
        self._holder = leader.metric
        self.owners.counted = leader.owners.counted

    def leave(self) -> None:
        """Remove the hooks."""
        while self._handles:
            self._handles.pop().remove()

    def _before_forward(self, *_: Any) -> None:
        self._inside = True

    def _after_forward(self, _: Any, __: Any, value: Any) -> None:
        self._inside = False
        self.seen.forwards += 1
        self._values.remember(self.seen.path, value)

    def _compute(self, compute: Callable[[], Any]) -> Any:
        value = compute()
        if not self._inside:
            self.seen.computes += 1
            self.seen.computed_in_steps += self._in_step()
            self.shape = tuple(value.shape) if isinstance(value, torch.Tensor) and value.numel() != 1 else ()
            self._values.remember(self.seen.path, value)
            if isinstance(self.metric, BinaryMetric) and not self._in_step():
                self._computed(self.metric._computed)  # None with compute_with_cache=False
        return value

    def _computed(self, joined: GlobalTotals | None) -> None:
        if self._epoch is None and joined is not None:
            self.note_training(joined.totals)
        else:
            self._joined = joined

    def note_training(self, totals: Totals) -> None:
        """Keep the totals of all ranks that were computed when a training epoch ended."""
        if self.owners.is_training:
            self._trained = totals

    def read_training(self, alone: bool) -> Tables:
        """The counts of training samples, from the state or from the totals that all ranks computed last."""
        if isinstance(self.metric, Evaluation | Tally):
            holds = alone and self.owners.is_training
            totals = tally_of(self.metric).storage.read(self._now()) if holds else self._trained
            return {} if totals is None else tables_in(self.metric, totals)
        if not alone or not self.owners.is_training:
            return {}
        table = _filled(stock_table(self._now()))
        return {} if table is None else {"": table}

    # ---- at the start and, once, at the end of an epoch

    def mark(self) -> None:
        """Note the state before the first batch of validation or test."""
        self._epoch = epoch_state(self.metric, self._now, self.owners.counted)

    def forget(self) -> None:
        """Drop the noted state: validation or test is over, or begins."""
        self._epoch = self._loader = self._joined = None

    def mark_loader(self, dataloader: int) -> None:
        """Begin another dataloader; the state is noted only if it already holds samples."""
        if self.owners.counted():
            self._loader = (dataloader, epoch_state(self.metric, self._now, self.owners.counted))

    def _now(self) -> dict[str, Any]:
        """The attributes of the metric that holds the state, for itself or for its group."""
        return attributes_of(self._holder)

    def read(self, alone: bool, is_logged_as_value: bool) -> None:
        """Read the state before its reset; on a single rank also the value of this epoch alone."""
        self.seen.together, self.dataloaders = self.owners.together, self.owners.dataloaders
        self.seen.scores = self._given.read() or self.seen.scores
        self._look_at_states(tally_of(self.metric) if isinstance(self.metric, Evaluation) else self.metric)
        if alone and self._epoch is not None:
            if self.seen.together or is_logged_as_value:
                self.seen.truths = _numbers(self._epoch.values())
            if self._loader is not None and (truths := _numbers(self._loader[1].values())):
                self.seen.last_loader = SeenLastLoader(self._loader[0], truths)
            self._look_for_absent_classes(self._epoch)
            self.seen.table = _filled(self._epoch.table())

    def read_joined(self) -> None:
        """Read the table of all ranks that one of this package's metrics computed when the epoch ended."""
        if self._joined is not None and not self.seen.together:
            self.seen.table = _filled(table_of(self.metric, self._joined.totals))

    def _look_at_states(self, metric: Metric) -> None:
        """Note sums in low precision, and the size of lists."""
        states = {name: getattr(metric, name) for name in metric._defaults}
        tensors = {name: state for name, state in states.items() if isinstance(state, torch.Tensor)}
        self.seen.low_precision = tuple(name for name, state in tensors.items() if state.dtype in LOW)
        lists = [part for state in states.values() if isinstance(state, list) for part in state]
        self.seen.list_bytes = max(self.seen.list_bytes, sum(part.numel() * part.element_size() for part in lists))

    def _look_for_absent_classes(self, epoch: EpochState) -> None:
        options = self.seen.options
        if options.get("average") != "macro" or "num_classes" not in options or options.get("ignore_index") is not None:
            return
        targets = epoch.targets()
        if targets is None or bool((present := targets > 0).all()):
            return
        each, whole = epoch.values(average="none").get(""), _numbers(epoch.values()).get("")
        if each is None or whole is None or each.shape != present.shape:
            return
        truth = float(each[present].float().mean())
        if abs(truth - whole) > 1e-6:
            absent = tuple(torch.nonzero(~present).flatten().tolist())
            self.seen.absent = SeenAbsence(absent, whole, truth)


def _is_lasting(metric: Metric | Evaluation) -> bool:
    """Whether a metric is meant to outlive an epoch: running extremes, and windows over the last updates.

    MinMaxMetric is not: its extremes survive a reset, and without one its inner metric counts all epochs together.
    """
    if isinstance(metric, Evaluation):
        return False
    reductions = {getattr(each, "__name__", "") for each in metric._reductions.values()}
    return isinstance(metric, Running) or (bool(reductions) and reductions <= EXTREMES)


def _numbers(values: dict[str, torch.Tensor]) -> dict[str, float]:
    return {name: float(value) for name, value in values.items() if value.numel() == 1}


def _filled(table: Counts | None) -> Counts | None:
    return table if table is not None and table.total else None
