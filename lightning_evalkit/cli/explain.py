"""``evalkit explain``: why two numbers of a confusion matrix are equal, or how far apart they are and why."""

from __future__ import annotations

import sys
from math import nan
from typing import TYPE_CHECKING, Literal

from jsonargparse import ArgumentParser, Namespace

from lightning_evalkit.cli.counted import add_counted, counted
from lightning_evalkit.counts import Counts
from lightning_evalkit.diagnosis import Finding, explain

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT = ("accuracy", "f1")
"""The default for several classes is accuracy and f1/micro, for labels exact_match and hamming_accuracy."""


def run(arguments: Sequence[str]) -> int:
    """Print the explanation of two statistics of a confusion matrix."""
    chosen = _parser().parse_args(arguments)
    _show(_finding(chosen), chosen.format)
    return 0


def _finding(chosen: Namespace) -> Finding:
    """Explain four counts, a file or a matrix."""
    table = counted(chosen)
    first, second = chosen.first, chosen.second
    if second is not None:
        first = first or DEFAULT[0]
    if isinstance(table, Counts):
        return explain(table, first, second, chosen.zero_division)
    names = () if (first, second) == DEFAULT else tuple(name for name in (first, second) if name is not None)
    return table.explained(names, chosen.zero_division)


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="evalkit explain",
        exit_on_error=False,
        description="Say whether two statistics of a confusion matrix are equal, by which identity, and at which share "
        "of positives they part; for many classes or labels likewise. Example: evalkit explain --tp 40 --fp 10 "
        "--fn 10 --tn 40",
    )
    add_counted(parser)
    parser.add_argument("--first", type=str, help="One statistic. Alone: what it says and hides.")
    parser.add_argument("--second", type=str, help="The other; without both they are accuracy and f1.")
    parser.add_argument(
        "--zero_division", type=float, default=nan, help="What stands for 0/0; by default nothing does."
    )
    parser.add_argument("--format", type=Literal["text", "json", "markdown"], default="text", help="How to print it.")
    return parser


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
