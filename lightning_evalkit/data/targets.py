"""Reads the target of a file: two values, one of them positive; classes; or labels.

A class is its spelling; numbers decide only the order. 01 and 1 are two classes, because they may be article numbers or
codes. Spellings that nobody would distinguish (1 and 1.0, spaces around a text) are refused if both occur.
"""

from __future__ import annotations

import re
import warnings
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple
from unicodedata import normalize

import torch

from lightning_evalkit.data.options import option
from lightning_evalkit.errors import InputError, nearest

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.data.table import Table

TRUTH = {"true": True, "false": False}
MEANT = {True: ("true", "yes", "on", "1"), False: ("false", "no", "off", "0")}
"""What positive=True may stand for: YAML reads an unquoted yes or no as a truth value."""


class Target(NamedTuple):
    """The target and the names of its labels or of its classes; the positive one of two classes is last."""

    values: Tensor
    names: list[str]

    @property
    def value_names(self) -> tuple[str, ...]:
        """The two values of a binary target; empty for others."""
        return tuple(self.names) if self.values.ndim == 1 and len(self.names) == 2 else ()


class Class(NamedTuple):
    """A value of a column: its meaning (a number, a truth value, a text), which decides the order, and its name."""

    meaning: Any
    name: str


class FileClasses:
    """Adds the classes of a target column to a data module that reads a file."""

    path: str
    targets: list[str]

    def _classes(self) -> list[str]:
        """The names of three classes or more, from the file; empty for another target."""
        raise NotImplementedError

    @property
    def num_classes(self) -> int:
        """The number of classes, from the file; a binary or multilabel target has no such attribute."""
        return len(self.class_names)

    @property
    def class_names(self) -> list[str]:
        """The classes in the order of their numbers; a binary or multilabel target has no such attribute."""
        names = self._classes()
        if not names:
            raise AttributeError(f"the target {self.targets} of {self.path} is not one of three classes or more.")
        return names


def one_target(table: Table, column: str, positive: Any) -> Target:
    """Read a binary or multiclass target, by declaration or by the number of values."""
    codes, classes = _classes(table, column)
    names = [each.name for each in classes]
    if positive is not None:
        place = _place_of(positive, names, f"{table.path}, column {column!r}")
        return Target((codes == place).long(), [names[1 - place], names[place]])
    if len(classes) == 2 and [each.meaning for each in classes] != [0, 1]:
        raise InputError(
            f"{table.path}, column {column!r}: expected positive to name one of the two values {names[0]!r} and "
            f"{names[1]!r}, for example {option(positive=names[1])}."
        )
    return Target(codes, names)


def labels(table: Table, columns: list[str]) -> Target:
    """Read a 0 or 1 for each row and label, in any spelling."""
    return Target(torch.stack([_label(table, column) for column in columns], 1), columns)


def _label(table: Table, column: str) -> Tensor:
    codes, written = table.values(column)
    meanings = _understood(written)
    for place, meaning in enumerate(meanings):
        if meaning not in (0, 1):
            raise table.wrong(column, _first(codes, place), "0 or 1, or false or true, in every label")
    _refuse_one(table, column, [_word(each) for each in dict.fromkeys(meanings)])
    return torch.tensor([int(meaning) for meaning in meanings])[codes]


def _classes(table: Table, column: str) -> tuple[Tensor, list[Class]]:
    """The number of each row's class, and the classes in order."""
    codes, written = table.values(column)
    table.refuse_decimal_commas(column)
    found = [Class(meaning, _word(value)) for meaning, value in zip(_understood(written), written, strict=True)]
    for place, each in enumerate(found):
        if not _is_class(each.meaning):
            raise table.wrong(column, _first(codes, place), "a class: a text, a whole number, true or false")
    _refuse_two_spellings(table, column, codes, written)
    known = sorted(set(found))
    _refuse_one(table, column, [each.name for each in known])
    _tell_equal_numbers(table, column, known)
    number = {each: place for place, each in enumerate(known)}
    return torch.tensor([number[each] for each in found])[codes], known


def _refuse_one(table: Table, column: str, names: list[str]) -> None:
    if len(names) == 1:
        raise InputError(f"{table.path}, column {column!r}: expected two classes or more, got only {names[0]!r}.")


def _refuse_two_spellings(table: Table, column: str, codes: Tensor, written: list[Any]) -> None:
    """Refuse two spellings that nobody would tell apart: they could mean one class or two."""
    first: dict[Any, Any] = {}
    for place, (value, spelling) in enumerate(zip(written, _spellings(written), strict=True)):
        same = first.setdefault(spelling, value)
        if same != value:
            raise table.wrong(column, _first(codes, place), f"every class in one spelling, this one as {same!r}")


def _spellings(written: list[Any]) -> list[Any]:
    """Normalise spellings that nobody would distinguish: outer spaces, Unicode forms, 1 and 1.0, True and true."""
    if not isinstance(written[0], str):
        return written
    texts = [normalize("NFC", text.strip()) for text in written]
    meaning = _understood(written)[0]
    if isinstance(meaning, bool):
        return [text.lower() for text in texts]
    return [re.sub(r"(?<=\d)\.0*$", "", text) for text in texts] if isinstance(meaning, Decimal) else texts


def _tell_equal_numbers(table: Table, column: str, known: list[Class]) -> None:
    for one, other in pairwise(known):
        if one.meaning == other.meaning:
            warnings.warn(
                f"{table.path}, column {column!r}: {one.name!r} and {other.name!r} are equal as numbers; as they are "
                "written they are two classes.",
                stacklevel=2,
            )
            return


def _place_of(positive: Any, names: list[str], source: str) -> int:
    """The index of the value that was declared positive."""
    if len(names) != 2:
        raise InputError(
            f"{source}: expected two values, of which {option(positive=positive)} is one, got {len(names)} "
            f"({', '.join(map(repr, names[:5]))}, …): leave positive out to predict all of them."
        )
    exact = [place for place, name in enumerate(names) if name == _word(positive)]
    places = exact or [place for place, name in enumerate(names) if _is_meant(name, positive)]
    if len(places) != 1:
        hint = nearest(_word(positive), names)
        raise InputError(f"{source}: expected {option(positive=positive)} to be one of its values: {hint}")
    return places[0]


def _is_meant(name: str, positive: Any) -> bool:
    """Whether a value has the declared meaning in another spelling."""
    read = _understood([positive])[0]
    if isinstance(read, bool):
        return name.lower() in MEANT[read]
    return bool(_understood([name])[0] == read)


def _understood(values: list[Any]) -> list[Any]:
    """Texts as numbers or truth values if all of them are; otherwise unchanged."""
    if all(isinstance(value, str) for value in values):
        for reading in (_number, TRUTH.__getitem__):
            try:
                return [reading(value.strip().lower()) for value in values]
            except (ValueError, KeyError):
                continue
    return values


def _number(text: str) -> Decimal | float:
    """A number with all of its digits; infinity and NaN, which compare in their own way, as floats."""
    if "_" in text:  # Python's own digits
        raise ValueError(text)
    try:
        read = Decimal(text)
    except ArithmeticError as wrong:
        raise ValueError(text) from wrong
    return read if read.is_finite() else float(text)


def _is_class(meaning: Any) -> bool:
    if isinstance(meaning, str):
        return bool(meaning.strip()) and "\0" not in meaning
    if isinstance(meaning, Decimal):
        return meaning == meaning.to_integral_value()
    return isinstance(meaning, int) or (isinstance(meaning, float) and meaning.is_integer())


def _word(value: Any) -> str:
    """A class as a person would write it."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()


def _first(codes: Tensor, place: int) -> int:
    return int((codes == place).int().argmax())
