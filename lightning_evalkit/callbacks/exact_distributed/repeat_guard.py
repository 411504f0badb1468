"""Rolls back what metrics count and the module logs in a batch that is a repeat."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from lightning_evalkit.callbacks.exact_distributed.rollback import rolled_back
from lightning_evalkit.callbacks.exact_distributed.row_check import has_rows
from lightning_evalkit.callbacks.parts.method_patch import MethodPatches
from lightning_evalkit.counts import real_dtype
from lightning_evalkit.evaluation.base import Evaluation
from lightning_evalkit.evaluation.entry import Entry
from lightning_evalkit.state import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torch.nn import Module


class RepeatGuard:
    """Patches metrics in the batches where repeats occur."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say
        self.results: Any = None
        """The logged values of this evaluation, by Lightning's own keys."""
        self._patches = MethodPatches()
        self._batch: Any = None
        self._repeat = self._inside = False

    def begin(self, found: Iterable[tuple[str, Module]], batch: Any, repeat: bool) -> None:
        """Guard these metrics in this batch."""
        self._batch, self._repeat = batch, repeat
        for path, metric in found:
            count = partial(self._count, path, metric)
            if not isinstance(metric, (Tally, Entry, Evaluation)):
                self._patches.place(metric, "update", count)
                self._patches.place(metric, "forward", count)
            elif repeat:  # they refuse anything but rows by themselves, and a compiled step keeps its graph until here
                self._patches.place(metric, "update", self._leave_out)
                self._patches.place(metric, "forward", count)

    def end(self) -> None:
        """Restore the metrics."""
        self._patches.remove()
        self._batch, self._repeat = None, False

    @property
    def _repeated(self) -> bool:
        """Whether the current batch is a repeat; after ``end``, others may log what belongs to the whole epoch."""
        return self._repeat and self.results.batch is self._batch

    def _count(self, path: str, metric: Module, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self._inside:  # a collection, or a metric around others, is looked after as a whole
            return method(*args, **kwargs)
        self._inside = True
        try:
            self._look(path, metric, (*args, *kwargs.values()))
            with rolled_back(metric) if self._repeated else nullcontext():
                return method(*args, **kwargs)
        finally:
            self._inside = False

    def _look(self, path: str, metric: Module, given: tuple[Any, ...]) -> None:
        if not has_rows(given, self._batch):
            self.say(
                f"the metric {path} ({type(metric).__name__}): it is updated with no tensor that has the batch's rows, "
                "so its value depends on how rows fall into batches. Give it a value for every row, or the number of "
                "rows as a weight."
            )

    def _leave_out(self, update: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        """Skip the update of a tally: it joins ranks without one too, and a compiled graph stays as it is."""
        if self._inside or not self._repeated:
            update(*args, **kwargs)

    def log(self, update: Callable[..., None], key: str, value: Any, batch_size: int) -> None:
        """Log a value; nothing, not even a NaN, for a batch without rows."""
        metric = self.results[key]
        with rolled_back(metric) if self._repeated or batch_size == 0 else nullcontext():
            update(key, value, batch_size)
        if hasattr(metric, "cumulated_batch_size"):  # Lightning takes its mean over ranks, and an integer is cut off
            rows = metric.cumulated_batch_size
            metric.cumulated_batch_size = rows.to(real_dtype(rows.device))
