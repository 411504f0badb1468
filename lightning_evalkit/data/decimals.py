"""Recognises numbers with a decimal comma, which are read as texts, and says how to convert them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

NUMBER = re.compile(r"\s*[-+]?\d[\d.]*(,\d+)?\s*")
"""A number, perhaps with a decimal comma."""


def has_comma(value: Any) -> bool:
    """Whether a value is a number with a decimal comma.

    >>> has_comma("70,5"), has_comma("70.5"), has_comma("Oslo, Rome")
    (True, False, False)
    """
    return isinstance(value, str) and "," in value and NUMBER.fullmatch(value) is not None


def first_comma(values: Sequence[Any]) -> str | None:
    """The first value with a decimal comma if all of them are numbers, else None."""
    are_numbers = all(isinstance(value, str) and NUMBER.fullmatch(value) for value in values)
    return next(filter(has_comma, values), None) if are_numbers else None


def conversion(path: str, column: str, separator: str | None) -> str:
    """Say how to write decimal points; the comma may also separate thousands."""
    if separator is None:
        return f"if the comma is one, in pandas by frame[{column!r}].str.replace(',', '.').astype(float)"
    read, written = f"pandas.read_csv({path!r}, sep={separator!r}, decimal=',')", f"sep={separator!r}, index=False"
    return f"if the comma is one, {read}.to_csv('points.csv', {written}) writes such a file"
