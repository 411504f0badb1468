"""Refuses YAML that contains itself, or that a few references make immense: reading it would never end."""

from __future__ import annotations

from typing import Any

import yaml  # type: ignore[import-untyped]

from lightning_evalkit.cli.messages import WrongError

LARGEST = 1_000_000
"""The most values of a configuration, each counted as often as it is referred to."""


def read_yaml(text: str, source: str) -> Any:
    """Return the contents of a YAML text; refuse endless ones."""
    try:
        content = yaml.safe_load(text)
    except RecursionError as wrong:
        raise WrongError(f"{source} is nested too deeply to be read: expected options and their values.") from wrong
    size = _size(content, {}, source)
    if size > LARGEST:
        raise WrongError(
            f"{source} has {size:,} values once its references (*) are followed, expected at most {LARGEST:,}: write "
            "out what is meant."
        )
    return content


def refuse_endless_words(words: list[str]) -> None:
    """Refuse endless values on a command line, which are YAML too; the parser refuses those that are not."""
    for word in words:
        value = word.partition("=")[2] if word.startswith("--") else word
        if "&" in value and "*" in value:  # only named values can be referred to
            try:
                read_yaml(value, word)
            except yaml.YAMLError:
                continue


def _size(content: Any, known: dict[int, int | None], source: str) -> int:
    """The number of all values, remembered for each part; a part that is still being counted contains itself."""
    if not isinstance(content, (dict, list, tuple)):
        return 1
    place = id(content)
    if place in known:
        size = known[place]
        if size is None:
            raise WrongError(
                f"{source} contains itself: a reference (*) names what it is part of. Write out its values."
            )
        return size
    known[place] = None
    parts = content.values() if isinstance(content, dict) else content
    known[place] = size = 1 + sum(_size(part, known, source) for part in parts)
    return size
