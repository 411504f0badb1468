"""Why two numbers over many classes or labels are equal, or not."""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING, Any

from lightning_evalkit.diagnosis.finding import Finding, Table
from lightning_evalkit.errors import InputError
from lightning_evalkit.statistics import find

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lightning_evalkit.counts import Counts

NO_IDENTITY: tuple[str, ...] = ("No identity is known for this pair: the values are compared as they are.",)
MICRO = frozenset({"accuracy", "precision/micro", "recall/micro", "f1/micro"})


def explain_multiclass(
    counts: Counts, values: dict[str, float], all_classes: bool = True, zero_division: float = nan
) -> Finding:
    """Say whether two numbers of a multiclass table are equal, and why; counts are of one class against the rest.

    ``all_classes`` is False where the samples of some class are ignored, so that averages leave it out.
    ``zero_division`` is what stood for 0/0 in the values.
    """
    code, reasons = "no-identity", NO_IDENTITY
    names, classes = frozenset(values), counts.tp.numel()
    total, right, occurring = (x.sum().item() for x in (counts.support, counts.tp, counts.support != 0))
    errors = total - right
    if names <= MICRO and len(names) == 2:
        code = "micro-is-accuracy"
        reasons = (
            f"Equal by identity: every sample has one target and one prediction, so each of the {errors:,g} errors is "
            f"one false positive (of the predicted class) and one false negative (of the true one): ΣFP = ΣFN.",
            f"Micro-averaged precision, recall and F1 are therefore all ΣTP / N = {right:,g} / {total:,g}, which is "
            "the accuracy. Reporting several of them says nothing new; f1/macro and balanced_accuracy do.",
            *(_of_two_classes(counts, zero_division) if classes == 2 else ()),
        )
    elif names == {"accuracy", "one_vs_rest_accuracy/macro"} and all_classes and total:
        code = "one-vs-rest-inflates"
        mean = 1 - 2 * (errors / total) / classes
        reasons = (
            f"One class against the rest is wrong in two tables for each error, and right in the other {classes - 2}: "
            f"mean one-vs-rest accuracy = 1 − 2·(1 − accuracy)/C = 1 − 2·{errors / total:.6g}/{classes} "
            f"= {mean:.6g}. It nears 1 as the number of classes grows, whatever the model does.",
        )
    elif names == {"balanced_accuracy", "recall/macro"}:
        code = "balanced-accuracy-is-macro-recall"
        others = (
            "which are the same"
            if zero_division != zero_division
            else f"and zero_division = {zero_division:g} is the value of those that do not occur"
        )
        reasons = (
            f"Balanced accuracy is the mean recall of the classes that occur as target, here {occurring} of {classes}; "
            f"macro recall is over the classes where recall has a value, {others}.",
        )
    return _finding(code, values, reasons, None, {"samples": total, "correct": right, "classes": classes})


def _of_two_classes(counts: Counts, zero_division: float) -> tuple[str, ...]:
    """Say what the F1 of a yes-or-no problem is, which micro averages of its two classes are not."""
    first, second = find("f1")(counts).value(zero_division).tolist()
    return (
        f"With two classes the F1 that is usually meant is that of the positive class alone, here {second:.6g} of the "
        f"second class ({first:.6g} of the first): BinaryEvaluation reports it as f1.",
    )


def explain_multilabel(
    counts: Counts,
    values: dict[str, float],
    labels: Sequence[str],
    all_labels: bool = True,
    zero_division: float = nan,
) -> Finding:
    """Say whether two numbers over labels are equal, and why; counts are of each label.

    ``all_labels`` is False where some labels of some samples are ignored, which loosens the bounds between them.
    ``zero_division`` is what stood for 0/0 in the values.
    """
    code, reasons = "no-identity", NO_IDENTITY
    accuracies = [float(v) for v in find("accuracy")(counts).value(zero_division)]
    if frozenset(values) == {"exact_match", "hamming_accuracy"}:
        code, hamming = "exact-match-and-hamming", values["hamming_accuracy"]
        worst = min(range(len(labels)), key=accuracies.__getitem__)
        lowest = max(0.0, 1 - len(labels) * (1 - hamming))
        bounds = (
            f"Whatever the model does, 1 − L·(1 − hamming_accuracy) = {lowest:.6g} ≤ exact_match ≤ "
            f"{accuracies[worst]:.6g}, the accuracy of the worst label ({labels[worst]}); "
            f"here exact_match is {values['exact_match']:.6g}.",
        )
        reasons = (
            f"hamming_accuracy counts labels, exact_match counts samples with all {len(labels)} labels right, so one "
            "wrong label costs the whole sample.",
            *(bounds if all_labels and counts.total.any() else ()),
            "scikit-learn's accuracy_score of label indicators is exact_match.",
        )
    rows = tuple((name, f"{value:.6g}") for name, value in zip(labels, accuracies, strict=True))
    evidence = {"accuracy": {name: None if a != a else a for name, a in zip(labels, accuracies, strict=True)}}
    return _finding(code, values, reasons, Table(("label", "accuracy"), rows), evidence)


def _finding(
    code: str, values: dict[str, float], reasons: tuple[str, ...], table: Table | None, evidence: dict[str, Any]
) -> Finding:
    if len(values) != 2:
        raise InputError(f"expected two different numbers, got {next(iter(values))!r} twice.")
    (first, a), (second, b) = values.items()
    plain = {name: None if value != value else value for name, value in values.items()}
    if a != a or b != b:
        headline = f"{first} and {second} cannot be compared: one of them is 0/0 here."
        code = "undefined"
    elif a == b or abs(a - b) < 1e-12:  # infinite ones have no difference
        headline = f"{first} and {second} are equal: both are {a:.6g}."
    else:
        headline = f"{first} and {second} differ by {abs(a - b):.6g}: {a:.6g} and {b:.6g}."
    return Finding(code, headline, reasons, table, {"values": plain, **evidence})
