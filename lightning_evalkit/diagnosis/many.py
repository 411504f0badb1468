"""Explains why two numbers over many classes or labels are equal or differ."""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING, Any, NamedTuple

from lightning_evalkit.diagnosis.averages import identity_of_means, means_of
from lightning_evalkit.diagnosis.comparison import differ, is_near
from lightning_evalkit.diagnosis.finding import Finding, Table
from lightning_evalkit.diagnosis.identities import NO_IDENTITY, Identity, identity_of
from lightning_evalkit.diagnosis.value import numbered
from lightning_evalkit.errors import InputError
from lightning_evalkit.statistics import exists, find

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lightning_evalkit.counts import Counts

MICRO = frozenset({"accuracy", "precision/micro", "recall/micro", "f1/micro"})
ONE_VS_REST = "one_vs_rest_accuracy"


class SampleSums(NamedTuple):
    """Sums over samples: all, those with every label right, a statistic's values, and the samples that have a value.

    Weighted samples count by their weights.
    """

    samples: float
    exact: float
    total: float
    defined: float


def explain_multiclass(
    counts: Counts,
    values: dict[str, float],
    all_classes: bool = True,
    zero_division: float = nan,
    classes: Sequence[str] | None = None,
) -> Finding:
    """Explain why two numbers of a multiclass table are equal or differ; ``counts`` are one-vs-rest.

    ``all_classes`` is False where the samples of some class are ignored, so that averages leave it out.
    ``zero_division`` replaced 0/0 in the values. ``classes`` are names, by default numbers.
    """
    number = counts.tp.numel()
    classes = classes or [*map(str, range(number))]
    total, right = (x.sum().item() for x in (counts.support, counts.tp))
    known = (
        _micro(counts, values) or _inflated(counts, values, all_classes) or _occurring(counts, values, zero_division)
    )
    identity, table = known or NO_IDENTITY, None
    if known is None:
        identity, table = _of_classes(counts, values, zero_division, classes, "class")
    evidence = {"samples": total, "correct": right, "classes": number}
    return _finding(identity, values, table, evidence, 1 / total if total else 0.0)


def _micro(counts: Counts, values: Mapping[str, float]) -> Identity | None:
    if len(values) != 2 or not frozenset(values) <= MICRO:
        return None
    total, right = (x.sum().item() for x in (counts.support, counts.tp))
    wrong = "the 1 error" if total - right == 1 else f"each of the {total - right:,g} errors"
    return Identity(
        "micro-is-accuracy",
        (
            f"Equal by identity: every sample has one target and one prediction, so {wrong} "
            "is a false positive (of the predicted class) and a false negative (of the true one): ΣFP = ΣFN.",
            f"Micro-averaged precision, recall and F1 are therefore all ΣTP / N = {right:,g} / {total:,g}, which is "
            "the accuracy. Reporting several of them says nothing new; f1/macro and balanced_accuracy do.",
            *(_of_two_classes(counts) if counts.tp.numel() == 2 else ()),
        ),
    )


def _of_two_classes(counts: Counts) -> tuple[str, ...]:
    """Give the F1 of each of two classes, because F1 usually means that of the positive class, not a micro average."""
    first, second = find("f1")(counts).value().tolist()
    return (
        f"With two classes, F1 usually means the F1 of the positive class: here {second:.6g} for the second class "
        f"({first:.6g} for the first). BinaryEvaluation reports it as f1.",
    )


def _inflated(counts: Counts, values: Mapping[str, float], all_classes: bool) -> Identity | None:
    total, right = (x.sum().item() for x in (counts.support, counts.tp))
    if frozenset(values) != {"accuracy", f"{ONE_VS_REST}/macro"} or not all_classes or not total:
        return None
    classes, wrong = counts.tp.numel(), (total - right) / total
    words = (
        f"Each error is wrong in two of the {classes} one-vs-rest tables, and right in the rest: "
        f"mean one-vs-rest accuracy = 1 − 2·(1 − accuracy)/C = 1 − 2·{wrong:.6g}/{classes} "
        f"= {1 - 2 * wrong / classes:.6g}. It approaches 1 as the number of classes grows, whatever the model does."
    )
    return Identity("one-vs-rest-inflates", (words,))


def _occurring(counts: Counts, values: Mapping[str, float], zero_division: float) -> Identity | None:
    if frozenset(values) != {"balanced_accuracy", "recall/macro"}:
        return None
    occurring, classes = (counts.support != 0).sum().item(), counts.tp.numel()
    others = (
        "which are the same"
        if zero_division != zero_division
        else f"and zero_division = {zero_division:g} is the recall of the classes that do not occur"
    )
    words = (
        f"Balanced accuracy is the mean recall of the classes that occur as target, here {occurring} of {classes}; "
        f"macro recall is the mean over the classes whose recall has a value, {others}."
    )
    return Identity("balanced-accuracy-is-macro-recall", (words,))


def _of_classes(
    counts: Counts, values: Mapping[str, float], zero_division: float, names: Sequence[str], kind: str
) -> tuple[Identity, Table | None]:
    """Find an identity that holds for classes and labels alike: between means over all, or for one of them."""
    means = means_of(counts, values, zero_division)
    if means is not None:
        return identity_of_means(means, names, kind)
    return _of_one(counts, values, names, kind) or _beside_one(counts, values, names) or NO_IDENTITY, None


def _of_one(counts: Counts, values: Mapping[str, float], names: Sequence[str], kind: str) -> Identity | None:
    """Find the identity of two statistics of one class or label, which holds for any table."""
    (first, _, one), (second, _, other) = (name.partition("/") for name in [*values, *values][:2])
    if one != other or one not in names:
        return None
    bases = ["accuracy" if base == ONE_VS_REST else base for base in (first, second)]
    if not all(map(exists, bases)):
        return None
    table = counts.at([*names].index(one)).exact()
    found = identity_of(table, *(find(base).name for base in bases))
    if found is None or not found.reasons:
        return None
    words = "accuracy is one-vs-rest, so true negatives count as right. " if ONE_VS_REST in (first, second) else ""
    return Identity(
        found.code, (f"For the {kind} {one} against the rest: {words}{found.reasons[0]}", *found.reasons[1:])
    )


def _beside_one(counts: Counts, values: Mapping[str, float], names: Sequence[str]) -> Identity | None:
    """Explain the accuracy over all classes beside the recall of one class."""
    name = next(
        (each for each in values if each.partition("/")[0] == "recall" and each.partition("/")[2] in names), None
    )
    if name is None or "accuracy" not in values:
        return None
    place = [*names].index(name.partition("/")[2])
    support, right = counts.support.double(), counts.tp.double()
    total, own = support.sum().item(), support[place].item()
    others, recall = total - own, values[name]
    if not own or not others:
        return None
    rest = (right.sum() - right[place]).item() / others
    weight, gap = others / total, others / total * (rest - recall)
    return Identity(
        "accuracy-and-recall-of-class",
        (
            f"{name} looks only at the {numbered(own, 'sample')} of that class, accuracy at all {total:,g}.",
            f"accuracy is the mean recall of the classes, weighted by their samples: {1 - weight:.4g}·{recall:.4g} for "
            f"this class + {weight:.4g}·{rest:.4g} for all others together. So accuracy − {name} = {weight:.4g}·("
            f"{rest:.4g} − {recall:.4g}) = {gap:.6g}: equal when the others together have the same recall.",
        ),
    )


def explain_multilabel(
    counts: Counts,
    values: dict[str, float],
    labels: Sequence[str],
    all_labels: bool = True,
    zero_division: float = nan,
    sums: SampleSums | None = None,
) -> Finding:
    """Explain why two numbers over labels are equal or differ; ``counts`` are of each label.

    ``all_labels`` is False where some labels of some samples are ignored, which loosens the bounds between them.
    ``zero_division`` replaced 0/0 in the values. ``sums`` are needed to compare exact_match with a mean over samples.
    """
    accuracies = [float(v) for v in find("accuracy")(counts).value(zero_division)]
    table = Table(("label", "accuracy"), tuple((n, f"{a:.6g}") for n, a in zip(labels, accuracies, strict=True)))
    if frozenset(values) == {"exact_match", "hamming_accuracy"}:
        identity = _exact_and_hamming(counts, values, labels, accuracies, all_labels)
    elif sums is not None and "exact_match" in values:
        identity = _exact_and_samples(values, sums)
    else:
        identity, more = _of_classes(counts, values, zero_division, labels, "label")
        table = more or table
    evidence = {"accuracy": {name: None if a != a else a for name, a in zip(labels, accuracies, strict=True)}}
    total = counts.total.max().item()
    return _finding(identity, values, table, evidence, 1 / total / len(labels) if total else 0.0)


def _exact_and_hamming(
    counts: Counts, values: Mapping[str, float], labels: Sequence[str], accuracies: Sequence[float], all_labels: bool
) -> Identity:
    worst = min(range(len(labels)), key=accuracies.__getitem__)
    lowest = max(0.0, 1 - len(labels) * (1 - values["hamming_accuracy"]))
    bounds = (
        f"Whatever the model does, 1 − L·(1 − hamming_accuracy) = {lowest:.6g} ≤ exact_match ≤ "
        f"{accuracies[worst]:.6g}, the accuracy of the worst label ({labels[worst]}); "
        f"here exact_match is {values['exact_match']:.6g}.",
    )
    return Identity(
        "exact-match-and-hamming",
        (
            f"hamming_accuracy counts labels, exact_match counts samples with all {len(labels)} labels right, so one "
            "wrong label costs the whole sample.",
            *(bounds if all_labels and counts.total.any() else ()),
            "scikit-learn's accuracy_score of label indicators is exact_match.",
        ),
    )


def _exact_and_samples(values: Mapping[str, float], sums: SampleSums) -> Identity:
    """Explain exact_match beside a mean over samples: both give 1 to a sample that is right in every label."""
    [name] = [each for each in values if each != "exact_match"]
    statistic = "F1" if name.startswith("f1") else "Jaccard index"
    empty = sums.samples - sums.defined  # neither a label nor a prediction: right, and 0/0
    partly = sums.defined - (sums.exact - empty)
    reasons = [
        f"exact_match gives a sample 1 if all its labels are right, else 0; {name} gives it its own {statistic}, which "
        "is also 1 if all are right, and otherwise gives credit for the labels that are."
    ]
    if partly > 0:
        mean = max(sums.total - (sums.exact - empty), 0.0) / partly
        reasons.append(
            f"The {numbered(partly, 'sample')} with an error count{'s' if partly == 1 else ''} 0 for exact_match and "
            f"{mean:.4g} on average for {name}."
        )
    if empty > 0:
        reasons.append(
            f"{numbered(empty, 'sample')} {'has' if empty == 1 else 'have'} no label and no prediction: that is right "
            f"for exact_match, and 0/0 as {statistic}."
        )
    return Identity("exact-match-and-samples", tuple(reasons))


def _finding(
    identity: Identity, values: Mapping[str, float], table: Table | None, evidence: dict[str, Any], sample: float
) -> Finding:
    """The finding about two values; ``sample`` is how much one right prediction adds to an accuracy."""
    if len(values) != 2:
        raise InputError(f"expected two different numbers, got {next(iter(values))!r} twice.")
    (first, a), (second, b) = values.items()
    plain = {name: None if value != value else value for name, value in values.items()}
    code = identity.code
    if a != a or b != b:
        headline = f"{first} and {second} cannot be compared: one of them is 0/0 here."
        code = "undefined"
    elif a == b or abs(a - b) < 1e-12:  # infinite ones have no difference
        headline = f"{first} and {second} are equal: both are {a:.6g}."
    else:
        near = is_near(a, b)
        is_small = not near and abs(a - b) < sample
        small = "; one prediction counts more than this gap" if is_small else ""
        headline = f"{first} and {second} {differ(near or is_small)} by {abs(a - b):.6g}: {a:.6g} and {b:.6g}{small}."
    return Finding(code, headline, identity.reasons, table, {"values": plain, **evidence})
