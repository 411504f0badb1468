"""Notices while a rank waits that another rank will not call the same metric.

At the end of each epoch's hook, every rank notes in the store of the process group how often it has synchronised each
metric. A thread of a waiting rank reads the notes of the others, which adds no collective and makes no rank wait.
"""

from __future__ import annotations

import itertools
import json
from contextlib import suppress
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import torch

from lightning_evalkit.callbacks.diagnosing.guards import joins_all
from lightning_evalkit.diagnosis.seen import SeenWait
from lightning_evalkit.state import Tally

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchmetrics import Metric

    from lightning_evalkit.callbacks.parts.method_patch import MethodPatches

HOOKS = ("on_train_epoch_end", "on_validation_epoch_end", "on_test_epoch_end")
SECONDS = 1.0
"""The time between two looks at a waiting rank."""
NUMBERS = itertools.count()
"""Gives every watch of this process a number of its own; ranks begin watches in the same order."""


class Waiting:
    """Follows how often this rank has synchronised each metric, which metric it waits for, and where the others are."""

    def __init__(self, say: Callable[[SeenWait], None]) -> None:
        self._say, self._key = say, f"evalkit/diagnose/{next(NUMBERS)}"
        from torch.distributed.distributed_c10d import _get_default_store

        self._store: Any = _get_default_store()
        self.rank, self.ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
        self._syncs: dict[str, int] = {}
        self._hooks, self._waits_for, self._ended = 0, "", Event()
        self._thread = Thread(target=self._look, name="evalkit diagnose", daemon=True)

    def enter(self, module: Any, patches: MethodPatches) -> None:
        """Begin to note the end of each epoch's hook, and to look at the other ranks."""
        for hook in HOOKS:
            patches.place(module, hook, self._ending)
        self._thread.start()

    def follow(self, path: str, metric: Metric, patches: MethodPatches) -> None:
        """Count how often a metric synchronises ranks."""
        if joins_all(metric):
            if isinstance(metric, Tally):
                patches.place(metric, "_over_ranks", lambda join, wanted: self._joining(path, wanted, join, wanted))
            else:
                patches.place(
                    metric,
                    "sync",
                    lambda join, *args, **how: self._joining(path, how.get("should_sync", True), join, *args, **how),
                )

    def leave(self) -> None:
        """Stop looking; the owner of the patches removes them."""
        self._ended.set()

    def _joining(self, path: str, wanted: bool, join: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if not wanted:
            return join(*args, **kwargs)
        self._syncs[path] = self._syncs.get(path, 0) + 1
        self._waits_for = path
        value = join(*args, **kwargs)
        self._waits_for = ""  # if it raises, the last look is at what it waited for
        return value

    def _ending(self, hook: Callable[[], Any]) -> Any:
        value = hook()
        self._hooks += 1
        with suppress(Exception):  # a store that is gone is nobody's business here
            self._store.set(f"{self._key}/{self.rank}", json.dumps([self._hooks, self._syncs]))
        return value

    def _look(self) -> None:
        before = ""
        while not self._ended.wait(SECONDS):
            path = self._waits_for
            if path and path == before and (wait := self._waits_in_vain(path)) is not None:
                self._say(wait)
                return
            before = path

    def look_again(self) -> SeenWait | None:
        """Say after an exception whether this rank waited in vain until then."""
        return self._waits_in_vain(self._waits_for) if self._waits_for else None

    def _waits_in_vain(self, path: str) -> SeenWait | None:
        """Whether another rank has ended the hook that this one is in, and has synchronised the metric less often."""
        with suppress(Exception):  # as above
            for other in range(self.ranks):
                key = f"{self._key}/{other}"
                if other != self.rank and self._store.check([key]):
                    hooks, syncs = json.loads(self._store.get(key))
                    if hooks > self._hooks and syncs.get(path, 0) < self._syncs[path]:
                        return SeenWait(path, self.rank, self._syncs[path], other, syncs.get(path, 0))
        return None
