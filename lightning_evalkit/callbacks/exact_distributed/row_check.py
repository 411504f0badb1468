"""Tells whether a metric is given the rows of the batch, or a summary of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def has_rows(given: Any, batch: Any) -> bool:
    """Whether a value has as many entries as the batch has rows, or several for each row.

    An integer that is the number of rows weights a summary, which is as good. True also for batches whose rows cannot
    be counted.

    >>> import torch
    >>> batch = (torch.zeros(4, 2), torch.zeros(4))
    >>> has_rows([torch.zeros(4)], batch), has_rows([torch.tensor(0.5)], batch), has_rows([torch.tensor(0.5), 4], batch)
    (True, False, True)
    """
    rows = {length for part in _parts(batch) for length in _lengths(part)} - {0}
    lengths = [length for part in _parts(given) for length in _lengths(part)]
    weights = [part for part in _parts(given) if isinstance(part, int)]
    several = any(length % row == 0 for length in lengths for row in rows)
    return not rows or several or any(weight in rows for weight in weights)


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, (list, tuple)) else (value,)


def _lengths(value: Any) -> Iterator[int]:
    """The first dimension of a tensor, the length of a list, and those of their contents."""
    if isinstance(value, Tensor):
        yield from value.shape[:1]
    elif isinstance(value, (list, tuple, Mapping)):
        if not isinstance(value, Mapping):
            yield len(value)
        for part in _parts(value):
            yield from _lengths(part)
