"""A finding: what was found, why, and the numbers behind it. It renders itself as plain text and as Markdown."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Table:
    """Rows of short texts under headings."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def text(self) -> str:
        """Columns padded to one width each."""
        widths = [max(map(len, column)) for column in zip(self.headings, *self.rows, strict=True)]
        lines = (self.headings, *self.rows)
        return "\n".join(
            "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines
        )

    def markdown(self) -> str:
        """A Markdown table."""
        rule = tuple("---:" for _ in self.headings)
        return "\n".join("| " + " | ".join(line) + " |" for line in (self.headings, rule, *self.rows))


@dataclass(frozen=True)
class Finding:
    """One answer: a headline, the reasons in order, a table, and the evidence as plain values."""

    code: str
    """A stable name for programs: what kind of finding this is."""
    headline: str
    reasons: tuple[str, ...] = ()
    table: Table | None = None
    evidence: dict[str, Any] = field(default_factory=dict)

    def text(self) -> str:
        """Plain text, one reason per line."""
        parts = [self.headline, *(f"- {reason}" for reason in self.reasons)]
        if self.table is not None:
            parts += ["", self.table.text()]
        return "\n".join(parts)

    def markdown(self) -> str:
        """Markdown with the headline in bold."""
        parts = [f"**{self.headline}**", "", *(f"- {reason}" for reason in self.reasons)]
        if self.table is not None:
            parts += ["", self.table.markdown()]
        return "\n".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        table = (
            None if self.table is None else [dict(zip(self.table.headings, r, strict=True)) for r in self.table.rows]
        )
        return {
            "code": self.code,
            "headline": self.headline,
            "reasons": list(self.reasons),
            "table": table,
            "evidence": self.evidence,
        }

    def json(self) -> str:
        """JSON, indented."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    def __str__(self) -> str:
        return self.text()

    def _repr_markdown_(self) -> str:
        return self.markdown()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self.text())
