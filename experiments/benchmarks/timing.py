"""Times and counts of this package beside those of its peers, measured in one run, as a Markdown table of ratios."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Run = Callable[[], float]  # does the work once and gives its seconds

UNITS = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6))
HEADINGS = ("work", "beside", "theirs", "ours", "ours / theirs", "aim")
RULE = ("---", "---", "---:", "---:", "---:", "---:")


@dataclass(frozen=True)
class Row:
    """One comparison: what is done, beside whom, their number and ours (seconds, or a count), and the aim if any."""

    work: str
    peer: str
    theirs: float
    ours: float
    aim: str = ""
    counted: bool = False

    def cells(self) -> tuple[str, ...]:
        shown = (f"{number:g}" if self.counted else duration(number) for number in (self.theirs, self.ours))
        return (self.work, self.peer, *shown, ratio(self.ours, self.theirs), self.aim)


def duration(seconds: float) -> str:
    """Three digits in the largest unit that gives at least 1."""
    unit, size = next(((unit, size) for unit, size in UNITS if abs(seconds) >= size), UNITS[-1])
    return f"{seconds / size:.3g} {unit}"


def ratio(ours: float, theirs: float) -> str:
    """Ours over theirs, as one over something where it is small."""
    if ours <= 0 or theirs <= 0:
        return "0" if theirs > 0 else "–"
    if ours >= theirs:
        return f"{ours / theirs:.3g}"
    times = theirs / ours
    return f"1/{times:,.0f}" if times >= 1_000 else f"1/{times:.3g}"


def markdown(rows: list[Row]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (HEADINGS, RULE, *(row.cells() for row in rows)))


def timed(work: Callable[[], object], calls: int) -> Run:
    """A run that gives the mean seconds of several calls in a row."""

    def run() -> float:
        start = perf_counter()
        for _ in range(calls):
            work()
        return (perf_counter() - start) / calls

    return run


def evenly_timed(works: dict[str, Callable[[], object]], seconds: float = 0.07) -> dict[str, Run]:
    """Runs that take about equally long, each by as many calls as that needs.

    On a busy machine a short run slips through undisturbed more often than a long one, and would look too good.
    """
    for work in works.values():
        work()  # what happens only once is not measured
    return {name: timed(work, max(1, round(seconds / timed(work, 3)()))) for name, work in works.items()}


def best_of(runs: dict[str, Run], rounds: Iterable[object]) -> dict[str, float]:
    """The fewest seconds of each run.

    All take turns in every round, so that a slow moment of the machine meets all of them; the minimum is the time that
    nothing else disturbed.
    """
    best = dict.fromkeys(runs, float("inf"))
    for _ in rounds:
        for name, run in runs.items():
            best[name] = min(best[name], run())
    return best


@dataclass(frozen=True)
class Effort:
    """How often things are repeated, shown as a bar on standard error: standard output is the table."""

    progress: Progress
    quick: bool

    def rounds(self, work: str, full: int) -> Iterable[int]:
        return self.progress.track(range(max(2, full // 10) if self.quick else full), description=work)


def progress_bar() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True))
