"""Finds the metrics of a run and where they are kept, its weighted losses, and the sizes of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import CrossEntropyLoss, Module, NLLLoss
from torchmetrics import Metric, MetricCollection

from lightning_evalkit.evaluation.base import Evaluation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lightning_evalkit.trainer import LightningModule


def outermost(found: list[tuple[str, Any]]) -> Iterator[tuple[str, Metric | Evaluation]]:
    """Metrics that are in no other metric: the members of a stock collection, but an evaluation as a whole."""
    inner: set[int] = set()
    for _, each in found:
        if isinstance(each, Metric | Evaluation):
            inner |= {id(part) for part in each.modules() if part is not each}
    for path, each in found:
        if isinstance(each, Metric | Evaluation) and id(each) not in inner:
            yield path, each


def place_of(path: str, metric: Module, module: LightningModule) -> Any:
    """Whether a metric is a part of the module, in a plain container of it, or a callback's."""
    if any(part is metric for part in module.modules()):
        return "module"
    return "container" if path.startswith(f"{type(module).__name__}.") else "callback"


def is_stock_collection(module: Module) -> bool:
    """Whether a metric is a MetricCollection of single metrics."""
    return isinstance(module, MetricCollection) and not isinstance(module, Evaluation)


def is_weighted_loss(module: Module) -> bool:
    """Whether a loss divides by the class weights of the batch."""
    weighted = isinstance(module, CrossEntropyLoss | NLLLoss) and module.weight is not None
    return bool(weighted and module.reduction == "mean")


def sizes_of(batch: Any) -> Iterator[int]:
    """The first sizes of all tensors in a batch, as Lightning looks for them."""
    if isinstance(batch, torch.Tensor):
        yield batch.shape[0] if batch.ndim else 1
    elif isinstance(batch, Mapping):
        for part in batch.values():
            yield from sizes_of(part)
    elif isinstance(batch, (list, tuple)):
        for part in batch:
            yield from sizes_of(part)
