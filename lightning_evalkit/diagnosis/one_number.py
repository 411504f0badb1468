"""Explains one number: how it is computed, what classifiers that ignore their inputs reach, what it does not show."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite, nan
from typing import TYPE_CHECKING, Any

from lightning_evalkit.counts import Counts
from lightning_evalkit.diagnosis.baselines import always, at_random
from lightning_evalkit.diagnosis.finding import Finding, Table
from lightning_evalkit.diagnosis.value import Value, in_words, numbered, plain_cells, why_undefined
from lightning_evalkit.intervals import table_interval
from lightning_evalkit.statistics import find

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lightning_evalkit.intervals import Interval
    from lightning_evalkit.statistics import Statistic

CELLS = {"tp": "true positives", "fp": "false positives", "fn": "false negatives", "tn": "true negatives"}
HOW_SURE = "It counts decisions and does not show how confident they were: log_loss does (curves=True)."


@dataclass(frozen=True)
class Number:
    """A number with the facts that explain it; the value is NaN if it is 0/0."""

    name: str
    value: float
    formula: str
    baselines: Mapping[str, float]
    """The same number for classifiers that ignore their inputs, by what they do."""
    higher_is_better: bool | None = True
    constant: str = ""
    """The beginning of the headline if one class is always predicted, else empty."""
    parts: str = ""
    """Numerator and denominator, as "90 of 100"."""
    first: Sequence[str] = ()
    """Sentences that come before the formula."""
    hidden: Sequence[str] = ()
    """Sentences about what the number does not show."""
    undefined: str = ""
    """The reason why it has no value."""
    interval: Interval | None = None


def told(number: Number, evidence: Mapping[str, Any] | None = None) -> Finding:
    """The finding about a number."""
    reasons = [*number.first, number.formula, *_sure(number), *_beside_baselines(number), *number.hidden]
    rows = (("this classifier", number.value), *number.baselines.items())
    table = Table(("classifier", number.name), tuple((words, _shown(value)) for words, value in rows))
    plain = {words: value if isfinite(value) else None for words, value in number.baselines.items()}
    return Finding(
        code="undefined"
        if number.value != number.value
        else "one-class-predicted"
        if number.constant
        else "one-number",
        headline=_headline(number),
        reasons=tuple(reasons),
        table=table if number.baselines else None,
        evidence={
            "values": {number.name: number.value if isfinite(number.value) else None},
            "baselines": plain,
            **(evidence or {}),
        },
    )


def _headline(number: Number) -> str:
    name, value = number.name, number.value
    if value != value:
        why = f": {number.undefined}" if number.undefined else ""
        return f"{name} has no value here, as it is 0/0{why}."
    if number.constant:
        return f"{number.constant} gives {name} {value:.6g} here."
    return f"{name} is {value:.6g}" + (f": {number.parts}." if number.parts else ".")


def _sure(number: Number) -> list[str]:
    """Say how far the number may be off by chance."""
    found = number.interval
    if found is None or not found.known:
        return []
    return [
        f"Its {found.level:.0%} interval is [{found.low:.4f}, {found.high:.4f}], from {numbered(found.n, 'sample')}."
    ]


def _beside_baselines(number: Number) -> list[str]:
    """Say whether a classifier that ignores its inputs is as good; of equal ones, the majority is named."""
    defined = {words: value for words, value in number.baselines.items() if value == value}
    if number.value != number.value or number.higher_is_better is None or number.constant or not defined:
        return []
    sign = 1 if number.higher_is_better else -1
    best = max(defined, key=lambda words: sign * defined[words])
    ahead = sign * (number.value - defined[best])
    if ahead > 0:
        return [f"It is {ahead:.4g} better than {best}, which ignores the inputs."]
    return [f"It is no better than {best}, which ignores the inputs and gives {defined[best]:.6g}."]


def _shown(value: float) -> str:
    return f"{value:.6g}" if value == value else "undefined"


# ---- of one table


def explain_one(counts: Counts, name: str, zero_division: float = nan) -> Finding:
    """Explain one statistic of one table: what it shows, and what it does not."""
    exact, interval = counts.exact(), None
    if all(isinstance(cell, int) for cell in exact.cells):  # weights do not say how many samples they are of
        interval = table_interval(exact, find(name))
    return told_of_table(counts, name, zero_division, name, interval)


def told_of_table(counts: Counts, name: str, zero_division: float, reported: str, interval: Interval | None) -> Finding:
    """Explain a statistic whose interval is known already, under the name by which it is ``reported``."""
    counts = counts.exact()
    number = _number(counts, find(name), reported, zero_division)
    return told(replace(number, interval=interval), {"counts": plain_cells(counts)})


def _number(counts: Counts, statistic: Statistic, name: str, zero_division: float) -> Number:
    value = Value(statistic, counts, zero_division)
    return Number(
        name,
        value.number if value.reported else nan,
        statistic.formula,
        _baselines(value),
        statistic.higher_is_better,
        constant_prediction(counts),
        _parts(value),
        hidden=_hidden(statistic, counts),
        undefined=why_undefined(counts),
    )


def parts_of(counts: Counts, statistic: Statistic) -> str:
    """Numerator and denominator of a share of samples of one table, as "90 of 100"; empty for anything else."""
    return _parts(Value(statistic, counts.exact(), nan))


def _baselines(value: Value) -> dict[str, float]:
    counts = value.counts
    if not counts.total:
        return {}
    no, yes = "always saying no", "always saying yes"
    tables = {no: always(counts, positive=False), yes: always(counts, positive=True)}
    majority = yes if counts.positives > counts.negatives else no
    is_one = counts.positives != counts.negatives
    ordered = {f"{majority} (the majority)" if is_one else majority: tables.pop(majority), **tables}
    if counts.predicted_positives and counts.predicted_negatives:
        ordered["saying yes at random, as often as here"] = at_random(counts)
    return {words: value.at(there).number for words, there in ordered.items()}


def constant_prediction(counts: Counts) -> str:
    """The beginning of a sentence about a classifier that predicts one class; empty for any other."""
    if not counts.total or (counts.predicted_positives and counts.predicted_negatives):
        return ""
    missing, said = ("negative", "yes") if counts.predicted_positives else ("positive", "no")
    return f"Nothing was predicted {missing}: always saying {said}"


def _parts(value: Value) -> str:
    """Numerator and denominator of a share of samples, in words; empty for any other statistic."""
    quantity = value.statistic(value.counts)
    if not value.statistic.proportion or not value.defined:
        return ""
    [term] = quantity.terms
    return f"{in_words(term.part)} of {in_words(term.whole)}"


def _hidden(statistic: Statistic, counts: Counts) -> list[str]:
    """Name the cells that it ignores, errors that it counts alike, and confidence."""
    said = []
    if statistic.ignores:
        cells = " and ".join(f"{CELLS[cell]} ({in_words(getattr(counts, cell))} here)" for cell in statistic.ignores)
        said.append(f"It ignores {cells}: it stays the same for any number of them.")
    if _alike(statistic):
        said.append(
            f"It counts a false positive and a false negative alike ({in_words(counts.fp)} and {in_words(counts.fn)} "
            "here), whatever each costs."
        )
    return [*said, HOW_SURE]


def _alike(statistic: Statistic) -> bool:
    """Whether swapping FP and FN leaves the value as it is, tried on a table whose cells all differ."""
    one, other = (Value(statistic, table, nan) for table in (Counts(5, 7, 11, 13), Counts(5, 11, 7, 13)))
    return one.minus(other) == 0
