"""Lines through logits that make their log loss least: Newton's method, in double precision.

Logits are centred and scaled by their own spread first, so that neither their size nor their mean matters. The loss is
convex; where classes are told apart without an error it has no least value, as a larger scale is always better.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import torch
from torch.nn.functional import softplus

if TYPE_CHECKING:
    from torch import Tensor

STEPS = 50
"""A least loss is found in about ten; where there is none, every step moves logits by about 1."""
NEAR = 1e-6
"""How little a last step may move logits, as a part of them; the error after it is about the square."""
DAMPING = 1e-10
"""Of the curvature of each number: holds directions still in which nothing changes."""


LEAST_PART = 1e-12


class Local(NamedTuple):
    """The mean loss at some numbers, its gradient and its curvature."""

    loss: float
    gradient: Tensor
    curvature: Tensor


class Problem(Protocol):
    """A mean loss of logits that depend on a few numbers."""

    width: int

    def logits(self, numbers: Tensor) -> Tensor:
        """What the numbers make of the logits that are given; what no loss depends on is left out."""

    def loss(self, logits: Tensor) -> float:
        """The mean loss."""

    def local(self, logits: Tensor) -> Local:
        """The loss, and how it changes with the numbers."""

    def separated(self, logits: Tensor) -> bool:
        """Whether every prediction is right, or a class never occurs, so that larger numbers are always better."""


class YesNo:
    """Of yes-or-no answers, (M,), which may be soft: a line through their logits, slope first."""

    width = 2

    def __init__(self, logits: Tensor, answers: Tensor, weights: Tensor) -> None:
        self.columns = torch.stack((logits, torch.ones_like(logits)), -1)
        self.answers, self.weights = answers, _shares(weights)

    def logits(self, numbers: Tensor) -> Tensor:
        """The line."""
        return self.columns @ numbers

    def loss(self, logits: Tensor) -> float:
        """The mean of both sides of each answer."""
        each = self.answers * softplus(-logits) + (1 - self.answers) * softplus(logits)
        return float(self.weights @ each)

    def local(self, logits: Tensor) -> Local:
        """The loss, and how it changes with slope and shift."""
        chances, doubts = logits.sigmoid(), (-logits).sigmoid()
        off = (1 - self.answers) * chances - self.answers * doubts
        curvature = self.columns.T @ (self.columns * (self.weights * chances * doubts).unsqueeze(1))
        return Local(self.loss(logits), self.columns.T @ (self.weights * off), curvature)

    def separated(self, logits: Tensor) -> bool:
        """Whether all logits are on the side of their answer, or all answers are the same."""
        if bool((self.answers == self.answers[0]).all()):
            return True
        return bool((logits * (2 * self.answers - 1) > 0).all())


class OneOfMany:
    """Of one class among many, (M, C) shares of the truth: a line through the logits of each class, slopes first."""

    def __init__(self, logits: Tensor, truth: Tensor, weights: Tensor) -> None:
        self.given, self.truth, self.weights = logits, truth, _shares(weights)
        self.width = 2 * logits.shape[1]

    def logits(self, numbers: Tensor) -> Tensor:
        """The lines; what is added to all classes of a sample changes nothing."""
        slopes, shifts = numbers.chunk(2)
        scaled = self.given * slopes + shifts
        return scaled - scaled.mean(1, keepdim=True)

    def loss(self, logits: Tensor) -> float:
        """The mean cross-entropy."""
        return float(-(self.weights @ (self.truth * logits.log_softmax(1)).sum(1)))

    def local(self, logits: Tensor) -> Local:
        """The loss, and how it changes with slopes and shifts."""
        chances, weights = logits.softmax(1), self.weights.unsqueeze(1)
        doubts = _doubts(chances)
        off = weights * torch.where(self.truth == 1, -doubts, chances - self.truth)
        gradient = torch.cat(((off * self.given).sum(0), off.sum(0)))
        both = torch.cat((chances * self.given, chances), 1)
        curvature = -(both.T @ (both * weights))
        spread = weights * chances * doubts
        mixed = spread * self.given
        squares, mixed, plain = (part.sum(0) for part in (mixed * self.given, mixed, spread))
        curvature.diagonal().copy_(torch.cat((squares, plain)))
        for offset in (len(plain), -len(plain)):
            curvature.diagonal(offset).copy_(mixed)
        return Local(self.loss(logits), gradient, curvature)

    def separated(self, logits: Tensor) -> bool:
        """Whether the largest logit is always that of the true class alone, or a class never occurs."""
        if not bool(self.truth.amax(0).all()):
            return True
        true = self.truth == 1
        best = logits.masked_fill(true, -torch.inf).amax(1)
        return bool((logits.masked_fill(~true, torch.inf).amin(1) > best).all())


def least(problem: Problem, soft: bool = False) -> Tensor | None:
    """The numbers at which the loss is least; None if no finite ones were found. Soft truth is never separated."""
    numbers = torch.zeros(problem.width, dtype=torch.float64)
    logits = problem.logits(numbers)
    for _ in range(STEPS):
        if not soft and problem.separated(logits):
            return None
        here = problem.local(logits)
        step = _direction(here)
        moved = problem.logits(numbers + step) - logits
        if bool((moved.abs() <= NEAR * (1 + logits.abs())).all()):
            return numbers + step
        numbers = numbers + _part(problem, numbers, step, here) * step
        logits = problem.logits(numbers)
    return None


def _direction(here: Local) -> Tensor:
    """Newton's step, every number measured by its own curvature."""
    own = here.curvature.diagonal().clamp(min=0).sqrt()
    size = torch.where(own > 0, own, 1)
    scaled = here.curvature / size / size.unsqueeze(1)
    damping = DAMPING
    while True:
        damped = scaled.clone()
        damped.diagonal().add_(damping)
        factor, failed = torch.linalg.cholesky_ex(damped)
        if not bool(failed):
            return torch.cholesky_solve(-(here.gradient / size).unsqueeze(1), factor).squeeze(1) / size
        damping *= 10


def _part(problem: Problem, numbers: Tensor, step: Tensor, here: Local) -> float:
    """How much of a step makes the loss less, to rounding: half of it until it does."""
    slope, part = float(here.gradient @ step), 1.0
    while part > LEAST_PART:
        if problem.loss(problem.logits(numbers + part * step)) <= here.loss * (1 + 1e-14) + 1e-4 * part * slope:
            break
        part /= 2
    return part


def _doubts(chances: Tensor) -> Tensor:
    """1 - p of each class, also where p is next to 1: there the others are added up."""
    largest = torch.zeros_like(chances, dtype=torch.bool).scatter_(1, chances.argmax(1, keepdim=True), True)
    others = chances.masked_fill(largest, 0).sum(1, keepdim=True)
    return torch.where(largest, others, 1 - chances)


def _shares(weights: Tensor) -> Tensor:
    """Weights that add up to 1, whatever their size."""
    weights = weights / weights.amax()
    return weights / weights.sum()
