"""How often do 95 % intervals contain the truth? Simulated for tables, averages over classes and AUROC.

    python experiments/uncertainty/coverage.py --repetitions 10000 --write docs/intervals.md

Expected: the default methods contain the truth in 90 to 98.5 % of samples in every cell of the grid; percentiles of the
bootstrap fall to two thirds for good classifiers and rare positives. The table is written between the two marks of the
page, so that the documentation shows what was measured.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from functools import cache
from math import erf
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from lightning_evalkit import BinaryEvaluation, Counts, MulticlassEvaluation
from lightning_evalkit.intervals import Interval, intervals
from lightning_evalkit.statistics import find

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MARKS = "<!-- coverage: begin -->", "<!-- coverage: end -->"


@dataclass(frozen=True)
class Cell:
    """A statistic of samples drawn at random, whose truth is known."""

    group: str
    statistic: str
    case: str
    truth: float
    draw: Callable[[np.random.Generator, str], Interval]
    compared: str = "bootstrap"

    def covered(self, repetitions: int, method: str = "auto", seed: int = 0) -> tuple[float, float]:
        """In which share of samples the interval contains the truth, and how wide it is on average."""
        rng = np.random.default_rng(seed)
        drawn = [self.draw(rng, method) for _ in range(repetitions)]
        known = [each for each in drawn if each.known]
        return float(np.mean([self.truth in each for each in known])), float(np.mean([each.width for each in known]))


# ---- tables of true and false positives and negatives

TABLES = [(n, prevalence, rate) for n in (50, 200, 1_000) for prevalence in (0.5, 0.1) for rate in (0.8, 0.97)]


def tables() -> Iterable[Cell]:
    for n, prevalence, rate in TABLES:
        shares = np.array([prevalence * rate, (1 - prevalence) * (1 - rate), prevalence * (1 - rate)])
        shares = np.append(shares, 1 - shares.sum())
        for name in ("f1", "mcc", "balanced_accuracy"):
            truth = float(find(name)(Counts(*torch.from_numpy(shares))).value())

            def draw(rng: np.random.Generator, method: str, n: int = n, shares: np.ndarray = shares, name: str = name):
                return _of_table(name, tuple(map(int, rng.multinomial(n, shares))), method)

            yield Cell("one table", name, f"n = {n:,}, {prevalence:.0%} positive, r = s = {rate}", truth, draw)


@cache
def _of_table(name: str, cells: tuple[int, ...], method: str) -> Interval:
    """Good classifiers give the same table again and again."""
    return intervals(Counts(*cells), name, method=method)[name]


# ---- averages over classes

CLASSES = [(3, 50, 0.9, 1.0), (3, 100, 0.99, 1.0), (3, 200, 0.7, 0.3), (10, 300, 0.8, 1.0), (10, 300, 0.99, 1.0)]
CLASSES += [(5, 1_000, 0.95, 0.5), (20, 400, 0.9, 0.9)]


def classes() -> Iterable[Cell]:
    for number, n, accuracy, decay in CLASSES:
        frequency = decay ** np.arange(number)
        matrix = np.full((number, number), (1 - accuracy) / (number - 1))
        np.fill_diagonal(matrix, accuracy)
        matrix *= (frequency / frequency.sum())[:, None]
        for name in ("f1/macro", "mcc"):
            truth = _of_matrix(name, number, np.round(matrix * 1e9).astype(np.int64), "auto").value

            def draw(rng: np.random.Generator, method: str, n: int = n, matrix: np.ndarray = matrix, name: str = name):
                drawn = rng.multinomial(n, matrix.ravel()).reshape(matrix.shape)
                return _of_matrix(name, len(matrix), drawn, method)

            case = f"C = {number}, n = {n:,}, accuracy {accuracy}" + (", unequal classes" if decay < 1 else "")
            yield Cell("all classes", name, case, truth, draw)


def _of_matrix(name: str, number: int, matrix: np.ndarray, method: str) -> Interval:
    evaluation = MulticlassEvaluation("labels", number, confusion_matrix=True, statistics=[name], zero_division=0.0)
    samples = torch.tensor([*matrix.ravel().tolist(), int(matrix.sum()), 1])
    evaluation.tally.totals.integers.copy_(samples)  # as if so many samples had been counted
    return evaluation.interval(name, method=method)


# ---- AUROC

SCORES = [(10, 90, 1.0), (10, 90, 2.5), (20, 200, 2.5), (20, 200, 3.0), (50, 500, 1.5), (200, 200, 1.0)]


def areas() -> Iterable[Cell]:
    for positives, negatives, distance in SCORES:

        def draw(rng: np.random.Generator, method: str, m: int = positives, n: int = negatives, d: float = distance):
            evaluation = BinaryEvaluation("logits", statistics=["auroc"], curves=True, resolution=4_096)
            target = torch.arange(m + n) < m
            evaluation.update(torch.from_numpy(rng.normal(size=m + n)).float() + d * target, target.long())
            return evaluation.interval("auroc", method=method)

        truth = (1 + erf(distance / 2)) / 2  # of two normal distributions at this distance
        case = f"{positives} positive, {negatives} negative"
        yield Cell("scores", "auroc", case, truth, draw, "hanley-mcneil")


def grid() -> list[Cell]:
    return [*tables(), *classes(), *areas()]


def rows(repetitions: int) -> list[str]:
    lines = [
        "| statistic | samples | truth | default: coverage | width | other method: coverage | width |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for cell in grid():
        ours, other = cell.covered(repetitions), cell.covered(repetitions, cell.compared)
        lines.append(
            f"| {cell.statistic} | {cell.case} | {cell.truth:.3f} | **{ours[0]:.3f}** | {ours[1]:.3f} "
            f"| {cell.compared} {other[0]:.3f} | {other[1]:.3f} |"
        )
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=1_000)
    parser.add_argument("--write", type=Path, help="the page whose table is replaced")
    given = parser.parse_args()
    torch.set_num_threads(1)
    table = "\n".join(rows(given.repetitions))
    if given.write:
        text, marks = given.write.read_text(encoding="utf-8"), [re.escape(mark) for mark in MARKS]
        said = f"{MARKS[0]}\n{given.repetitions:,} samples were drawn for each row.\n\n{table}\n{MARKS[1]}"
        given.write.write_text(re.sub(".*".join(marks), lambda _: said, text, flags=re.DOTALL), encoding="utf-8")


if __name__ == "__main__":
    main()
