"""The state that a metric would have if it had been reset at the start of the epoch."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torchmetrics import Metric


class EpochState:
    """Remembers a state at the start of an epoch; later it subtracts sums and cuts lists.

    States that are neither sums nor lists (a maximum, a mean) cannot be taken apart.
    """

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self._updates = metric._update_count
        self._before = {name: _mark(getattr(metric, name)) for name in metric._defaults}

    def value(self, **options: Any) -> torch.Tensor | None:
        """Compute the value of this rank's samples of the epoch, on a copy that may have other options.

        None if the state was reset within the epoch, cannot be taken apart, or gives no tensor.
        """
        if self.metric._update_count <= self._updates:
            return None
        shallow: Any = copy(self.metric)
        try:
            vars(shallow).update({name: self._since(name) for name in self._before} | options)
            with torch.no_grad():
                value = type(shallow).compute(shallow)
        except Exception:  # a foreign metric may raise anything; its value is then left out
            return None
        return value if isinstance(value, torch.Tensor) else None

    def states(self) -> dict[str, Any]:
        """The states of the epoch alone."""
        return {name: self._since(name) for name in self._before}

    def _since(self, name: str) -> Any:
        before, now = self._before[name], getattr(self.metric, name)
        if isinstance(now, list):
            return now[before:]
        default: Any = self.metric._defaults[name]
        if torch.equal(before, default.to(before.device)):
            return now
        reduction = self.metric._reductions[name]
        if getattr(reduction, "__name__", "") != "dim_zero_sum":
            raise ValueError(f"{name} is not a sum")
        return now - before


def _mark(state: Any) -> Any:
    return len(state) if isinstance(state, list) else state.detach().clone()
