"""Follows which steps have updated a metric since its last reset, without touching the device.

torchmetrics counts updates in a Python integer, which is polled after every batch. The metrics of this package count on
the device, so their ``update`` is wrapped, outside of compiled graphs; the wrapper may also look at the predictions.
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

    def __init__(self, metric: Any, patches: MethodPatches, look: Callable[..., None] | None = None) -> None:
        self.metric, self.own, self._look = metric, 0, look
        tally = metric.tally if isinstance(metric, Evaluation) else metric
        self.counted: Callable[[], int] = lambda: int(metric._update_count)
        if isinstance(tally, Tally):
            self.counted = lambda: self.own
            patches.place(tally, "update", self._updated)
            patches.place(tally, "reset", self._reset)
        elif look is not None:
            patches.place(tally, "update", self._looked)
        self._before = self.counted()
        self._owners: set[Owner] = set()
        self.together: set[frozenset[Owner]] = set()

    def _looked(self, update: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        if self._look is not None and not torch.compiler.is_compiling():
            self._look(*args, **kwargs)
        update(*args, **kwargs)

    def _updated(self, update: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        self._looked(update, *args, **kwargs)
        if not torch.compiler.is_compiling():
            self.own += 1

    def _reset(self, reset: Callable[[], None]) -> None:
        reset()
        self.own = 0

    def see(self, owner: Owner) -> None:
        """After a batch, note whether the metric counted it, and which stages share the state."""
        now = self.counted()
        if now < self._before:
            self.rest()
        if now == self._before:
            return
        self._before = now
        if owner not in self._owners:
            self._owners.add(owner)
            self.together |= {frozenset(self._owners)} if len(self._owners) > 1 else set()

    @property
    def dataloaders(self) -> frozenset[int]:
        """The dataloaders whose samples are in the state."""
        return frozenset(owner.dataloader for owner in self._owners)

    @property
    def is_training(self) -> bool:
        """Whether the state holds samples of one training epoch and no others."""
        return {owner.stage for owner in self._owners} == {"train"} and len({o.epoch for o in self._owners}) == 1

    def rest(self) -> None:
        """Notice a reset that has happened since."""
        if self.counted() < self._before:
            self._owners.clear()
            self._before = 0
