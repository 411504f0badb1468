"""``evalkit explain``: why two numbers of a confusion matrix are equal, or how far and why they are apart."""

from __future__ import annotations

import sys
from math import nan
from typing import TYPE_CHECKING, Any, Literal

from jsonargparse import ArgumentParser, Namespace

from lightning_evalkit.cli.label_tables import read_labels, read_matrix
from lightning_evalkit.counts import Counts
from lightning_evalkit.diagnosis import Finding, explain
from lightning_evalkit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

CELLS = ("tp", "fp", "fn", "tn")
DEFAULT = ("accuracy", "f1")
"""Of many classes they are accuracy and f1/micro, of many labels exact_match and hamming_accuracy."""
LONGEST = 300
"""Digits of a count that still has a float; no data set comes near."""


def run(arguments: Sequence[str]) -> int:
    """Print what explains two statistics of a confusion matrix."""
    chosen = _parser().parse_args(arguments)
    _show(_finding(chosen), chosen.format)
    return 0


def _finding(chosen: Namespace) -> Finding:
    """Of four counts, or of what a file or a matrix holds."""
    if chosen.matrix is None and chosen.labels is None:
        return explain(_counts(chosen), chosen.first, chosen.second, chosen.zero_division)
    given = [f"--{name}" for name in (*CELLS, "counts", "matrix", "labels") if chosen[name] is not None]
    if len(given) > 1:
        raise InputError(f"expected one of --counts, --matrix and --labels, got {' and '.join(given)}.")
    table = read_matrix(chosen.matrix, chosen.task) if chosen.matrix is not None else read_labels(chosen)
    if isinstance(table, Counts):
        return explain(table, chosen.first, chosen.second, chosen.zero_division)
    names = () if (chosen.first, chosen.second) == DEFAULT else (chosen.first, chosen.second)
    return table.explained(names, chosen.zero_division)


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="evalkit explain",
        description="Say whether two statistics of a confusion matrix are equal, by which identity, and at which share "
        "of positives they part; for many classes or labels likewise. Example: evalkit explain --tp 40 --fp 10 "
        "--fn 10 --tn 40",
    )
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
        help="A CSV file with a row for each sample, as `evalkit predict` writes: targets and labels.",
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
    parser.add_argument("--first", type=str, default=DEFAULT[0], help="One statistic.")
    parser.add_argument("--second", type=str, default=DEFAULT[1], help="The other.")
    parser.add_argument(
        "--zero_division", type=float, default=nan, help="What stands for 0/0; by default nothing does."
    )
    parser.add_argument("--format", type=Literal["text", "json", "markdown"], default="text", help="How to print it.")
    return parser


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


def _show(finding: Finding, form: str) -> None:
    if form == "json":
        print(finding.json())
    elif form == "markdown":
        print(finding.markdown())
    elif sys.stdout.isatty():
        from lightning_evalkit.sinks.terminal import show

        show(finding)
    else:
        print(finding)
