"""Facts about an evaluation's scores for the rules on numbers."""

from __future__ import annotations

from math import nan, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from lightning_evalkit.diagnosis.numbers import SeenScores
from lightning_evalkit.intervals.calibrated import Scored, Sharpness, half_f1, sharpness
from lightning_evalkit.intervals.cuts import f1_gain
from lightning_evalkit.statistics import find
from lightning_evalkit.statistics.thresholds import best_threshold, counts_at

if TYPE_CHECKING:
    from lightning_evalkit.counts import Calibration, Counts, ScoreCounts

SURE = 0.99
"""The confidence level of the interval of a gain in F1."""


def seen_scores(evaluation: Any, tables: dict[str, Counts]) -> dict[str, SeenScores]:
    """The scores of each class or label by name; empty if none were counted."""
    scores, task = evaluation._scores(), evaluation.tally.counter.task
    thresholds = task.thresholds if len(task.thresholds) > 1 else task.thresholds * len(tables)
    found = {}
    for place, (name, table) in enumerate(tables.items()):
        question = scores.only(place).filled()
        filled = (question.yes + question.no)[0].nonzero().flatten()
        if len(filled):
            first = question.edges.first[filled]
            found[name] = _question(task.inputs, question, table, float(thresholds[place]), first.tolist())
    return found


def _question(inputs: str, scores: ScoreCounts, table: Counts, threshold: float, first: list[float]) -> SeenScores:
    scored = scored_of(scores)
    chances, weights = scored.probabilities, scored.total
    squares = scored.yes * (1 - chances) ** 2 + scored.no * chances**2
    choice = best_threshold(scores, "f1")
    best = counts_at(scores, float(choice.threshold[0])) if choice.value[0] == choice.value[0] else None
    return SeenScores(
        inputs,
        first[0],
        first[-1],
        float((weights * chances).sum() / weights.sum()),
        float(max((weights * chances * (1 - chances)).sum(), squares.sum())),  # overconfident scores understate it
        threshold,
        float(find("f1")(table).value()),
        half_f1(scored)._replace(f1=float(choice.value[0]), threshold=float(choice.threshold[0])),
        None if best is None else f1_gain(table, best.at(0).exact(), SURE),
        len(first) <= 2,
    )


def scored_of(scores: ScoreCounts) -> Scored:
    """The numbers of positives and negatives by probability, summed over all classes or labels of the histogram."""
    yes, no = (part.sum(0).double().cpu().numpy() for part in (scores.yes, scores.no))
    chances = ((scores.lowest + scores.highest) / 2).double().cpu().numpy()
    filled = (yes + no) > 0
    return Scored(np.clip(chances[filled], 0, 1), yes[filled], no[filled])


def seen_sharpness(evaluation: Any, names: list[str]) -> dict[str, Sharpness]:
    """The temperature of each label by name; classes share one, tested by the confidence of the predicted class."""
    scores, sums = evaluation._judged()
    if list(evaluation.curve_names()) == names:
        return {name: sharpness(scored_of(scores.only(place))) for place, name in enumerate(names)}
    return {"": Sharpness(sharpness(scored_of(scores)).temperature, _too_confident(sums))}


def _too_confident(sums: Calibration) -> float:
    """The number of standard errors by which the mean confidence in the predicted class exceeds the share of hits."""
    weights, confidences, hits = (part[0].double() for part in (sums.bin_weights, sums.confidences, sums.hits))
    mean = (confidences / weights).nan_to_num(0.0)
    variance = float((weights * mean * (1 - mean)).sum())
    return float(confidences.sum() - hits.sum()) / sqrt(variance) if variance > 0 else nan
