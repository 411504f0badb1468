"""Reads a file of JSON lines as columns: one object per line, whose keys are the names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning_evalkit.data.base import extra
from lightning_evalkit.data.table import SUFFIXES, Table, opened
from lightning_evalkit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

LINES = (".jsonl", ".ndjson")


def opened_text(path: str, separator: str = ",") -> Table:
    """Open a file of texts: CSV, Parquet or JSON lines."""
    suffix = Path(path).suffix.lower()
    if suffix in SUFFIXES:
        return opened(path, separator)
    if suffix not in LINES:
        raise InputError(
            f"{path}: expected a file that ends in .csv, .tsv, .jsonl or .parquet, got "
            f"{Path(path).suffix or 'no suffix'!r}."
        )
    if not Path(path).expanduser().is_file():
        raise InputError(f"{path}: expected a file, but there is none (seen from the folder {Path.cwd()}).")
    return JsonLinesTable(path)


class JsonLinesTable(Table):
    """Objects with the same keys; errors give lines of the file."""

    def read_schema(self) -> Any:
        """Names and types of all lines: a key may appear late."""
        self._read = extra("pyarrow.json", "pyarrow").read_json(self.file)
        return self._read.schema

    def read_columns(self, numeric: list[str], classes: list[str]) -> Any:
        """The columns as they are."""
        return self._read.select(numeric + classes)

    def place(self, row: int) -> str:
        """The line of a row; the two differ if lines are empty."""
        lines = [line for line, text in self._lines() if text.strip()]
        return f"line {lines[row] if row < len(lines) else row + 1}"

    def unreadable(self, wrong: Exception) -> InputError:
        """The error: mostly a line that is not an object."""
        for line, text in self._lines():
            try:
                found = json.loads(text) if text.strip() else {}
            except json.JSONDecodeError as fault:
                return InputError(f"{self.path}, line {line}: expected a JSON object, but it cannot be read: {fault}.")
            if not isinstance(found, dict):
                return InputError(f"{self.path}, line {line}: expected a JSON object, got {type(found).__name__}.")
        return super().unreadable(wrong)

    def _lines(self) -> Iterator[tuple[int, str]]:
        with open(self.file, encoding="utf-8-sig", errors="replace") as file:
            yield from enumerate(file, 1)
