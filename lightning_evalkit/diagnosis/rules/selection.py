"""Rules on numbers that were chosen because they were the best."""

from __future__ import annotations

from math import pi, sqrt
from statistics import NormalDist

from lightning_evalkit.diagnosis.numbers import Candidates, SeenNumbers
from lightning_evalkit.diagnosis.rules.table import Found, Power, rule

NEAR = 3.0
"""Candidates within so many standard errors of the best could have been the best by chance."""


def _chosen(*values: float) -> SeenNumbers:
    return SeenNumbers("binary", {}, candidates={"f1": Candidates(values, 0.02)})


@rule(
    "EK224",
    "the best of several epochs is optimistic",
    "numbers",
    severity="tip",
    certainty="hint",
    why="The epoch with the best number on a sample is partly the best epoch and partly the luckiest: its number would "
    "be lower on other samples. The more epochs are nearly as good, the more so.",
    remedy="Report the number of the chosen epoch on data that chose nothing: trainer.test(ckpt_path='best').",
    known_problems="The size is that of candidates with independent errors, which is the most that equally good ones "
    "can have: epochs of one run make similar errors, and gain less. In a run, binary torchmetrics and evaluations of "
    "this package that a checkpoint or early stopping monitors are looked at.",
    example=lambda: _chosen(0.60, 0.79, 0.81, 0.80),
    counterexample=lambda: _chosen(0.50, 0.60, 0.70, 0.80),
    power=Power("ten epochs are equally good, right in 80 % of cases", 500, 0.95),
)
def best_of_several(seen: SeenNumbers) -> list[Found] | None:
    """The best of several values was chosen on these samples, and others are within three standard errors of it."""
    if not seen.candidates:
        return None
    found: list[Found] = []
    for name, (values, error, higher) in seen.candidates.items():
        best = (max if higher else min)(values, default=0.0)
        near = sum(abs(value - best) <= NEAR * error for value in values)
        if near > 1 and error > 0:
            most = error * expected_maximum(near)
            words = (
                f"{name} {best:.4f} is the best of {len(values)}, of which {near} are within {NEAR:g} standard errors "
                f"({error:.4f} each): choosing alone makes it better by up to {most:.4f}."
            )
            evidence = {"best": best, "candidates": len(values), "near": near, "standard_error": error, "most": most}
            found.append((name, words, evidence))
    return found


def expected_maximum(number: int) -> float:
    """The expected largest of so many independent standard normal numbers (Blom's approximation from four on).

    >>> round(expected_maximum(10), 2)
    1.55
    """
    exact = {1: 0.0, 2: 1 / sqrt(pi), 3: 1.5 / sqrt(pi)}
    return exact[number] if number in exact else NormalDist().inv_cdf((number - 0.375) / (number + 0.25))
