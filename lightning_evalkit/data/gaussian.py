"""Gaussian clouds with exact class counts, and how well the best possible classifier does on them.

A label moves a sample by a fixed step along its own direction; the rest of the sample is standard normal noise. So what
can be learnt is known in closed form, and every measured number has a theoretical counterpart.
"""

from __future__ import annotations

from math import log
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

import torch

from lightning_evalkit.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Generator, Tensor

NORMAL = NormalDist()


class Rates(NamedTuple):
    """The recall and specificity of a classifier."""

    recall: float
    specificity: float

    def accuracy(self, prevalence: float) -> float:
        """The share of right predictions."""
        return prevalence * self.recall + (1 - prevalence) * self.specificity


def distance(separability: float) -> float:
    """The distance of two unit Gaussians that a classifier separates with this accuracy, if both are equally frequent.

    >>> round(distance(0.9), 4), distance(0.5)
    (2.5631, 0.0)
    """
    return 2 * NORMAL.inv_cdf(separability)


def best_rates(prevalence: float, separability: float, label_noise: float) -> Rates:
    """Recall and specificity of the classifier with the highest possible accuracy.

    A sample x along the direction is positive with odds exp(d x) π / (1 - π); with a share ε of wrong labels in both
    classes it pays to say so where exp(d x) > (1 - π - ε) / (π - ε), and nowhere (everywhere) if ε exceeds π (1 - π).

    >>> best_rates(0.5, 0.9, 0.0)
    Rates(recall=0.9, specificity=0.9)
    """
    apart, noise = distance(separability), label_noise
    if noise >= min(prevalence, 1 - prevalence) or not apart:
        return Rates(0.0, 1.0) if prevalence <= 0.5 else Rates(1.0, 0.0)
    cut = log((1 - prevalence - noise) / (prevalence - noise)) / apart
    hit, kept = NORMAL.cdf(apart / 2 - cut), NORMAL.cdf(apart / 2 + cut)
    return Rates((1 - noise) * hit + noise * (1 - kept), (1 - noise) * kept + noise * (1 - hit))


def class_distance(separability: float, num_classes: int) -> float:
    """The distance from the centre at which C Gaussians on orthogonal axes have ``separability`` as best accuracy."""
    low, high = 0.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _accuracy_at(middle, num_classes) < separability else (low, middle)
    return low


def _accuracy_at(step: float, num_classes: int) -> float:
    """P(own axis, moved by a, exceeds all others) = ∫ φ(z - a) Φ(z)^(C-1) dz."""
    z = torch.linspace(-9.0, step + 9.0, 4_001, dtype=torch.float64)
    density = torch.exp(-0.5 * (z - step) ** 2) / (2 * torch.pi) ** 0.5
    return float(torch.trapezoid(density * torch.special.ndtr(z) ** (num_classes - 1), z))


def exact_labels(rows: int, positives: int, label_noise: float, generator: Generator) -> tuple[Tensor, Tensor]:
    """Labels with an exact number of positives in random places, and the labels of the features: a share ε differs."""
    told = torch.zeros(rows, dtype=torch.int64, device=generator.device)
    shown = told.clone()
    told[:positives] = 1
    shown[round(label_noise * positives) : positives] = 1
    shown[positives : positives + round(label_noise * (rows - positives))] = 1
    order = torch.randperm(rows, generator=generator, device=generator.device)
    return told[order], shown[order]


def exact_classes(counts: Sequence[int], label_noise: float, generator: Generator) -> tuple[Tensor, Tensor]:
    """Classes with exact counts in random places, and the classes of the features: a share ε differs."""
    device, classes = generator.device, len(counts)
    told = torch.repeat_interleave(torch.arange(classes, device=device), torch.tensor(counts, device=device))
    shown, first = told.clone(), 0
    for count in counts:
        wrong = round(label_noise * count)
        others = torch.randint(1, classes, (wrong,), generator=generator, device=device)
        shown[first : first + wrong] = (shown[first : first + wrong] + others) % classes
        first += count
    order = torch.randperm(len(told), generator=generator, device=device)
    return told[order], shown[order]


def directions(number: int, num_features: int, generator: Generator) -> Tensor:
    """Orthogonal directions of length 1, as rows."""
    if num_features < number:
        raise DeclarationError(
            f"expected num_features of at least {number}, one direction for each class or label, got {num_features}."
        )
    drawn = torch.randn(num_features, number, generator=generator, device=generator.device)
    axes: Tensor = torch.linalg.qr(drawn.cpu().double()).Q.T  # not every device has double precision
    return axes.float().to(generator.device)


def cloud(steps: Tensor, along: Tensor, generator: Generator) -> Tensor:
    """Noise, moved by each row's steps along the directions."""
    noise = torch.randn(len(steps), along.shape[1], generator=generator, device=generator.device)
    return noise.addmm_(steps, along)


def shared_out(rows: int, shares: Sequence[float]) -> list[int]:
    """Split a number of rows by shares, rounded by largest remainders.

    >>> shared_out(10, [0.5, 0.26, 0.24])
    [5, 3, 2]
    """
    counts = [int(rows * share) for share in shares]
    by_remainder = sorted(range(len(shares)), key=lambda place: counts[place] - rows * shares[place])
    for place in by_remainder[: rows - sum(counts)]:
        counts[place] += 1
    return counts


def expected_best(shares: Sequence[float], step: float, label_noise: float, draws: int = 200_000) -> float:
    """The best accuracy among several classes, from the posterior probabilities of drawn samples."""
    generator = torch.Generator().manual_seed(0)
    counts = shared_out(min(draws, 20_000_000 // len(shares)), shares)
    told, shown = exact_classes(counts, label_noise, generator)
    axes = torch.eye(len(shares))
    samples = cloud(torch.nn.functional.one_hot(shown, len(shares)).float() * step, axes, generator).double()
    likelihood = torch.softmax(samples * step, 1)
    other = label_noise / (len(shares) - 1)
    mixed = (1 - label_noise - other) * likelihood + other * likelihood.sum(1, keepdim=True)
    posterior = mixed * torch.tensor(shares, dtype=torch.float64)
    return float((posterior.argmax(1) == told).double().mean())
