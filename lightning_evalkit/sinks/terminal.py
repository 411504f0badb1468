"""Findings on a terminal, with rich."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

if TYPE_CHECKING:
    from lightning_evalkit.diagnosis import Finding


def show(finding: Finding, console: Console | None = None) -> None:
    """Print a finding: headline, reasons, table."""
    console = console or Console()
    console.print(finding.headline, style="bold", markup=False)
    for reason in finding.reasons:
        grid = RichTable.grid(padding=(0, 1))
        grid.add_row("•", Text(reason))
        console.print(grid)
    if finding.table is not None:
        table = RichTable()
        for heading in finding.table.headings:  # texts, not markup: a class may be called [red]
            table.add_column(Text(heading), justify="right")
        for row in finding.table.rows:
            table.add_row(*map(Text, row))
        console.print(table)
