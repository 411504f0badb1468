"""Gathers lists of tensors from ranks that hold different numbers of rows.

torchmetrics gathers a list entry by entry, or as one tensor if it has several entries. Ranks with different numbers of
entries, or with a single number where others have a list, would wait for each other for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeGuard

import torch
from torch.distributed import all_gather_object, get_world_size
from torchmetrics import Metric, MetricCollection
from torchmetrics.utilities.data import dim_zero_cat
from torchmetrics.utilities.distributed import gather_all_tensors

if TYPE_CHECKING:
    from collections.abc import Callable


def keeps_lists(metric: Metric | MetricCollection) -> TypeGuard[Metric]:
    """Whether a metric has lists that torchmetrics gathers in its own way."""
    if not isinstance(metric, Metric) or type(metric).sync is not Metric.sync:
        return False
    lists = any(isinstance(default, list) for default in metric._defaults.values())
    return lists and type(metric)._sync_dist is Metric._sync_dist


def gathered(
    metric: Metric,
    gather: Callable[..., None],
    dist_sync_fn: Callable[..., Any] = gather_all_tensors,
    process_group: Any = None,
) -> None:
    """Replace the states of a metric by those of all ranks, however many entries each has."""
    lists = {name: state for name in metric._defaults if isinstance(state := getattr(metric, name), list)}
    apart = {name: state for name, state in lists.items() if metric._reductions[name] is not dim_zero_cat}
    for name, state in lists.items():
        setattr(metric, name, [dim_zero_cat(state)] if state and name not in apart else state)
    group = process_group or metric.process_group
    parts = [] if _alike([*map(len, apart.values())], group) else _objects(apart, group)
    for name in apart if parts else ():
        setattr(metric, name, [])
    gather(dist_sync_fn, process_group=process_group)
    for name in apart if parts else ():
        setattr(metric, name, [_moved(entry, metric.device) for part in parts for entry in part[name]])


def _alike(lengths: list[int], group: Any) -> bool:
    return not lengths or all(other == lengths for other in _objects(lengths, group))


def _objects(mine: Any, group: Any) -> list[Any]:
    every: list[Any] = [None] * get_world_size(group)
    all_gather_object(every, mine, group)
    return every


def _moved(entry: Any, device: torch.device) -> Any:
    return entry.to(device) if isinstance(entry, torch.Tensor) else entry
