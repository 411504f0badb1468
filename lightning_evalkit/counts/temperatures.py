"""The log loss at other temperatures, from one pass: logits divided by T, for T from 1/16 to 16.

The state holds for each temperature the sum of losses and its first two derivatives by 1/T. The loss is convex in 1/T,
so these locate its minimum between two temperatures, to about four digits, without the logits themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch.nn.functional import softplus

from lightning_evalkit.counts.counts import real_dtype

if TYPE_CHECKING:
    from torch import Tensor

SHARPNESS = tuple(2.0 ** (place / 2) for place in range(-8, 9))
"""The values of 1/T at which losses are stored, half an octave apart."""
WIDTH = 3 * len(SHARPNESS)


class Sharpened(NamedTuple):
    """Sums over samples at each ``SHARPNESS``: losses, and their first and second derivatives by it.

    Infinite losses are in the losses alone: the derivatives cover losses that a temperature can change.
    """

    losses: Tensor
    slopes: Tensor
    curvatures: Tensor


def sharpened_answers(logits: Tensor, answers: Tensor, weight: Tensor) -> Tensor:
    """The sums of yes-or-no answers, all of shape (M,), as one row."""
    margin = torch.where(answers, logits, -logits)
    weight, lost = _changeable(margin, weight)
    margin = torch.where(weight > 0, margin, 0)
    rows = []
    for sharpness in SHARPNESS:
        scaled = margin * sharpness
        doubt = (-scaled).sigmoid()
        rows.append((softplus(-scaled), -margin * doubt, _square(margin, doubt * (1 - doubt))))
    return _summed(rows, weight, lost)


def sharpened_classes(logits: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """The sums of one class among many as one row; logits have shape (M, C) and a finite maximum."""
    best = logits.amax(-1, keepdim=True)
    nothing = best == -torch.inf  # all probabilities are 0: no class is distinguished, and the loss is infinite
    behind = torch.where(nothing, 0, logits - best)
    right = torch.where(nothing, -torch.inf, behind.gather(-1, target.unsqueeze(-1))).squeeze(-1)
    weight, lost = _changeable(right, weight)
    right = torch.where(weight > 0, right, 0)
    reached = torch.where(behind == -torch.inf, 0, behind)  # a probability of 0 adds nothing to a mean
    rows = []
    for sharpness in SHARPNESS:
        scaled = behind * sharpness
        chances = scaled.softmax(-1)
        mean = (chances * reached).sum(-1)
        spread = _square(reached - mean.unsqueeze(-1), chances).sum(-1)
        rows.append((scaled.logsumexp(-1) - right * sharpness, mean - right, spread))
    return _summed(rows, weight, lost)


def _changeable(margin: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """The weights of samples whose loss a temperature changes, and the loss of the others: 0 or infinity.

    A certainty stays one at every temperature: its loss is 0 if it is right, and infinite if it is wrong.
    """
    lost = torch.where((margin == -torch.inf) & (weight > 0), torch.inf, 0).sum()
    return torch.where(margin.abs() == torch.inf, 0, weight), lost


def _square(size: Tensor, share: Tensor) -> Tensor:
    """size² · share, also where the square alone would overflow."""
    return (size * share.sqrt()) ** 2


def _summed(rows: list[tuple[Tensor, Tensor, Tensor]], weight: Tensor, lost: Tensor) -> Tensor:
    kind = real_dtype(weight.device)
    losses, *slopes = (
        torch.stack([(part.to(kind) * weight).sum() for part in parts]) for parts in zip(*rows, strict=True)
    )
    return torch.cat((losses + lost.to(kind), *slopes))


def unpack(row: Tensor) -> Sharpened:
    """The sums out of their row."""
    return Sharpened(*row.view(3, len(SHARPNESS)).unbind())
