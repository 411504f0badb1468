"""Reads files with a row for each sample: CSV, Parquet, JSON lines, NumPy arrays, or one label per line.

Files without names (.npy, .txt) have one column, or one for each label, under the name that the caller gives.
"""

from __future__ import annotations

import csv
import json
import re
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np

from lightning_evalkit.errors import InputError, nearest, required

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Columns = dict[str, list[str]]
WHOLE = re.compile(r"^(-?\d+)\.0*$")
NUMBER = re.compile(r"-?\d*\.?\d+([eE][-+]?\d+)?")


def columns_of(path: Path, name: str) -> Columns:
    """The columns of a file by their names; a single one is called ``name``."""
    if not path.is_file():
        raise InputError(f"{path}: expected a file of labels, but there is none (seen from the folder {Path.cwd()}).")
    try:
        columns = READERS.get(path.suffix.lower(), _separated)(path, name)
    except (UnicodeDecodeError, json.JSONDecodeError, csv.Error) as wrong:
        kind = {".jsonl": "JSON lines", ".ndjson": "JSON lines", ".txt": "text"}.get(path.suffix.lower(), "CSV text")
        raise InputError(f"{path}: expected {kind} in UTF-8, but it cannot be read: {wrong}.") from wrong
    lengths = {len(column) for column in columns.values()}
    if len(lengths) != 1 or 0 in lengths:
        raise InputError(f"{path}: expected columns with one value for each sample, got {_sizes(columns)}.")
    return {name: next(iter(columns.values()))} if len(columns) == 1 else columns


def labels_of(path: Path, columns: Columns, name: str, advice: str = "") -> list[str]:
    """A column of labels without gaps; 1.0 is the label 1, other fractions are refused as scores."""
    if name not in columns:
        raise InputError(f"{path}: expected a column {name!r}, but there is none: {nearest(name, columns)}{advice}")
    labels = in_short(columns[name])
    if "" in labels:
        raise InputError(f"{path}, column {name!r}, row {labels.index('') + 1}: expected a label, got nothing.")
    if all(map(NUMBER.fullmatch, labels)) and not all(label.lstrip("-").isdigit() for label in labels):
        score = next(label for label in labels if not label.lstrip("-").isdigit())
        raise InputError(f"{path}, column {name!r}: expected predicted labels or targets, got the score {score}.")
    return labels


def in_short(column: Sequence[str]) -> list[str]:
    """A column in which whole numbers have no fraction: 1.0 is 1."""
    return [WHOLE.sub(r"\1", value) for value in column]


def rows_of(path: Path) -> list[list[str]]:
    """The lines of a CSV file that are not empty; tabs separate the values of a .tsv file."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            return [row for row in csv.reader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",") if row]
    except (UnicodeDecodeError, csv.Error) as wrong:
        raise InputError(f"{path}: expected CSV text in UTF-8, but it cannot be read: {wrong}.") from wrong


def _separated(path: Path, name: str) -> Columns:
    head, *rows = rows_of(path) or [[]]
    if len(head) == 1 and any(mark in head[0] for mark in ";|\t"):
        raise InputError(
            f"{path}: expected values between commas, in a .tsv file between tabs, got the line {head[0]!r}."
        )
    if not rows or any(len(row) != len(head) for row in rows):
        raise InputError(f"{path}: expected a line of names and rows of as many values.")
    columns = {each.strip(): [row[place].strip() for row in rows] for place, each in enumerate(head)}
    for only, values in columns.items() if len(columns) == 1 else ():
        if only in values:
            raise InputError(f"{path}: expected a line of names first, got the label {only!r}: a .txt file has none.")
    return columns


def _lines(path: Path, name: str) -> Columns:
    lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    if "" in lines:
        raise InputError(f"{path}, line {lines.index('') + 1}: expected a label on every line, got nothing.")
    return {name: lines}


def _json_lines(path: Path, name: str) -> Columns:
    objects = [json.loads(line) for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    for row, found in enumerate(objects):
        if not isinstance(found, dict) or found.keys() != objects[0].keys():
            raise InputError(f"{path}, row {row + 1}: expected a JSON object with the keys of the first, got {found}.")
    return _texts(path, {key: [found[key] for found in objects] for key in (objects or [{}])[0]})


def _parquet(path: Path, name: str) -> Columns:
    with required("pyarrow", "data"):
        import pyarrow  # type: ignore[import-untyped]
        from pyarrow import parquet
    try:
        with parquet.ParquetFile(path) as file:
            return _texts(path, file.read().to_pydict())
    except pyarrow.ArrowException as wrong:
        raise InputError(f"{path}: expected Parquet data, but it cannot be read: {wrong}") from wrong


def _arrays(path: Path, name: str) -> Columns:
    try:
        with path.open("rb") as file:
            found = np.load(file, allow_pickle=False)
            arrays = {name: found} if isinstance(found, np.ndarray) else dict(found)
    except (ValueError, EOFError, BadZipFile) as wrong:
        raise InputError(f"{path}: expected NumPy arrays of labels, but they cannot be read: {wrong}") from wrong
    for key, array in arrays.items():
        if array.ndim not in (1, 2):
            raise InputError(f"{path}: expected {key!r} of shape (N,), or (N, L) for L labels, got {array.shape}.")
    return _texts(path, {key: array.tolist() for key, array in arrays.items()})


READERS: Mapping[str, Callable[[Path, str], Columns]] = {
    ".parquet": _parquet,
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".npy": _arrays,
    ".npz": _arrays,
    ".txt": _lines,
}
"""Any other file is CSV."""


def _texts(path: Path, columns: Mapping[str, Sequence[Any]]) -> Columns:
    """Values as texts; a column of lists is one column for each label."""
    spread = chain.from_iterable(_spread(path, name, values) for name, values in columns.items())
    return {name: [_text(value) for value in values] for name, values in spread}


def _spread(path: Path, name: str, values: Sequence[Any]) -> list[tuple[str, Sequence[Any]]]:
    if not any(isinstance(value, list) for value in values):
        return [(name, values)]
    if len({len(value) if isinstance(value, list) else None for value in values}) > 1:
        raise InputError(f"{path}, column {name!r}: expected lists of equal length, with 0 or 1 for each label.")
    columns = [*zip(*values, strict=True)]
    return [(name if len(columns) == 1 else f"{name}_{place}", column) for place, column in enumerate(columns)]


def _text(value: Any) -> str:
    if value is None or value != value:
        return ""
    return value.decode() if isinstance(value, bytes) else str(value).strip()


def _sizes(columns: Columns) -> str:
    return ", ".join(f"{name}: {len(column)}" for name, column in columns.items()) or "none"
