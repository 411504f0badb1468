"""Prints findings, tables and progress on a terminal, with rich."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from lightning_evalkit.errors import required

with required("rich"):
    from rich.console import Console, Group
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.table import Table as RichTable
    from rich.text import Text

from lightning_evalkit.diagnosis.literal import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lightning_evalkit.diagnosis import Finding, Table
    from lightning_evalkit.diagnosis.report import Diagnosis

BORDER = 3
"""Characters of a column beyond its cells."""


def show(finding: Finding, console: Console | None = None) -> None:
    """Print a finding: headline, reasons, table."""
    console = console or Console()
    console.print(Text(one_line(finding.headline), "bold"))  # a text, not markup: a class may be called [red]
    for reason in finding.reasons:
        grid = RichTable.grid(padding=(0, 1))
        grid.add_row("•", Text(one_line(reason)))
        console.print(grid)
    if finding.table is not None:
        show_table(finding.table, console)


def show_line(text: str, console: Console | None = None) -> None:
    """Print a line, broken between words if a terminal is narrower."""
    console = console or Console()
    if console.is_terminal or console.record:
        console.print(Text(one_line(text)))
    else:
        print(text, file=console.file)


def show_diagnosis(diagnosis: Diagnosis, console: Console | None = None) -> None:
    """Print a diagnosis, wrapped to the terminal's width; outside a terminal, one line for each part."""
    console = console or Console()
    if console.is_terminal or console.record:
        console.print(diagnosis)
    else:
        print(diagnosis.text(), file=console.file)


def show_page(page: str, console: Console | None = None) -> None:
    """Print a page of Markdown: on a terminal with bold headings and as wide as that is, otherwise as it is."""
    console = console or Console()
    if not console.is_terminal and not console.record:
        print(page, end="", file=console.file)
        return
    for line in page.splitlines():
        is_heading = line.startswith("#")
        console.print(Text(line.lstrip("# ").strip("*"), "bold" if is_heading else ""))


def show_table(shown: Table, console: Console | None = None) -> None:
    """Print a table, in blocks of columns if the terminal is too narrow; outside a terminal, as wide as needed."""
    console = console or Console()
    if not console.is_terminal and not console.record:
        print(shown.text(), file=console.file)
        return
    for block in _blocks(shown, console.width):
        console.print(_rich_table(block))


def _blocks(shown: Table, width: int) -> list[Table]:
    """The table itself if it fits when texts are broken between words; else parts that begin with its first column."""
    columns = [[one_line(cell) for cell in column] for column in zip(shown.headings, *shown.rows, strict=True)]
    words = [max(len(word) for cell in column for word in cell.split() or [""]) for column in columns]
    if sum(words) + len(words) * BORDER < width:
        return [shown]
    first, *others = [max(map(len, column)) + BORDER for column in columns]
    blocks: list[list[int]] = []
    for place, taken in enumerate(others, 1):
        used = sum(others[each - 1] for each in blocks[-1]) if blocks else 0
        if not blocks or first + used + taken >= width:
            blocks.append([])
        blocks[-1].append(place)
    return [_columns(shown, [0, *block]) for block in blocks] or [shown]


def _columns(shown: Table, places: Sequence[int]) -> Table:
    headings, *rows = (tuple(line[place] for place in places) for line in (shown.headings, *shown.rows))
    return replace(shown, headings=headings, rows=tuple(rows))


def rendered(title: str, tables: Sequence[Table], notes: Sequence[str] = ()) -> Group:
    """A headline and tables for rich, with notes under the first table."""
    shown = [*map(_rich_table, tables)]
    return Group(Text(one_line(title), "bold"), *shown[:1], *(Text(one_line(note)) for note in notes), *shown[1:])


def _rich_table(shown: Table) -> RichTable:
    table = RichTable()
    for heading in shown.headings:
        table.add_column(Text(one_line(heading)), justify="left" if shown.of_words else "right")
    for row in shown.rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))
    return table


@contextmanager
def progress(total: float) -> Iterator[Callable[[float, str], None]]:
    """Show one bar over long work: call the yielded function with the work done so far and its current part."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    if not console.is_terminal:  # before rich 14.3 a disabled bar prints an empty line there
        yield lambda done, doing: None
        return
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda done, doing: bar.update(task, completed=done, description=doing)
