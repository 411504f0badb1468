"""The predictions that metrics are given, summed up on the device: what they are is read once, at the epoch's end."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from lightning_evalkit.diagnosis.seen import SeenScores

if TYPE_CHECKING:
    from collections.abc import Callable

MANY = 256
"""So many batches are joined to one, so that nothing grows with the length of an epoch."""


class Facts:
    """Lowest, highest, outside of 0 to 1, only labels: four numbers on the device, once for each tensor.

    Twenty metrics that are given one tensor cost as much as one.
    """

    def __init__(self) -> None:
        self._last: Callable[[], Tensor | None] = lambda: None
        self._facts: Tensor | None = None

    def of(self, preds: Tensor) -> Tensor:
        """A few operators, none of which waits for the device."""
        if self._last() is not preds or self._facts is None:
            scores = preds.detach()
            low, high = (each.double() for each in scores.aminmax())
            labels = ((scores == 0) | (scores == 1)).all().double()
            self._facts = torch.stack((low, high, ((low < 0) | (high > 1)).double(), labels))
            self._last = weakref.ref(preds)
        return self._facts


class Given:
    """What one metric was given since the epoch began."""

    def __init__(self, facts: Facts) -> None:
        self._facts_of, self.batches = facts, 0
        self._facts: list[Tensor] = []

    def update(self, update: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """In the place of the metric's ``update``: look at the predictions, then count."""
        preds = args[0] if args else kwargs.get("preds")
        if not torch.compiler.is_compiling() and isinstance(preds, Tensor) and preds.numel():
            with torch.no_grad():
                self._facts.append(self._facts_of.of(preds))
                self._facts = self._facts if len(self._facts) < MANY else [self._joined()]
            self.batches += 1
        return update(*args, **kwargs)

    def _joined(self) -> Tensor:
        low, high, outside, labels = torch.stack(self._facts).unbind(1)
        return torch.stack((low.amin(), high.amax(), outside.sum(), labels.amin()))

    def read(self) -> SeenScores | None:
        """The facts of the epoch, and nothing kept; reads from the device."""
        if not self._facts:
            return None
        low, high, outside, labels = self._joined().tolist()
        seen = SeenScores(self.batches, int(outside), low, high, bool(labels))
        self._facts, self.batches = [], 0
        return seen
