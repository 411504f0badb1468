"""``evalkit sweep``: a grid of values over any configuration, cell by cell, into one table.

Every finished cell is a file, written atomically. The same command later runs only missing cells, and cells whose
dependencies have changed. A cell that fails is reported at the end and does not stop the others.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import sys
import time
import traceback
from argparse import RawDescriptionHelpFormatter
from collections import Counter, defaultdict
from itertools import product
from math import isfinite, nan
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

import yaml  # type: ignore[import-untyped]

from lightning_evalkit.cli.cells import Cell, Started, as_text
from lightning_evalkit.cli.configurations import BASE, located
from lightning_evalkit.cli.dependencies import texts_of, texts_of_words
from lightning_evalkit.cli.endless import read_yaml, refuse_endless_words
from lightning_evalkit.cli.messages import OneLineParser, WrongError
from lightning_evalkit.diagnosis import Table
from lightning_evalkit.sinks.files import write_csv, write_text
from lightning_evalkit.sinks.terminal import progress, show_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lightning_evalkit.cli.dependencies import Named

SEEDS = ("seed", "seed_everything")
"""Options whose values are repetitions: the summary averages over them."""


def run(arguments: Sequence[str]) -> int:
    """Run every cell that is not finished, then write and show the table."""
    chosen, passed_on = _parser().parse_known_args(arguments)
    out = Path(chosen.out)
    cells = _cells(chosen.config or [], chosen.grid, passed_on, out)
    out.mkdir(parents=True, exist_ok=True)
    failed: dict[Cell, str] = {}
    try:
        _run_all(cells, failed)
    finally:
        measured = {cell: cell.stored().metrics for cell in cells}
        results = {cell: values for cell, values in measured.items() if values is not None}
        _tell(len(cells) - len(results), len(cells), failed)
        unknown = _unknown(results, chosen.metrics)
        if results and not unknown:
            _report(results, chosen.metrics, out)
    if unknown:
        raise WrongError(unknown)
    return 1 if failed else 0


def _tell_again(missing: list[Cell], number: int) -> None:
    """Name stored results that are outdated, and why."""
    for reason, times in Counter(cell.stored().why_not for cell in missing).items():
        if reason:
            print(f"{times} of {number} cells {'is' if times == 1 else 'are'} run again: {reason}.", file=sys.stderr)


def _tell(missing: int, number: int, failed: dict[Cell, str]) -> None:
    """Name unfinished and failed cells, with the reasons."""
    if missing:
        print(f"{missing} of {number} cells are not finished; the same command runs only those.", file=sys.stderr)
    for cell, reason in failed.items():
        print(f"failed: {cell}: {reason} ({cell.folder / 'failure.txt'})", file=sys.stderr)


def _unknown(results: dict[Cell, dict[str, float]], chosen: list[str] | None) -> str:
    logged = dict.fromkeys(name for measured in results.values() for name in measured)
    wrong = [name for name in chosen or [] if name not in logged]
    return f"there is no metric {wrong[0]!r}; logged are {', '.join(logged)}." if wrong and results else ""


def _parser() -> OneLineParser:
    parser = OneLineParser(
        prog="evalkit sweep",
        description="Run a grid of values over any configuration of `evalkit fit` (training, then\n"
        "test), and put the results into one table. Finished cells are not run again\n"
        "unless a configuration, a file or folder that an option names, own code or a\n"
        "version has changed; every other option is passed on to each run.",
        epilog="Example:\n  evalkit sweep --config accuracy_equals_f1/imbalanced \\\n"
        "      --grid data.prevalence=0.5,0.2,0.1,0.01 --grid seed_everything=1,2,3",
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("-c", "--config", action="append", help="A configuration; may be given several times.")
    parser.add_argument(
        "--grid",
        action="append",
        required=True,
        metavar="KEY=VALUE,VALUE,...",
        help="The values of an option; several grids are combined. Results are summarised over seeds.",
    )
    parser.add_argument("--out", default="runs/sweep", help="Where results are kept (default: %(default)s).")
    parser.add_argument(
        "--metrics",
        type=lambda names: names.split(","),
        help="Logged numbers to summarise, separated by commas (default: all of the test, else of validation).",
    )
    return parser


# ---- the grid


def _cells(configurations: list[str], grids: list[str], passed_on: list[str], out: Path) -> list[Cell]:
    files = [located(configuration) for configuration in configurations]
    refuse_endless_words(passed_on)
    axes = dict(_axis(grid) for grid in grids)
    if len(axes) < len(grids):
        raise WrongError("expected one --grid for each option, got an option twice.")
    if any(word.partition("=")[0] == "--trainer.devices" for word in passed_on):
        raise WrongError("a sweep runs each cell in one process, got --trainer.devices: use `evalkit fit` for several.")
    shared = [f"--config={file}" for file in files] + passed_on
    contents = [Path(file).read_text(encoding="utf-8") for file in [str(BASE), *files]]
    points = [dict(zip(axes, point, strict=True)) for point in product(*axes.values())]
    named = [*texts_of([yaml.safe_load(content) for content in contents]), *texts_of_words(passed_on)]
    return [_cell(values, shared, [*contents, *passed_on], named, out) for values in points]


def _axis(grid: str) -> tuple[str, list[Any]]:
    key, equals, values = grid.partition("=")
    try:
        parsed = read_yaml(f"[{values}]", f"--grid {grid}") if equals and key and values.strip() else None
    except yaml.YAMLError:
        parsed = None
    if not parsed:
        raise WrongError(f"expected --grid key=value,value,..., such as data.prevalence=0.5,0.1, got {grid!r}.")
    if len({as_text(value) for value in parsed}) < len(parsed):
        raise WrongError(f"expected every value of {key} once, got one twice: {values}.")
    return key.lstrip("-"), parsed


def _cell(values: dict[str, Any], shared: list[str], identity: list[str], texts: list[Named], out: Path) -> Cell:
    """Make a cell whose folder name shows its values and changes with everything that the result depends on."""
    named = "_".join(f"{key.rpartition('.')[2]}={as_text(value)}" for key, value in values.items())
    digest = hashlib.sha256(json.dumps([identity, values], default=str).encode()).hexdigest()[:8]
    folder = out / "cells" / (re.sub(r"[^\w.=+-]+", "-", named)[:80] + f"_{digest}")
    options = [f"--{key}={as_text(value)}" for key, value in values.items()]
    fixed = ("--trainer.devices=1", f"--trainer.default_root_dir={folder}")
    return Cell(values, (*_ordered([*shared, *options]), *fixed), folder, (*texts, *texts_of_words(options)))


def _ordered(words: list[str]) -> list[str]:
    """Order the options: classes before their arguments."""
    options: list[list[str]] = []
    for word in words:
        if word.startswith("--") or not options:
            options.append([word])
        else:
            options[-1].append(word)
    return [word for option in sorted(options, key=_depth) for word in option]


def _depth(option: list[str]) -> int:
    key = option[0].partition("=")[0]
    return -1 if key == "--config" else key.count(".")


# ---- running


def _run_all(cells: list[Cell], failed: dict[Cell, str]) -> None:
    started = time.time()
    missing = [cell for cell in cells if cell.stored().metrics is None]
    _tell_again(missing, len(cells))
    with progress(len(cells)) as tell:
        for place, cell in enumerate(cells):
            tell(place, str(cell))
            if cell in missing:
                _run(cell, started, failed, lambda share, place=place, cell=cell: tell(place + share, str(cell)))


def _run(cell: Cell, sweep: float, failed: dict[Cell, str], tell: Any) -> None:
    from lightning_evalkit.cli.nested_runs import fitted

    started = Started(sweep, time.time(), cell.inputs())
    _empty(cell.folder)
    try:
        ended, metrics = fitted(cell.arguments, tell)
    except Exception as error:
        failed[cell] = " ".join(str(error).split()) or type(error).__name__
        write_text(cell.folder / "failure.txt", traceback.format_exc())
        return
    cell.write(metrics, started, ended)


def _empty(folder: Path) -> None:
    """Remove the files of an unfinished or outdated attempt."""
    if folder.exists():
        if not os.access(folder, os.W_OK | os.X_OK):  # before other files are gone
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
        shutil.rmtree(folder)
    folder.mkdir(parents=True)


# ---- the table


def _report(results: dict[Cell, dict[str, float]], chosen: list[str] | None, out: Path) -> None:
    names = _names(results, chosen)
    keys = list(next(iter(results)).values)
    rows = [[*cell.values.values(), *(measured.get(name, "") for name in names)] for cell, measured in results.items()]
    write_csv(out / "results.csv", [*keys, *names], rows)
    summary, table = _summary(results, keys, names)
    write_csv(out / "summary.csv", *summary)
    write_text(out / "summary.md", table.markdown() + "\n")
    show_table(table)
    print(f"Tables: {out / 'results.csv'}, {out / 'summary.csv'}, {out / 'summary.md'}")
    print(f"Curves: tensorboard --logdir {out / 'cells'}")


def _names(results: dict[Cell, dict[str, float]], chosen: list[str] | None) -> list[str]:
    logged = list(dict.fromkeys(name for measured in results.values() for name in measured))
    for prefix in ("test/", "val/", ""):
        found = [name for name in logged if name.startswith(prefix)]
        if found:
            return chosen or found
    return chosen or []


def _summary(
    results: dict[Cell, dict[str, float]], keys: list[str], names: list[str]
) -> tuple[tuple[list[str], list[list[Any]]], Table]:
    """Mean and standard deviation over seeds, as rows for a file and as a table for people."""
    shown = [key for key in keys if key.rpartition(".")[2] not in SEEDS]
    groups: dict[tuple[str, ...], list[dict[str, float]]] = defaultdict(list)
    for cell, measured in results.items():
        groups[tuple(as_text(cell.values[key]) for key in shown)].append(measured)
    rows: list[list[Any]] = []
    lines: list[tuple[str, ...]] = []
    for point, repeated in groups.items():
        columns = [[measured[name] for measured in repeated if name in measured] for name in names]
        spreads = [
            (fmean(column), _deviation(column) if len(column) > 1 else None) if column else None for column in columns
        ]
        rows.append([*point, len(repeated), *(part for spread in spreads for part in spread or (None, None))])
        lines.append((*point, str(len(repeated)), *map(_with_spread, spreads)))
    headings = [*shown, "runs", *(f"{name} {part}" for name in names for part in ("mean", "deviation"))]
    return (headings, rows), Table((*shown, "runs", *names), tuple(lines))


def _deviation(values: list[float]) -> float:
    """The standard deviation; Python's own function fails on NaN."""
    return stdev(values) if all(map(isfinite, values)) else nan


def _with_spread(spread: tuple[float, float | None] | None) -> str:
    if spread is None:
        return ""
    mean, deviation = spread
    return f"{mean:.4f}" if deviation is None else f"{mean:.4f} ± {deviation:.4f}"
