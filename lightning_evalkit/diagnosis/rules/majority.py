"""Rules that compare a classifier with always giving the same answer."""

from __future__ import annotations

from typing import NamedTuple

from lightning_evalkit.counts import Counts
from lightning_evalkit.diagnosis.numbers import SeenNumbers, seen_counts
from lightning_evalkit.diagnosis.rules.table import Found, Power, rule

CHANCE = 0.05
OF_THRESHOLDS = ("EK204", "EK210", "EK220")
"""Rules that do not apply to a threshold other than 0.5, which trades accuracy for recall on purpose."""


@rule(
    "EK204",
    "worse than always answering the majority",
    "numbers",
    severity="warning",
    certainty="significant",
    why="A high accuracy says little if one class makes up most of the data.",
    remedy="Look at balanced_accuracy, mcc or recall per class, and at the threshold.",
    known_problems="A model that is meant to find rare positives may give up accuracy on purpose.",
    example=lambda: seen_counts(Counts(tp=10, fp=100, fn=10, tn=880)),
    counterexample=lambda: seen_counts(Counts(tp=80, fp=20, fn=20, tn=880)),
    power=Power("one sample in ten is positive, recall is 0.5 and specificity 0.85", 500, 0.95),
)
def below_majority(seen: SeenNumbers) -> list[Found] | None:
    """Always answering the most frequent class would be right more often, beyond chance (McNemar's exact test)."""
    beside = _beside_majority(seen)
    if beside is None:
        return None
    return [("accuracy", beside.words, {**beside.evidence, "p_value": beside.worse})]


@rule(
    "EK220",
    "not shown to be better than the majority",
    "numbers",
    severity="tip",
    certainty="certain",
    why="Always answering the most frequent class needs no model. These samples do not show that the model is better.",
    remedy="Report the share of the majority with the accuracy; evaluate more samples, or look at balanced_accuracy.",
    known_problems="A model may be better by less than these samples can show: the 5 % level decides.",
    example=lambda: seen_counts(Counts(tp=10, fp=9, fn=90, tn=891)),
    counterexample=lambda: seen_counts(Counts(tp=80, fp=20, fn=20, tn=880)),
    power=Power("one sample in ten is positive; 10 % of positives and 1 % of negatives are called positive", 500, 0.85),
)
def not_above_majority(seen: SeenNumbers) -> list[Found] | None:
    """The accuracy is neither significantly higher nor lower than that of always answering the most frequent class."""
    beside = _beside_majority(seen)
    if beside is None:
        return None
    if beside.better <= CHANCE or beside.worse <= CHANCE:
        return []
    return [("accuracy", beside.words, {**beside.evidence, "p_value": beside.better})]


class _Majority(NamedTuple):
    """The comparison of a classifier with the most frequent class, by the samples that only one of them gets right."""

    words: str
    evidence: dict[str, float]
    worse: float
    better: float


def _beside_majority(seen: SeenNumbers) -> _Majority | None:
    from scipy.stats import binom

    tables = _one_vs_rest(seen)
    if tables is None:
        return None
    most = max(tables, key=lambda name: tables[name].positives)
    gained = int(sum(table.tp for name, table in tables.items() if name != most))
    either = gained + int(tables[most].fn)
    right = float(sum(table.tp for table in tables.values()) / seen.total)
    majority = float(tables[most].positives / seen.total)
    words = f"accuracy is {right:.4f}; always answering {most!r} gives {majority:.4f}."
    worse = float(binom.cdf(gained, either, 0.5))
    better = float(binom.sf(gained - 1, either, 0.5)) if either else 0.0  # the majority itself is another rule's
    return _Majority(words, {"accuracy": right, "majority": majority}, worse, better)


def _one_vs_rest(seen: SeenNumbers) -> dict[str, Counts] | None:
    """A table for each class, also of a binary evaluation; None if samples have several labels, or weights."""
    if seen.weighted or not seen.total:
        return None
    if seen.table is not None:
        return {"negative": seen.table.swapped(), "positive": seen.table}
    return seen.tables if seen.exclusive else None


@rule(
    "EK205",
    "only one class is predicted",
    "numbers",
    severity="warning",
    certainty="certain",
    why="The model gives every sample the same answer: its accuracy is the share of that class and says nothing about "
    "the model.",
    remedy="Look at the scores and the threshold, at a loss that the majority dominates, and at the learning rate.",
    known_problems="No case is known where it is wrong.",
    example=lambda: seen_counts(Counts(tp=0, fp=0, fn=10, tn=90)),
    counterexample=lambda: seen_counts(Counts(tp=1, fp=0, fn=9, tn=90)),
)
def one_class(seen: SeenNumbers) -> list[Found] | None:
    """Every sample was predicted as the same class, although several occur."""
    tables = _one_vs_rest(seen)
    if tables is None or sum(table.positives > 0 for table in tables.values()) < 2:
        return None
    total = seen.total
    said = [name for name, table in tables.items() if table.predicted_positives == total]
    return [("predictions", f"all {total:,} samples were predicted as {name!r}.", {"class": name}) for name in said]
