"""The user's CSV or Parquet file as data: the meaning of columns is declared, their contents are checked."""

from __future__ import annotations

import re
import warnings
from functools import cached_property
from pathlib import Path  # noqa: TC003 (the command line reads the types of the constructor)
from typing import TYPE_CHECKING, Literal, NamedTuple

from lightning_evalkit.data.base import Splits, TensorDataModule
from lightning_evalkit.data.columns import (
    check_labels,
    check_roles,
    checked_categories,
    checked_missing,
    checked_separator,
)
from lightning_evalkit.data.features import Encoding, Missing
from lightning_evalkit.data.options import option
from lightning_evalkit.data.splitting import checked_shares, stratified
from lightning_evalkit.data.table import opened
from lightning_evalkit.data.targets import FileClasses, labels, one_target
from lightning_evalkit.errors import InputError, nearest

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from lightning_evalkit.data.splitting import SplitRows
    from lightning_evalkit.data.table import Table

LEAST_ROWS = 6
"""Two classes in three splits."""
INDEX = re.compile(r"|Unnamed: \d+|__index_level_\d+__")
"""Names of an index that was written to the file by accident; a row number is not a feature."""


class Contents(NamedTuple):
    """The contents of the file; a binary or multilabel target has no class names."""

    splits: Splits
    features: list[str]
    class_names: list[str]


class TabularDataModule(FileClasses, TensorDataModule):
    """A CSV, TSV or Parquet file with names of columns: stratified splits, features standardised on training rows.

    ``target`` is a column, or a list of columns that are labels (0 or 1 each). One column is binary if it holds 0 and 1
    or false and true, or if ``positive`` says which of its two values is the positive one; three values or more are
    classes and become ``class_names``, as they are written (01 and 1 are two of them), sorted as numbers if all are.
    ``features`` are all other columns by default; ``weight`` names a column of sample weights, which are the third
    tensor of each batch. Text and gaps are refused unless ``categorical`` and ``missing`` say what to make of them;
    means, medians and categories are those of the training rows. The file is read once, when first needed.

    Args:
        path: A file that ends in .csv, .tsv or .parquet.
        target: The column to predict, or a list of columns that are labels of 0 and 1.
        features: The columns to predict from; by default all that have no other role.
        exclude: Columns that are not features.
        categorical: Features that are categories: each category becomes a column of 0 and 1; "auto" for all texts.
        missing: How to treat gaps in features: "mean" or "median" of the training rows fills them (a gap among
            categories becomes a separate category); "drop" removes rows with a gap in any column that is used.
        weight: A column of sample weights.
        val_share: Share of the rows to validate on.
        test_share: Share of the rows to test on, and to predict.
        positive: Which of two values of the target is the positive one.
        standardise: Give numeric features a mean of 0 and a standard deviation of 1 over the training rows.
        separator: The character between the values of a CSV file; "tab" for tabs, which is the default for .tsv files.
    """

    num_labels: int
    label_names: list[str]

    def __init__(
        self,
        path: str | Path,
        target: str | list[str],
        features: list[str] | None = None,
        weight: str | None = None,
        val_share: float = 0.2,
        test_share: float = 0.2,
        positive: str | int | float | bool | None = None,
        standardise: bool = True,
        batch_size: int = 256,
        seed: int = 0,
        on_device: bool = False,
        exclude: list[str] | None = None,
        categorical: list[str] | Literal["auto"] | None = None,
        missing: Missing | None = None,
        separator: str | None = None,
    ) -> None:
        super().__init__(batch_size, seed, on_device)
        path = str(path)  # a checkpoint keeps it, and loads only plain values again
        self.path, self.features, self.weight = path, features, weight
        self.positive, self.standardise, self.exclude = positive, standardise, list(exclude or ())
        self.categorical, self.missing = checked_categories(categorical), checked_missing(missing)
        self.separator = checked_separator(separator, path)
        self.shares = checked_shares(val_share, test_share)
        self.targets = [target] if isinstance(target, str) else list(target)
        self.multilabel = not isinstance(target, str)
        if self.multilabel:
            check_labels(self.targets, positive)
            self.num_labels, self.label_names = len(self.targets), self.targets
        check_roles(self.targets, features, weight, self.exclude)
        self.save_hyperparameters(logger=False)

    @cached_property
    def num_features(self) -> int:  # type: ignore[override]
        """The number of features, from the file."""
        return len(self.feature_names)

    @property
    def feature_names(self) -> list[str]:
        """The columns that are features, in the order of the tensor's columns."""
        return self._contents.features

    def _classes(self) -> list[str]:
        return self._contents.class_names

    def splits(self, device: torch.device) -> Splits:
        """Read, split and encode the file."""
        return self._contents.splits

    @cached_property
    def _contents(self) -> Contents:
        table = opened(self.path, self.separator)
        table.about_gaps = f"{option(missing='drop')} leaves such rows out"
        weights = [] if self.weight is None else [self.weight]
        features = self.features or _other_columns(table, {*self.targets, *weights}, self.exclude)
        encoding = Encoding(self._categories(table, features), self.missing, self.standardise)
        self._load(table, features, weights, encoding.categorical)
        target = labels(table, self.targets) if self.multilabel else one_target(table, self.targets[0], self.positive)
        rows = stratified(target.values, self.shares, self.seed, target.names, f"{self.path}, target {self.targets}")
        self.predicted_rows = rows.test if table.remaining is None else table.remaining[rows.test]
        self.value_names = target.value_names
        encoded, names = encoding.features(table, features, rows.train)
        tensors = [encoded, target.values]
        tensors += [_weights(table, name, rows) for name in weights]
        splits = Splits(*(tuple(tensor[chosen] for tensor in tensors) for chosen in rows))
        return Contents(splits, names, target.names if len(target.names) > 2 and not self.multilabel else [])

    def _categories(self, table: Table, features: list[str]) -> frozenset[str]:
        if self.categorical == "auto":
            return frozenset(table.texts() & {*features})
        chosen = self.categorical or []
        for name in (name for name in chosen if name not in features):
            raise InputError(
                f"{self.path}: expected categorical to name features, got {name!r}: {nearest(name, features)}"
            )
        return frozenset(chosen)

    def _load(self, table: Table, features: list[str], weights: list[str], categories: frozenset[str]) -> None:
        """Read the columns, and drop rows with gaps if declared."""
        numeric = [name for name in features if name not in categories]
        rows = table.load([*numeric, *weights], [*(name for name in features if name in categories), *self.targets])
        dropped = table.drop_gaps() if self.missing == "drop" else 0
        if dropped:
            warnings.warn(f"{self.path}: {dropped:,} of {rows:,} rows have gaps and are left out.", stacklevel=2)
        for name in categories if self.categorical == "auto" else ():
            table.refuse_decimal_commas(name)
        _check_rows(rows - dropped, self.path)


def _other_columns(table: Table, used: set[str], exclude: list[str]) -> list[str]:
    """All columns without another role."""
    for name in (name for name in exclude if name not in table.names):
        raise InputError(f"{table.path}: expected exclude to name columns, got {name!r}: {nearest(name, table.names)}")
    features = [name for name in table.names if name not in {*used, *exclude}]
    if not features:
        raise InputError(f"{table.path}: expected columns for the features in addition to {sorted(used)}, got none.")
    for name in filter(INDEX.fullmatch, features):
        raise InputError(
            f"{table.path}: expected features, but column {name!r} looks like the number of the row, which gives the "
            f"target away in a sorted file: leave it out, {option(exclude=[name])}, or write the file without an index."
        )
    return features


def _check_rows(rows: int, path: str) -> None:
    if rows < LEAST_ROWS:
        raise InputError(
            f"{path}: expected at least {LEAST_ROWS} rows, one of each class in each of three splits, got {rows}."
        )


def _weights(table: Table, name: str, rows: SplitRows) -> Tensor:
    """Read the column of weights; every split needs a weight above 0."""
    weights = table.numbers(name, is_weight=True)
    if (weights < 0).any():
        raise table.wrong(name, int((weights < 0).int().argmax()), "a weight of 0 or more")
    for split, chosen in rows._asdict().items():
        if not weights[chosen].any():
            raise InputError(
                f"{table.path}, column {name!r}: expected weights above 0, got only zeros in {split} rows."
            )
    return weights.float()
