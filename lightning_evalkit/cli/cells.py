"""One point of a grid: its options, its stored result, and whether that result is still valid."""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from lightning_evalkit.cli import dependencies
from lightning_evalkit.sinks.files import write_json

if TYPE_CHECKING:
    from pathlib import Path

    from lightning_evalkit.cli.dependencies import Named


class StoredResult(NamedTuple):
    """The stored measurements of a finished cell, or the reason why a stored result does not count."""

    metrics: dict[str, float] | None
    why_not: str = ""


@dataclass(frozen=True, eq=False)
class Cell:
    """One point of the grid; ``named`` holds the texts of all options, which may name files."""

    values: dict[str, Any]
    arguments: tuple[str, ...]
    folder: Path
    named: tuple[Named, ...]

    def __str__(self) -> str:
        return ", ".join(f"{key}={as_text(value)}" for key, value in self.values.items())

    @property
    def result(self) -> Path:
        """The file that marks the cell as finished."""
        return self.folder / "result.json"

    def stored(self) -> StoredResult:
        """The result of an earlier run, if it is readable and none of its dependencies has changed."""
        if not self.result.exists():
            return StoredResult(None)
        try:
            content = json.loads(self.result.read_text(encoding="utf-8"), parse_constant=_refused)
            values, metrics, seen = content["values"], content["metrics"], content.get("depends_on")
            read = {str(name): math.nan if value is None else _number(value) for name, value in metrics.items()}
        except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as wrong:
            return StoredResult(None, f"{self.result} is damaged ({type(wrong).__name__})")
        if values != _as_json(self.values):
            return StoredResult(None, f"{self.result} is of other values")
        changed = self._changed(seen)
        return StoredResult(None, changed) if changed else StoredResult(read)

    def _changed(self, seen: Any) -> str:
        """The dependencies that have changed since the result was measured."""
        if not isinstance(seen, dict) or not all(isinstance(seen.get(part), dict) for part in ("versions", "files")):
            return f"{self.result} does not say which data and versions it is of"
        for name, now in dependencies.versions().items():
            if seen["versions"].get(name) != now:
                return f"measured with {name} {seen['versions'].get(name)}, this is {now}"
        for path in {**seen["files"], **self.inputs()}:
            if seen["files"].get(path) != dependencies.digest(path):
                return f"{path} has changed"
        return ""

    def inputs(self) -> dict[str, str]:
        """The digests of files and folders that its options name."""
        return dependencies.digests(self.named, self.folder.parent)

    def write(self, metrics: dict[str, float], started: Started, ended: Any) -> None:
        """Store the measurements with their dependencies."""
        more = dependencies.digests(_defaults(ended), self.folder.parent)
        files = {**more, **dependencies.of_own_code(started.sweep), **started.inputs}
        seen = {"versions": dependencies.versions(), "files": files}
        seconds = round(time.time() - started.cell, 2)
        write_json(self.result, {"values": self.values, "metrics": metrics, "seconds": seconds, "depends_on": seen})


class Started(NamedTuple):
    """The times at which a sweep and one of its cells began, and the state of its files then."""

    sweep: float
    cell: float
    inputs: dict[str, str]


def _defaults(ended: Any) -> list[Named]:
    """The texts of data and model, with the defaults of their classes."""
    config = getattr(ended, "config", None)
    chosen = config[config.subcommand].as_dict() if config else {}
    return list(dependencies.texts_of({name: chosen[name] for name in dependencies.INPUTS if name in chosen}))


def as_text(value: Any) -> str:
    """A value as it is written on a command line."""
    return value if isinstance(value, str) else json.dumps(value, default=str).strip('"')


def _as_json(values: dict[str, Any]) -> Any:
    return json.loads(json.dumps(values, default=str))


def _refused(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"expected a number, got {value!r}")
    return float(value)
