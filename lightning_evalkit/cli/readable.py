"""What went wrong, in one line: of a nested message of the argument parser only what a person can act on."""

from __future__ import annotations

import re
from argparse import ArgumentError

from lightning_evalkit.errors import DeclarationError, InputError, nearest

UNION = "Does not validate against any of the Union subtypes"


class WrongError(Exception):
    """A fault of the configuration, in readable words."""


Unreadable = (WrongError, ArgumentError, DeclarationError, InputError, FileNotFoundError)
"""Faults of what was asked for: they are told in one line, others with where they happened."""


def in_one_line(error: BaseException, known: dict[str, list[str]] | None = None) -> str:
    """The innermost complaint of an error, under the name of the option it is about.

    >>> in_one_line(WrongError("Parser key \\"data.size\\":\\n  - Expected a <class 'int'>. Got value: x"))
    'data.size: expected an int, got x.'
    """
    text = str(error)
    if "Parser key" not in text and UNION not in text:
        return " ".join(text.split())
    keys = re.findall(r'Parser key "([^"]+)"', text)
    complaint = _complaint(text, known or {})
    return f"{'.'.join(keys)}: {complaint}" if keys else complaint


def _complaint(text: str, known: dict[str, list[str]]) -> str:
    name = re.search(r"Expected a dot import path string: (\S+)", text)
    if name:
        names = known.get("classes", [])
        return f"there is no class {name[1]!r}: {nearest(name[1], names)}"
    option = re.search(r"class_path '([\w.]+)':\s+Option '([\w.]+)' is not accepted", text)
    if option:
        owner = option[1].rpartition(".")[2]
        return f"{owner} has no option {option[2]!r}: {nearest(option[2], known.get(owner, []))}"
    return _in_words(_innermost(text), text)


def _innermost(text: str) -> str:
    """The deepest line that says something, other than that the value is not None either."""
    lines = [
        line for line in text.splitlines() if line.strip() and "NoneType" not in line and "Given value" not in line
    ]
    lines = [line for line in lines if UNION not in line and not line.strip().endswith(("Errors:", ":"))]
    deepest = max(lines, key=lambda line: len(line) - len(line.lstrip(" -")), default=text)
    return deepest.strip(" -")


def _in_words(complaint: str, text: str) -> str:
    complaint = re.sub(r'^Parser key "[^"]+":\s*', "", complaint)
    complaint, of_type = re.subn(r"Expected an? <class '(?:[\w.]*\.)?(\w+)'>", _with_article, complaint)
    complaint = re.sub(r"Expected a typing\.Literal\[([^]]*)\]", r"expected one of \1", complaint)
    given = re.search(r"Given value: (.*)", text)
    if of_type and "Got value" not in complaint and given:
        complaint += f". Got value: {given[1]}"
    return re.sub(r"\. Got value: (.*)", r", got \1.", complaint)


def _with_article(match: re.Match[str]) -> str:
    return f"expected {'an' if match[1][0] in 'aeiou' else 'a'} {match[1]}"
