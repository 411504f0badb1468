"""The table of statistics. A new one is a function of counts with its description; everything else reads this table."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lightning_evalkit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from lightning_evalkit.counts import Counts
    from lightning_evalkit.statistics.quantity import Quantity

STATISTICS: Registry[Statistic] = Registry("statistic")


@dataclass(frozen=True)
class Statistic:
    """A function of counts, with what a reader, a plot, an interval and an explanation need to know about it.

    Its hash is that of its name: evidence is asked for the same statistics again and again.
    """

    name: str
    definition: Callable[[Counts], Quantity] = field(repr=False, compare=False)
    symbol: str = field(hash=False)
    formula: str = field(hash=False)
    bounds: tuple[float, float] = field(default=(0.0, 1.0), hash=False)
    higher_is_better: bool | None = field(default=True, hash=False)
    proportion: bool = field(default=False, hash=False)
    """Whether it is the share of a number of samples among others, so that binomial intervals hold."""
    ignores: tuple[str, ...] = field(default=(), hash=False)
    """The cells it does not look at."""

    def __call__(self, counts: Counts) -> Quantity:
        """The statistic of these counts, undivided; Python numbers stay exact, tensors become real."""
        return self.definition(counts.of_any_size())

    def in_tensors(self, counts: Counts) -> Quantity:
        """The statistic, undivided, with parts and wholes to read: real tensors, whatever overflows in products."""
        return self.definition(counts.real())

    def value(self, counts: Counts, zero_division: float = float("nan")) -> Tensor:
        """The number of these counts, with 0/0 decided by ``zero_division``."""
        return self.definition(counts.in_reach()).value(zero_division)

    def __reduce__(self) -> tuple[Callable[[str], Statistic], tuple[str]]:
        return find, (self.name,)  # a copy in another process is the entry of that process's table


def statistic(name: str, *, symbol: str, also: tuple[str, ...] = (), **described: Any) -> Callable[..., Statistic]:
    """Add the decorated function of ``Counts`` to the table; its docstring is the formula in words."""

    def add(definition: Callable[[Counts], Quantity]) -> Statistic:
        formula = (definition.__doc__ or "").strip()
        entry = Statistic(name, definition, symbol=symbol, formula=formula, **described)
        STATISTICS.add(name, entry, also)
        return entry

    return add


_F_BETA = re.compile(r"f((0|[1-9]\d*)(\.\d+)?(e-?\d+)?)")


def exists(name: str) -> bool:
    """Whether ``find`` knows the statistic, or by which name it should be asked for."""
    return STATISTICS.leads_to(name) or _F_BETA.fullmatch(name) is not None


def find(name: str) -> Statistic:
    """The statistic of this name; ``f<beta>`` exists for every beta.

    >>> find("recall").symbol
    'TPR'
    >>> find("f3").name
    'f3'
    """
    match = _F_BETA.fullmatch(name)
    if match and name not in STATISTICS:
        from lightning_evalkit.statistics.definitions import f_beta

        return f_beta(float(match[1]))
    return STATISTICS[name]
