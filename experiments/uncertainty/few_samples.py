"""When does an average over classes need no interval? Simulated for classes with few samples.

    python experiments/uncertainty/few_samples.py --repetitions 500

An average has an interval if at most one in ten of its classes has fewer than five samples. Expected: with this rule
the 95 % interval of nearly every case contains the truth in at least 90 % of samples; without it macro F1 falls far
below, because the F1 of a few samples is too low on average. The truth of a sample is the average over the classes
that have a value in it: a class that does not occur is no part of the average.
"""

from __future__ import annotations

import argparse
import sys
from itertools import product
from typing import NamedTuple

import numpy as np
import torch

from lightning_evalkit import Counts
from lightning_evalkit.intervals import averages
from lightning_evalkit.intervals.matrices import Whole, matrix_interval
from lightning_evalkit.statistics import averaged, find

LEVEL, FREQUENT, ENOUGH = 0.95, 40, 200
"""The confidence; samples of a class that is not rare; how many samples with an interval tell a coverage."""
STATISTICS = ("f1", "precision", "recall")
RARE = (1, 3, 5, 8, 20)
HEADINGS = (
    "average",
    "samples per rare class",
    "has an interval",
    "coverage: lowest",
    "of cases at least 0.90",
    "without the rule: lowest",
)


class Case(NamedTuple):
    """Classes of which some are rare; ``worse`` ones are right less often than the others."""

    classes: int
    part: float
    rare: int
    accuracy: float
    worse: bool

    def matrix(self) -> np.ndarray:
        """The samples that are expected in each cell of the confusion matrix."""
        is_rare = np.arange(self.classes) < max(round(self.part * self.classes), 1)
        right = np.where(is_rare & self.worse, 0.7 * self.accuracy, self.accuracy)
        matrix = np.tile(((1 - right) / (self.classes - 1))[:, None], self.classes)
        np.fill_diagonal(matrix, right)
        return matrix * np.where(is_rare, self.rare, FREQUENT)[:, None]


class Found(NamedTuple):
    """In which share of samples the rule gives an interval, and the coverage of these and of all."""

    given: float
    with_rule: float
    without: float


def grid() -> list[Case]:
    return [
        Case(*each)
        for each in product((3, 10, 50), (0.1, 0.3, 1.0), RARE, (0.6, 0.9, 0.99), (False, True))
        if not (each[4] and each[1] == 1.0)  # all of them worse are all of them at a lower accuracy
    ]


def simulated(case: Case, repetitions: int, seed: int) -> dict[str, Found]:
    """The coverage of each average in one case."""
    rng, expected = np.random.default_rng(seed), case.matrix()
    truth = _counts(torch.from_numpy(expected))
    seen: dict[str, list[tuple[bool, bool]]] = {name: [] for name in STATISTICS}
    size, shares = round(expected.sum()), (expected / expected.sum()).ravel()
    for _ in range(repetitions):
        matrix = torch.from_numpy(rng.multinomial(size, shares).reshape(expected.shape))
        for name in STATISTICS:
            found = _interval(name, matrix)
            if found is not None:
                is_given, included, low, high = found
                value = float(averaged(find(name), truth, "macro", float("nan"), included))
                seen[name].append((is_given, low <= value <= high))
    return {name: _found(outcomes, repetitions) for name, outcomes in seen.items()}


def _found(outcomes: list[tuple[bool, bool]], repetitions: int) -> Found:
    given = [held for is_given, held in outcomes if is_given]
    without = [held for _, held in outcomes]
    coverages = [float(np.mean(each)) if len(each) >= ENOUGH else float("nan") for each in (given, without)]
    return Found(len(given) / repetitions, *coverages)


def _counts(matrix: torch.Tensor) -> Counts:
    tp = matrix.diagonal()
    fp, fn = matrix.sum(0) - tp, matrix.sum(1) - tp
    return Counts(tp=tp, fp=fp, fn=fn, tn=matrix.sum() - tp - fp - fn)


def _interval(name: str, matrix: torch.Tensor) -> tuple[bool, torch.Tensor, float, float] | None:
    """Whether the rule gives an interval, which classes are averaged, and the ends without the rule."""
    statistic, counts = find(name), _counts(matrix)
    included = ~statistic.value(counts).isnan()
    few = averages.too_few(averages.looked_at(statistic, counts)[included], "classes", "samples")
    rule, averages.MOST = averages.MOST, 1.0
    try:
        found = matrix_interval(
            statistic,
            lambda drawn: averaged(statistic, drawn, "macro", float("nan"), included),
            Whole(counts, matrix),
            LEVEL,
            "auto",
            included,
        )
    finally:
        averages.MOST = rule
    return (not few, included, found.low, found.high) if found.known else None


def rows(found: dict[Case, dict[str, Found]]) -> list[str]:
    lines = [f"| {' | '.join(HEADINGS)} |", "|---|---:|---:|---:|---:|---:|"]
    for name, rare in product(STATISTICS, (*RARE, None)):
        of_these = [each[name] for case, each in found.items() if rare is None or case.rare == rare]
        covered = np.array([each.with_rule for each in of_these if each.with_rule == each.with_rule])
        lowest = f"{covered.min():.3f} | {(covered >= 0.9).mean():.1%}" if len(covered) else "– | –"
        given = np.mean([each.given for each in of_these])
        without = np.nanmin([each.without for each in of_these])
        lines.append(f"| {name}/macro | {rare or 'all'} | {given:.0%} | {lowest} | {without:.3f} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=500, help="Samples that are drawn for each case.")
    given, cases = parser.parse_args(), grid()
    torch.set_num_threads(1)
    found = {}
    for number, case in enumerate(cases):
        print(f"\r{number + 1} of {len(cases)} cases", end="", file=sys.stderr, flush=True)
        found[case] = simulated(case, given.repetitions, seed=number)
    print(file=sys.stderr)
    print(f"{len(cases)} cases, {given.repetitions:,} samples of each.\n", "\n".join(rows(found)), sep="\n")


if __name__ == "__main__":
    main()
