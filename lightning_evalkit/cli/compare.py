"""``evalkit compare``: which numbers of two runs differ by more than chance."""

from __future__ import annotations

import json
import warnings
from math import inf, isfinite
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from jsonargparse import ArgumentParser

from lightning_evalkit.cli.saved_counts import Saved, saved_in
from lightning_evalkit.diagnosis import Table
from lightning_evalkit.errors import InputError, UndefinedWarning, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jsonargparse import Namespace

    from lightning_evalkit.evaluation.base import Evaluation
    from lightning_evalkit.intervals.comparison import Comparison

WIDTH = 80
HEADINGS = ("statistic", "A", "B", "B − A", "low", "high", "p", "B is")
STAGES = {"test": "test", "val": "validation"}
"""The stages in order of preference; the first one that both runs have is compared."""
LEAST = 0.001
"""Smaller p-values are shown as "below" this one."""


class Pair(NamedTuple):
    """The counts of two runs in one stage and dataloader."""

    name: str
    first: Saved
    second: Saved

    @property
    def evaluations(self) -> tuple[Evaluation, Evaluation]:
        """The evaluations of both runs."""
        return self.first.evaluation, self.second.evaluation

    def value(self, statistic: str) -> list[float]:
        """The values of both runs."""
        return [float(each[statistic].compute()) for each in self.evaluations]


def run(arguments: Sequence[str]) -> int:
    """Print a table of the differences between two runs, each with its interval and a verdict."""
    chosen = _parser().parse_args(list(arguments))
    from lightning_evalkit.evaluation.comparison import compare  # with torchmetrics, which --help does not need

    pair = _pair(saved_in(chosen.run_a), saved_in(chosen.run_b), chosen)
    _refuse_other(pair, chosen)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedWarning)  # the table says it
        found = compare(*pair.evaluations, _names(pair, chosen.statistics), chosen.level, chosen.margin)
        as_json = chosen.format == "json"
        print(json.dumps(_plain(found, pair), indent=2, ensure_ascii=False) if as_json else _text(found, pair, chosen))
    return 0


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="evalkit compare",
        exit_on_error=False,
        description="Compare what two runs have counted: every statistic of B minus that of A, with its interval and a "
        "verdict. Runs that counted the same rows are compared row by row. Example: evalkit compare runs/a runs/b",
    )
    parser.add_argument("run_a", type=str, help="The folder of a run, a file of counts, or a checkpoint.")
    parser.add_argument("run_b", type=str, help="The other run.")
    parser.add_argument("--stage", type=Literal["test", "val"], help="By default test, or val if a run has no test.")
    parser.add_argument("--dataloader", type=int, default=0, help="Of several dataloaders, which.")
    parser.add_argument("--statistics", type=list[str], help="Names to compare, as [accuracy,f1]; by default all.")
    parser.add_argument("--level", type=float, default=0.95, help="Confidence of the intervals and verdicts.")
    parser.add_argument("--margin", type=float, default=0.0, help="A difference that would not matter.")
    parser.add_argument("--format", type=Literal["text", "json"], default="text", help="How to print it.")
    return parser


# ---- what is compared


def _pair(one: Mapping[str, Saved], other: Mapping[str, Saved], chosen: Namespace) -> Pair:
    stages = STAGES if chosen.stage is None else (chosen.stage,)
    wanted = [f"{stage}.{chosen.dataloader}" for stage in stages]
    for name in [*wanted, *(["evaluation"] if chosen.stage is None else [])]:  # as one alone is saved
        first, second = (_named(name, each) for each in (one, other))
        if first is not None and second is not None:
            return Pair(name, first, second)
    raise InputError(
        f"expected both runs to have counted {' or '.join(wanted)} (the stage and the number of the dataloader), got "
        f"{', '.join(one)} in {chosen.run_a} and {', '.join(other)} in {chosen.run_b}: run evalkit test --run FOLDER, "
        "or choose --stage and --dataloader."
    )


def _named(name: str, saved: Mapping[str, Saved]) -> Saved | None:
    """Among several of one checkpoint, such as "val.0" and "val.0 (1)", prefer one with buckets."""
    same = [each for key, each in saved.items() if key.partition(" (")[0] == name]
    return next((each for each in same if each.evaluation.tally.counter.task.buckets), same[0] if same else None)


def _refuse_other(pair: Pair, chosen: Namespace) -> None:
    """Refuse different problems, and evaluations without samples."""
    one, other = (_problem(each) for each in pair.evaluations)
    if one != other:
        raise InputError(
            f"expected two runs of one problem, got {one} in {chosen.run_a} and {other} in {chosen.run_b}."
        )
    for each, run in zip(pair.evaluations, (chosen.run_a, chosen.run_b), strict=True):
        if not bool(each.tally.counts.total.any()):
            raise InputError(f"{pair.name} of {run} has no samples that count: all were ignored or have no weight.")


def _problem(evaluation: Any) -> str:
    """The task, and its classes or labels by name."""
    task = evaluation.tally.counter.task
    names = [str(name) for name in getattr(task, "names", None) or ()]
    number = getattr(task, "num_classes", None) or getattr(task, "num_labels", None)
    listed = f" ({', '.join(names[:5])}{', …' if len(names) > 5 else ''})" if names else ""
    several = f" of {number}{listed}" if number else ""
    return f"{type(task).__name__.lower()} classification{several}{' with weights' if task.weighted else ''}"


def _names(pair: Pair, asked: list[str] | None) -> list[str]:
    first, second = pair.evaluations
    theirs = [*second.keys(keep_base=True)]
    known = [name for name in first.keys(keep_base=True) if name in theirs]
    for name in asked or ():
        if name not in known:
            raise InputError(f"{name!r} is not among what both runs have counted: {nearest(name, known)}")
    return asked or [name for name in known if not first[name].is_threshold]


# ---- what is shown


def _text(found: Mapping[str, Comparison], pair: Pair, chosen: Namespace) -> str:
    rows = tuple(_row(name, each, pair) for name, each in found.items())
    files = [f"{letter}: {saved.file}" for letter, saved in zip("AB", pair[1:], strict=True)]
    notes = [line for note in _notes(found, pair, chosen) for line in wrap(note, WIDTH)]
    return "\n".join([*files, "", Table(HEADINGS, rows).text(), "", *notes])


def _row(name: str, each: Comparison, pair: Pair) -> tuple[str, ...]:
    values = [_shown(value, "") for value in pair.value(name)]
    differences = [_shown(value, "+") for value in (each.difference, each.low, each.high)]
    p_value = f"<{LEAST}" if each.p_value < LEAST else _shown(each.p_value, "", 3)
    return (name, *values, *differences, p_value, each.verdict)


def _shown(value: float, sign: str, digits: int = 4) -> str:
    return f"{value:{sign}.{digits}f}" if isfinite(value) else "–"


def _notes(found: Mapping[str, Comparison], pair: Pair, chosen: Namespace) -> list[str]:
    notes = [
        _how(next(iter(found.values())), pair),
        f"Low and high are the ends of {100 * chosen.level:g} % intervals of B − A, and p is Holm's over "
        f"{len(found)} statistic{'s' if len(found) > 1 else ''}.",
    ]
    sizes = {name: each.minimum_detectable for name, each in found.items() if 0 < each.minimum_detectable < inf}
    if sizes:
        name = next(iter(sizes))
        notes.append(f"So many rows find a difference in {name} of {sizes[name]:.2g} in 80 % of cases.")
    if chosen.margin:
        notes.append(f"Tied: the difference is surely less than {chosen.margin:g}.")
    reasons: dict[str, list[str]] = {}
    for name, each in found.items():
        if not isfinite(each.low):
            reasons.setdefault(each.no_interval, []).append(name)
    return [*notes, *(f"–: {', '.join(names)} has no interval: {reason}." for reason, names in reasons.items())]


def _how(each: Comparison, pair: Pair) -> str:
    """Say whether the comparison is row by row, and of how many rows."""
    one, other = (_rows(evaluation) for evaluation in pair.evaluations)
    what = STAGES.get(pair.name.partition(".")[0], "")
    data = f"rows of {what} data" if what else "rows"
    if each.paired:
        return f"Paired: both counted the same {one:,} {data}."
    return f"Not paired, so less sure: {each.reason}. A has {one:,} {data}, B {other:,}."


def _rows(evaluation: Evaluation) -> int:
    """The number of rows; for several labels, that of the label with the most."""
    buckets = evaluation.tally.evidence.buckets
    if buckets is not None:
        return buckets.samples
    counts = evaluation.tally.counts
    return int(counts.total.max())


def _plain(found: Mapping[str, Comparison], pair: Pair) -> dict[str, Any]:
    first = next(iter(found.values()))
    fields = ("difference", "low", "high", "p_value", "verdict", "minimum_detectable", "n", "no_interval")
    statistics = {
        name: {
            **dict(zip("ab", map(_finite, pair.value(name)), strict=True)),
            **{field: _finite(getattr(each, field)) for field in fields},
        }
        for name, each in found.items()
    }
    files = [str(each.file) for each in pair[1:]]
    return {
        "compared": pair.name,
        "files": files,
        "paired": first.paired,
        "reason": first.reason,
        "statistics": statistics,
    }


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not isfinite(value) else value
