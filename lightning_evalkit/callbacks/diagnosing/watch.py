"""Watches a running trainer: its metrics, logged values, loaders and monitors. It changes nothing of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import DataLoader, DistributedSampler
from torchmetrics import Metric

from lightning_evalkit.callbacks.diagnosing.failures import inference_states
from lightning_evalkit.callbacks.diagnosing.given import Facts
from lightning_evalkit.callbacks.diagnosing.guards import guards
from lightning_evalkit.callbacks.diagnosing.own_numbers import OwnNumbers
from lightning_evalkit.callbacks.diagnosing.structure import (
    is_stock_collection,
    is_weighted_loss,
    outermost,
    place_of,
    sizes_of,
)
from lightning_evalkit.callbacks.diagnosing.values import ReturnedValues
from lightning_evalkit.callbacks.diagnosing.waiting import Waiting
from lightning_evalkit.callbacks.diagnosing.watched import WatchedMetric
from lightning_evalkit.callbacks.exact_distributed.callback import ExactDistributedEvaluation
from lightning_evalkit.callbacks.exact_distributed.metrics import metrics
from lightning_evalkit.callbacks.parts.method_patch import MethodPatches
from lightning_evalkit.diagnosis.seen import SANITY, Owner, SeenLoader, SeenLog, SeenMonitor, SeenRefusal, SeenRun
from lightning_evalkit.evaluation.base import Evaluation
from lightning_evalkit.evaluation.entry import Entry
from lightning_evalkit.trainer import TrainerFn, callbacks_of, evaluation_loaders, monitors_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lightning_evalkit.counts import Counts
    from lightning_evalkit.diagnosis.seen import SeenMetric, SeenWait
    from lightning_evalkit.trainer import LightningModule, Trainer

STATISTICS = {
    "BinaryAccuracy": "accuracy",
    "BinaryF1Score": "f1",
    "BinaryPrecision": "precision",
    "BinaryRecall": "recall",
    "BinarySpecificity": "specificity",
}
"""What the value of a stock metric is in the table of its counts."""
STEP_OF = {"train": "training_step", "val": "validation_step", SANITY: "validation_step", "test": "test_step"}


class Watch:
    """Puts hooks around the metrics and the ``log`` of a module, and takes them off in ``leave``."""

    def __init__(self, trainer: Trainer, module: LightningModule, on_wait: Callable[[SeenWait], None]) -> None:
        self.trainer, self.module = trainer, module
        self.seen = SeenRun(ranks=trainer.world_size)
        self._values, self._patches, self._step = ReturnedValues(), MethodPatches(), ""
        self._refused: tuple[str, Any, Exception | None] = ("", None, None)
        self._owner: Owner | None = None
        facts = {labels: Facts(labels) for labels in (False, True)}
        self.watched: dict[str, WatchedMetric] = {}
        for path, metric in outermost(metrics(trainer, module)):
            each = WatchedMetric(path, metric, self._values, facts, lambda: bool(self._step))
            each.seen.held_in = place_of(path, metric, module)
            self.watched[path] = each
            self.seen.metrics[path] = each.seen
        self._paths = {id(each.metric): path for path, each in self.watched.items()}
        self._collections = [(path, each) for path, each in module.named_modules() if is_stock_collection(each)]
        self.seen.class_weights = tuple(path for path, each in module.named_modules() if is_weighted_loss(each))
        self.seen.exact = any(isinstance(each, ExactDistributedEvaluation) for each in callbacks_of(trainer))
        self._handles: list[Any] = []
        self.own = OwnNumbers(self._patches, lambda: bool(self._step))
        self.monitored: dict[str, list[float]] = {}
        self._waiting: Waiting | None = None
        if trainer.world_size > 1:
            owners = [module, *callbacks_of(trainer)]
            self.seen.guards = [guard for owner in owners for guard in guards(owner, module)]
            if torch.distributed.is_available() and torch.distributed.is_initialized():
                self._waiting = Waiting(on_wait)

    def enter(self) -> None:
        """Begin."""
        for each in self.watched.values():
            each.enter(self._patches)
            if self._waiting is not None:
                joined = each.metric.tally if isinstance(each.metric, Evaluation) else each.metric
                self._waiting.follow(each.seen.path, joined, self._patches)
        if self._waiting is not None:
            self._waiting.enter(self.module, self._patches)
        self._handles = [each.register_forward_hook(self._collected(path)) for path, each in self._collections]
        self._patches.place(self.module, "log", self._log)

    def leave(self) -> None:
        """Restore everything."""
        if self._waiting is not None:
            self._waiting.leave()
        for each in self.watched.values():
            each.leave()
        while self._handles:
            self._handles.pop().remove()
        self._patches.remove()

    def _collected(self, path: str) -> Callable[..., None]:
        """Note the values of members that a called collection returned."""

        def remember(collection: Any, _: Any, values: Any) -> None:
            for (name, _member), value in zip(collection.items(True, False), values.values(), strict=False):
                self._values.remember(f"{path}.{name}", value)

        return remember

    # ---- steps

    def begin(self, owner: Owner) -> None:
        """A step begins; what was counted since the last one ended is of the owner before: hooks count there too."""
        if owner != self._owner:
            self._see_rest()
            if self._owner is not None and owner.dataloader > 0 and owner.stage == self._owner.stage:
                for each in self.watched.values():
                    each.mark_loader(owner.dataloader)
            self._owner = owner
        self._step = STEP_OF[owner.stage]

    def _see_rest(self) -> None:
        """Other callbacks, and the module's own hooks, count a batch after this callback has seen it."""
        if self._owner is not None:
            for each in self.watched.values():
                each.owners.see(self._owner)

    def end(self, batch: Any, first: bool) -> None:
        """A step has ended."""
        self._step = ""
        self._see_rest()
        if first:
            sizes = sorted(set(sizes_of(batch)))
            if len(sizes) > 1:
                self.seen.ambiguous_batch = " and ".join(map(str, sizes))
            self._values.forget()
            self.own.look(self.trainer, self.module)

    def _log(self, log: Callable[..., None], name: str, value: Any, *args: Any, **kwargs: Any) -> None:
        try:
            log(name, value, *args, **kwargs)
        except Exception as failure:
            self._refused = (name, value, failure)
            raise
        owner = value if not isinstance(value, Entry) else None
        path = self._paths.get(id(owner), "") or self._values.source(value) or self._evaluation_of(value)
        source = "object" if isinstance(value, Metric) else "value" if path else "plain"
        in_training = self._step == STEP_OF["train"]
        on_step, on_epoch = (kwargs.get(each) for each in ("on_step", "on_epoch"))
        seen = self.seen.logs.setdefault(name, SeenLog(name, self._step or "elsewhere"))
        seen.source, seen.metric = source, path  # type: ignore[assignment]  # one of three words
        seen.on_step = (in_training if on_step is None else on_step) and bool(self._step)
        seen.on_epoch = not in_training if on_epoch is None else on_epoch
        seen.sync_dist = bool(kwargs.get("sync_dist"))
        seen.batch_size_given = kwargs.get("batch_size") is not None
        seen.higher_is_better = self._direction(value, path)
        seen.batches += 1

    def _evaluation_of(self, value: Any) -> str:
        tally = value.tally if isinstance(value, Entry) else None
        owners = (path for path, each in self.watched.items() if getattr(each.metric, "tally", None) is tally)
        return next(owners, "") if tally is not None else ""

    def _direction(self, value: Any, path: str) -> bool | None:
        if isinstance(value, Metric):
            return getattr(value, "higher_is_better", None)
        return getattr(self.watched[path].metric, "higher_is_better", None) if path in self.watched else None

    # ---- at the end of an epoch, before anything is reset

    def read(self) -> None:
        """Read states and loaders; this reads from the device."""
        self._see_rest()
        logs = self.seen.logs.values()
        for path, each in self.watched.items():
            each.read(self.seen.ranks == 1, any(log.metric == path and log.source == "value" for log in logs))
        self.seen.groups = [
            tuple(f"{path}.{name}" for name in group)
            for path, collection in self._collections
            for group in collection.compute_groups.values()
            if len(group) > 1 and all(f"{path}.{name}" in self.watched for name in group)
        ]
        self.seen.monitors = [SeenMonitor(*each) for each in monitors_of(self.trainer)]

    def reported(self) -> None:
        """Note the values that the trainer reported under the logged names, and every value of a monitored one."""
        values = {k: float(v) for k, v in self.trainer.callback_metrics.items() if v.numel() == 1}
        for name in values.keys() & self.seen.logs.keys():
            self.seen.logs[name].reported = values[name]
        for metric in self.seen.metrics.values():
            if (last := metric.last_loader) is not None:
                names = [f"{log.name}/dataloader_idx_{last.dataloader}" for log in self.seen.logs_of(metric)]
                found = next((values[name] for name in names if name in values), None)
                metric.last_loader = last._replace(reported=found)
        self.seen.refusals = self._several()
        if self.trainer.state.fn == TrainerFn.FITTING:
            for name in values.keys() & {each.name for each in self.seen.monitors}:
                self.monitored.setdefault(name, []).append(values[name])

    def tables(self) -> Iterator[tuple[SeenMetric, Counts, dict[str, list[float]]]]:
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
        """Between epochs: notice resets."""
        for each in self.watched.values():
            each.owners.rest()

    def mark(self, stage: str) -> None:
        """A validation or test begins."""
        self.rest()
        self.own.begin(not self.trainer.sanity_checking)
        for each in self.watched.values():
            each.mark()
        for log in self.seen.logs.values():
            log.batches = 0 if log.hook == STEP_OF[stage] else log.batches

    def failed(self, exception: BaseException) -> SeenRun:
        """Tell only what an exception shows: an interrupted epoch says little."""
        name, value, failure = self._refused
        refusals = self._several()
        if exception is failure and isinstance(value, torch.Tensor) and value.numel() != 1:
            path = self._values.source(value)
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
        """Metrics that are logged as objects and compute several values."""
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
