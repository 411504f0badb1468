"""Compares how frequent classes are in training and in validation, from the counts of metrics of both stages.

No name is interpreted. Two metrics ask the same question if all metrics of training that count these classes have
counted the same samples, and all metrics of the validation loader too; otherwise nothing is compared.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lightning_evalkit.callbacks.diagnosing.epoch_state import table_of
from lightning_evalkit.evaluation.base import Evaluation

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from lightning_evalkit.counts import Counts, Totals
    from lightning_evalkit.diagnosis.numbers import SeenNumbers

    Tables = dict[str, Counts]


@dataclass
class MetricNumbers:
    """The numbers of one metric or evaluation of validation or test."""

    path: str
    numbers: SeenNumbers
    unasked: Collection[str] = ()
    """Codes of rules that do not apply."""
    dataloaders: frozenset[int] = frozenset()


def tables_in(metric: Any, totals: Totals) -> Tables:
    """The counts of each class or label in totals of this package's metrics; empty if the metric has none."""
    if not isinstance(metric, Evaluation):
        table = table_of(metric, totals)
        return {} if table is None else {"": table}
    counts, names = metric.tally.value_of(totals).counts, metric.curve_names()
    return {name: (counts.at(place) if counts.tp.ndim else counts).exact() for place, name in enumerate(names)}


def with_training(seen: Sequence[MetricNumbers], trained: Sequence[Tables]) -> list[MetricNumbers]:
    """Add the counts of training to the numbers that ask the same question."""
    found = []
    for each in seen:
        here = [other.numbers.tables for other in seen if other.dataloaders == each.dataloaders]
        here, there = (_alike(each.numbers.tables, tables) for tables in (here, trained))
        is_one_question = _are_same_samples(here) and _are_same_samples(there) and _are_whole(there[0])
        numbers = replace(each.numbers, train=there[0]) if is_one_question else each.numbers
        found.append(replace(each, numbers=numbers))
    return found


def _alike(tables: Tables, others: Sequence[Tables]) -> list[Tables]:
    """The tables of metrics that count the same classes."""
    return [other for other in others if list(other) == list(tables)]


def _are_same_samples(found: Sequence[Tables]) -> bool:
    """Whether there are tables, and all have the same number of samples of each class."""
    return len({tuple((table.positives, table.negatives) for table in each.values()) for each in found}) == 1


def _are_whole(tables: Tables) -> bool:
    """Whether samples were counted, not their weights."""
    return all(isinstance(cell, int) for table in tables.values() for cell in table.cells)
