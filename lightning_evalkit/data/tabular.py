"""A CSV or Parquet file of the user's as data: what its columns mean is declared, what they hold is checked."""

from __future__ import annotations

import re
from collections import Counter
from functools import cached_property
from pathlib import Path  # noqa: TC003 (the command line reads the types of the constructor)
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from lightning_evalkit.data.base import Splits, TensorDataModule
from lightning_evalkit.data.splitting import checked_shares, standardised, stratified
from lightning_evalkit.data.table import opened
from lightning_evalkit.data.targets import labels, one_target
from lightning_evalkit.errors import DeclarationError, InputError

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.data.splitting import SplitRows
    from lightning_evalkit.data.table import Table

LEAST_ROWS = 6
"""Two classes in three splits."""
INDEX = re.compile(r"|Unnamed: \d+|__index_level_\d+__")
"""Names of an index that was written to the file by accident: the number of the row, which is no feature."""


class Contents(NamedTuple):
    """What was read from the file; a target that is binary or of several labels has no names of classes."""

    splits: Splits
    features: list[str]
    class_names: list[str]


class TabularDataModule(TensorDataModule):
    """A CSV file with a line of names, or a Parquet file: stratified splits, features on the training rows' scale.

    ``target`` is a column, or a list of columns that are labels (0 or 1 each). One column is binary if it holds 0 and 1
    or false and true, or if ``positive`` says which of its two values is the positive one; three values or more are
    classes and become ``class_names``, as they are written (01 and 1 are two of them), sorted as numbers if all are.
    ``features`` are all other columns by default; ``weight`` names a column of sample weights, which are the third
    tensor of each batch. The file is read once, when first needed.
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
    ) -> None:
        super().__init__(batch_size, seed, on_device)
        path = str(path)  # a checkpoint keeps it, and loads only plain values again
        self.path, self.features, self.weight = path, features, weight
        self.positive, self.standardise = positive, standardise
        self.shares = checked_shares(val_share, test_share)
        self.targets = [target] if isinstance(target, str) else list(target)
        self.multilabel = not isinstance(target, str)
        if self.multilabel:
            _check_labels(self.targets, positive)
            self.num_labels, self.label_names = len(self.targets), self.targets
        _check_roles(self.targets, features, weight)
        self.save_hyperparameters(logger=False)

    @cached_property
    def num_features(self) -> int:  # type: ignore[override]
        """The number of features, from the file."""
        return len(self.feature_names)

    @property
    def feature_names(self) -> list[str]:
        """The columns that are features, in the order of the tensor's columns."""
        return self._contents.features

    @property
    def num_classes(self) -> int:
        """The number of classes, from the file; a binary or multilabel target has no such attribute."""
        return len(self.class_names)

    @property
    def class_names(self) -> list[str]:
        """The classes in the order of their numbers; a binary or multilabel target has no such attribute."""
        if not self._contents.class_names:
            raise AttributeError(f"the target {self.targets} of {self.path} is not one of three classes or more.")
        return self._contents.class_names

    def splits(self, device: torch.device) -> Splits:
        """What the file holds."""
        return self._contents.splits

    @cached_property
    def _contents(self) -> Contents:
        table = opened(self.path)
        weights = [] if self.weight is None else [self.weight]
        features = self.features or _other_columns(table, {*self.targets, *weights})
        _check_rows(table.load([*features, *weights], self.targets), self.path)
        target = labels(table, self.targets) if self.multilabel else one_target(table, self.targets[0], self.positive)
        rows = stratified(target.values, self.shares, self.seed, target.names, f"{self.path}, target {self.targets}")
        tensors = [self._features(table, features, rows.train), target.values]
        tensors += [_weights(table, name, rows) for name in weights]
        splits = Splits(*(tuple(tensor[chosen] for tensor in tensors) for chosen in rows))
        return Contents(splits, features, target.names if len(target.names) > 2 and not self.multilabel else [])

    def _features(self, table: Table, names: list[str], train: Tensor) -> Tensor:
        """All features, one column after the other: only one at a time takes the room of float64."""
        features = torch.empty(table.columns.num_rows, len(names))
        for place, name in enumerate(names):
            column = table.numbers(name)
            features[:, place] = standardised(column, train) if self.standardise else column
        return features


def _check_labels(labels: list[str], positive: Any) -> None:
    if len(labels) < 2:
        raise DeclarationError(f"expected at least 2 labels in a list, got {labels}: name a single column without one.")
    if positive is not None:
        raise DeclarationError(f"expected labels of 0 and 1 without positive, got positive={positive!r} for {labels}.")


def _check_roles(targets: list[str], features: list[str] | None, weight: str | None) -> None:
    """Refuse a column in two roles, and features that are none."""
    if isinstance(features, str) or (features is not None and not features):
        raise DeclarationError(f"expected a list of features, got {features!r}: leave it out to use all other columns.")
    roles = Counter([*targets, *(features or []), *([] if weight is None else [weight])])
    for name in (name for name, times in roles.items() if times > 1):
        role = "both target and" if name in targets else "twice as"
        raise DeclarationError(f"expected every column in one role, got {name!r} {role} feature, weight or target.")


def _other_columns(table: Table, used: set[str]) -> list[str]:
    """All columns without another role."""
    features = [name for name in table.names if name not in used]
    if not features:
        raise InputError(f"{table.path}: expected columns for the features beside {sorted(used)}, got none.")
    for name in filter(INDEX.fullmatch, features):
        raise InputError(
            f"{table.path}: expected features, but column {name!r} looks like the number of the row, which gives the "
            "target away in a sorted file: list the features, or write the file without an index."
        )
    return features


def _check_rows(rows: int, path: str) -> None:
    if rows < LEAST_ROWS:
        raise InputError(
            f"{path}: expected at least {LEAST_ROWS} rows, one of each class in each of three splits, got {rows}."
        )


def _weights(table: Table, name: str, rows: SplitRows) -> Tensor:
    """A column of weights, with something to weigh in each split."""
    weights = table.numbers(name)
    if (weights < 0).any():
        raise table.wrong(name, int((weights < 0).int().argmax()), "a weight of 0 or more")
    for split, chosen in rows._asdict().items():
        if not weights[chosen].any():
            raise InputError(
                f"{table.path}, column {name!r}: expected weights above 0, got only zeros in {split} rows."
            )
    return weights.float()
