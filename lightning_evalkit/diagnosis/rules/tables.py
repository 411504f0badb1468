"""Rules on the numbers of one table of true and false positives and negatives."""

from __future__ import annotations

from fractions import Fraction
from math import isnan, log, sqrt

from lightning_evalkit.counts import Counts
from lightning_evalkit.diagnosis.comparison import explain
from lightning_evalkit.diagnosis.numbers import SeenNumbers, SeenScores, seen_counts
from lightning_evalkit.diagnosis.rules.table import Found, rule
from lightning_evalkit.intervals import intervals, table_interval
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
    why="The two answer different questions and are equal only by chance of the counts, so one of them will part from "
    "the other as soon as the share of positives changes.",
    remedy="Report what the question needs: F1 or recall and precision where positives matter, and the prevalence.",
    known_problems="Numbers within 0.001 of each other count as equal.",
    example=lambda: _cells(40, 10, 10, 40),
    counterexample=lambda: _cells(40, 10, 10, 400),
)
def accuracy_is_f1(seen: SeenNumbers) -> list[Found] | None:
    """Accuracy and F1 are equal, or nearly so; the finding says by which cause."""
    if seen.table is None or not seen.table.errors or not 2 * seen.table.tp + seen.table.errors:
        return None
    accuracy, f1 = (find(name)(seen.table).exact() for name in ("accuracy", "f1"))
    if accuracy is None or f1 is None or abs(accuracy - f1) > NEAR:
        return []
    told = explain(seen.table)
    words = f"{told.headline.rstrip('.')}: {told.reasons[0][0].lower()}{told.reasons[0][1:]}"
    return [("accuracy, f1", words, told.evidence)]


@rule(
    "EK203",
    "four numbers are one",
    "numbers",
    severity="tip",
    certainty="certain",
    why="With as many false positives as false negatives precision, recall and F1 are equal, and with as many true "
    "positives as true negatives so is accuracy: four numbers say one thing.",
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
    why="0/0 has no value. As NaN it stops EarlyStopping, and as 0 it pulls averages down.",
    remedy="Evaluate on data that has the class, leave the number out, or decide its value with zero_division.",
    known_problems="No case is known where it is wrong.",
    example=lambda: _cells(0, 0, 5, 95),
    counterexample=lambda: _cells(1, 1, 5, 95),
)
def undefined(seen: SeenNumbers) -> list[Found] | None:
    """A reported number is 0/0: nothing was counted that it could be computed from."""
    return [(name, f"{name} is 0/0 in these counts.", {}) for name in seen.undefined()]


@rule(
    "EK210",
    "the two classes are recognised unequally",
    "numbers",
    severity="tip",
    certainty="significant",
    why="Accuracy is a mixture of recall and specificity. Where they are far apart it mostly tells the share of the "
    "easier class.",
    remedy="Report both, or balanced_accuracy; choose the threshold for the errors that cost more.",
    known_problems="Differences below 0.2 are not reported.",
    example=lambda: _cells(20, 5, 80, 895),
    counterexample=lambda: _cells(80, 90, 20, 810),
)
def unequal_classes(seen: SeenNumbers) -> list[Found] | None:
    """Recall and specificity differ by more than 0.2, and not by chance."""
    from scipy.stats import fisher_exact

    table = seen.table
    if table is None or seen.weighted or not (table.positives and table.negatives):
        return None
    recall, specificity = (float(find(name)(table).value()) for name in ("recall", "specificity"))
    p = float(fisher_exact([[table.tp, table.fn], [table.tn, table.fp]]).pvalue)
    words = f"recall is {recall:.4f} and specificity {specificity:.4f}."
    far = abs(recall - specificity) > 0.2
    return [("recall, specificity", words, {"recall": recall, "specificity": specificity, "p_value": p})] if far else []


@rule(
    "EK211",
    "numbers that the place of use will not keep",
    "numbers",
    severity="warning",
    certainty="certain",
    why="Recall and specificity belong to the model; precision, F1 and accuracy also depend on the share of positives.",
    remedy="Report evaluation.at_prevalence(...), and choose the threshold for that share.",
    known_problems="Recall and specificity are taken to stay the same, which another population may not do.",
    example=lambda: _cells(40, 10, 10, 40, prevalence=0.01),
    counterexample=lambda: _cells(40, 10, 10, 40, prevalence=0.5),
)
def other_prevalence(seen: SeenNumbers) -> list[Found] | None:
    """At the share of positives of the place of use a number lies outside of what these counts allow."""
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


def _scored(mean: float = 0.3, **facts: float) -> SeenNumbers:
    values = {"lowest": -4.0, "highest": 5.0, "best_f1": 0.8, "best_threshold": 0.4, "threshold": 0.5, "f1": 0.79}
    scores = SeenScores("logits", mean=mean, variance=100.0, **(values | facts))
    return SeenNumbers("binary", {"": Counts(tp=240, fp=60, fn=60, tn=640)}, scores=scores)


@rule(
    "EK216",
    "probabilities are shifted",
    "numbers",
    severity="warning",
    certainty="significant",
    why="The mean predicted probability of calibrated scores is the share of positives. A weighted loss or resampled "
    "data moves it, by ln(pos_weight) on the logits, and a threshold of 0.5 then means another one.",
    remedy="Subtract the shift from the logits: PriorCorrection, or TemperatureScaling(vector=True) on validation.",
    known_problems="Needs curves=True. Shifts of the data and of the loss look the same.",
    example=lambda: _scored(mean=0.5),
    counterexample=lambda: _scored(mean=0.3),
)
def shifted(seen: SeenNumbers) -> list[Found] | None:
    """The mean predicted probability is not the share of positives, and the difference is no chance."""
    from scipy.stats import norm

    table, scores = seen.table, seen.scores
    if table is None or scores is None or seen.weighted or not scores.variance or not table.positives * table.negatives:
        return None
    share = float(table.prevalence)
    z = (scores.mean - share) * table.total / sqrt(scores.variance)
    by = _logit(scores.mean) - _logit(share)
    words = (
        f"the mean predicted probability is {scores.mean:.4f}, and {share:.4f} of the samples are positive: logits are "
        f"shifted by about {by:+.2f}."
    )
    evidence = {"mean": scores.mean, "prevalence": share, "shift": by, "p_value": float(2 * norm.sf(abs(z)))}
    return [("probabilities", words, evidence)]


def _logit(share: float) -> float:
    share = min(max(share, 1e-12), 1 - 1e-12)
    return log(share / (1 - share))


@rule(
    "EK215",
    "another threshold would be better",
    "numbers",
    severity="tip",
    certainty="hint",
    why="0.5 is the best threshold for accuracy of calibrated probabilities, not for F1.",
    remedy="ThresholdTuning chooses on validation and applies in test; evaluation.best_threshold('f1') gives it.",
    known_problems="The best threshold of the same data is optimistic: choose it on validation, report on test.",
    example=lambda: _scored(f1=0.5),
    counterexample=lambda: _scored(f1=0.79),
)
def better_threshold(seen: SeenNumbers) -> list[Found] | None:
    """F1 would be higher by more than its own interval at another threshold."""
    scores, table = seen.scores, seen.table
    if scores is None or table is None or seen.weighted or isnan(scores.f1):
        return None
    now = intervals(table, "f1", level=SURE)["f1"]
    gain = scores.best_f1 - scores.f1
    if not gain > (now.high - now.low) / 2:
        return []
    words = f"f1 is {scores.f1:.4f} at {scores.threshold:g}, and {scores.best_f1:.4f} at {scores.best_threshold:.4g}."
    return [("threshold", words, {"gain": gain, "threshold": scores.best_threshold})]


@rule(
    "EK218",
    "scores do not look like what was declared",
    "numbers",
    severity="warning",
    certainty="hint",
    why="A probability that is declared as a logit is cut at 0: every sample is called positive.",
    remedy="Declare inputs='probabilities', or pass the logits before the sigmoid.",
    known_problems="Logits may lie between 0 and 1 by chance, and probabilities may all be 0 or 1.",
    example=lambda: _scored(lowest=0.001, highest=0.999),
    counterexample=lambda: _scored(),
)
def declared_wrongly(seen: SeenNumbers) -> list[Found] | None:
    """All scores that were declared as logits lie between 0 and 1."""
    scores = seen.scores
    if scores is None or scores.inputs != "logits" or seen.total < 20:
        return None
    if not (scores.lowest >= 0 and scores.highest <= 1):
        return []
    words = f"inputs are declared as logits, and all scores lie between {scores.lowest:.3g} and {scores.highest:.3g}."
    return [("inputs", words, {"lowest": scores.lowest, "highest": scores.highest})]


@rule(
    "EK219",
    "bins are too coarse",
    "numbers",
    severity="tip",
    certainty="certain",
    why="AUROC from a histogram is known to the width of its bins: pairs of one bin are not decided.",
    remedy="Raise resolution, or leave it out: the default has up to 65,536 bins.",
    known_problems="Widths below 0.01 are not reported.",
    example=lambda: SeenNumbers("binary", {}, bound_width=0.05),
    counterexample=lambda: SeenNumbers("binary", {}, bound_width=0.0001),
)
def coarse_bins(seen: SeenNumbers) -> list[Found] | None:
    """The certain bounds of AUROC are more than 0.01 apart."""
    if not seen.bound_width:
        return None
    words = f"auroc is certain to {seen.bound_width:.3g} only."
    return [("auroc", words, {"width": seen.bound_width})] if seen.bound_width > 0.01 else []
