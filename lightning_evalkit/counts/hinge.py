"""Hinge losses of samples, by margins of probabilities as in torchmetrics: max(0, 1 - margin), or its square."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


def _lost(margin: Tensor, squared: bool) -> Tensor:
    lost = (1 - margin).relu()
    return lost**2 if squared else lost


def yes_or_no(chances: Tensor, truth: Tensor, squared: bool) -> Tensor:
    """The loss of each yes-or-no question: the margin is p if the answer is yes, -p if it is no."""
    return _lost(torch.where(truth == 1, chances, -chances), squared)


def one_vs_all(chances: Tensor, truth: Tensor, squared: bool) -> Tensor:
    """The one-vs-rest loss of every class."""
    classes = torch.arange(chances.shape[-1], device=chances.device)
    return _lost(torch.where(truth == classes, chances, -chances), squared)


def crammer_singer(chances: Tensor, truth: Tensor, squared: bool) -> Tensor:
    """The loss of the true class: the margin is its lead over the likeliest other class."""
    others = chances.scatter(-1, truth, -torch.inf).amax(-1, keepdim=True)
    return _lost(chances.gather(-1, truth) - others, squared)


HINGE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    f"{name}{' squared' if squared else ''}": partial(value, squared=squared)
    for name, value in (("hinge", yes_or_no), ("one-vs-all", one_vs_all), ("crammer-singer", crammer_singer))
    for squared in (False, True)
}
"""Functions from probabilities (M, C) and true classes (M, 1) to losses (M, K)."""
