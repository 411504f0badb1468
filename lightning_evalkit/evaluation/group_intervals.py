"""Intervals of groups, and p-values of their differences from all other groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lightning_evalkit.counts import Totals
from lightning_evalkit.errors import DeclarationError, InputError
from lightning_evalkit.evaluation.intervals import WEIGHTED, Source, interval_of
from lightning_evalkit.intervals import Interval, holm
from lightning_evalkit.intervals.comparison import unpaired
from lightning_evalkit.intervals.interval import checked_level, no_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lightning_evalkit.counts import SliceCounter
    from lightning_evalkit.evaluation.readouts import Readout


class GroupInterval(NamedTuple):
    """One group: its name, its size, the interval of a statistic, and the p-value of its difference."""

    name: str
    size: int
    interval: Interval
    p_value: float


class Groups(NamedTuple):
    """The counts of all groups, one row each, and the places of the groups that are asked for."""

    counter: SliceCounter
    rows: Totals
    places: Sequence[int]
    zero_division: float

    def interval(self, readout: Readout, place: int, level: float, method: str, others: bool = False) -> Interval:
        """The interval of a group, or of all other groups together."""
        parts = (self.rows.integers, self.rows.reals)
        row = [None if part is None else (part.sum(0) - part[place] if others else part[place]) for part in parts]
        assert row[0] is not None  # there are always counts
        source = Source(self.counter.each.evidence(Totals(row[0], row[1])), self.zero_division)
        if self.counter.task.weighted:
            return no_interval(source.value(readout), level, WEIGHTED)
        return interval_of(readout, source, level, method)

    def _p_value(self, readout: Readout, place: int, level: float) -> float:
        """The p-value of a group, from exact intervals if possible: Wilson's are too short for tiny groups."""
        try:
            one, other = (self.interval(readout, place, level, "clopper-pearson", others) for others in (False, True))
        except DeclarationError:  # not a share of samples
            one, other = (self.interval(readout, place, level, "auto", others) for others in (False, True))
        return unpaired(other, one).p_value if one.known and other.known else float("nan")

    def against_others(
        self, readout: Readout, level: float, method: str, adjust: str | None
    ) -> list[tuple[Interval, float]]:
        """The interval of each group, and the p-value of its difference from all others together."""
        level = checked_level(level)
        if adjust not in (None, "holm"):
            raise DeclarationError(f"expected adjust to be 'holm' or None, got {adjust!r}.")
        found = [self.interval(readout, place, level, method) for place in self.places]
        p_values = [self._p_value(readout, place, level) for place in self.places]
        return list(zip(found, holm(p_values) if adjust else p_values, strict=True))


def checked_end(by: str, higher_is_better: bool, statistic: str) -> str:
    """Return what groups are ranked by: the value, or the better end of the interval."""
    better = "high" if higher_is_better else "low"
    if by not in ("value", better):
        wanted = "more" if higher_is_better else "less"
        raise InputError(
            f"expected by='value' or by={better!r} for {statistic!r}, of which {wanted} is better, got by={by!r}: a "
            "group is certainly bad only if the better end of its interval is."
        )
    return by
