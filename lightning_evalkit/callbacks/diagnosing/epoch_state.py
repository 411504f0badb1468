"""The state that a metric would have if it had been reset before the first batch of the epoch."""

from __future__ import annotations

import warnings
from copy import copy
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torchmetrics import Metric

from lightning_evalkit.counts import Counts
from lightning_evalkit.evaluation.base import Evaluation
from lightning_evalkit.metrics.base import CountMetric
from lightning_evalkit.metrics.binary import BinaryMetric
from lightning_evalkit.state import Tally

if TYPE_CHECKING:
    from collections.abc import Callable

    from lightning_evalkit.counts import Totals

    Now = Callable[[], dict[str, Any]]


class EpochState(Protocol):
    """Remembers a state without waiting for the device; later it subtracts sums and cuts lists."""

    def values(self, **options: Any) -> dict[str, torch.Tensor]:
        """Compute the values of this rank's samples of the epoch, on a copy that may have other options.

        Those of an evaluation have the names of its entries, and that of a single metric has an empty name. There are
        none if the state was reset within the epoch or cannot be taken apart.
        """

    def table(self) -> Counts | None:
        """The four counts of the epoch, if the metric asks one yes-or-no question."""

    def targets(self) -> torch.Tensor | None:
        """The number of targets of each class, if the state has it."""


class StockEpochState(EpochState):
    """Separates the epoch in states of torchmetrics, if they are sums or lists; a maximum cannot be separated."""

    def __init__(self, metric: Metric, now: Now, updates: Callable[[], int]) -> None:
        self.metric, self._now = metric, now
        self._updates, self._counted = updates(), updates
        self._before = {name: _mark(now()[name]) for name in metric._defaults}
        self._is_wrapper = any(isinstance(part, Metric) for part in metric.children())

    def values(self, **options: Any) -> dict[str, torch.Tensor]:
        states = self._states()
        if states is None or self._is_wrapper:  # the states of a wrapper are those of the metrics inside
            return {}
        shallow: Any = copy(self.metric)
        try:
            vars(shallow).update(states | options)
            with torch.no_grad():
                value = type(shallow).compute(shallow)
        except Exception:  # a foreign metric may raise anything; its value is then left out
            return {}
        return {"": value} if isinstance(value, torch.Tensor) else {}

    def table(self) -> Counts | None:
        return stock_table(self._states() or {})

    def targets(self) -> torch.Tensor | None:
        states, classes = self._states() or {}, getattr(self.metric, "num_classes", None)
        if {"tp", "fn"} <= states.keys() and isinstance(states["tp"], torch.Tensor) and states["tp"].ndim == 1:
            found: torch.Tensor = states["tp"] + states["fn"]
            return found
        targets = states.get("target")
        if isinstance(targets, list) and targets and isinstance(classes, int):
            labels = torch.cat([part.flatten() for part in targets]).long().clamp(0, classes - 1)
            return torch.bincount(labels, minlength=classes)
        return None

    def _states(self) -> dict[str, Any] | None:
        if self._counted() <= self._updates:
            return None
        try:
            return {name: self._since(name) for name in self._before}
        except ValueError:
            return None

    def _since(self, name: str) -> Any:
        before, now = self._before[name], self._now()[name]
        if isinstance(now, list):
            return now[before:]
        default: Any = self.metric._defaults[name]
        if torch.equal(before, default.to(before.device)):
            return now
        reduction = self.metric._reductions[name]
        if getattr(reduction, "__name__", "") != "dim_zero_sum":
            raise ValueError(f"{name} is not a sum")
        return now - before


class OwnEpochState(EpochState):
    """Separates the epoch in the totals of this package's metrics and evaluations, which are sums or rows."""

    def __init__(self, metric: Tally | Evaluation, now: Now, updates: Callable[[], int]) -> None:
        self.metric, self._now = metric, now
        self._tally = tally_of(metric)
        self._updates, self._counted = updates(), updates
        self._before = {name: _mark(now()[name]) for name in self._tally.storage.names}

    def totals(self) -> Totals | None:
        """The totals of the epoch; None if the state was reset within it."""
        if self._counted() <= self._updates:
            return None
        now = self._now()
        states = {
            name: now[name][before:] if isinstance(before, int) else now[name] - before
            for name, before in self._before.items()
        }
        return self._tally.storage.read({**states, "_device": self._tally.device})

    def values(self, **options: Any) -> dict[str, torch.Tensor]:
        totals = self.totals()
        if totals is None:
            return {}
        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the run itself warns when it computes
                if isinstance(self.metric, Evaluation):
                    evidence = self._tally.value_of(totals)
                    return {entry.name: entry.value_of(evidence) for _, entry in self.metric._entries()}
                shallow = copy(self.metric)
                vars(shallow).update(options)
                value = shallow.value_of(totals)
        except Exception:  # a metric derived from one of ours may raise anything
            return {}
        return {"": value} if isinstance(value, torch.Tensor) else {}

    def table(self) -> Counts | None:
        totals = self.totals()
        return None if totals is None else table_of(self.metric, totals)

    def targets(self) -> torch.Tensor | None:
        totals = self.totals()
        if totals is None or not isinstance(self.metric, CountMetric) or self._tally.counter.task.samplewise:
            return None
        positives: torch.Tensor = self.metric.counter.counts(totals).positives
        return positives if positives.ndim == 1 else None


def epoch_state(metric: Metric | Evaluation, now: Now, updates: Callable[[], int]) -> EpochState:
    """Remember the state of a metric.

    ``now`` gives the attributes that hold it, and ``updates`` the number of updates since the last reset.
    """
    if isinstance(metric, Evaluation | Tally):
        return OwnEpochState(metric, now, updates)
    return StockEpochState(metric, now, updates)


def attributes_of(metric: Metric | Evaluation) -> dict[str, Any]:
    """The attributes that hold the state of a metric, with pending batches counted."""
    holder = metric.tally if isinstance(metric, Evaluation) else metric
    if isinstance(holder, Tally):
        holder.count_pending()
    return vars(holder)


def tally_of(metric: Tally | Evaluation) -> Tally:
    """The state of one of this package's metrics or evaluations."""
    return metric.tally if isinstance(metric, Evaluation) else metric


def stock_table(states: dict[str, Any]) -> Counts | None:
    """The four counts in the states of a stock metric that asks one yes-or-no question."""
    cells = [states.get(name) for name in ("tp", "fp", "fn", "tn")]
    if not all(isinstance(cell, torch.Tensor) and cell.numel() == 1 for cell in cells):
        return None
    return Counts(*(int(cell) for cell in cells if cell is not None))


def table_of(metric: Any, totals: Totals) -> Counts | None:
    """The four counts in totals of one of this package's binary metrics; None for any other metric."""
    if not isinstance(metric, BinaryMetric) or metric.counter.task.samplewise:
        return None
    return metric.counter.counts(totals).at(0).exact()


def _mark(state: Any) -> Any:
    return len(state) if isinstance(state, list) else state.detach().clone()
