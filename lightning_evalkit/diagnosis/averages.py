"""Explains why a number over all samples differs from the plain mean over classes or labels: their weights differ.

A fraction of sums is a mean of fractions, weighted by their denominators: Σ part / Σ whole = Σ (whole / Σ whole)
(part / whole). So accuracy is the mean recall of the classes, weighted by their samples, and their mean F1, weighted by
targets and predictions together; a macro average gives every class the same weight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from lightning_evalkit.diagnosis.finding import Table
from lightning_evalkit.diagnosis.identities import Identity
from lightning_evalkit.statistics import find

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

    from lightning_evalkit.counts import Counts

ALL_SAMPLES = ("recall", "precision", "f1")
"""The micro averages of these statistics over classes are the accuracy."""
BY = {"recall": "its samples", "precision": "its predictions", "f1": "its samples and predictions together"}
PLURAL = {"class": "classes", "label": "labels"}
SHOWN = 10


class Means(NamedTuple):
    """One statistic of every class or label, with its weight in either mean; weights add up to 1."""

    statistic: str
    pooled: str
    plain: str
    values: Tensor
    by_size: Tensor
    alike: Tensor


def means_of(counts: Counts, values: Mapping[str, float], zero_division: float) -> Means | None:
    """Find two numbers that average the same values with different weights; None if computing both disproves it."""
    pairs = [(one, other) for one in values for other in values if one != other]
    found = (_means(counts, *pair, zero_division) for pair in pairs)
    return next((each for each in found if each is not None and _holds(each, values)), None)


def _means(counts: Counts, pooled: str, plain: str, zero_division: float) -> Means | None:
    base, _, over = ("recall", "", "macro") if plain == "balanced_accuracy" else plain.partition("/")
    pools = (f"{base}/micro", *(["accuracy"] if base in ALL_SAMPLES else []))
    if over != "macro" or pooled not in pools or not counts.total.any():
        return None
    quantity = find("accuracy" if base == "one_vs_rest_accuracy" else base).in_tensors(counts)
    if len(quantity.terms) > 1 or quantity.terms[0].root or quantity.constant or quantity.divisor != 1:
        return None
    whole = quantity.terms[0].whole
    zero_division = torch.nan if plain == "balanced_accuracy" else zero_division
    each = quantity.value(zero_division)
    included = ~each.isnan()
    alike = included.to(each) / included.sum()
    return Means(base, pooled, plain, each.where(included, 0.0), whole / whole.sum(), alike)


def _holds(means: Means, values: Mapping[str, float]) -> bool:
    """Whether both means give the reported values, which they do not if classes are left out or top_k is above 1."""
    computed = {means.pooled: means.by_size, means.plain: means.alike}
    return all(abs(float((weights * means.values).sum()) - values[name]) < 1e-9 for name, weights in computed.items())


def identity_of_means(means: Means, names: Sequence[str], kind: str) -> tuple[Identity, Table]:
    """Explain why the two differ, and list the classes or labels that make the difference."""
    number = int((means.alike > 0).sum())
    mean = float((means.alike * means.values).sum())
    # Both weights add up to 1, so subtracting the mean from every value keeps the gap and shows who contributes to it.
    moved = (means.by_size - means.alike) * (means.values - mean)
    gap, largest = float(moved.sum()), int(moved.abs().argmax())
    statistic = "F1" if means.statistic == "f1" else means.statistic.replace("_", " ")
    by = BY.get(means.statistic, f"the denominator of its {statistic}")
    what = (
        f"Both are means of the {statistic} of each {kind}: {means.pooled} weights a {kind} by {by}, {means.plain} "
        f"gives {number} of {len(names)} {PLURAL[kind]} the same weight, 1/{number}."
    )
    identity = f"{means.pooled} − {means.plain} = Σ (weight − 1/{number})·{statistic} = {gap:.6g}"
    return Identity("two-means", (what, f"{identity}: {_why(means, names, largest, moved, statistic)}.")), _table(
        means, names, moved, kind
    )


def _why(means: Means, names: Sequence[str], largest: int, moved: Tensor, statistic: str) -> str:
    if not moved.abs().max() > 1e-12:
        there = means.values[means.alike > 0]
        same = "values" if bool((there - there[0]).abs().max() < 1e-12) else "weights"
        return f"they are equal, because all {same} are the same"
    weight, alike = float(means.by_size[largest]), float(means.alike[largest])
    more = "more" if weight > alike else "less"
    return (
        f"{names[largest]} contributes most, as its {statistic} is {float(means.values[largest]):.4g} and its weight "
        f"{weight:.4g}, {more} than {alike:.4g}"
    )


def _table(means: Means, names: Sequence[str], moved: Tensor, kind: str) -> Table:
    """List the classes or labels that contribute most to the difference."""
    places = moved.abs().argsort(descending=True, stable=True)[:SHOWN].tolist()
    rows = [
        (
            names[place],
            f"{float(means.values[place]):.6g}" if means.alike[place] else "undefined",
            f"{float(means.by_size[place]):.4g}",
            f"{float(means.alike[place]):.4g}",
        )
        for place in places
    ]
    return Table((kind, means.statistic, f"weight in {means.pooled}", f"in {means.plain}"), tuple(rows))
