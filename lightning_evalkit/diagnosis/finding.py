"""A finding holds a headline, its reasons and its numbers, and renders itself as plain text and as Markdown."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from lightning_evalkit.diagnosis.literal import literal, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Table:
    """Rows of short texts under headings."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    of_words: bool = False
    """Whether cells are words, which are aligned left; numbers are aligned right."""

    def text(self) -> str:
        """The table as plain text, with each column as wide as its widest cell."""
        lines = [[one_line(cell) for cell in line] for line in (self.headings, *self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        pad = str.ljust if self.of_words else str.rjust
        padded = ((pad(cell, width) for cell, width in zip(line, widths, strict=True)) for line in lines)
        return "\n".join("  ".join(line).rstrip() if self.of_words else "  ".join(line) for line in padded)

    def markdown(self) -> str:
        """A Markdown table that shows every cell as it is."""
        headings, *rows = ([literal(cell) for cell in line] for line in (self.headings, *self.rows))
        rule = [":---" if self.of_words else "---:" for _ in headings]
        return "\n".join("| " + " | ".join(line) + " |" for line in (headings, rule, *rows))


Severity = Literal["error", "warning", "tip"]
Certainty = Literal["certain", "significant", "hint"]


@dataclass(frozen=True, repr=False)
class Finding:
    """One answer: a headline, the reasons in order, a table, and the evidence as plain values.

    A finding of a rule also has a subject (which metric, entry or log), a remedy, a severity, and a certainty:
    "certain" follows from an identity or was seen in the program, "significant" is the result of a statistical test,
    and a "hint" may be wrong.
    """

    code: str
    """The kind of finding, a stable name for programs."""
    headline: str
    reasons: tuple[str, ...] = ()
    table: Table | None = None
    evidence: dict[str, Any] = field(default_factory=dict)
    subject: str = ""
    remedy: str = ""
    severity: Severity = "tip"
    certainty: Certainty = "certain"

    @property
    def fingerprint(self) -> str:
        """Code and subject, which stay the same across epochs, runs and machines."""
        return f"{self.code}:{self.subject}"

    def text(self) -> str:
        """The finding as plain text, one reason per line."""
        parts = [one_line(self.headline), *(f"- {one_line(reason)}" for reason in self.reasons)]
        if self.table is not None:
            parts += ["", self.table.text()]
        return "\n".join(parts)

    def markdown(self) -> str:
        """The finding as Markdown, with the headline in bold; names in it are shown as they are."""
        parts = [f"**{literal(self.headline)}**", "", *(f"- {literal(reason)}" for reason in self.reasons)]
        if self.table is not None:
            parts += ["", self.table.markdown()]
        return "\n".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """The finding as plain values, for JSON."""
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
        """The finding as indented JSON."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        """One line; ``print`` shows the whole finding."""
        return f"<{self.code}: {one_line(self.headline)}>"

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        """Render the text for rich as it is: intervals look like rich's tags."""
        yield console.render_str(self.text(), emoji=False, markup=False, highlight=False)

    def _repr_markdown_(self) -> str:
        return self.markdown()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self.text())
