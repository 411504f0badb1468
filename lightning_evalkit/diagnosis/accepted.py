"""Reads the baseline of a project: the fingerprints of findings that were accepted before."""

from __future__ import annotations

import json
from pathlib import Path

from lightning_evalkit.errors import InputError


def accepted(path: str | Path) -> tuple[str, ...]:
    """The fingerprints in a baseline: a JSON list of them, or a diagnosis that was written as JSON."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as wrong:
        raise InputError(f"{path}: expected a baseline in JSON, but it cannot be read: {wrong}.") from wrong
    if isinstance(content, dict):
        sections = [content.get(section) for section in ("issues", "tips", "ignored")]
        content = [each.get("fingerprint") for section in sections for each in section or () if isinstance(each, dict)]
    if not isinstance(content, list) or not all(isinstance(each, str) for each in content):
        raise InputError(
            f'{path}: expected a JSON list of fingerprints, such as ["EK104:f1"], or a diagnosis that was written as '
            "JSON."
        )
    return tuple(content)
