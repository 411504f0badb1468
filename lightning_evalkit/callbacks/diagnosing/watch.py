"""Watches a running trainer, with its metrics, logged values, loaders and monitors, and changes nothing in the run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import DataLoader, DistributedSampler

from lightning_evalkit.callbacks.diagnosing.failures import inference_states
from lightning_evalkit.callbacks.diagnosing.given import Facts
from lightning_evalkit.callbacks.diagnosing.guards import guards
from lightning_evalkit.callbacks.diagnosing.logs import WatchedLogs
from lightning_evalkit.callbacks.diagnosing.own_numbers import OwnNumbers
from lightning_evalkit.callbacks.diagnosing.structure import (
    is_stock_collection,
    outermost,
    place_of,
    sizes_of,
)
from lightning_evalkit.callbacks.diagnosing.training_shares import MetricNumbers, with_training
from lightning_evalkit.callbacks.diagnosing.values import ReturnedValues
from lightning_evalkit.callbacks.diagnosing.waiting import Waiting
from lightning_evalkit.callbacks.diagnosing.watched import WatchedMetric
from lightning_evalkit.callbacks.diagnosing.weighted_losses import WeightedLosses
from lightning_evalkit.callbacks.exact_distributed.callback import ExactDistributedEvaluation
from lightning_evalkit.callbacks.exact_distributed.metrics import metrics
from lightning_evalkit.callbacks.parts.method_patch import MethodPatches
from lightning_evalkit.diagnosis.numbers import seen_counts
from lightning_evalkit.diagnosis.rules import OF_THRESHOLDS
from lightning_evalkit.diagnosis.seen import (
    SANITY,
    Owner,
    SeenLoader,
    SeenMonitor,
    SeenRefusal,
    SeenRun,
    SeenValue,
    furthest,
)
from lightning_evalkit.evaluation.base import Evaluation
from lightning_evalkit.evaluation.diagnosing import candidates_of
from lightning_evalkit.trainer import TrainerFn, callbacks_of, evaluation_loaders, monitors_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lightning_evalkit.callbacks.diagnosing.training_shares import Tables
    from lightning_evalkit.counts import Counts, Totals
    from lightning_evalkit.diagnosis.seen import SeenMetric, SeenWait
    from lightning_evalkit.trainer import LightningModule, Trainer

STATISTICS = {
    "BinaryAccuracy": "accuracy",
    "BinaryF1Score": "f1",
    "BinaryPrecision": "precision",
    "BinaryRecall": "recall",
    "BinarySpecificity": "specificity",
}
"""The statistic that a stock metric computes from its counts."""
STEP_OF = {"train": "training_step", "val": "validation_step", SANITY: "validation_step", "test": "test_step"}


class Watch:
    """Puts hooks around the metrics and the ``log`` of a module, and removes them in ``leave``."""

    def __init__(self, trainer: Trainer, module: LightningModule, on_wait: Callable[[SeenWait], None]) -> None:
        self.trainer, self.module = trainer, module
        self.seen = SeenRun(ranks=trainer.world_size)
        self._values, self._patches, self._step = ReturnedValues(), MethodPatches(), ""
        self._owner: Owner | None = None
        self._starts = False
        facts = {labels: Facts(labels) for labels in (False, True)}
        self.watched: dict[str, WatchedMetric] = {}
        for path, metric in outermost(metrics(trainer, module)):
            each = WatchedMetric(path, metric, self._values, facts, lambda: bool(self._step))
            each.seen.held_in = place_of(path, metric, module)
            self.watched[path] = each
            self.seen.metrics[path] = each.seen
        self._losses = WeightedLosses(module)
        self._logs = WatchedLogs(self.seen.logs, self.watched, self._values, self._losses, lambda: self._step)
        self._collections = [(path, each) for path, each in module.named_modules() if is_stock_collection(each)]
        self.seen.class_weights = self._losses.paths
        self.seen.exact = any(isinstance(each, ExactDistributedEvaluation) for each in callbacks_of(trainer))
        self._handles: list[Any] = []
        self.own = OwnNumbers(self._patches, lambda: bool(self._step), self._note_training)
        self._trained: list[Tables] = []
        self.monitored: dict[str, list[float]] = {}
        self._waiting: Waiting | None = None
        if trainer.world_size > 1:
            owners = [module, *callbacks_of(trainer)]
            self.seen.guards = [guard for owner in owners for guard in guards(owner, module)]
            if torch.distributed.is_available() and torch.distributed.is_initialized():
                self._waiting = Waiting(on_wait)

    def enter(self) -> None:
        """Put the hooks around the metrics and the ``log`` of the module."""
        for each in self.watched.values():
            each.enter(self._patches)
            if self._waiting is not None:
                joined = each.metric.tally if isinstance(each.metric, Evaluation) else each.metric
                self._waiting.follow(each.seen.path, joined, self._patches)
        if self._waiting is not None:
            self._waiting.enter(self.module, self._patches)
        self._handles = [each.register_forward_hook(self._collected(path)) for path, each in self._collections]
        self._losses.enter()
        self._patches.place(self.module, "log", self._logs.log)

    def leave(self) -> None:
        """Remove all hooks."""
        if self._waiting is not None:
            self._waiting.leave()
        for each in self.watched.values():
            each.leave()
        while self._handles:
            self._handles.pop().remove()
        self._losses.leave()
        self._patches.remove()

    def _collected(self, path: str) -> Callable[..., None]:
        """Note the values that a called collection returned for its members."""

        def remember(collection: Any, _: Any, values: Any) -> None:
            for (name, _member), value in zip(collection.items(True, False), values.values(), strict=False):
                self._values.remember(f"{path}.{name}", value)

        return remember

    # ---- steps

    def begin(self, owner: Owner) -> None:
        """Begin a step; samples that hooks counted since the last step belong to the owner before."""
        if owner != self._owner:
            self._see_rest()
            if self._owner is not None and owner.dataloader > 0 and owner.stage == self._owner.stage:
                for each in self.watched.values():
                    each.mark_loader(owner.dataloader)
            self._owner = owner
        if self._starts:
            self._starts = False
            for each in self.watched.values():
                each.mark()
        self._step = STEP_OF[owner.stage]

    def _see_rest(self) -> None:
        """Note what other callbacks and the module's own hooks counted after this callback had seen the batch."""
        if self._owner is not None:
            for each in self.watched.values():
                each.owners.see(self._owner)

    def end(self, batch: Any, first: bool) -> None:
        """End a step."""
        self._step = ""
        self._losses.forget()
        self._see_rest()
        if first:
            sizes = sorted(set(sizes_of(batch)))
            if len(sizes) > 1:
                self.seen.ambiguous_batch = " and ".join(map(str, sizes))
            self._values.forget()
            for leader, *others in self._groups():
                for path in others:
                    self.watched[path].follow(self.watched[leader])
            self.own.look(self.trainer, self.module)

    def _groups(self) -> list[tuple[str, ...]]:
        """The members of collections that share one state, by path; the first of each counts for all."""
        return [
            tuple(f"{path}.{name}" for name in group)
            for path, collection in self._collections
            for group in collection.compute_groups.values()
            if len(group) > 1 and all(f"{path}.{name}" in self.watched for name in group)
        ]

    # ---- at the end of an epoch, before anything is reset

    def read(self) -> None:
        """Read states and loaders; this reads from the device."""
        self._see_rest()
        logs = self.seen.logs.values()
        self.seen.groups = self._groups()
        for path, each in self.watched.items():
            each.read(self.seen.ranks == 1, any(log.metric == path and log.source == "value" for log in logs))
        if self.trainer.state.fn == TrainerFn.FITTING and not self.trainer.sanity_checking:
            found = (each.read_training(self.seen.ranks == 1) for each in self.watched.values())
            self._trained = [tables for tables in found if tables]
        for name, value in self._losses.read().items() if self.seen.ranks == 1 else ():
            self.seen.logs[name].loss_of_epoch = value
        self.seen.monitors = [SeenMonitor(*each) for each in monitors_of(self.trainer)]

    def reported(self) -> None:
        """Note the values that the trainer reported under the logged names, and every value of a monitored one."""
        values = {k: float(v) for k, v in self.trainer.callback_metrics.items() if v.numel() == 1}
        for name in values.keys() & self.seen.logs.keys():
            self.seen.logs[name].reported = values[name]
        for metric in self.seen.metrics.values():
            if (last := metric.last_loader) is not None:
                logs = {f"{log.name}/dataloader_idx_{last.dataloader}": log.entry for log in self.seen.logs_of(metric)}
                known = [name for name, entry in logs.items() if name in values and entry in last.truths]
                found = furthest([SeenValue(name, values[name], last.truths[logs[name]]) for name in known])
                metric.last_loader = last._replace(reported=found)
        if self.seen.ranks > 1:
            for each in self.watched.values():
                each.read_joined()
        self.seen.refusals = self._several()
        if self.trainer.state.fn == TrainerFn.FITTING:
            for name in values.keys() & {each.name for each in self.seen.monitors}:
                self.monitored.setdefault(name, []).append(values[name])

    def _note_training(self, evaluation: Evaluation, totals: Totals) -> None:
        for each in self.watched.values():
            if each.metric is evaluation:
                each.note_training(totals)

    def numbers(self) -> list[MetricNumbers]:
        """The numbers of every table and every evaluation of a validation or test, with those of training."""
        of = {id(each.metric): each.dataloaders for each in self.watched.values()}
        found = []
        for metric, table, values in self._tables():
            numbers = replace(seen_counts(table), candidates=candidates_of(table, values))
            unasked = () if metric.options.get("threshold", 0.5) == 0.5 else OF_THRESHOLDS
            found.append(MetricNumbers(metric.path, numbers, unasked, self.watched[metric.path].dataloaders))
        found += self.own.numbers(self.monitored, lambda evaluation: of.get(id(evaluation), frozenset()))
        return with_training(found, self._trained)

    def _tables(self) -> Iterator[tuple[SeenMetric, Counts, dict[str, list[float]]]]:
        """Yield every table that metrics hold, once, with the values of monitored statistics so far."""
        owners: list[tuple[SeenMetric, Counts, dict[str, list[float]]]] = []
        for metric in self.seen.metrics.values():
            if metric.table is None:
                continue
            if metric.table not in (table for _, table, _ in owners):
                owners.append((metric, metric.table, {}))
            values = next(values for _, table, values in owners if table == metric.table)
            for log in self.seen.logs_of(metric):
                if log.name in self.monitored and metric.kind in STATISTICS:
                    values[STATISTICS[metric.kind]] = self.monitored[log.name]
        return iter(owners)

    def rest(self) -> None:
        """Notice resets between epochs."""
        for each in self.watched.values():
            each.owners.rest()

    def mark(self, stage: str) -> None:
        """Begin a validation or test; states are noted before its first batch, when every hook has reset them."""
        self.rest()
        self.own.begin(not self.trainer.sanity_checking)
        self._starts = True
        self._losses.begin()
        for each in self.watched.values():
            each.forget()
        for log in self.seen.logs.values():
            log.batches = 0 if log.hook == STEP_OF[stage] else log.batches

    def over(self) -> None:
        """End a validation or test, after its findings were reported."""
        self.own.begin(False)
        for each in self.watched.values():
            each.forget()

    def failed(self, exception: BaseException) -> SeenRun:
        """The facts that an exception shows, without those of the interrupted epoch, which say little."""
        name, value, failure = self._logs.refused
        refusals = self._several()
        if exception is failure and isinstance(value, torch.Tensor) and value.numel() != 1:
            path = self._values.source(value).path
            refusals = [SeenRefusal(name, self._described(path), tuple(value.shape))]
        paths = {id(each.metric): path for path, each in self.watched.items()}
        wait = self._waiting.look_again() if self._waiting is not None and not self.seen.waits else None
        waits = [] if wait is None else [wait]
        return SeenRun(
            refusals=refusals,
            inference_states=inference_states(exception, paths),
            waits=waits,
            ranks=self.seen.ranks,
        )

    def _several(self) -> list[SeenRefusal]:
        """Find metrics that are logged as objects and compute several values."""
        logs = [log for log in self.seen.logs.values() if log.source == "object" and log.metric in self.watched]
        shapes = [(log, self.watched[log.metric].shape) for log in logs]
        return [SeenRefusal(log.name, self._described(log.metric), shape) for log, shape in shapes if shape]

    def _described(self, path: str) -> str:
        return f"{path} ({self.watched[path].seen.kind})" if path in self.watched else path

    def look_at_loaders(self, stage: str) -> None:
        """Count the rows that padded samplers repeat in validation or test."""
        for number, loader in enumerate(evaluation_loaders(self.trainer)):
            sampler = getattr(loader, "sampler", None)
            if isinstance(loader, DataLoader) and type(sampler) is DistributedSampler:
                rows, repeats = len(sampler.dataset), max(0, sampler.total_size - len(sampler.dataset))  # type: ignore[arg-type]
                seen = SeenLoader(stage, number, rows, repeats)
                self.seen.loaders = [*(each for each in self.seen.loaders if each != seen), seen]
