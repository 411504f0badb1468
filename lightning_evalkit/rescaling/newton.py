"""Fits lines through logits to the least log loss: Newton's method, in double precision.

Logits are centred and scaled by their own spread first, so their size and mean do not matter. The loss is convex. If
the logits separate the classes it has no minimum, because a larger scale is always better.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import torch
from torch.nn.functional import softplus

if TYPE_CHECKING:
    from torch import Tensor

STEPS = 50
"""A minimum is found in about ten; without one, every step moves logits by about 1."""
NEAR = 1e-6
"""The last step moves logits by at most this share of them; the error after it is about the square."""
DAMPING = 1e-10
"""A share of each number's curvature, added to it: keeps directions still in which the loss is flat."""


LEAST_PART = 1e-12


class Local(NamedTuple):
    """The mean loss at some numbers, its gradient and its curvature."""

    loss: float
    gradient: Tensor
    curvature: Tensor


class Problem(Protocol):
    """A mean loss of logits that depend on a few parameters."""

    width: int

    def logits(self, numbers: Tensor) -> Tensor:
        """The logits at these parameters; a part that no loss depends on is left out."""

    def loss(self, logits: Tensor) -> float:
        """The mean loss."""

    def local(self, logits: Tensor) -> Local:
        """The loss with its gradient and curvature."""

    def separated(self, logits: Tensor) -> bool:
        """Whether every prediction is right, or a class never occurs, so that larger parameters are always better."""


class YesNo:
    """Yes-or-no answers, (M,), which may be soft: a line through their logits, slope first."""

    width = 2

    def __init__(self, logits: Tensor, answers: Tensor, weights: Tensor) -> None:
        self.columns = torch.stack((logits, torch.ones_like(logits)), -1)
        self.answers, self.weights = answers, _shares(weights)

    def logits(self, numbers: Tensor) -> Tensor:
        """The line."""
        return self.columns @ numbers

    def loss(self, logits: Tensor) -> float:
        """The mean cross-entropy."""
        each = self.answers * softplus(-logits) + (1 - self.answers) * softplus(logits)
        return float(self.weights @ each)

    def local(self, logits: Tensor) -> Local:
        """The loss with its gradient and curvature in slope and shift."""
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
    """One class among many, (M, C) shares of the truth: a line through the logits of each class, slopes first."""

    def __init__(self, logits: Tensor, truth: Tensor, weights: Tensor) -> None:
        self.given, self.truth, self.weights = logits, truth, _shares(weights)
        self.width = 2 * logits.shape[1]

    def logits(self, numbers: Tensor) -> Tensor:
        """The lines; a constant added to all classes of a sample changes nothing."""
        slopes, shifts = numbers.chunk(2)
        scaled = self.given * slopes + shifts
        return scaled - scaled.mean(1, keepdim=True)

    def loss(self, logits: Tensor) -> float:
        """The mean cross-entropy."""
        return float(-(self.weights @ (self.truth * logits.log_softmax(1)).sum(1)))

    def local(self, logits: Tensor) -> Local:
        """The loss with its gradient and curvature in slopes and shifts."""
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
    """The parameters of the least loss; None if no finite ones were found. Soft truth is never separated."""
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
    """Newton's step, with every parameter scaled by its own curvature."""
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
    """The share of a step that lowers the loss, to rounding: halved until it does."""
    slope, part = float(here.gradient @ step), 1.0
    while part > LEAST_PART:
        if problem.loss(problem.logits(numbers + part * step)) <= here.loss * (1 + 1e-14) + 1e-4 * part * slope:
            break
        part /= 2
    return part


def _doubts(chances: Tensor) -> Tensor:
    """1 - p of each class, accurate next to p = 1: the other probabilities are added up."""
    largest = torch.zeros_like(chances, dtype=torch.bool).scatter_(1, chances.argmax(1, keepdim=True), True)
    others = chances.masked_fill(largest, 0).sum(1, keepdim=True)
    return torch.where(largest, others, 1 - chances)


def _shares(weights: Tensor) -> Tensor:
    """Normalise weights to a sum of 1, whatever their size."""
    weights = weights / weights.amax()
    return weights / weights.sum()
