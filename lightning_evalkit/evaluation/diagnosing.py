"""An evaluation looked at by the rules on numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lightning_evalkit.counts import Counts
from lightning_evalkit.diagnosis.numbers import SeenNumbers, SeenScores, seen_counts
from lightning_evalkit.diagnosis.report import Diagnosis, judged
from lightning_evalkit.errors import InputError
from lightning_evalkit.inputs import Multiclass, Multilabel
from lightning_evalkit.inputs.numbers import checked_share
from lightning_evalkit.statistics import find

if TYPE_CHECKING:
    from collections.abc import Collection

    from lightning_evalkit.diagnosis.numbers import Task
    from lightning_evalkit.evaluation.base import Evaluation


def diagnose(
    seen: Evaluation | Counts,
    prevalence: float | None = None,
    ignore: Collection[str] = (),
    known: Collection[str] = (),
) -> Diagnosis:
    """What an expert would say about these numbers; ``prevalence`` is the share of positives where they will be used.

    ``ignore`` are codes of rules, ``known`` are fingerprints of findings that were accepted before.

    >>> from lightning_evalkit import Counts, diagnose
    >>> [finding.code for finding in diagnose(Counts(tp=40, fp=10, fn=10, tn=40)).findings]
    ['EK201', 'EK203', 'EK208']
    """
    if prevalence is not None:
        checked_share("prevalence", prevalence)
    numbers = seen_counts(seen, prevalence) if isinstance(seen, Counts) else seen_numbers(seen, prevalence)
    return judged(numbers, "numbers", ignore, known)


class Diagnosing:
    """The rules on numbers, asked of an evaluation."""

    def diagnose(
        self, prevalence: float | None = None, ignore: Collection[str] = (), known: Collection[str] = ()
    ) -> Diagnosis:
        """What an expert would say about the numbers counted so far; every rank has to ask, as this joins them."""
        return diagnose(self, prevalence, ignore, known)  # type: ignore[arg-type]  # an evaluation, which is above


def seen_numbers(evaluation: Evaluation, prevalence: float | None = None) -> SeenNumbers:
    """The facts that the rules look at; every rank has to ask, as this joins them."""
    task: Any = evaluation.tally.counter.task
    values = {name: float(value) for name, value in evaluation.compute().items()}
    values = {entry.name: values[name] for name, entry in evaluation._entries()}
    kind = _kind(task)
    counts = evaluation.counts
    if kind == "binary" and counts.tp.ndim:
        raise InputError("expected an evaluation with one threshold, got several: diagnose(evaluation.counts.at(0)).")
    names = [""] if kind == "binary" else list(evaluation.curve_names())
    tables = dict(zip(names, [counts] if kind == "binary" else map(counts.at, range(len(names))), strict=True))
    return SeenNumbers(
        kind,
        {name: table.exact() for name, table in tables.items()},
        values,
        task.weighted,
        values.get("exact_match"),
        prevalence,
        _scores(evaluation) if kind == "binary" and task.binning is not None else None,
        _bound_width(evaluation) if kind == "binary" and task.binning is not None else 0.0,
    )


def _kind(task: Any) -> Task:
    if isinstance(task, Multiclass):
        return "multiclass"
    return "multilabel" if isinstance(task, Multilabel) else "binary"


def _scores(evaluation: Any) -> SeenScores | None:
    histogram, reliability = evaluation._scores(), evaluation.reliability()
    filled = (histogram.yes + histogram.no)[0].nonzero().flatten()
    if not len(filled):
        return None
    samples, confidence = reliability.samples.double(), reliability.confidence.double().nan_to_num(0.0)
    best = evaluation.best_threshold("f1")
    first = histogram.edges.first[filled]
    return SeenScores(
        evaluation.tally.counter.task.inputs,
        float(first[0]),
        float(first[-1]),
        float((samples * confidence).sum() / samples.sum()),
        float((samples * confidence * (1 - confidence)).sum()),
        float(find("f1")(evaluation.at_threshold(best)).value()),
        float(best),
        float(evaluation.threshold),
        float(find("f1")(evaluation.counts).value()),
    )


def _bound_width(evaluation: Any) -> float:
    bounds = evaluation.bounds("auroc")
    width = float(bounds.high - bounds.low)
    return width if width == width else 0.0
