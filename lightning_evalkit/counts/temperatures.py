"""The log loss at other temperatures, from one pass: logits divided by T, for T from 1/16 to 16.

Kept for each temperature: the sum of losses and their first two derivatives by 1/T. The loss is convex in 1/T, so
between two temperatures these say where it is least, to about four digits, without the logits themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch.nn.functional import softplus

from lightning_evalkit.counts.counts import real_dtype

if TYPE_CHECKING:
    from torch import Tensor

SHARPNESS = tuple(2.0 ** (place / 2) for place in range(-8, 9))
"""1/T at which losses are kept, half an octave apart."""
WIDTH = 3 * len(SHARPNESS)
LARGEST = 1e6
"""Infinite logits count as this: a certainty that no temperature of the range can soften."""


class Sharpened(NamedTuple):
    """Sums over samples at each ``SHARPNESS``: losses, and their first and second derivatives by it."""

    losses: Tensor
    slopes: Tensor
    curvatures: Tensor


def sharpened_answers(logits: Tensor, answers: Tensor, weight: Tensor) -> Tensor:
    """Of yes-or-no answers, all of shape (M,), as one row."""
    margin = torch.where(answers, logits, -logits)
    rows = []
    for sharpness in SHARPNESS:
        scaled = margin * sharpness
        doubt = (-scaled).sigmoid()
        rows.append((softplus(-scaled), -margin * doubt, margin**2 * doubt * (1 - doubt)))
    return _summed(rows, weight)


def sharpened_classes(logits: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """Of one class among many, logits of shape (M, C), as one row."""
    behind = logits - logits.amax(-1, keepdim=True)
    right = behind.gather(-1, target.unsqueeze(-1)).squeeze(-1)
    rows = []
    for sharpness in SHARPNESS:
        scaled = behind * sharpness
        chances = scaled.softmax(-1)
        mean = (chances * behind).sum(-1)
        spread = (chances * (behind - mean.unsqueeze(-1)) ** 2).sum(-1)
        rows.append((scaled.logsumexp(-1) - right * sharpness, mean - right, spread))
    return _summed(rows, weight)


def _summed(rows: list[tuple[Tensor, Tensor, Tensor]], weight: Tensor) -> Tensor:
    kind = real_dtype(weight.device)
    return torch.stack([(part.to(kind) * weight).sum() for parts in zip(*rows, strict=True) for part in parts])


def limited(logits: Tensor) -> Tensor:
    """At least in single precision, and finite."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).clamp(-LARGEST, LARGEST)


def taken(row: Tensor) -> Sharpened:
    """The sums out of their row."""
    return Sharpened(*row.view(3, len(SHARPNESS)).unbind())
