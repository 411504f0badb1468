"""Files that are written whole or not at all."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Yield a temporary file to write to; it replaces ``path`` at the end, unless an error occurs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}{path.suffix}")  # in one folder: a rename is all or nothing
    try:
        yield temporary
        os.replace(temporary, path)
    except OSError as refused:
        if refused.errno is not None and refused.filename is None:  # writing, unlike opening, names no file
            refused.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file."""
    with replaced(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file: indented, in a fixed order."""
    write_text(path, json.dumps(_finite(content), indent=2, ensure_ascii=False, default=str) + "\n")


def _finite(content: Any) -> Any:
    """Replace NaN and infinity, which JSON does not have."""
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def write_csv(path: Path, headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Write a CSV file with a line of headings; numbers in full precision."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([headings, *rows])
    write_text(path, text.getvalue())
