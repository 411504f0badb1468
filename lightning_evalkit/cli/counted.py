"""Options for counted data: four counts, a confusion matrix, or labels of each sample."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from lightning_evalkit.cli.label_tables import read_labels, read_matrix
from lightning_evalkit.counts import Counts
from lightning_evalkit.errors import InputError

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser, Namespace

    from lightning_evalkit.cli.label_tables import Classes

CELLS = ("tp", "fp", "fn", "tn")
LONGEST = 300
"""The most digits of a count that a float can hold; no data set comes near."""


def counted(chosen: Namespace) -> Counts | Classes:
    """Return the counts, or the labels, that the options give."""
    if chosen.targets is not None and chosen.labels is None:
        raise InputError("expected --labels, the file of predicted labels, beside --targets.")
    if chosen.matrix is None and chosen.labels is None:
        return _counts(chosen)
    given = options_given(chosen)
    if len(given) > 1:
        raise InputError(f"expected one of --counts, --matrix and --labels, got {' and '.join(given)}.")
    return read_matrix(chosen.matrix, chosen.task) if chosen.matrix is not None else read_labels(chosen)


def options_given(chosen: Namespace) -> list[str]:
    """The given options among these."""
    return [f"--{name}" for name in (*CELLS, "counts", "matrix", "labels") if chosen[name] is not None]


def add_counted(parser: ArgumentParser) -> None:
    """Add the options to a parser."""
    words = {"tp": "True positives.", "fp": "False positives.", "fn": "False negatives.", "tn": "True negatives."}
    for cell, meaning in words.items():
        parser.add_argument(f"--{cell}", type=int, help=meaning)
    parser.add_argument("--counts", type=str, help="All four at once, as tp,fp,fn,tn: --counts 40,10,10,40")
    parser.add_argument(
        "--matrix",
        type=str,
        help="A confusion matrix, targets in rows and predictions in columns, as a CSV file or as 50,3;4,43. One of "
        "two rows is binary, with the negatives first.",
    )
    parser.add_argument(
        "--labels",
        type=str,
        help="A file with a row for each sample, as `evalkit predict` writes: targets and labels, as CSV, Parquet, "
        "JSON lines or NumPy's .npz.",
    )
    parser.add_argument(
        "--targets",
        type=str,
        help="A second file, with the targets; then both may be .npy files, or .txt files with a label on each line.",
    )
    parser.add_argument(
        "--target", type=str, default="target", help="Its column of targets; of many labels target_<label>."
    )
    parser.add_argument("--prediction", type=str, default="label", help="Its column of predicted labels.")
    parser.add_argument(
        "--positive", type=str, help="Which of two labels is the positive one, if they are not 0 and 1."
    )
    parser.add_argument(
        "--task", type=Literal["auto", "binary", "multiclass"], default="auto", help="What two classes are taken for."
    )


def _counts(chosen: Namespace) -> Counts:
    given: dict[str, Any] = {cell: chosen[cell] for cell in CELLS if chosen[cell] is not None}
    if chosen.counts is not None:
        if given:
            raise InputError(
                f"expected either --counts or --{' --'.join(CELLS)}, got --counts and --{next(iter(given))}."
            )
        parts = chosen.counts.split(",")
        if len(parts) != len(CELLS) or not all(_is_count(part.strip()) for part in parts):
            raise InputError(
                f"expected --counts tp,fp,fn,tn, four whole numbers such as 40,10,10,40, got {chosen.counts!r}."
            )
        return Counts(*map(int, parts))
    missing = [f"--{cell}" for cell in CELLS if cell not in given]
    if missing:
        raise InputError(f"expected all four counts, {' '.join(missing)} missing; or give --counts tp,fp,fn,tn.")
    return Counts(**given)


def _is_count(part: str) -> bool:
    return part.isascii() and part.isdigit() and len(part) <= LONGEST
