"""Shows an evaluation: as one line, a table with intervals and counts, rows, a data frame, or a figure.

A line and a printed table never wait for other ranks: they show the last counts of all ranks, or this rank alone.
"""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Any

from lightning_evalkit.diagnosis import Table
from lightning_evalkit.diagnosis.literal import literal
from lightning_evalkit.diagnosis.value import numbered
from lightning_evalkit.errors import InputError, required
from lightning_evalkit.inputs.threshold import names_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lightning_evalkit.counts import Counts, Evidence
    from lightning_evalkit.evaluation.entry import Entry
    from lightning_evalkit.intervals import Interval
    from lightning_evalkit.state import EvidenceTally

MAIN = ("accuracy", "exact_match", "hamming_accuracy", "f1", "f1/macro")
"""The numbers shown in one line."""
LISTED = 20
"""More classes or labels than this are not all listed when an evaluation is printed."""


NAMED = 6
"""More numbers than this are not all named by a note."""
WIDTH = 80
"""Columns of a terminal."""


class Looking:
    """Adds representations to an evaluation."""

    prefix: str | None

    @property
    def tally(self) -> EvidenceTally:
        """The state that is shown."""
        raise NotImplementedError

    def _entries(self) -> list[tuple[str, Entry]]:
        raise NotImplementedError

    def intervals(self, level: float = 0.95) -> dict[str, Interval]:
        """Every entry with its interval."""
        raise NotImplementedError

    def __repr__(self) -> str:
        if "_tally" not in self.__dict__:  # while it is made
            return type(self).__name__
        evidence, counted = self._at_hand(), self._counted()
        main = [entry for _, entry in self._entries() if entry.name.partition("@")[0] in MAIN]
        values = [
            f"{entry.name} {float(entry.value_of(evidence)):.4g}" for entry in main[:3] if self.tally.update_called
        ]
        return f"{self._declared_as()}: {', '.join([counted, *values])}"

    def __str__(self) -> str:
        numbers, *cells = [table.text() for table in self._tables()] or [""]
        notes = "\n".join(line for note in self._notes() for line in wrap(note, WIDTH, subsequent_indent="  "))
        title = f"{self._declared_as()}: {self._counted()}"
        return "\n\n".join(part for part in (title, numbers, notes, *cells) if part)

    def _repr_markdown_(self) -> str:
        title = f"**{self._declared_as()}: {self._counted()}**"
        numbers, *cells = [table.markdown() for table in self._tables()] or [""]
        return "\n\n".join(part for part in (title, numbers, *map(literal, self._notes()), *cells) if part)

    def __rich__(self) -> Any:
        from lightning_evalkit.sinks.terminal import rendered

        return rendered(f"{self._declared_as()}: {self._counted()}", self._tables(), self._notes())

    def table(self, level: float = 0.95) -> list[dict[str, Any]]:
        """One row for each number: statistic, value, both ends of its interval, and its number of samples.

        Every rank must call it, as with ``compute``.
        """
        return [_row(name, interval) for name, interval in self.intervals(level).items()]

    def to_pandas(self, level: float = 0.95) -> Any:
        """The rows of ``table`` as a DataFrame, by statistic."""
        with required("pandas"):
            import pandas as pd  # type: ignore[import-untyped]

        return pd.DataFrame(self.table(level)).set_index("statistic")

    def plot(self, val: Any = None, ax: Any = None, together: bool = False) -> Any:
        """A figure of the confusion matrix and, with ``curves``, of ROC, precision and recall, thresholds, reliability.

        Classes without ``confusion_matrix=True`` have no matrix: it shows the counts of each against the rest instead.
        Given values of ``compute``, it returns torchmetrics' own plot of those.
        """
        if val is not None or ax is not None:
            return super().plot(val, ax, together)  # type: ignore[misc]
        from lightning_evalkit.evaluation.plots import figure_of

        return figure_of(self)

    # ---- parts

    def _declared_as(self) -> str:
        task: Any = self.tally.counter.task
        said = [repr(task.inputs)]
        number = getattr(self, "num_classes", getattr(self, "num_labels", None))
        if number is not None:
            said.append(str(number))
        if hasattr(self, "threshold") and task.inputs != "labels":
            cuts = names_of(task.thresholds)
            said.append(f"threshold={cuts[0] if len(cuts) == 1 else '[' + ', '.join(map(str, cuts)) + ']'}")
        if self.prefix:
            said.append(f"prefix={self.prefix!r}")
        return f"{type(self).__name__}({', '.join(said)})"

    def _at_hand(self) -> Evidence:
        """The counts of all ranks if known since the last update, or else this rank's."""
        tally = self.tally
        return tally.value_of(tally.totals) if tally.__dict__.get("_computed") is None else tally.evidence

    def _is_local(self) -> bool:
        """Whether only this rank's counts are at hand."""
        tally = self.tally
        return tally.__dict__.get("_computed") is None and tally.sync_on_compute and tally.distributed_available_fn()

    def _counted(self) -> str:
        if not self.tally.update_called:
            return "nothing counted"
        samples = _samples(self._at_hand().counts, exclusive=hasattr(self, "class_names"))
        said = f"{samples:,g} of weight" if self.tally.counter.task.weighted else numbered(samples, "sample")
        return said + (" on this rank" if self._is_local() else "")

    def _tables(self) -> list[Table]:
        return [self._numbers(), self._cells()] if self.tally.update_called else []

    def _numbers(self) -> Table:
        """Values, with intervals if no other rank is needed."""
        evidence, intervals = self._at_hand(), self._intervals_at_hand()
        values = {name: float(entry.value_of(evidence)) for name, entry in self._entries()}
        if not any(interval.known for interval in intervals.values()):
            return Table(("statistic", "value"), tuple((name, written(value)) for name, value in values.items()))
        rows = [(name, written(value), *_ends(intervals[name])) for name, value in values.items()]
        return Table(("statistic", "value", "95% interval", "n"), tuple(rows))

    def _intervals_at_hand(self) -> dict[str, Interval]:
        try:
            return {} if self._is_local() or not self.tally.update_called else self.intervals()
        except InputError:  # some samples were invalid, which compute reports
            return {}

    def _notes(self) -> list[str]:
        """The reasons why numbers have no interval, one line for each."""
        names: dict[str, list[str]] = {}
        for name, interval in self._intervals_at_hand().items():
            if not interval.known:
                names.setdefault(interval.reason, []).append(name)
        return [f"no interval: {first_few(without)} – {reason}" for reason, without in names.items()]

    def _cells(self) -> Table:
        """The counts, a row for each threshold, class or label."""
        counts = self._at_hand().counts
        names: Sequence[str] = getattr(self, "class_names", getattr(self, "label_names", ()))
        kind = "class" if hasattr(self, "class_names") else "label"
        if not names:
            task: Any = self.tally.counter.task
            if task.inputs == "labels":  # no threshold decided them
                return Table(("TP", "FP", "FN", "TN"), (tuple(f"{float(cell):,g}" for cell in counts.cells),))
            kind, names = "threshold", [str(cut) for cut in names_of(task.thresholds)]
        cells = [cell.tolist() for cell in counts.cells]
        rows = [(name, *(f"{cell:,g}" for cell in table)) for name, *table in zip(names, *cells, strict=True)]
        more = [(f"… {len(rows) - LISTED} more", "", "", "", "")] if len(rows) > LISTED else []
        return Table((kind, "TP", "FP", "FN", "TN"), (*rows[:LISTED], *more))


def _samples(counts: Counts, exclusive: bool) -> float:
    """The number of samples; for labels, which may be ignored, that of the label with the most."""
    return float(counts.support.sum() if exclusive else counts.total.max())


def first_few(names: list[str]) -> str:
    """The first names, and how many more there are."""
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _row(name: str, interval: Interval) -> dict[str, Any]:
    return {
        "statistic": name,
        "value": interval.value,
        "low": interval.low,
        "high": interval.high,
        "n": interval.n if interval.known else None,
    }


def written(value: float) -> str:
    """A value as tables show it."""
    return "undefined" if value != value else f"{value:.4f}"


def _ends(interval: Interval) -> tuple[str, str]:
    return (f"[{interval.low:.4f}, {interval.high:.4f}]", f"{interval.n:,}") if interval.known else ("", "")
