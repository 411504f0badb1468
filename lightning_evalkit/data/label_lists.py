"""Turns a column whose rows list their labels into zeros and ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from lightning_evalkit.data.targets import Target
from lightning_evalkit.errors import InputError

if TYPE_CHECKING:
    from lightning_evalkit.data.table import Table


def is_list(table: Table, column: str) -> bool:
    """Whether the values of a column are lists."""
    types, kind = table.arrow.types, table.columns.column(column).type
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def listed_labels(table: Table, column: str, separator: str | None) -> Target:
    """Return a 0 or 1 for each row and label; labels are in alphabetical order.

    Lists are read unchanged. Texts are split at the separator; an empty text has no label.
    """
    rows = [_labels(table, column, row, value, separator) for row, value in enumerate(_values(table, column))]
    names = sorted({label for labels in rows for label in labels})
    if len(names) < 2:
        raise InputError(
            f"{table.path}, column {column!r}: expected lists of at least 2 different labels, got {names}."
        )
    places = {name: place for place, name in enumerate(names)}
    indicators = torch.zeros(len(rows), len(names), dtype=torch.int64)
    for row, labels in enumerate(rows):
        indicators[row, [places[label] for label in labels]] = 1
    return Target(indicators, names)


def _values(table: Table, column: str) -> list[Any]:
    values: list[Any] = table.columns.column(column).to_pylist()
    return values


def _labels(table: Table, column: str, row: int, value: Any, separator: str | None) -> list[str]:
    if separator is not None and (value is None or isinstance(value, str)):
        found = [part.strip() for part in (value or "").split(separator)]
        return _unique(table, column, row, [part for part in found if part])
    if not isinstance(value, list) or any(each is None or not str(each).strip() for each in value):
        raise table.wrong(column, row, "a list of labels ([] for none)")
    return _unique(table, column, row, [str(each).strip() for each in value])


def _unique(table: Table, column: str, row: int, labels: list[str]) -> list[str]:
    if len({*labels}) < len(labels):
        raise table.wrong(column, row, "every label once")
    return labels
