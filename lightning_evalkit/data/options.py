"""Options of a data module in errors: as Python writes them or, in a run of ``evalkit``, as its command line does."""

from __future__ import annotations

import shlex
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_ON_COMMAND_LINE = ContextVar("_ON_COMMAND_LINE", default=False)


@contextmanager
def on_command_line() -> Iterator[None]:
    """Name options in the form of the command line meanwhile."""
    before = _ON_COMMAND_LINE.set(True)
    try:
        yield
    finally:
        _ON_COMMAND_LINE.reset(before)


def option(**chosen: Any) -> str:
    """An option with its value, to be copied from an error.

    >>> option(exclude=["id", "name"])
    "exclude=['id', 'name']"
    >>> with on_command_line():
    ...     print(option(exclude=["id", "name"]))
    --data.exclude '[id, name]'
    """
    [(name, value)] = chosen.items()
    return f"--data.{name} {shlex.quote(_as_yaml(value))}" if _ON_COMMAND_LINE.get() else f"{name}={value!r}"


def _as_yaml(value: Any) -> str:
    """A value as the command line reads it; a text alone needs no quotes of YAML."""
    import yaml  # type: ignore[import-untyped]

    if isinstance(value, list) or (isinstance(value, str) and _is_no_scalar(value)):
        written = str(yaml.safe_dump(value, default_flow_style=True, width=float("inf"), allow_unicode=True))
        return written.removesuffix("...\n").strip()
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_no_scalar(text: str) -> bool:
    """Whether YAML reads a text as nothing, a list or a mapping."""
    import yaml

    try:
        return not isinstance(yaml.safe_load(text), (str, int, float, bool))
    except yaml.YAMLError:
        return True
