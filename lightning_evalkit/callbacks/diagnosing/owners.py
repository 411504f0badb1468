"""Which steps have updated a metric since its last reset, seen without touching the device.

torchmetrics counts updates in a Python integer, which is polled after every batch. The metrics of this package count on
the device, so their ``update`` is wrapped, outside of compiled graphs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from lightning_evalkit.evaluation.base import Evaluation
from lightning_evalkit.state import Tally

if TYPE_CHECKING:
    from collections.abc import Callable

    from lightning_evalkit.callbacks.parts.method_patch import MethodPatches
    from lightning_evalkit.diagnosis.seen import Owner


class Owners:
    """Follows the state of one metric through resets."""

    def __init__(self, metric: Any, patches: MethodPatches) -> None:
        self.metric, self.own = metric, 0
        tally = metric.tally if isinstance(metric, Evaluation) else metric
        self._counted: Callable[[], int] = lambda: int(metric._update_count)
        if isinstance(tally, Tally):
            self._counted = lambda: self.own
            patches.place(tally, "update", self._updated)
            patches.place(tally, "reset", self._reset)
        self._before = self._counted()
        self._owners: set[Owner] = set()
        self.together: set[frozenset[Owner]] = set()

    def _updated(self, update: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        update(*args, **kwargs)
        if not torch.compiler.is_compiling():
            self.own += 1

    def _reset(self, reset: Callable[[], None]) -> None:
        reset()
        self.own = 0

    def see(self, owner: Owner) -> None:
        """After a batch, note whether the metric counted it, and which stages share the state."""
        now = self._counted()
        if now < self._before:
            self.rest()
        if now == self._before:
            return
        self._before = now
        if owner not in self._owners:
            self._owners.add(owner)
            self.together |= {frozenset(self._owners)} if len(self._owners) > 1 else set()

    def rest(self) -> None:
        """Notice a reset that has happened since."""
        if self._counted() < self._before:
            self._owners.clear()
            self._before = 0
