"""Rules on numbers that were selected because they were the best."""

from __future__ import annotations

from math import pi, sqrt
from statistics import NormalDist

from lightning_evalkit.diagnosis.numbers import Candidates, SeenNumbers
from lightning_evalkit.diagnosis.rules.table import Found, Power, rule

NEAR = 3.0
"""Candidates within this many standard errors of the best could have been the best by chance."""


def _chosen(*values: float) -> SeenNumbers:
    return SeenNumbers("binary", {}, candidates={"f1": Candidates(values, 0.02)})


@rule(
    "EK224",
    "the best of several epochs is optimistic",
    "numbers",
    severity="tip",
    certainty="hint",
    why="The epoch with the best number is partly the best epoch and partly the luckiest: its number would be worse on "
    "other samples. The effect grows with the number of epochs that are nearly as good.",
    remedy="Report the number of the chosen epoch on data that chose nothing: trainer.test(ckpt_path='best').",
    known_problems="The size assumes equally good candidates with independent errors and is the most that selection "
    "can gain: epochs of one run make similar errors, and gain less. In a run, the rule looks at binary torchmetrics "
    "and at evaluations of this package that a checkpoint or early stopping monitors.",
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
                f"{name} {best:.4f} is the best of {len(values)} values, of which {near} are within {NEAR:g} standard "
                f"errors ({error:.4f} each): selection alone makes it better by up to {most:.4f}."
            )
            evidence = {"best": best, "candidates": len(values), "near": near, "standard_error": error, "most": most}
            found.append((name, words, evidence))
    return found


def expected_maximum(number: int) -> float:
    """The expected largest of this many independent standard normal numbers (Blom's approximation from four on).

    >>> round(expected_maximum(10), 2)
    1.55
    """
    exact = {1: 0.0, 2: 1 / sqrt(pi), 3: 1.5 / sqrt(pi)}
    return exact[number] if number in exact else NormalDist().inv_cdf((number - 0.375) / (number + 0.25))
