"""The first lines of an experiment: its question, its expectation, and the sentence for its finding."""

from __future__ import annotations

import math
import re
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PART = re.compile(r"^# (\w+): +(.*(?:\n# {3,}.*)*)", re.MULTILINE)
_NUMBER = re.compile(r"\{([^{}]+)\}")


class Head(NamedTuple):
    """The head of a configuration."""

    question: str
    expected: str
    found: str
    """A sentence with names of logged numbers in braces; {a of a + b} is a share of a sum."""

    def lines(self) -> list[str]:
        """The lines of the head, for the configuration that a run saves."""
        found = [f"Found: {self.found}"] if self.found else []
        return [f"Question: {self.question}", f"Expected: {self.expected}", *found]

    def finding(self, measured: Mapping[str, float]) -> str:
        """Fill the numbers of a run into the parts of the sentence that it has measured, else into those of validation.

        >>> head = Head("Is it good?", "yes.", "threshold {val/threshold}; accuracy {test/accuracy}.")
        >>> head.finding({"test/accuracy": 0.91234})
        'accuracy 0.9123.'
        >>> head.finding({"val/accuracy": 0.9})
        'in validation accuracy 0.9.'
        >>> Head("Where?", "here.", "{a of a + b} of all").finding({"a": 1.0, "b": 3.0})
        '0.25 of all.'
        """
        parts = self.found.removesuffix(".").split("; ")
        of_validation = [part.replace("{test/", "{val/") for part in parts if " in test" not in part]
        found = _measured(parts, measured)
        before, found = ("", found) if found else ("in validation ", _measured(of_validation, measured))
        text = f"{before}{'; '.join(found)}." if found else ""
        return _NUMBER.sub(lambda braces: as_number(_value(braces[1], measured), ".4g"), text)


def _measured(parts: Sequence[str], measured: Mapping[str, float]) -> list[str]:
    return [
        part for part in parts if measured.keys() >= {name for said in _NUMBER.findall(part) for name in _names(said)}
    ]


def _names(said: str) -> list[str]:
    """The names of numbers between braces."""
    return re.split(r" of | \+ ", said)


def _value(said: str, measured: Mapping[str, float]) -> float:
    part, *whole = (measured[name] for name in _names(said))
    return part if not whole else part / sum(whole) if any(whole) else math.nan


def as_number(value: float, form: str) -> str:
    """A number for people; NaN is shown as 0/0."""
    return "0/0" if value != value else format(value, form)


def head_of(path: Path) -> Head | None:
    """The head of a configuration, if it has one."""
    lines = path.read_text(encoding="utf-8").splitlines()
    comment = "\n".join(takewhile(lambda line: line.startswith("#"), lines))
    parts = {name: re.sub(r"\n# +", " ", text) for name, text in _PART.findall(comment)}
    if not {"Question", "Expected"} <= parts.keys():
        return None
    return Head(parts["Question"], parts["Expected"], parts.get("Found", ""))


def head_among(words: Sequence[str]) -> Head | None:
    """The head of the last configuration on a command line that has one."""
    pairs = zip(words, [*words[1:], ""], strict=True)
    named = [
        word.partition("=")[2] or following for word, following in pairs if word.partition("=")[0] in ("-c", "--config")
    ]
    heads = [head for name in named if Path(name).is_file() and (head := head_of(Path(name))) is not None]
    return heads[-1] if heads else None
