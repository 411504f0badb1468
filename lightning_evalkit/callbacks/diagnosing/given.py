"""Range and type of the predictions given to a metric, kept on the device and read once at the epoch's end."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from lightning_evalkit.diagnosis.seen import SeenScores

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_PENDING = 256
"""After this many batches their facts are merged, so that memory does not grow with the epoch."""


class Facts:
    """The lowest and highest value of a tensor and whether it holds labels, on the device, computed once per tensor.

    Twenty metrics updated with the same tensor cost as much as one.
    """

    def __init__(self, labels: bool) -> None:
        self.labels = labels
        self.last: Callable[[], Tensor | None] = lambda: None
        self.found: Tensor = torch.empty(0)

    def of(self, preds: Tensor) -> Tensor:
        """Compute the facts with a few operators that do not wait for the device."""
        if self.last() is not preds:
            with torch.no_grad():
                scores = preds.detach()
                low, high = scores.aminmax()
                labels = ((scores == 0) | (scores == 1)).all().to(low.dtype) if self.labels else low
                self.found = torch.stack((low, high, labels))
            self.last = weakref.ref(preds)
        return self.found


class Given:
    """Facts about the predictions of one metric since the epoch began."""

    def __init__(self, facts: Facts) -> None:
        self._facts_of, self.batches = facts, 0
        self._facts: list[Tensor] = []
        self._merged: list[Tensor] = []

    def look(self, *args: Any, **kwargs: Any) -> None:
        """Look at the predictions in the arguments of an update."""
        preds = args[0] if args else kwargs.get("preds")
        if isinstance(preds, Tensor) and preds.numel():
            self._facts.append(self._facts_of.of(preds))
            if len(self._facts) == MAX_PENDING:
                self._merge()

    def _merge(self) -> None:
        """Merge to lowest, highest, only labels, and the number of batches with values outside 0 to 1."""
        with torch.no_grad():
            low, high, labels = torch.stack(self._facts).double().unbind(1)
            outside = ((low < 0) | (high > 1)).sum()
            self._merged.append(torch.stack((low.amin(), high.amax(), labels.amin(), outside)))
        self.batches += len(self._facts)
        self._facts = []

    def read(self) -> SeenScores | None:
        """Read the facts of the epoch from the device, and forget them."""
        if self._facts:
            self._merge()
        if not self._merged:
            return None
        low, high, labels, outside = torch.stack(self._merged).unbind(1)
        only_labels = self._facts_of.labels and bool(labels.amin())
        seen = SeenScores(self.batches, int(outside.sum()), float(low.amin()), float(high.amax()), only_labels)
        self._merged, self.batches = [], 0
        return seen
