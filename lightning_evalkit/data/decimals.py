"""Recognises numbers with a decimal comma, which are read as texts, and says how to convert them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

NUMBER = re.compile(r"\s*[-+−]?(?=[\d,])[\d.\s'’]*(,\d+)*([eE][-+]?\d+)?\s*[%€$£]?\s*")
"""A number, perhaps with separated thousands, a decimal comma and a unit."""

THOUSANDS = re.compile(r",\d{3}\s*$")


def has_comma(value: Any) -> bool:
    """Whether a value is a number with a decimal comma.

    >>> has_comma("70,5"), has_comma("70.5"), has_comma("Oslo, Rome")
    (True, False, False)
    """
    return isinstance(value, str) and "," in value and NUMBER.fullmatch(value) is not None


def first_comma(values: Sequence[Any]) -> str | None:
    """The first value with a decimal comma if most of all values are numbers, else None: a gap may be written as ?."""
    numbers = [value for value in values if isinstance(value, str) and NUMBER.fullmatch(value)]
    return next(filter(has_comma, numbers), None) if 2 * len(numbers) > len(values) else None


def conversion(path: str, column: str, values: Sequence[Any], separator: str | None) -> str:
    """Say how to write decimal points; a comma may also separate thousands."""
    numbers = [*filter(has_comma, values)]
    separated = any("." in value for value in numbers)
    if separator is None:
        marks = ((".", ""), (",", ".")) if separated else ((",", "."),)
        points = "".join(f".str.replace({mark!r}, {by!r}, regex=False)" for mark, by in marks)
        return f"if the comma is one, in pandas by frame[{column!r}]{points}.astype(float)"
    thousands = ", thousands='.'" if separated else ""
    read = f"pandas.read_csv({path!r}, sep={separator!r}, decimal=','{thousands})"
    written = f"{read}.to_csv('points.csv', sep={separator!r}, index=False)"
    between = "; if it separates thousands, leave it out" if any(THOUSANDS.search(value) for value in numbers) else ""
    return f"if the comma is one, {written} writes such a file{between}"
