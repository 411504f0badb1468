"""Reads confusion matrices and files of labels for the command line."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from lightning_evalkit.cli.label_files import columns_of, in_short, labels_of, rows_of
from lightning_evalkit.counts import Counts
from lightning_evalkit.errors import InputError, nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jsonargparse import Namespace
    from torch import Tensor

    from lightning_evalkit.cli.label_files import Columns
    from lightning_evalkit.diagnosis import Finding
    from lightning_evalkit.evaluation.base import Evaluation
    from lightning_evalkit.evaluation.counted_once import CountedClasses, CountedLabels

MOST = 100_000_000
"""The most samples of a matrix, each of which is counted."""
MATRIX = 1_000
"""The most classes whose whole confusion matrix is kept, which intervals of averages need."""
BUCKETS = 1024
"""The number of buckets: labels of a sample depend on each other, so samples are counted in buckets."""
YES_NO = {"0": 0, "1": 1, "false": 0, "true": 1}


@dataclass(frozen=True)
class Classes:
    """Predictions and targets of several classes."""

    preds: Tensor
    target: Tensor
    names: Sequence[str]

    def evaluation(self) -> Evaluation:
        """Count them, for a diagnosis."""
        from lightning_evalkit.evaluation import MulticlassEvaluation

        kept = len(self.names) <= MATRIX
        evaluation = MulticlassEvaluation("labels", len(self.names), self.names, confusion_matrix=kept)
        evaluation.update(self.preds, self.target)
        return evaluation

    def explained(self, names: Sequence[str], zero_division: float) -> Finding:
        """Explain why two of their numbers are equal or not, or what one says."""
        return self._counted(names, zero_division).explain(*names)

    def _counted(self, names: Sequence[str], zero_division: float) -> CountedClasses | CountedLabels:
        """Count them for an explanation, which takes half the time without the evaluation and torchmetrics."""
        from lightning_evalkit.evaluation.counted_once import CountedClasses

        return CountedClasses(self.preds, self.target, self.names, len(self.names) <= MATRIX, zero_division)


@dataclass(frozen=True)
class Labels(Classes):
    """Predictions and targets of several labels."""

    def evaluation(self) -> Evaluation:
        """Count them, for a diagnosis."""
        from lightning_evalkit.evaluation import MultilabelEvaluation

        evaluation = MultilabelEvaluation("labels", len(self.names), self.names, buckets=BUCKETS)
        evaluation.update(self.preds, self.target, sample=torch.arange(len(self.target)))
        return evaluation

    def _counted(self, names: Sequence[str], zero_division: float) -> CountedLabels:
        from lightning_evalkit.evaluation.counted_once import CountedLabels

        sample = torch.arange(len(self.target))
        return CountedLabels(self.preds, self.target, self.names, sample, BUCKETS, names, zero_division)


# ---- a matrix


def read_matrix(given: str, task: str) -> Counts | Classes:
    """A matrix from a CSV file, with or without names, or from a text such as 50,3;4,43."""
    is_file = Path(given).is_file()
    rows = rows_of(Path(given)) if is_file else [row.split(",") for row in given.split(";")]
    names, cells = _without_names(rows or [[""]]) if is_file else ([], [[cell.strip() for cell in row] for row in rows])
    size = len(cells)
    if not is_file and "," not in given and Path(given).suffix:
        raise InputError(f"expected a confusion matrix as a CSV file or as 50,3;4,43; there is no file {given!r}.")
    if size < 2 or any(len(row) != size for row in cells) or not all(map(_is_count, chain(*cells))):
        raise InputError(
            f"expected a square confusion matrix of whole numbers, as a CSV file or as 50,3;4,43, got {given!r}."
        )
    matrix = [[int(cell) for cell in row] for row in cells]
    if size == 2 and task != "multiclass":
        (tn, fp), (fn, tp) = matrix
        return Counts(tp=tp, fp=fp, fn=fn, tn=tn)
    if task == "binary":
        raise InputError(f"expected a matrix of two rows, negatives first, for a binary task, got {size} rows.")
    if sum(map(sum, matrix)) > MOST:
        raise InputError(f"expected at most {MOST:,} samples in a matrix of several classes.")
    counts, places = torch.tensor(matrix).flatten(), torch.arange(size)
    target, preds = places.repeat_interleave(size), places.repeat(size)
    return Classes(preds.repeat_interleave(counts), target.repeat_interleave(counts), names or [*map(str, range(size))])


def _without_names(rows: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """The names of a first line or first column, if there are any, and the cells."""
    rows = [[cell.strip() for cell in row] for row in rows]
    names: list[str] = []
    corner = not rows[0][0] or (len(rows) == len(rows[0]) and not _is_count(rows[0][0]))
    if len(rows) == len(rows[0]) + 1 or corner or not all(map(_is_count, rows[0][1:])):
        names, *rows = rows
    if rows and len(rows[0]) == len(rows) + 1:
        names = _of_both([row[0] for row in rows], names[-len(rows) :])
        rows = [row[1:] for row in rows]
    if names and not corner and all(map(_is_count, names)) and names != [*map(str, range(len(names)))]:
        raise InputError(
            f"expected a square confusion matrix, got one that is square only without {', '.join(names)}: numbers are "
            "read as names of classes if they are 0, 1, ..., or if the first cell is empty or a word."
        )
    return names, rows


def _of_both(targets: list[str], predicted: list[str]) -> list[str]:
    """The names before the rows and over the columns: the same, or on one side 0, 1, ... or nothing."""
    numbers = [*map(str, range(len(targets)))]
    if predicted in ([], targets) or (predicted == numbers and not {*targets} & {*numbers}):
        return targets
    if targets == numbers and not {*predicted} & {*numbers}:
        return predicted
    raise InputError(
        "expected the same names in the same order before the rows and over the columns, got "
        f"{','.join(targets)} and {','.join(predicted)}."
    )


def _is_count(cell: str) -> bool:
    return cell.isascii() and cell.isdigit() and len(cell) <= 18


# ---- labels


def read_labels(chosen: Namespace) -> Counts | Classes:
    """Targets and predicted labels of a file with one row for each sample, or of two files."""
    path = Path(chosen.labels)
    columns = columns_of(path, chosen.prediction)
    if chosen.targets is not None:
        columns = _beside(path, columns, Path(chosen.targets), chosen)
    several = [name.removeprefix(f"{chosen.target}_") for name in columns if name.startswith(f"{chosen.target}_")]
    if chosen.target not in columns and len(several) > 1:
        return _several(path, columns, several, chosen)
    elsewhere = "." if chosen.targets else ", --targets FILE another file."
    target = labels_of(path, columns, chosen.target, f" --target NAME takes another column{elsewhere}")
    preds = labels_of(path, columns, chosen.prediction, " --prediction NAME takes another column.")
    return _one(path, preds, target, chosen)


def _beside(path: Path, columns: Columns, other: Path, chosen: Namespace) -> Columns:
    """Join the columns of two files whose rows are the same samples."""
    targets = columns_of(other, chosen.target)
    sizes = [len(next(iter(each.values()))) for each in (columns, targets)]
    if sizes[0] != sizes[1]:
        raise InputError(f"expected as many rows, got {sizes[0]:,} in {path} and {sizes[1]:,} in {other}.")
    _refuse_other_samples(path, columns, other, targets, (chosen.target, chosen.prediction))
    wanted = {name: column for name, column in targets.items() if _is_of(name, (chosen.target,))}
    return {**targets, **columns, **wanted}


def _refuse_other_samples(path: Path, columns: Columns, other: Path, targets: Columns, own: Sequence[str]) -> None:
    """Refuse rows that differ in a column which both files have, such as an id."""
    for both in sorted(name for name in {*columns} & {*targets} if not _is_of(name, own)):
        pairs = enumerate(zip(in_short(columns[both]), in_short(targets[both]), strict=True), 1)
        for row, (one, another) in pairs:
            if one != another:
                raise InputError(
                    f"expected the same samples in the same order, but in row {row} {path} has {both} {one!r} "
                    f"and {other} {another!r}: sort both files by {both}."
                )


def _is_of(name: str, kinds: Sequence[str]) -> bool:
    """Whether a column is one of these, or one of its labels."""
    return any(name == kind or name.startswith(f"{kind}_") for kind in kinds)


def _several(path: Path, columns: Columns, names: list[str], chosen: Namespace) -> Labels:
    read = [
        torch.tensor([_yes_no(path, columns, f"{kind}_{name}") for name in names]).T
        for kind in (chosen.prediction, chosen.target)
    ]
    return Labels(read[0], read[1], names)


def _yes_no(path: Path, columns: Columns, name: str) -> list[int]:
    values = labels_of(path, columns, name)
    wrong = next((value for value in values if value.lower() not in YES_NO), None)
    if wrong is not None:
        raise InputError(f"{path}, column {name!r}: expected 0 or 1 in every label, got {wrong!r}.")
    return [YES_NO[value.lower()] for value in values]


def _one(path: Path, preds: list[str], target: list[str], chosen: Namespace) -> Counts | Classes:
    """Two labels are binary unless declared otherwise; more are classes, sorted as numbers if all are numbers."""
    known = {*preds, *target}
    names = sorted(known, key=(lambda name: (int(name), name)) if all(map(_is_count, known)) else None)
    if chosen.positive is None and {name.lower() for name in names} <= YES_NO.keys() and chosen.task != "multiclass":
        return _yes_or_no([YES_NO[name.lower()] for name in preds], [YES_NO[name.lower()] for name in target])
    if chosen.positive is not None:
        if chosen.positive not in known:
            raise InputError(f"{path}: expected --positive to be a label: {nearest(chosen.positive, names)}")
        return _yes_or_no([int(name == chosen.positive) for name in preds], [int(n == chosen.positive) for n in target])
    if len(names) == 2 and chosen.task != "multiclass":
        raise InputError(f"{path}: expected --positive to say which label is positive, such as --positive {names[1]}.")
    if len(names) < 2 or chosen.task == "binary":
        raise InputError(
            f"{path}: expected {'two' if chosen.task == 'binary' else 'several'} labels, got {len(names)}."
        )
    place = {name: number for number, name in enumerate(names)}
    coded = [torch.tensor([place[name] for name in each]) for each in (preds, target)]
    return Classes(coded[0], coded[1], names)


def _yes_or_no(preds: list[int], target: list[int]) -> Counts:
    pairs = [*zip(preds, target, strict=True)]
    return Counts(tp=pairs.count((1, 1)), fp=pairs.count((1, 0)), fn=pairs.count((0, 1)), tn=pairs.count((0, 0)))
