"""Explains why two statistics of the same counts are equal or differ, with exact numbers, never rounded ones."""

from __future__ import annotations

from fractions import Fraction
from math import isfinite, nan
from typing import Any

from lightning_evalkit.counts import Counts
from lightning_evalkit.diagnosis.finding import Finding, Table
from lightning_evalkit.diagnosis.how_sure import with_intervals
from lightning_evalkit.diagnosis.identities import NO_IDENTITY, identity_of
from lightning_evalkit.diagnosis.one_number import constant_prediction, explain_one
from lightning_evalkit.diagnosis.value import Value, plain_cells
from lightning_evalkit.errors import InputError
from lightning_evalkit.intervals import at_prevalence, crossing_prevalence, table_difference, table_interval
from lightning_evalkit.statistics import find

PREVALENCES = (Fraction(1, 2), Fraction(1, 10), Fraction(1, 100))
NEAR = 0.001
"""Differences up to this share of the larger number are called nearly equal."""
MOVES = (("tp", "fn"), ("fn", "tp"), ("tn", "fp"), ("fp", "tn"))
"""The cell that a sample leaves, and the one that it enters, when its prediction changes."""


def explain(counts: Counts, first: str | None = None, second: str | None = None, zero_division: float = nan) -> Finding:
    """Explain why two statistics are equal or differ; with one name, explain what that statistic shows and hides.

    The default names are accuracy and F1. ``zero_division`` replaces 0/0, as in the evaluation whose numbers are
    explained.

    >>> from lightning_evalkit.counts import Counts
    >>> explain(Counts(tp=40, fp=10, fn=10, tn=40)).headline
    'accuracy and f1 are equal: both are 0.8.'
    >>> explain(Counts(tp=0, fp=0, fn=10, tn=90), "accuracy").headline
    'Nothing was predicted positive: always saying no gives accuracy 0.9 here.'
    """
    if first is not None and second is None:
        return explain_one(counts, first, zero_division)
    first, second = first or "accuracy", second or "f1"
    finding, exact = compared(counts, first, second, zero_division), counts.exact()
    if finding.code == "undefined" or not all(isinstance(cell, int) for cell in exact.cells):  # weights are no samples
        return finding
    found = {name: table_interval(exact, find(name)) for name in (first, second)}
    return with_intervals(finding, found, table_difference(exact, find(first), find(second)))


def compared(counts: Counts, first: str, second: str, zero_division: float) -> Finding:
    """Compare two statistics of one table, without their intervals."""
    one, other = find(first), find(second)
    if one == other:
        raise InputError(f"expected two different statistics, got {first!r} twice.")
    counts = counts.exact()
    a, b = (Value(each, counts, zero_division) for each in (one, other))
    defined = a.defined and b.defined
    identity = identity_of(counts, one.name, other.name) or NO_IDENTITY
    reasons = identity.reasons if defined else tuple(reason for value in (a, b) for reason in value.why_undefined())
    if constant := constant_prediction(counts):
        reasons = (f"{constant} gives the same numbers.", *reasons)
    return Finding(
        code=identity.code if defined else "undefined",
        headline=_headline(a, b),
        reasons=reasons,
        table=_at_other_prevalences(counts, a, b),
        evidence=_evidence(counts, a, b),
    )


def _headline(a: Value, b: Value) -> str:
    names = f"{a.statistic.name} and {b.statistic.name}"
    if not (a.reported and b.reported):
        return f"{names} cannot be compared: {a.statistic.name} is {a}, {b.statistic.name} is {b}."
    stands = "" if a.defined and b.defined else f", where zero_division = {a.zero_division:g} stands for 0/0"
    gap = a.minus(b)
    if gap == 0:
        return f"{names} are equal: both are {a}{stands}."
    near = is_near(a.number, b.number)
    is_small = not near and _closed_by_one_sample(a, b, gap)
    small = "; one changed prediction would close or reverse the gap" if is_small else ""
    return f"{names} {differ(near or is_small)} by {abs(gap):.6g}: {a} and {b}{stands}{small}."


def is_near(a: float, b: float) -> bool:
    """Whether two numbers that are not equal are within a thousandth of the larger one."""
    return abs(a - b) <= NEAR * max(abs(a), abs(b))


def differ(near: bool) -> str:
    """The words of a headline for two numbers that differ, perhaps by less than one sample."""
    return "are nearly equal and differ" if near else "differ"


def _closed_by_one_sample(a: Value, b: Value, gap: float) -> bool:
    """Whether changing the prediction of one sample would close or reverse the gap; weights are no samples."""
    cells = dict(zip(("tp", "fp", "fn", "tn"), a.counts.cells, strict=True))
    if not all(isinstance(cell, int) for cell in cells.values()):
        return False
    for one, other in MOVES:
        if cells[one]:
            moved = Counts(**{**cells, one: cells[one] - 1, other: cells[other] + 1})
            there = a.at(moved), b.at(moved)
            if all(value.reported for value in there) and gap * there[0].minus(there[1]) <= 0:
                return True
    return False


def _at_other_prevalences(counts: Counts, a: Value, b: Value) -> Table | None:
    if not (counts.positives and counts.negatives):
        return None
    shares = [("here", counts)] + [(f"{float(p):.0%}", at_prevalence(counts, p)) for p in PREVALENCES]
    rows = [(name, str(a.at(there)), str(b.at(there))) for name, there in shares]
    return Table(("positives", a.statistic.name, b.statistic.name), tuple(rows))


def _evidence(counts: Counts, a: Value, b: Value) -> dict[str, Any]:
    about_f1 = {a.statistic.name, b.statistic.name} == {"accuracy", "f1"}
    crossing = crossing_prevalence(counts) if about_f1 else None
    both = a.reported and b.reported
    gap = a.minus(b) if both else None
    projected = {}
    if counts.positives and counts.negatives:
        for p in PREVALENCES:
            there = at_prevalence(counts, p)
            projected[f"{float(p):g}"] = {v.statistic.name: v.at(there).plain() for v in (a, b)}
    return {
        "counts": plain_cells(counts),
        "values": {v.statistic.name: v.plain() for v in (a, b)},
        "equal": gap == 0 if both else None,
        "gap": gap if gap is not None and isfinite(gap) else None,
        "crossing_prevalence": None if crossing is None else float(crossing),
        "at_prevalence": projected,
    }
