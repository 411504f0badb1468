"""Reads columns of a CSV or Parquet file with pyarrow; errors name the column and the row."""

from __future__ import annotations

import csv
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from lightning_evalkit.data.base import extra
from lightning_evalkit.data.decimals import conversion, first_comma, has_comma
from lightning_evalkit.data.encodings import refuse_other_encodings, refuse_other_formats
from lightning_evalkit.data.options import option
from lightning_evalkit.errors import InputError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor


CLASSES = ("a class", "classes, of which every split has rows")
CATEGORIES = ("a category", "categories that many rows have")
"""The words for one value of a column, and for several, in errors."""
SUFFIXES = (".csv", ".tsv", ".parquet")
LARGEST = 3.4e38
"""About the largest number of float32, in which models are trained: 1e39 is infinite there."""


def opened(path: str, separator: str = ",") -> Table:
    """Inspect a file, without reading its rows."""
    suffix = Path(path).suffix
    if suffix.lower() not in SUFFIXES:
        raise InputError(f"{path}: expected a file that ends in .csv, .tsv or .parquet, got {suffix or 'no suffix'!r}.")
    if not Path(path).expanduser().is_file():
        raise InputError(f"{path}: expected a file, but there is none (seen from the folder {Path.cwd()}).")
    return ParquetTable(path) if suffix.lower() == ".parquet" else CsvTable(path, separator)


def separator_in(header: str, otherwise: str = "") -> str:
    """Ask for the separator that seems to be in the line of names, or else for another; nothing without either."""
    mark = next((mark for mark in (";", "\t", "|", ",") if mark in header), otherwise)
    said = option(separator="tab" if mark == "\t" else mark)
    return f" Are its values separated by something else? {said} says so." if mark else ""


class Table:
    """The columns of a file by name. A final class knows its format: names, columns, and the words for rows."""

    remaining: Tensor | None = None  # the remaining rows of the file, if some were dropped
    separator: str | None = None  # of a file that has one
    about_gaps = "take such rows out of the file"  # what to do about a gap, in errors

    def __init__(self, path: str) -> None:
        self.path, self.file = path, str(Path(path).expanduser())
        self.arrow, self.compute = extra("pyarrow", "pyarrow"), extra("pyarrow.compute", "pyarrow")
        self.refusals = self.arrow.ArrowException, ValueError, OSError
        try:
            self.schema = self.read_schema()
            self.names: list[str] = self.schema.names
        except InputError:
            raise
        except self.refusals as wrong:
            raise self.unreadable(wrong) from wrong
        self._refuse_equal_names()

    def read_schema(self) -> Any:
        """Names and types of all columns."""
        raise NotImplementedError

    def read_columns(self, numeric: list[str], classes: list[str]) -> Any:
        """Some columns as an Arrow table."""
        raise NotImplementedError

    def place(self, row: int) -> str:
        """The place of a row (counted from 0) in the file, in words."""
        raise NotImplementedError

    def unreadable(self, wrong: Exception) -> InputError:
        """The error about a file whose contents do not match its suffix."""
        return InputError(f"{self.path}: expected {Path(self.path).suffix[1:]} data, but it cannot be read: {wrong}")

    def texts(self) -> set[str]:
        """The columns whose types are neither numbers nor truth values."""
        types = self.arrow.types
        known = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_null)
        return {field.name for field in self.schema if not any(is_kind(field.type) for is_kind in known)}

    def load(self, numeric: list[str], classes: list[str]) -> int:
        """Read the needed columns, and return the number of rows."""
        self._refuse_unknown_names(numeric + classes)
        try:
            self.columns = self.read_columns(numeric, classes)
        except self.refusals as wrong:
            raise self.unreadable(wrong) from wrong
        return int(self.columns.num_rows)

    def drop_gaps(self) -> int:
        """Remove rows with a gap, and return how many there were."""
        gaps = [self._gaps(column) for column in self.columns.columns]
        full = ~torch.stack(gaps).any(0)
        self.remaining = full.nonzero().flatten()
        self.columns = self.columns.take(self.arrow.array(self.remaining.numpy()))
        return int((~full).sum())

    def _gaps(self, column: Any) -> Tensor:
        """Which values of a column are missing, NaN included."""
        return torch.tensor(column.is_null(nan_is_null=True).to_numpy())

    def wrong(self, name: str, row: int, expected: str) -> InputError:
        """The error about a value, with the expected ones."""
        value = self.columns.column(name)[row].as_py()
        received = "a gap" if value is None else repr(value)
        place = self.place(row if self.remaining is None else int(self.remaining[row]))
        return InputError(f"{self.path}, column {name!r}, {place}: expected {expected}, got {received}.")

    def numbers(self, name: str, gaps: bool = False, is_weight: bool = False) -> Tensor:
        """A column as float64 with finite values; gaps, if allowed, are NaN."""
        column = self.columns.column(name)
        numeric = self._as_numbers(column)
        if numeric is None:
            row = max(self._first_refused(column, kind) for kind in self._numeric_types())
            others = "" if is_weight else f" (or {option(categorical=[name])}, or {option(exclude=[name])})"
            expected = self._with_point(name) if has_comma(column[row].as_py()) else f"a number{others}"
            raise self.wrong(name, row, expected)
        values = torch.tensor(numeric.to_numpy(), dtype=torch.float64)
        bad = ~values.float().isfinite()
        if gaps:
            bad &= ~values.isnan()
        if bad.any():
            row = int(bad.int().argmax())
            fill = "" if is_weight else f"{option(missing='mean')} fills gaps, "
            advice = fill + self.about_gaps if values[row].isnan() else f"within ±{LARGEST:g}"
            raise self.wrong(name, row, f"a finite number ({advice})")
        return values

    def values(self, name: str, categories: bool = False, gaps: bool = False) -> tuple[Tensor, list[Any]]:
        """The distinct values of a column, and for each row the index of its value; -1 for a gap."""
        expected, many = CATEGORIES if categories else CLASSES
        column = self.columns.column(name)
        if not gaps and (missing := self._gaps(column)).any():
            also = f", {option(missing='mean')} makes gaps a category" if categories else ""
            raise self.wrong(name, int(missing.int().argmax()), f"{expected} ({self.about_gaps}{also})")
        if not self.arrow.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        coded = column.unify_dictionaries().combine_chunks()
        filled = coded.indices.fill_null(-1)
        used, codes = torch.unique(torch.tensor(filled.to_numpy()).long(), return_inverse=True)
        if len(used) and used[0] < 0:
            used, codes = used[1:], codes - 1
        if len(used) * 3 > len(codes):
            advice = f" {option(exclude=[name])} leaves it out." if categories else ""
            raise InputError(
                f"{self.path}, column {name!r}: expected {many}, got {len(used):,} different values in "
                f"{len(codes):,} rows: is it a number or an identifier rather than {expected}?{advice}"
            )
        return codes, coded.dictionary.take(self.arrow.array(used.tolist())).to_pylist()

    def refuse_decimal_commas(self, name: str) -> None:
        """Refuse a column of texts that are numbers, some with a decimal comma."""
        column = self.columns.column(name)
        if not self._holds_text(column.type):
            return
        texts = column.cast(self.arrow.string())
        comma = first_comma(texts.unique().drop_null().to_pylist())
        if comma is not None:
            raise self.wrong(name, self.compute.index(texts, comma).as_py(), self._with_point(name))

    def _holds_text(self, kind: Any) -> bool:
        types = self.arrow.types
        kind = kind.value_type if types.is_dictionary(kind) else kind
        return bool(types.is_string(kind) or types.is_large_string(kind))

    def _with_point(self, name: str) -> str:
        values = self.columns.column(name).unique().to_pylist()
        return f"a number with a decimal point ({conversion(self.path, name, values, self.separator)})"

    def _numeric_types(self) -> tuple[Any, Any]:
        return self.arrow.float64(), self.arrow.bool_()

    def _as_numbers(self, column: Any) -> Any:
        """The column as float64, if it holds numbers or truth values."""
        for kind in self._numeric_types():
            if (cast := self._cast(column, kind)) is not None:
                return cast.cast(self.arrow.float64())
        return None

    def _cast(self, column: Any, kind: Any) -> Any:
        if self.arrow.types.is_string(column.type) or self.arrow.types.is_large_string(column.type):
            column = self.compute.utf8_trim_whitespace(column)
        elif self.arrow.types.is_boolean(kind):
            return None
        try:
            return column.cast(kind, safe=False)  # integers above 2^53 are rounded
        except self.refusals:
            return None

    def _first_refused(self, column: Any, kind: Any) -> int:
        """The first row that does not fit a type, found by bisection."""
        low, high = 0, len(column)
        while high - low > 1:
            middle = (low + high) // 2
            refused = self._cast(column.slice(low, middle - low), kind) is None
            low, high = (low, middle) if refused else (middle, high)
        return low

    def _refuse_equal_names(self) -> None:
        for name, times in Counter(self.names).items():
            if times > 1:
                raise InputError(
                    f"{self.path}: expected a name of its own for each column, got {times} named {name!r}."
                )

    def _refuse_unknown_names(self, wanted: Sequence[str]) -> None:
        known = set(self.names)
        for name in (name for name in wanted if name not in known):
            hint = separator_in(self.names[0], ";") if len(known) == 1 else ""
            raise InputError(
                f"{self.path}: expected a column {name!r}, but there is none: {nearest(name, known)}{hint}"
            )


class CsvTable(Table):
    """A CSV file with a header; errors give lines of the file."""

    def __init__(self, path: str, separator: str) -> None:
        self.separator: str = separator
        super().__init__(path)

    def read_schema(self) -> Any:
        """Names, and the types that the first block of the file suggests."""
        refuse_other_formats(self.file, self.path)
        with extra("pyarrow.csv", "pyarrow").open_csv(self.file, parse_options=self._parse_options()) as reader:
            return reader.schema

    def read_columns(self, numeric: list[str], classes: list[str]) -> Any:
        """Read features as numbers and classes as text; if a value fits neither, all as text, to find it."""
        coded = self.arrow.dictionary(self.arrow.int32(), self.arrow.string())
        types = dict.fromkeys(numeric, self.arrow.float64()) | dict.fromkeys(classes, coded)
        types |= {name: self.arrow.bool_() for name in numeric if self.schema.field(name).type == self.arrow.bool_()}
        try:
            return self._read(types)
        except self.arrow.ArrowInvalid:
            return self._read(dict.fromkeys(types, self.arrow.string()))

    def place(self, row: int) -> str:
        """The line of a row; the two differ if values span lines or lines are empty."""
        for number, (line, _) in enumerate(self._lines()):
            if number == row + 1:
                return f"line {line}"
        return f"row {row + 1}"

    def unreadable(self, wrong: Exception) -> InputError:
        """The error: usually a line with too few or too many values, or text in another encoding."""
        if isinstance(wrong, UnicodeDecodeError) or "UTF8" in str(wrong):
            refuse_other_encodings(self.file, self.path)
        width, header = None, ""
        for line, values in self._lines():
            if width is None:
                width, header = len(values), " ".join(values)
            if len(values) != width:
                of = "a value" if width == 1 else f"{width} values"
                return InputError(f"{self.path}, line {line}: expected {of}, got {len(values)}.{separator_in(header)}")
        return (
            super().unreadable(wrong) if width else InputError(f"{self.path}: expected a line of names, got nothing.")
        )

    def _parse_options(self) -> Any:
        return extra("pyarrow.csv", "pyarrow").ParseOptions(delimiter=self.separator, newlines_in_values=True)

    def _read(self, types: dict[str, Any]) -> Any:
        reader = extra("pyarrow.csv", "pyarrow")
        convert = reader.ConvertOptions(column_types=types, include_columns=list(types), strings_can_be_null=True)
        return reader.read_csv(self.file, parse_options=self._parse_options(), convert_options=convert)

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        """The first line and the values of each row, the names included: slow, for errors only."""
        # Of a file that this reader gives up on, the lines before are enough.
        with suppress(csv.Error), open(self.file, newline="", encoding="utf-8-sig", errors="replace") as file:
            reader, line = csv.reader(file, delimiter=self.separator), 1
            for values in reader:
                if values:
                    yield line, values
                line = reader.line_num + 1


class ParquetTable(Table):
    """Columns with types; rows are counted from 1."""

    def read_schema(self) -> Any:
        """Names and types as the file states them."""
        return extra("pyarrow.parquet", "pyarrow").read_schema(self.file)

    def read_columns(self, numeric: list[str], classes: list[str]) -> Any:
        """The columns as they are."""
        with extra("pyarrow.parquet", "pyarrow").ParquetFile(self.file) as file:
            return file.read(columns=numeric + classes)

    def place(self, row: int) -> str:
        """The row."""
        return f"row {row + 1}"
