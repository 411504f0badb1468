"""Finds metrics: in the module, in its attributes, and in those of callbacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from torch.nn import Module
from torchmetrics import Metric, MetricCollection

from lightning_evalkit.trainer import callbacks_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lightning_evalkit.trainer import LightningModule, Trainer


def metrics(trainer: Trainer, module: LightningModule) -> list[tuple[str, Metric | MetricCollection]]:
    """Every metric and collection once, with the path of its attribute."""
    found: dict[int, tuple[str, Metric | MetricCollection]] = {}
    for path, part in _modules(trainer, module):
        if isinstance(part, (Metric, MetricCollection)):
            found.setdefault(id(part), (path, part))
    return list(found.values())


def _modules(trainer: Trainer, module: LightningModule) -> Iterator[tuple[str, Module]]:
    yield from module.named_modules()
    for owner in (module, *callbacks_of(trainer)):
        for path, held in _held(owner):
            yield from held.named_modules(prefix=f"{type(owner).__name__}.{path}")


def _held(owner: object) -> Iterator[tuple[str, Module]]:
    """Modules that are attributes, or in attributes that are lists or dictionaries."""
    for name, value in vars(owner).items():
        if isinstance(value, Mapping):
            parts: Iterable[tuple[object, object]] = value.items()
        else:
            parts = enumerate(value) if isinstance(value, (list, tuple)) else [("", value)]
        yield from ((f"{name}.{key}".rstrip("."), part) for key, part in parts if isinstance(part, Module))
