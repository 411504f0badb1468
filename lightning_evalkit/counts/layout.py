"""The layout of a state: a counter declares its cells once, by name.

Batches are packed and totals are read by these names, and a checkpoint carries them: a state with cells of another
order or size is never read as this one.
"""

from __future__ import annotations

from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

Item = TypeVar("Item")


class Cells:
    """Named slices of a row of numbers, in the order of their declaration. A cell of size 0 is not stored.

    >>> import torch
    >>> cells = Cells(tp=2, fp=2, ignored=0) + Cells(updates=1)
    >>> cells
    tp 2, fp 2, updates 1
    >>> cells.read(torch.tensor([5, 6, 7, 8, 9]), "fp")
    tensor([7, 8])
    """

    def __init__(self, **sizes: int) -> None:
        self.sizes = sizes
        ends = [0, *accumulate(sizes.values())]
        self.width = ends[-1]
        self.begins = dict(zip(sizes, ends[:-1], strict=True))
        self.slices = {name: slice(begin, begin + sizes[name]) for name, begin in self.begins.items()}
        self._stored = [name for name, size in sizes.items() if size]

    def __repr__(self) -> str:
        return ", ".join(f"{name} {size}" for name, size in self.sizes.items() if size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cells) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    # ---- made of others

    def __add__(self, other: Cells) -> Cells:
        """These cells, then the others."""
        return Cells(**self.sizes, **other.sizes)

    def under(self, prefix: str) -> Cells:
        """The same cells with a prefix to their names, so that those of two counters can be added."""
        return Cells(**{f"{prefix}.{name}": size for name, size in self.sizes.items()})

    def repeated(self, name: str, times: int) -> Cells:
        """One cell that holds several such rows; its name describes a row."""
        return Cells(**{f"{name} of ({self})": times * self.width})

    # ---- packing

    def flat(self, **parts: Sequence[Item]) -> list[Item]:
        """The items of all stored cells in their order."""
        return list(chain.from_iterable(map(parts.__getitem__, self._stored)))

    def parts(self, **parts: Item) -> list[Item]:
        """One item for each stored cell, in their order: arrays or tensors to concatenate."""
        return [parts[name] for name in self._stored]

    # ---- reading

    def read(self, row: Tensor, name: str) -> Tensor:
        """A cell of a row, or of every row of a table."""
        return row.narrow(-1, self.begins[name], self.sizes[name])

    def one(self, row: Tensor, name: str, place: int = 0) -> Tensor:
        """One number of a cell, without the last dimension."""
        return row.select(-1, self.begins[name] + place)

    def numbers(self, row: Tensor, *names: str) -> list[list[Any]]:
        """Cells of one row as Python numbers, by one read from the device."""
        first = min(self.begins[name] for name in names)
        last = max(self.begins[name] + self.sizes[name] for name in names)
        found = row.narrow(0, first, last - first).tolist()
        spans = [(self.begins[name] - first, self.sizes[name]) for name in names]
        return [found[begin : begin + size] for begin, size in spans]


class Layout(NamedTuple):
    """The cells of both tensors of a state: exact integers, and sums of reals."""

    integers: Cells
    reals: Cells = Cells()

    @property
    def size(self) -> int:
        """How many numbers a state has, or a row of it."""
        return self.integers.width + self.reals.width

    def described(self) -> dict[str, str]:
        """The cells as text, for a checkpoint and for messages."""
        return {"integers": repr(self.integers), "reals": repr(self.reals)}
