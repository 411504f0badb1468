"""Recognises tensors that metrics returned when they are logged, by identity."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator


class Source(NamedTuple):
    """The path of a metric, and the key of the value if the metric returned several by name."""

    path: str = ""
    key: str = ""


class ReturnedValues:
    """Remembers which metric a tensor came from, as long as the tensor lives."""

    def __init__(self) -> None:
        self._from: dict[int, tuple[weakref.ref[Tensor], Source]] = {}

    def remember(self, path: str, value: Any) -> None:
        """Remember a value, or a dict of values, that the metric at a path returned."""
        for key, tensor in _tensors(value):
            self._from[id(tensor)] = (weakref.ref(tensor), Source(path, key))

    def source(self, value: Any) -> Source:
        """The metric that returned this very tensor; an empty path if none did."""
        known, source = self._from.get(id(value), (None, Source()))
        return source if known is not None and known() is value else Source()

    def forget(self) -> None:
        """Drop tensors that are gone."""
        self._from = {key: (known, source) for key, (known, source) in self._from.items() if known() is not None}


def _tensors(value: Any, key: str = "") -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield key, value
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from _tensors(each, str(name))
