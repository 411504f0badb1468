"""``evalkit explain``: why two numbers of a confusion matrix are equal, or how far and why they are apart."""

from __future__ import annotations

import sys
from math import nan
from typing import TYPE_CHECKING, Any, Literal

from jsonargparse import ArgumentParser, Namespace

from lightning_evalkit.counts import Counts
from lightning_evalkit.diagnosis import Finding, explain
from lightning_evalkit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

CELLS = ("tp", "fp", "fn", "tn")
LONGEST = 300
"""Digits of a count that still has a float; no data set comes near."""


def run(arguments: Sequence[str]) -> int:
    """Print what explains two statistics of a confusion matrix."""
    chosen = _parser().parse_args(arguments)
    _show(explain(_counts(chosen), chosen.first, chosen.second, chosen.zero_division), chosen.format)
    return 0


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="evalkit explain",
        description="Say whether two statistics of a confusion matrix are equal, by which identity, and at which share "
        "of positives they part. Example: evalkit explain --tp 40 --fp 10 --fn 10 --tn 40",
    )
    words = {"tp": "True positives.", "fp": "False positives.", "fn": "False negatives.", "tn": "True negatives."}
    for cell, meaning in words.items():
        parser.add_argument(f"--{cell}", type=int, help=meaning)
    parser.add_argument("--counts", type=str, help="All four at once, as tp,fp,fn,tn: --counts 40,10,10,40")
    parser.add_argument("--first", type=str, default="accuracy", help="One statistic.")
    parser.add_argument("--second", type=str, default="f1", help="The other.")
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
