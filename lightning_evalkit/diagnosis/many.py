"""Why two numbers over many classes or labels are equal, or not."""

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
    """Of all samples: how many, how many are right in every label, and the sum of a statistic over those that have it.

    Weights are summed where samples are weighted.
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
    """Say whether two numbers of a multiclass table are equal, and why; counts are of one class against the rest.

    ``all_classes`` is False where the samples of some class are ignored, so that averages leave it out.
    ``zero_division`` is what stood for 0/0 in the values. ``classes`` are names, by default numbers.
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
    """Say what the F1 of a yes-or-no problem is, which micro averages of its two classes are not."""
    first, second = find("f1")(counts).value().tolist()
    return (
        f"With two classes the F1 that is usually meant is that of the positive class alone, here {second:.6g} of the "
        f"second class ({first:.6g} of the first): BinaryEvaluation reports it as f1.",
    )


def _inflated(counts: Counts, values: Mapping[str, float], all_classes: bool) -> Identity | None:
    total, right = (x.sum().item() for x in (counts.support, counts.tp))
    if frozenset(values) != {"accuracy", f"{ONE_VS_REST}/macro"} or not all_classes or not total:
        return None
    classes, wrong = counts.tp.numel(), (total - right) / total
    words = (
        f"One class against the rest is wrong in two tables for each error, and right in the other {classes - 2}: "
        f"mean one-vs-rest accuracy = 1 − 2·(1 − accuracy)/C = 1 − 2·{wrong:.6g}/{classes} "
        f"= {1 - 2 * wrong / classes:.6g}. It nears 1 as the number of classes grows, whatever the model does."
    )
    return Identity("one-vs-rest-inflates", (words,))


def _occurring(counts: Counts, values: Mapping[str, float], zero_division: float) -> Identity | None:
    if frozenset(values) != {"balanced_accuracy", "recall/macro"}:
        return None
    occurring, classes = (counts.support != 0).sum().item(), counts.tp.numel()
    others = (
        "which are the same"
        if zero_division != zero_division
        else f"and zero_division = {zero_division:g} is the value of those that do not occur"
    )
    words = (
        f"Balanced accuracy is the mean recall of the classes that occur as target, here {occurring} of {classes}; "
        f"macro recall is over the classes where recall has a value, {others}."
    )
    return Identity("balanced-accuracy-is-macro-recall", (words,))


def _of_classes(
    counts: Counts, values: Mapping[str, float], zero_division: float, names: Sequence[str], kind: str
) -> tuple[Identity, Table | None]:
    """Identities of classes and labels alike: of one of them, and of means over all."""
    means = means_of(counts, values, zero_division)
    if means is not None:
        return identity_of_means(means, names, kind)
    return _of_one(counts, values, names, kind) or _beside_one(counts, values, names) or NO_IDENTITY, None


def _of_one(counts: Counts, values: Mapping[str, float], names: Sequence[str], kind: str) -> Identity | None:
    """Two statistics of one class or label, by what holds for any table."""
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
    words = "accuracy is right of all, one-vs-rest: true negatives count. " if ONE_VS_REST in (first, second) else ""
    return Identity(
        found.code, (f"Of the {kind} {one} against everything else: {words}{found.reasons[0]}", *found.reasons[1:])
    )


def _beside_one(counts: Counts, values: Mapping[str, float], names: Sequence[str]) -> Identity | None:
    """Accuracy of all classes beside the recall of one."""
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
            f"{name} looks at the {numbered(own, 'sample')} of that class alone, accuracy at all {total:,g}.",
            f"accuracy is the mean recall of the classes by their samples: {1 - weight:.4g}·{recall:.4g} of this class "
            f"+ {weight:.4g}·{rest:.4g} of the others together. So accuracy − {name} = {weight:.4g}·({rest:.4g} − "
            f"{recall:.4g}) = {gap:.6g}: equal when the others are recognised as often.",
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
    """Say whether two numbers over labels are equal, and why; counts are of each label.

    ``all_labels`` is False where some labels of some samples are ignored, which loosens the bounds between them.
    ``zero_division`` is what stood for 0/0 in the values. ``sums`` are those of exact_match beside a mean over samples.
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
    """A sample that is right in every label has F1 and Jaccard index 1, if it has any; others have less, but not 0."""
    [name] = [each for each in values if each != "exact_match"]
    statistic = "F1" if name.startswith("f1") else "Jaccard index"
    empty = sums.samples - sums.defined  # neither a label nor a prediction: right, and 0/0
    partly = sums.defined - (sums.exact - empty)
    reasons = [
        f"exact_match gives a sample 1 if all its labels are right, else 0; {name} gives it its own {statistic}, which "
        "is 1 too if all are right, and otherwise the part that is."
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
    """The finding of two values; ``sample`` is what one more right prediction adds."""
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
        near = is_near(a, b) or abs(a - b) < sample
        headline = f"{first} and {second} {differ(near)} by {abs(a - b):.6g}: {a:.6g} and {b:.6g}."
    return Finding(code, headline, identity.reasons, table, {"values": plain, **evidence})
