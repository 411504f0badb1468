"""Checks arguments that have to be numbers, flags or lists; NumPy's and torch's scalars are numbers."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any

from lightning_evalkit.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Iterable


def as_number(value: Any) -> float | None:
    """The value as a Python number; None for anything else, truth values included.

    >>> import numpy
    >>> as_number(numpy.float32(0.5)), as_number("0.5")
    (0.5, None)
    """
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, (int, float)):
        return None if isinstance(value, bool) else value
    return float(value) if isinstance(value, Real) else None


def checked_flag(name: str, value: object) -> None:
    """Return True or False; refuse values that are merely truthy."""
    if not isinstance(value, bool):
        raise DeclarationError(f"expected {name} to be True or False, got {value!r}.")


def checked_zero_division(value: Any) -> float:
    """The value of 0/0."""
    number = as_number(value)
    if number is None:
        raise DeclarationError(f"expected zero_division to be a number, such as 0.0, or nan, got {value!r}.")
    return number


def checked_share(name: str, value: Any, above: bool = False) -> float:
    """A number between 0 and 1, or above 0."""
    number = as_number(value)
    if number is None or not 0 <= number <= 1 or (above and number == 0):
        raise DeclarationError(f"expected {name} to be a number in {'(' if above else '['}0, 1], got {value!r}.")
    return float(number)


def listed(name: str, values: Iterable[Any]) -> tuple[Any, ...]:
    """The entries of a list; refuse a text or a single number."""
    try:
        if isinstance(values, (str, bytes)):
            raise TypeError  # its letters are not meant
        return tuple(values)
    except TypeError:
        raise DeclarationError(f"expected {name} to be a list, got {values!r}.") from None
