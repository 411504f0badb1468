"""Rolls back what metrics counted.

An update runs and is undone, instead of being skipped: a list of tensors then has an entry of no rows, with the type
and shape that gathering needs, and every collective takes place on every rank.
"""

from __future__ import annotations

from contextlib import contextmanager
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torchmetrics import Metric, MetricCollection
from torchmetrics.utilities.data import dim_zero_cat

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch.nn import Module

GROUPS = ("_groups", "_groups_checked", "_state_is_copy")
"""How a collection shares states; it decides that by its first batch."""


@contextmanager
def rolled_back(counting: Module) -> Iterator[None]:
    """Roll back whatever a metric or collection, and the metrics inside, count in this context."""
    parts = list(counting.modules())
    states = [_States(part) for part in parts if isinstance(part, Metric)]
    groups = [(part, deepcopy(_groups(part))) for part in parts if isinstance(part, MetricCollection)]
    try:
        yield
    finally:
        for each in states:
            each.put_back()
        for collection, before in groups:
            vars(collection).update(before)


def _groups(collection: MetricCollection) -> dict[str, Any]:
    return {name: vars(collection)[name] for name in GROUPS}


class _States:
    """The states of a metric: as objects, which metrics may share, and as values."""

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        states = {name: getattr(metric, name) for name in metric._defaults}
        self.states = {name: (state, _copied(state)) for name, state in states.items()}

    def put_back(self) -> None:
        for name, (state, before) in self.states.items():
            now = getattr(self.metric, name)
            if isinstance(state, Tensor):
                state = _restored(state, before, now)
            else:
                state[:] = before + self._emptied(name, now[len(before) :])
            setattr(self.metric, name, state)

    def _emptied(self, name: str, entries: list[Any]) -> list[Any]:
        """New entries without their rows; none if ranks may have different numbers of them."""
        if type(self.metric)._sync_dist is not Metric._sync_dist:
            return []
        if self.metric._reductions[name] is dim_zero_cat:
            return [entry.reshape(entry.shape or -1)[:0] for entry in entries]
        return [entry[:0] for entry in entries if isinstance(entry, Tensor) and entry.ndim]


def _copied(state: Any) -> Any:
    return state.clone() if isinstance(state, Tensor) else [*state]


def _restored(state: Tensor, before: Tensor, now: Tensor) -> Tensor:
    """The same object, unless counting changed its type or split it, as it did on other ranks."""
    many = now.ndim > before.ndim == 0
    if many or now.dtype != before.dtype:
        return before.to(now.dtype).expand_as(now if many else before).clone()
    with torch.inference_mode(state.is_inference()):
        return state.copy_(before)
