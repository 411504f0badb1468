"""Explains why two statistics of one table are equal or differ, in sentences with the numbers of the table."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from lightning_evalkit.diagnosis.value import in_words as _n
from lightning_evalkit.intervals import crossing_prevalence
from lightning_evalkit.statistics import find

if TYPE_CHECKING:
    from collections.abc import Callable

    from lightning_evalkit.counts import Counts


@dataclass(frozen=True)
class Identity:
    """The reasons why two statistics are equal or differ, with the numbers of the table, and a code for programs."""

    code: str
    reasons: tuple[str, ...]


def accuracy_and_f1(counts: Counts) -> Identity:
    """accuracy - F1 = (TN - TP) E / (N (2 TP + E)), so both are equal when E = 0 or TP = TN."""
    tp, tn, errors, total = counts.tp, counts.tn, counts.errors, counts.total
    identity = "accuracy − F1 = (TN − TP)·E / (N·(2·TP + E))"
    if not 2 * tp + errors:
        words = f"{identity}, where E = FP + FN, is 0/0 without a true positive or an error."
        return Identity("accuracy-f1-no-positives", (words,))
    gap = Fraction(tn - tp) * Fraction(errors) / (Fraction(total) * Fraction(2 * tp + errors))
    written = (
        f"With E = FP + FN = {_n(errors)} error{'' if errors == 1 else 's'} of N = {_n(total)}, {identity} = "
        f"({_n(tn)} − {_n(tp)})·{_n(errors)} / "
        f"({_n(total)}·(2·{_n(tp)} + {_n(errors)})) = {float(gap):.6g}."
    )
    crossing = _crossing(counts)
    if errors == 0:
        return Identity("accuracy-f1-no-errors", ("Equal because there are no errors (E = 0).", written, *crossing))
    if tp == tn:
        why = f"Equal because there are as many true positives as true negatives (TP = TN = {_n(tp)})."
        return Identity("accuracy-f1-tp-equals-tn", (why, written, *crossing))
    why = (
        "accuracy is larger because there are more true negatives than true positives, and accuracy alone counts TN."
        if tn > tp
        else "F1 is larger because there are more true positives than true negatives, and F1 counts TP twice."
    )
    return Identity(f"accuracy-f1-{'accuracy' if tn > tp else 'f1'}-larger", (why, written, *crossing))


def _crossing(counts: Counts) -> tuple[str, ...]:
    crossing = crossing_prevalence(counts)
    if crossing is None or not (counts.positives and counts.negatives):
        return ()
    recall, specificity = (float(find(name)(counts).value()) for name in ("recall", "specificity"))
    share = Fraction(counts.positives) / Fraction(counts.total)
    balance = "the share here" if crossing == share else f"here it is {float(share):.4g}"
    return (
        f"At a fixed recall r = {recall:.4g} and specificity s = {specificity:.4g}, accuracy and F1 are equal at "
        f"one share of positives only, s/(r + s) = {float(crossing):.4g} ({balance}); on balanced data only if r = s.",
    )


def precision_and_recall(counts: Counts) -> Identity:
    """Precision and recall have the same numerator, so they are equal when FP = FN (or TP = 0)."""
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
        "With the share of positives π, recall r and specificity s, accuracy − balanced accuracy = (π − ½)·(r − s) "
        f"= ({float(share):.4g} − 0.5)·({float(recall):.4g} − "
        f"{float(specificity):.4g}) = {float((share - Fraction(1, 2)) * (recall - specificity)):.6g}: equal when the "
        "classes are balanced or recall equals specificity."
    )
    return Identity("accuracy-balanced-accuracy", (words,))


def accuracy_and_recall(counts: Counts) -> Identity:
    """accuracy = π r + (1 - π) s, so accuracy - recall = (1 - π) (s - r)."""
    return _one_class(counts, "recall", "positives")


def accuracy_and_specificity(counts: Counts) -> Identity:
    """accuracy = π r + (1 - π) s, so accuracy - specificity = π (r - s)."""
    return _one_class(counts, "specificity", "negatives")


def _one_class(counts: Counts, rate: str, targets: str) -> Identity:
    """Accuracy is the mean of recall and specificity, weighted by the shares of their classes."""
    code = f"accuracy-{rate}"
    if not (counts.positives and counts.negatives):
        words = f"Equal because there are only {targets}: accuracy and {rate} divide by the same samples."
        return Identity(code, (words,) if getattr(counts, targets) else ())
    share = Fraction(counts.positives) / Fraction(counts.total)
    r, s = Fraction(counts.tp) / Fraction(counts.positives), Fraction(counts.tn) / Fraction(counts.negatives)
    here, others, formula, gap = (
        (1 - share, "negatives", "(1 − π)·(s − r)", (1 - share) * (s - r))
        if rate == "recall"
        else (share, "positives", "π·(r − s)", share * (r - s))
    )
    return Identity(
        code,
        (
            f"{rate} looks only at the {_n(getattr(counts, targets))} {targets}, accuracy at all {_n(counts.total)} "
            f"samples, whose share of {others} is {float(here):.4g}.",
            f"With the share of positives π = {float(share):.4g}, recall r = {float(r):.4g} and specificity s = "
            f"{float(s):.4g}, accuracy = π·r + (1 − π)·s, so accuracy − {rate} = {formula} = {float(gap):.6g}: equal "
            "when recall equals specificity.",
        ),
    )


NO_IDENTITY = Identity("no-identity", ("No identity is known for this pair, so only the two values are compared.",))
IDENTITIES: dict[frozenset[str], Callable[[Counts], Identity]] = {
    frozenset({"accuracy", "f1"}): accuracy_and_f1,
    frozenset({"precision", "recall"}): precision_and_recall,
    frozenset({"accuracy", "balanced_accuracy"}): accuracy_and_balanced_accuracy,
    frozenset({"accuracy", "recall"}): accuracy_and_recall,
    frozenset({"accuracy", "specificity"}): accuracy_and_specificity,
}


def identity_of(counts: Counts, first: str, second: str) -> Identity | None:
    """The identity of two statistics of one table, if one is known."""
    known = IDENTITIES.get(frozenset({first, second}))
    return None if known is None else known(counts)
