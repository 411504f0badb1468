"""Rules on the numbers of one table of true and false positives and negatives."""

from __future__ import annotations

from fractions import Fraction
from math import isnan

from lightning_evalkit.counts import Counts
from lightning_evalkit.diagnosis.comparison import explain
from lightning_evalkit.diagnosis.numbers import SeenNumbers, seen_counts
from lightning_evalkit.diagnosis.rules.table import Found, Power, rule
from lightning_evalkit.intervals import table_interval
from lightning_evalkit.statistics import find

NEAR = Fraction(1, 1000)
SURE = 0.99
"""The level of the intervals that decide."""


def _cells(tp: int, fp: int, fn: int, tn: int, **facts: float) -> SeenNumbers:
    return seen_counts(Counts(tp=tp, fp=fp, fn=fn, tn=tn), **facts)


@rule(
    "EK201",
    "accuracy equals F1",
    "numbers",
    severity="tip",
    certainty="certain",
    why="The two answer different questions and are equal only because of the counts: they will differ as soon as the "
    "share of positives changes.",
    remedy="Report what the question needs: F1 or recall and precision if positives matter, and the prevalence.",
    known_problems="Numbers within 0.001 of each other count as equal.",
    example=lambda: _cells(40, 10, 10, 40),
    counterexample=lambda: _cells(40, 10, 10, 400),
)
def accuracy_is_f1(seen: SeenNumbers) -> list[Found] | None:
    """Accuracy and F1 are equal, or nearly so; the finding gives the cause."""
    if seen.table is None or not seen.table.errors or not 2 * seen.table.tp + seen.table.errors:
        return None
    accuracy, f1 = (find(name)(seen.table).exact() for name in ("accuracy", "f1"))
    if accuracy is None or f1 is None or abs(accuracy - f1) > NEAR:
        return []
    told = explain(seen.table)
    return [("accuracy, f1", f"{told.headline} {told.reasons[0]}", told.evidence)]


@rule(
    "EK203",
    "four numbers are one",
    "numbers",
    severity="tip",
    certainty="certain",
    why="With as many false positives as false negatives, precision, recall and F1 are equal; with as many true "
    "positives as true negatives, accuracy is equal to them too: four numbers say one thing.",
    remedy="Report one of them, and one that looks at the other class: specificity or mcc.",
    known_problems="No case is known where it is wrong.",
    example=lambda: _cells(40, 10, 10, 40),
    counterexample=lambda: _cells(40, 9, 10, 40),
)
def four_are_one(seen: SeenNumbers) -> list[Found] | None:
    """Accuracy, precision, recall and F1 are all equal, because TP = TN and FP = FN."""
    table = seen.table
    if table is None or not table.errors:
        return None
    if table.fp != table.fn or table.tp != table.tn:
        return []
    words = f"accuracy, precision, recall and f1 are all {float(find('f1')(table).value()):.6g}: TP = TN and FP = FN."
    return [("accuracy, precision, recall, f1", words, {"tp": int(table.tp), "fp": int(table.fp)})]


@rule(
    "EK209",
    "an undefined number is reported",
    "numbers",
    severity="warning",
    certainty="certain",
    why="0/0 has no value. As NaN it stops EarlyStopping, and as 0 it lowers averages.",
    remedy="Evaluate on data that has the class, leave the number out, or decide its value with zero_division. If "
    "nothing at all was counted, call update first, and ask before a reset.",
    known_problems="No case is known where it is wrong.",
    example=lambda: _cells(0, 0, 5, 95),
    counterexample=lambda: _cells(1, 1, 5, 95),
)
def undefined(seen: SeenNumbers) -> list[Found] | None:
    """A reported number is 0/0, because no sample was counted that it could be computed from."""
    if seen.tables and not seen.total and not seen.weighted:
        return [("counts", seen.nothing_because or "nothing was counted: every number is 0/0.", {})]
    return [(name, f"{name} is 0/0 in these counts.", {}) for name in seen.undefined()]


@rule(
    "EK210",
    "the two classes are recognised unequally",
    "numbers",
    severity="tip",
    certainty="significant",
    why="Accuracy is a mixture of recall and specificity. If they are far apart, it mostly shows the share of the "
    "easier class.",
    remedy="Report both, or balanced_accuracy; choose the threshold for the errors that cost more.",
    known_problems="Differences below 0.2 are not reported.",
    example=lambda: _cells(20, 5, 80, 895),
    counterexample=lambda: _cells(80, 90, 20, 810),
    power=Power("one sample in ten is positive, recall is 0.5 and specificity 0.95", 500, 0.95),
)
def unequal_classes(seen: SeenNumbers) -> list[Found] | None:
    """Recall and specificity differ by more than 0.2, and by more than chance (Fisher's exact test)."""
    from scipy.stats import fisher_exact

    table = seen.table
    if table is None or seen.weighted or not (table.positives and table.negatives):
        return None
    recall, specificity = (float(find(name)(table).value()) for name in ("recall", "specificity"))
    far = abs(recall - specificity) > 0.2
    p = float(fisher_exact([[table.tp, table.fn], [table.tn, table.fp]]).pvalue) if far else 1.0
    words = f"recall is {recall:.4f} and specificity {specificity:.4f}."
    return [("recall, specificity", words, {"recall": recall, "specificity": specificity, "p_value": p})]


@rule(
    "EK211",
    "numbers that the place of use will not keep",
    "numbers",
    severity="warning",
    certainty="certain",
    why="Recall and specificity belong to the model; precision, F1 and accuracy also depend on the share of positives.",
    remedy="Report evaluation.at_prevalence(...), and choose the threshold for that share.",
    known_problems="The rule assumes that recall and specificity stay the same, which another population may change.",
    example=lambda: _cells(40, 10, 10, 40, prevalence=0.01),
    counterexample=lambda: _cells(40, 10, 10, 40, prevalence=0.5),
)
def other_prevalence(seen: SeenNumbers) -> list[Found] | None:
    """A number lies outside of the interval that it has at the share of positives where the model will be used."""
    table = seen.table
    if table is None or seen.prevalence is None or seen.weighted or not (table.positives and table.negatives):
        return None
    found: list[Found] = []
    for name in ("precision", "f1"):
        here = float(find(name)(table).value())
        there = table_interval(table, find(name), SURE, "auto", seen.prevalence)
        if there.known and not isnan(here) and here not in there:
            words = f"{name} is {here:.4f} here and {there} where {seen.prevalence:.4g} of all samples are positive."
            found.append((name, words, {"here": here, "there": there.value, "low": there.low, "high": there.high}))
    return found
