"""Tensors that metrics returned, recognised by identity when they are logged."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator


class ReturnedValues:
    """Remembers which metric a tensor came from, as long as the tensor lives."""

    def __init__(self) -> None:
        self._from: dict[int, tuple[weakref.ref[Tensor], str]] = {}

    def remember(self, path: str, value: Any) -> None:
        """A value, or a dict of values, that the metric at a path returned."""
        for tensor in _tensors(value):
            self._from[id(tensor)] = (weakref.ref(tensor), path)

    def source(self, value: Any) -> str:
        """The path of the metric that returned this very tensor; empty if none did."""
        known, path = self._from.get(id(value), (None, ""))
        return path if known is not None and known() is value else ""

    def forget(self) -> None:
        """Drop tensors that are gone."""
        self._from = {key: (known, path) for key, (known, path) in self._from.items() if known() is not None}


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _tensors(each)
