"""Turns columns of a file into features: fills gaps, one-hot encodes categories. All is learnt on training rows."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch

from lightning_evalkit.data.options import option
from lightning_evalkit.data.splitting import standardised
from lightning_evalkit.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.data.table import Table

Missing = Literal["drop", "mean", "median"]
GAP = -1
"""The code of a missing category."""


@dataclass(frozen=True)
class Encoding:
    """The encoding of columns: which are categories, what fills a gap, and whether numbers are standardised."""

    categorical: frozenset[str]
    missing: Missing | None
    standardise: bool

    def features(self, table: Table, names: list[str], train: Tensor) -> tuple[Tensor, list[str]]:
        """All features and their names, column by column: only one at a time is in float64."""
        parts = [self._part(table, name, train) for name in names]
        features = torch.empty(table.columns.num_rows, sum(len(part.names) for part in parts))
        first = 0
        for part in parts:
            part.fill(features[:, first : first + len(part.names)])
            first += len(part.names)
        return features, [name for part in parts for name in part.names]

    def _part(self, table: Table, name: str, train: Tensor) -> Numbers | Categories:
        if name in self.categorical:
            return _learnt(table, name, train, gaps=self.missing is not None)
        return Numbers(table, name, train, self)


@dataclass(frozen=True)
class Numbers:
    """A column of numbers."""

    table: Table
    name: str
    train: Tensor
    encoding: Encoding

    @property
    def names(self) -> list[str]:
        """The column's own."""
        return [self.name]

    def fill(self, features: Tensor) -> None:
        """Write the numbers, with the training rows' mean or median in the gaps."""
        missing = self.encoding.missing
        column = self.table.numbers(self.name, gaps=missing in ("mean", "median"))
        known = column[self.train]
        known = known[~known.isnan()]
        if not len(known):
            raise InputError(
                f"{self.table.path}, column {self.name!r}: expected a number in some training row, got gaps only: "
                f"{option(exclude=[self.name])} leaves the column out."
            )
        column = column.nan_to_num(_median(known) if missing == "median" else float(known.mean()))
        features[:, 0] = standardised(column, self.train) if self.encoding.standardise else column


@dataclass(frozen=True)
class Categories:
    """A column of categories: a code per row, ``GAP`` for categories that training rows do not have."""

    names: list[str]
    places: Tensor

    def fill(self, features: Tensor) -> None:
        """Write 1 in the column of the row's category and 0 in all others."""
        features.copy_(self.places.unsqueeze(1) == torch.arange(len(self.names)))


def _median(values: Tensor) -> float:
    """The median; for an even number of values the mean of the middle two, unlike torch's lower one."""
    ordered, number = values.sort().values, len(values)
    return float(ordered[(number - 1) // 2] + ordered[number // 2]) / 2


def _learnt(table: Table, name: str, train: Tensor, gaps: bool) -> Categories:
    """The sorted categories of the training rows, with a gap if they have one."""
    codes, values = table.values(name, categories=True, gaps=gaps)
    words = [*map(_word, values), ""]  # the last category is the gap, whose code is -1
    seen = set(codes[train].unique().tolist())
    order = sorted(seen, key=lambda code: (code == GAP, words[code]))
    place = {code: number for number, code in enumerate(order)}
    _tell_unseen(table, name, codes, [code for code in range(len(values)) if code not in seen], words)
    places = torch.tensor([place.get(code, GAP) for code in [*range(len(values)), GAP]])[codes]
    return Categories([f"{name}={words[code]}" for code in order], places)


def _tell_unseen(table: Table, name: str, codes: Tensor, unseen: list[int], words: list[str]) -> None:
    if unseen:
        rows = int(torch.isin(codes, torch.tensor(unseen)).sum())
        warnings.warn(
            f"{table.path}, column {name!r}: {rows} rows of validation and test have categories that no training row "
            f"has, such as {words[unseen[0]]!r}; all columns of this feature are 0 there.",
            stacklevel=2,
        )


def _word(value: Any) -> str:
    return str(value).strip()
