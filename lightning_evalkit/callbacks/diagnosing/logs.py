"""Notes each value that a module logs, with its name, its metric and its options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torchmetrics import Metric

from lightning_evalkit.diagnosis.seen import STEPS, SeenLog
from lightning_evalkit.evaluation.base import Evaluation
from lightning_evalkit.evaluation.entry import Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lightning_evalkit.callbacks.diagnosing.values import ReturnedValues
    from lightning_evalkit.callbacks.diagnosing.watched import WatchedMetric
    from lightning_evalkit.callbacks.diagnosing.weighted_losses import WeightedLosses


class WatchedLogs:
    """Replaces the ``log`` of a module; ``step`` gives the name of the current step, empty outside of steps."""

    def __init__(
        self,
        seen: dict[str, SeenLog],
        watched: Mapping[str, WatchedMetric],
        values: ReturnedValues,
        losses: WeightedLosses,
        step: Callable[[], str],
    ) -> None:
        self._seen, self._watched, self._values, self._step = seen, watched, values, step
        self._losses = losses
        self._paths = {id(each.metric): path for path, each in watched.items()}
        self.refused: tuple[str, Any, Exception | None] = ("", None, None)
        """The last name and value that Lightning refused to log, and its exception."""

    def log(self, log: Callable[..., None], name: str, value: Any, *args: Any, **kwargs: Any) -> None:
        """Log, then note what was logged."""
        try:
            log(name, value, *args, **kwargs)
        except Exception as failure:
            self.refused = (name, value, failure)
            raise
        path, entry = self._source(value)
        step = self._step()
        in_training = step == "training_step"
        on_step, on_epoch = (kwargs.get(each) for each in ("on_step", "on_epoch"))
        seen = self._seen.setdefault(name, SeenLog(name, step or "elsewhere"))
        seen.source = "object" if isinstance(value, Metric) else "value" if path else "plain"
        seen.metric, seen.entry = path, "" if entry is None else entry.name
        seen.on_step = (in_training if on_step is None else on_step) and bool(step)
        seen.on_epoch = not in_training if on_epoch is None else on_epoch
        seen.sync_dist = bool(kwargs.get("sync_dist"))
        seen.batch_size_given = kwargs.get("batch_size") is not None
        seen.loss = self._losses.logged(name, value) if step in STEPS[1:] else ""
        seen.higher_is_better = self._direction(value, path, entry)
        seen.batches += 1

    def _source(self, value: Any) -> tuple[str, Entry | None]:
        """The path of the metric that was logged, or that returned the value; and the entry of an evaluation."""
        if isinstance(value, Entry):
            return self._evaluation_of(value), value
        path, key = self._values.source(value)
        evaluation = self._watched[path].metric if path in self._watched else None
        entries = evaluation._entries() if isinstance(evaluation, Evaluation) else []
        entry = next((entry for name, entry in entries if name == key), None)
        return self._paths.get(id(value), "") or path, entry

    def _evaluation_of(self, entry: Entry) -> str:
        owners = (path for path, each in self._watched.items() if getattr(each.metric, "tally", None) is entry.tally)
        return next(owners, "")

    def _direction(self, value: Any, path: str, entry: Entry | None) -> bool | None:
        if entry is None and not isinstance(value, Metric) and path in self._watched:
            return getattr(self._watched[path].metric, "higher_is_better", None)
        return getattr(entry or value, "higher_is_better", None)
