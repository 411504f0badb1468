"""Applies the rules on numbers to an evaluation."""

from __future__ import annotations

from dataclasses import replace
from math import isnan
from typing import TYPE_CHECKING, Any

from lightning_evalkit.counts import Counts
from lightning_evalkit.diagnosis.numbers import Candidates, SeenNumbers, seen_counts
from lightning_evalkit.diagnosis.report import Diagnosis, judged
from lightning_evalkit.errors import InputError
from lightning_evalkit.evaluation.seen_scores import seen_scores, seen_sharpness
from lightning_evalkit.inputs import Multiclass, Multilabel
from lightning_evalkit.inputs.numbers import checked_share
from lightning_evalkit.intervals import table_interval
from lightning_evalkit.intervals.binomial import normal_quantile
from lightning_evalkit.statistics import find

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from lightning_evalkit.diagnosis.numbers import Task
    from lightning_evalkit.evaluation.base import Evaluation


def diagnose(
    seen: Evaluation | Counts,
    prevalence: float | None = None,
    ignore: Collection[str] = (),
    known: Collection[str] = (),
    train: Evaluation | Counts | None = None,
    against: Evaluation | Counts | None = None,
    candidates: Mapping[str, Sequence[float]] | None = None,
) -> Diagnosis:
    """Apply the rules on numbers; ``prevalence`` is the share of positives where the model will be used.

    ``train`` holds the counts of the training data, whose class frequencies may differ, and ``against`` the counts of
    another model to compare with. ``candidates`` holds, by statistic, the values of all epochs or models if the best of
    them was chosen on these samples: {"f1": [0.71, 0.80, 0.79]}. ``ignore`` lists codes of rules, ``known``
    fingerprints of findings that were accepted before.

    >>> from lightning_evalkit import Counts, diagnose
    >>> [finding.code for finding in diagnose(Counts(tp=40, fp=10, fn=10, tn=40)).findings]
    ['EK201', 'EK203', 'EK208']
    """
    if prevalence is not None:
        checked_share("prevalence", prevalence)
    numbers = _seen(seen, prevalence)
    if train is not None:
        numbers = replace(numbers, train=_tables_of(train, numbers))
    if against is not None:
        from lightning_evalkit.evaluation.comparison import compare

        numbers = replace(numbers, comparisons=compare(against, seen))
    if candidates is not None:
        numbers = replace(numbers, candidates=candidates_of(seen, candidates))
    return judged(numbers, "numbers", ignore, known)


def _seen(seen: Evaluation | Counts, prevalence: float | None = None) -> SeenNumbers:
    return seen_counts(seen, prevalence) if isinstance(seen, Counts) else seen_numbers(seen, prevalence)


def _tables_of(train: Evaluation | Counts, numbers: SeenNumbers) -> dict[str, Counts]:
    """The tables of the training data, if they are of the same classes."""
    tables = {"": train.exact()} if isinstance(train, Counts) else tables_of(train)
    if list(tables) != list(numbers.tables):
        raise InputError(
            f"expected train to count the same classes or labels, {', '.join(map(repr, numbers.tables))}, got "
            f"{', '.join(map(repr, tables))}."
        )
    return tables


def candidates_of(seen: Evaluation | Counts, values: Mapping[str, Sequence[float]]) -> dict[str, Candidates]:
    """Add the standard error of one candidate to each statistic whose interval is known."""
    found = {}
    for name, each in values.items():
        if isinstance(seen, Counts):
            interval, better = table_interval(seen.exact(), find(name)), find(name).higher_is_better
        else:
            interval, better = seen.interval(name), seen[name].higher_is_better
        if interval.known and better is not None:
            known = tuple(float(value) for value in each if not isnan(value))
            found[name] = Candidates(known, interval.width / (2 * normal_quantile(interval.level)), better)
    return found


class Diagnosing:
    """Adds ``diagnose`` to an evaluation."""

    def diagnose(
        self,
        prevalence: float | None = None,
        ignore: Collection[str] = (),
        known: Collection[str] = (),
        train: Evaluation | Counts | None = None,
        against: Evaluation | Counts | None = None,
        candidates: Mapping[str, Sequence[float]] | None = None,
    ) -> Diagnosis:
        """Apply the rules on numbers to the counts so far; every rank must call it, as it is a collective."""
        return diagnose(
            self,  # type: ignore[arg-type]  # an evaluation
            prevalence,
            ignore,
            known,
            train,
            against,
            candidates,
        )


def seen_numbers(evaluation: Evaluation, prevalence: float | None = None) -> SeenNumbers:
    """The facts that the rules read; every rank must call it, as it is a collective."""
    task: Any = evaluation.tally.counter.task
    values = {name: float(value) for name, value in evaluation.compute().items()}
    values = {entry.name: values[name] for name, entry in evaluation._entries()}
    kind, tables, scored = _kind(task), tables_of(evaluation), task.binning is not None
    nothing = evaluation.nothing_counted()
    return SeenNumbers(
        kind,
        tables,
        values,
        task.weighted,
        values.get("exact_match"),
        prevalence,
        "" if nothing is None else nothing.headline,
        seen_scores(evaluation, tables) if scored and kind != "multiclass" else {},
        seen_sharpness(evaluation, [""] if kind == "multiclass" else list(tables)) if scored else {},
        _bound_width(evaluation) if kind == "binary" and scored else 0.0,
    )


def tables_of(evaluation: Evaluation) -> dict[str, Counts]:
    """The counts of each class or label by name; a binary evaluation has one empty name."""
    kind, counts = _kind(evaluation.tally.counter.task), evaluation.counts
    if kind == "binary":
        if counts.tp.ndim:
            raise InputError(
                "expected an evaluation with one threshold, got several: diagnose(evaluation.counts.at(0))."
            )
        return {"": counts.exact()}
    return {name: counts.at(place).exact() for place, name in enumerate(evaluation.curve_names())}


def _kind(task: Any) -> Task:
    if isinstance(task, Multiclass):
        return "multiclass"
    return "multilabel" if isinstance(task, Multilabel) else "binary"


def _bound_width(evaluation: Any) -> float:
    bounds = evaluation.bounds("auroc")
    width = float(bounds.high - bounds.low)
    return width if width == width else 0.0
