"""Why two statistics of the same counts are equal, or not: decided on exact numbers, never on rounded ones."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isfinite, nan
from typing import TYPE_CHECKING, Any

from lightning_evalkit.diagnosis.finding import Finding, Table
from lightning_evalkit.errors import InputError
from lightning_evalkit.intervals import at_prevalence, crossing_prevalence
from lightning_evalkit.statistics import Statistic, find

if TYPE_CHECKING:
    from collections.abc import Callable

    from lightning_evalkit.counts import Counts

PREVALENCES = (Fraction(1, 2), Fraction(1, 10), Fraction(1, 100))


@dataclass(frozen=True)
class Identity:
    """Why two statistics are equal or differ: a code for programs, and reasons written with the counts' own numbers."""

    code: str
    reasons: tuple[str, ...]


def explain(counts: Counts, first: str = "accuracy", second: str = "f1", zero_division: float = nan) -> Finding:
    """Say whether two statistics of these counts are equal, by which identity, and when they part.

    ``zero_division`` stands for 0/0, as in the evaluation whose numbers are explained.

    >>> from lightning_evalkit.counts import Counts
    >>> explain(Counts(tp=40, fp=10, fn=10, tn=40)).headline
    'accuracy and f1 are equal: both are 0.8.'
    """
    one, other = find(first), find(second)
    if one == other:
        raise InputError(f"expected two different statistics, got {first!r} twice.")
    counts = counts.exact()
    a, b = (_Value(each, counts, zero_division) for each in (one, other))
    defined = a.defined and b.defined
    identity = IDENTITIES.get(frozenset({one.name, other.name}), _no_identity)(counts)
    reasons = identity.reasons if defined else tuple(reason for value in (a, b) for reason in value.why_undefined())
    return Finding(
        code=identity.code if defined else "undefined",
        headline=_headline(a, b),
        reasons=reasons,
        table=_at_other_prevalences(counts, a, b),
        evidence=_evidence(counts, a, b),
    )


class _Value:
    """A statistic's value: exact where it is a fraction, and as a number in any case."""

    def __init__(self, statistic: Statistic, counts: Counts, zero_division: float) -> None:
        quantity = statistic(counts)
        self.statistic, self.counts, self.zero_division = statistic, counts, zero_division
        self.exact = quantity.exact()
        self.number = float(quantity.value(zero_division)) if self.exact is None else float(self.exact)
        self.defined = not bool(quantity.undefined())
        self.reported = self.defined or self.number == self.number

    def __str__(self) -> str:
        return f"{self.number:.6g}" if self.reported else "undefined"

    def at(self, counts: Counts) -> _Value:
        """The same statistic of other counts."""
        return _Value(self.statistic, counts, self.zero_division)

    def minus(self, other: _Value) -> float:
        """The gap; 0.0 exactly when both are equal (roots are compared as numbers)."""
        if self.exact is not None and other.exact is not None:
            return float(self.exact - other.exact)
        gap = 0.0 if self.number == other.number else self.number - other.number
        return 0.0 if abs(gap) < 1e-12 else gap

    def plain(self) -> float | None:
        """The number for JSON, which knows neither NaN nor infinity."""
        return self.number if isfinite(self.number) else None

    def why_undefined(self) -> list[str]:
        if self.defined:
            return []
        stands = f"; zero_division = {self.zero_division:g} stands for it" if self.reported else ""
        return [f"{self.statistic.name} is 0/0 here ({self.statistic.formula}): {why_undefined(self.counts)}{stands}."]


def why_undefined(counts: Counts) -> str:
    """Which margin of the table is empty, in words."""
    margins = {
        "no samples were counted": counts.total,
        "there are no positive targets": counts.positives,
        "there are no negative targets": counts.negatives,
        "nothing was predicted positive": counts.predicted_positives,
        "nothing was predicted negative": counts.predicted_negatives,
    }
    empty = [words for words, number in margins.items() if number == 0]
    return empty[0] if counts.total == 0 else " and ".join(empty) or "its parts vanish together"


def _headline(a: _Value, b: _Value) -> str:
    names = f"{a.statistic.name} and {b.statistic.name}"
    if not (a.reported and b.reported):
        return f"{names} cannot be compared: {a.statistic.name} is {a}, {b.statistic.name} is {b}."
    stands = "" if a.defined and b.defined else f", where zero_division = {a.zero_division:g} stands for 0/0"
    gap = a.minus(b)
    if gap == 0:
        return f"{names} are equal: both are {a}{stands}."
    return f"{names} differ by {abs(gap):.6g}: {a} and {b}{stands}."


def accuracy_and_f1(counts: Counts) -> Identity:
    """accuracy - F1 = (TN - TP) E / (N (2 TP + E)), so both are equal when E = 0 or TP = TN."""
    tp, tn, errors, total = counts.tp, counts.tn, counts.errors, counts.total
    identity = "accuracy − F1 = (TN − TP)·E / (N·(2·TP + E))"
    if not 2 * tp + errors:
        words = f"{identity}, where E = FP + FN, needs a true positive or an error to say anything."
        return Identity("accuracy-f1-no-positives", (words,))
    gap = Fraction(tn - tp) * Fraction(errors) / (Fraction(total) * Fraction(2 * tp + errors))
    written = (
        f"With E = FP + FN = {_n(errors)} errors of N = {_n(total)}, {identity} = ({_n(tn)} − {_n(tp)})·{_n(errors)} / "
        f"({_n(total)}·(2·{_n(tp)} + {_n(errors)})) = {float(gap):.6g}."
    )
    crossing = _crossing(counts)
    if errors == 0:
        return Identity("accuracy-f1-no-errors", ("Equal because there are no errors (E = 0).", written, *crossing))
    if tp == tn:
        why = f"Equal because there are as many true positives as true negatives (TP = TN = {_n(tp)})."
        return Identity("accuracy-f1-tp-equals-tn", (why, written, *crossing))
    larger, more, fewer = ("accuracy", "negatives", "positives") if tn > tp else ("F1", "positives", "negatives")
    why = f"{larger} is larger because there are more true {more} than true {fewer}, and accuracy alone counts TN."
    return Identity(f"accuracy-f1-{'accuracy' if tn > tp else 'f1'}-larger", (why, written, *crossing))


def _crossing(counts: Counts) -> tuple[str, ...]:
    crossing = crossing_prevalence(counts)
    if crossing is None or not (counts.positives and counts.negatives):
        return ()
    recall, specificity = (float(find(name)(counts).value()) for name in ("recall", "specificity"))
    share = Fraction(counts.positives) / Fraction(counts.total)
    balance = "the share here" if crossing == share else f"here it is {float(share):.4g}"
    return (
        f"With recall r = {recall:.4g} and specificity s = {specificity:.4g} kept, accuracy and F1 are equal at "
        f"one share of positives only, s/(r + s) = {float(crossing):.4g} ({balance}); on balanced data only if r = s.",
    )


def precision_and_recall(counts: Counts) -> Identity:
    """Precision and recall share their part, so they are equal when FP = FN (or TP = 0)."""
    fp, fn = counts.fp, counts.fn
    if fp == fn or counts.tp == 0:
        why = f"FP = FN = {_n(fp)}" if fp == fn else "TP = 0, so both are 0"
        words = f"Equal because {why}: precision = TP/(TP + FP) and recall = TP/(TP + FN) differ only in that cell."
        return Identity("precision-recall-equal", (words, "F1, their harmonic mean, then has the same value."))
    larger, more, fewer = ("precision", "FN", "FP") if fn > fp else ("recall", "FP", "FN")
    words = f"{larger} is larger because {more} = {_n(max(fp, fn))} is more than {fewer} = {_n(min(fp, fn))}."
    return Identity("precision-recall-differ", (words,))


def accuracy_and_balanced_accuracy(counts: Counts) -> Identity:
    """accuracy - balanced accuracy = (π - 1/2) (r - s)."""
    if not (counts.positives and counts.negatives):
        return Identity("accuracy-balanced-accuracy", ())
    share = Fraction(counts.positives) / Fraction(counts.total)
    recall, specificity = find("recall")(counts).exact(), find("specificity")(counts).exact()
    assert recall is not None  # there are positives
    assert specificity is not None  # there are negatives
    words = (
        f"accuracy − balanced accuracy = (π − ½)·(r − s) = ({float(share):.4g} − 0.5)·({float(recall):.4g} − "
        f"{float(specificity):.4g}) = {float((share - Fraction(1, 2)) * (recall - specificity)):.6g}: equal when the "
        "classes are balanced or recall equals specificity."
    )
    return Identity("accuracy-balanced-accuracy", (words,))


def _no_identity(counts: Counts) -> Identity:
    return Identity("no-identity", ("No identity is known for this pair: the values are compared as they are.",))


IDENTITIES: dict[frozenset[str], Callable[[Counts], Identity]] = {
    frozenset({"accuracy", "f1"}): accuracy_and_f1,
    frozenset({"precision", "recall"}): precision_and_recall,
    frozenset({"accuracy", "balanced_accuracy"}): accuracy_and_balanced_accuracy,
}


def _at_other_prevalences(counts: Counts, a: _Value, b: _Value) -> Table | None:
    if not (counts.positives and counts.negatives):
        return None
    shares = [("here", counts)] + [(f"{float(p):.0%}", at_prevalence(counts, p)) for p in PREVALENCES]
    rows = [(name, str(a.at(there)), str(b.at(there))) for name, there in shares]
    return Table(("positives", a.statistic.name, b.statistic.name), tuple(rows))


def _evidence(counts: Counts, a: _Value, b: _Value) -> dict[str, Any]:
    about_f1 = {a.statistic.name, b.statistic.name} == {"accuracy", "f1"}
    crossing = crossing_prevalence(counts) if about_f1 else None
    both = a.reported and b.reported
    gap = a.minus(b) if both else None
    projected = {}
    if counts.positives and counts.negatives:
        for p in PREVALENCES:
            there = at_prevalence(counts, p)
            projected[f"{float(p):g}"] = {v.statistic.name: v.at(there).plain() for v in (a, b)}
    numbers = (cell if isinstance(cell, int) else float(cell) for cell in counts.cells)
    return {
        "counts": dict(zip(("tp", "fp", "fn", "tn"), numbers, strict=True)),
        "values": {v.statistic.name: v.plain() for v in (a, b)},
        "equal": gap == 0 if both else None,
        "gap": gap if gap is not None and isfinite(gap) else None,
        "crossing_prevalence": None if crossing is None else float(crossing),
        "at_prevalence": projected,
    }


def _n(number: Any) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{float(number):g}"
