"""Explains a stock torchmetrics collection: maps its metrics to our names, and reads the counts they hold."""

from __future__ import annotations

import re
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

from torchmetrics import MetricCollection

from lightning_evalkit.counts import Counts
from lightning_evalkit.diagnosis import Finding, Table, explain_multiclass, explain_multilabel
from lightning_evalkit.diagnosis import explain as explain_counts
from lightning_evalkit.errors import InputError
from lightning_evalkit.evaluation.base import Evaluation
from lightning_evalkit.statistics import f_beta

if TYPE_CHECKING:
    from torch import Tensor

EXACT = "exact_match"
NAMES = {
    "Accuracy": "accuracy",
    "CohenKappa": "kappa",
    "ExactMatch": EXACT,
    "F1Score": "f1",
    "FBetaScore": "f",
    "HammingDistance": "hamming_distance",
    "JaccardIndex": "jaccard",
    "MatthewsCorrCoef": "mcc",
    "NegativePredictiveValue": "negative_predictive_value",
    "Precision": "precision",
    "Recall": "recall",
    "Specificity": "specificity",
}
OF_ALL = {"accuracy": "recall", "hamming_distance": "false_negative_rate"}
"""The statistics that torchmetrics averages over classes under these names, unless micro."""
CLOSE = 1e-6
"""Values closer than this are equal in single precision."""


class Member(NamedTuple):
    """A metric of a collection: its names there and here, its number, and its counts.

    ``samples`` belongs to exact matches, which keep no counts of classes or labels; ``declared`` holds the options that
    decide predictions and leave samples out.
    """

    name: str
    task: str
    statistic: str
    value: float
    counts: Counts | None
    samples: int | None
    declared: tuple[Any, Any]


def explain(subject: Any, first: str | None = None, second: str | None = None) -> Finding:
    """Say why two numbers are equal or not: of counts, of an evaluation, or of a stock torchmetrics collection.

    Without names, all equal members of a stock collection are explained.

    >>> import torch
    >>> from torchmetrics.classification import BinaryAccuracy, BinaryF1Score
    >>> stock = MetricCollection([BinaryAccuracy(), BinaryF1Score()])
    >>> stock.update(torch.tensor([1, 0, 1, 0]), torch.tensor([1, 0, 0, 1]))
    >>> explain(stock).headline
    'BinaryAccuracy and BinaryF1Score are equal: both are 0.5.'
    """
    if isinstance(subject, Counts):
        return explain_counts(subject, first, second)
    if isinstance(subject, Evaluation):
        evaluation: Any = subject  # every final class explains itself
        finding: Finding = evaluation.explain(first, second)
        return finding
    if not isinstance(subject, MetricCollection):
        raise InputError(
            "expected Counts, an evaluation or a torchmetrics MetricCollection to explain, got "
            f"{type(subject).__name__}."
        )
    members = _members(subject)
    chosen = [_named(members, name) for name in (first, second) if name is not None] or members
    return _finding([pair for pair in combinations(chosen, 2) if len(chosen) == 2 or _equal(*pair)], members)


def _members(collection: MetricCollection) -> list[Member]:
    found = [_member(name, metric) for name, metric in collection.items()]
    members = [member for member in found if member is not None]
    if len(members) < 2:
        raise InputError(
            f"expected at least two metrics that are read from a confusion matrix, such as {', '.join(NAMES)}, each a "
            f"single number, got {len(members)} in {[*collection.keys()]}."
        )
    return members


def _named(members: list[Member], name: str) -> Member:
    for member in members:
        if name in (member.name, member.statistic):
            return member
    raise InputError(f"there is no {name!r} to explain: expected one of {', '.join(each.name for each in members)}.")


def _member(name: str, metric: Any) -> Member | None:
    """A member; None if it is not a statistic of a table, or several numbers."""
    kind = re.fullmatch(r"(Binary|Multiclass|Multilabel)(\w+)", type(metric).__name__)
    if kind is None or kind[2] not in NAMES:
        return None
    exact, counts = NAMES[kind[2]] == EXACT, _counts(metric)
    if counts is None and not exact:
        return None
    if not metric.update_called:
        raise InputError(f"nothing was counted by {name!r}: update the collection before it is explained.")
    value = metric.compute()
    if value.numel() > 1:
        return None
    statistic, samples = _statistic(kind[1], NAMES[kind[2]], metric), int(metric.total) if exact else None
    declared = getattr(metric, "threshold", None), metric.ignore_index
    return Member(name, kind[1], statistic, float(value), counts, samples, declared)


def _statistic(task: str, name: str, metric: Any) -> str:
    """Our name for torchmetrics' class: its macro and weighted multiclass accuracies are means of recall."""
    name = f_beta(metric.beta).name if name == "f" else name
    if name == "kappa":
        return name if metric.weights in (None, "none") else f"kappa with {metric.weights} weights"
    if task == "Binary" or name == EXACT or (name, task) == ("mcc", "Multiclass"):
        return name
    average = "micro" if name == "mcc" else metric.average  # for labels, from the sum of their tables
    if task == "Multiclass" and name in OF_ALL:
        return name if average == "micro" else f"{OF_ALL[name]}/{average}"
    return f"{name}/{average}"


def _counts(metric: Any) -> Counts | None:
    """The counts of a metric; None if it keeps others, or several predictions for each sample."""
    cells: list[Tensor] | None = None
    if getattr(metric, "top_k", 1) != 1:
        return None
    if all(hasattr(metric, cell) for cell in ("tp", "fp", "fn", "tn")):
        cells = [metric.tp, metric.fp, metric.fn, metric.tn]
    elif hasattr(metric, "confmat"):
        matrix = metric.confmat
        if type(metric).__name__.startswith("Multiclass"):
            right, wrong, missed = matrix.diagonal(), matrix.sum(0), matrix.sum(1)
            cells = [right, wrong - right, missed - right, matrix.sum() - wrong - missed + right]
        else:
            cells = [matrix[..., 1, 1], matrix[..., 0, 1], matrix[..., 1, 0], matrix[..., 0, 0]]
    if cells is None or any(isinstance(cell, list) for cell in cells):
        return None
    return Counts(*(cell.flatten() for cell in cells))


def _equal(one: Member, other: Member) -> bool:
    return abs(one.value - other.value) < CLOSE


def _finding(pairs: list[tuple[Member, Member]], members: list[Member]) -> Finding:
    table = Table(("metric", "is", "value"), tuple((m.name, m.statistic, f"{m.value:.6g}") for m in members))
    if not pairs:
        return Finding("collection", f"No two of the {len(members)} numbers are equal.", (), table)
    findings = [_of_pair(*pair, members) for pair in pairs]
    if len(findings) == 1:
        return Finding(findings[0].code, findings[0].headline, findings[0].reasons, table, findings[0].evidence)
    reasons = tuple(f"{each.headline} {each.reasons[0] if each.reasons else ''}".strip() for each in findings)
    return Finding("collection", f"{len(pairs)} pairs of the {len(members)} numbers are equal.", reasons, table)


def _of_pair(one: Member, other: Member, members: list[Member]) -> Finding:
    reasons, code, evidence = _reasons(one, other, members)
    gap = abs(one.value - other.value)
    how = f"are equal: both are {one.value:.6g}" if _equal(one, other) else f"differ by {gap:.6g}"
    return Finding(code, f"{one.name} and {other.name} {how}.", reasons, None, evidence)


def _reasons(one: Member, other: Member, members: list[Member]) -> tuple[tuple[str, ...], str, dict[str, Any]]:
    if one.statistic == other.statistic:
        return (f"Both are {one.statistic}, which torchmetrics has under both names.",), "same-statistic", {}
    if one.task != other.task or not _same_samples(one, other):
        words = "They have counted different tables, as of different thresholds or ignored samples."
        return (words,), "different-tables", {}
    counts = _fullest([one, other, *members])
    values = {one.statistic: one.value, other.statistic: other.value}
    if EXACT in values:
        return _of_exact_match(counts, values, max(one.samples or 0, other.samples or 0))
    if one.task == "Binary":
        found = explain_counts(counts.at(0), one.statistic, other.statistic, 0.0)
    elif one.task == "Multiclass":
        found = explain_multiclass(counts, values, zero_division=0.0)
    else:
        found = explain_multilabel(counts, values, [str(place) for place in range(counts.tp.numel())], True, 0.0)
    return found.reasons, found.code, found.evidence


def _fullest(members: list[Member]) -> Counts:
    """The most detailed counts among members that counted the same samples as the first two."""
    usable = [each.counts for each in members if each.counts is not None and _agrees(each, members[:2])]
    return max(usable, key=lambda counts: counts.tp.numel())


def _agrees(member: Member, pair: list[Member]) -> bool:
    return all(member.task == each.task and _same_samples(member, each) for each in pair)


def _of_exact_match(
    counts: Counts, values: dict[str, float], samples: int
) -> tuple[tuple[str, ...], str, dict[str, Any]]:
    """Explain exact match and label accuracy by their mutual bounds, if every label of every sample was counted."""
    [other] = [name for name in values if name != EXACT]
    labels, whole = counts.tp.numel(), bool((counts.total == samples).all())
    if other in ("accuracy/micro", "accuracy/macro") and labels > 1 and whole:
        of_labels = {EXACT: values[EXACT], "hamming_accuracy": values[other]}
        found = explain_multilabel(counts, of_labels, [*map(str, range(labels))], True, 0.0)
        return found.reasons, found.code, found.evidence
    words = f"exact_match counts samples that are right in every place, {other} counts places one by one."
    return (words,), "exact-match-and-places", {}


def _same_samples(one: Member, other: Member) -> bool:
    """Whether two states come from the same predictions; micro averages keep only sums over classes."""
    if one.counts is None or other.counts is None:
        return one.declared == other.declared  # exact matches keep too little to tell by
    pairs = zip(one.counts.cells, other.counts.cells, strict=True)
    same = one.counts.tp.numel() == other.counts.tp.numel()
    return all(bool((a == b).all()) if same else int(a.sum()) == int(b.sum()) for a, b in pairs)
