"""The log-odds of a class against the rest, and what rounding leaves in doubt of their order.

Logits are exact, log-odds are computed: rounding may turn the order of two samples, or part what is equal. Where the
bin of a score is in doubt, samples in neighbouring bins count as undecided.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lightning_evalkit.counts.bins import FineBins
from lightning_evalkit.counts.counts import real_dtype

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts.bins import Bins
    from lightning_evalkit.counts.numpy_path import Array


def class_log_odds(logits: Tensor) -> Tensor:
    """ln(p / (1 - p)) of every class's softmax p, also where p is too near to 1 to be told from it.

    In double precision where the device has it. Sums over others are taken relative to the second largest logit: of
    the likeliest class they are all of 1 - p, and beside 1 for the rest, where nothing cancels.
    """
    given, kind = logits.dtype, real_dtype(logits.device)
    logits, least = logits.to(kind), torch.finfo(kind).min
    best, place = logits.max(-1, keepdim=True)
    behind = logits - best  # first, as differences of large logits may be small
    if torch.finfo(given).max > torch.finfo(kind).max / 2:  # what is far behind is not ruled out
        behind = torch.where(logits == -torch.inf, behind, behind.clamp(min=least))
    others = behind.scatter(-1, place, -torch.inf)
    second = others.amax(-1, keepdim=True).clamp(min=least)
    shares = (others - second).exp()
    total = shares.sum(-1, keepdim=True)
    odds = behind - torch.log1p((total - shares) * second.exp())
    return odds.scatter(-1, place, -(second + total.log()))


def odds_error(odds: Tensor) -> Tensor:
    """By how much computed log-odds may be off at most.

    Each step rounds by a unit or two of its own size, a sum over classes by as many as there are classes, and sizes
    are at most the result's and the logarithm of the number of classes: twice of what that adds up to.
    """
    unit = torch.finfo(odds.dtype).eps / 2
    return odds.abs().mul(8 * unit).add((2 * odds.shape[-1] + 128) * unit).clamp(max=torch.finfo(odds.dtype).max)


def doubtful(bins: Bins, odds: Array) -> int:
    """How many log-odds, of shape (M, K), are so near to the edge of a bin that rounding may have moved them over."""
    error = odds_error(torch.from_numpy(odds)).numpy()
    with np.errstate(over="ignore"):  # an infinity is beyond all edges too
        low, high = odds - error, odds + error
    near: Any = slice(None)
    if isinstance(bins, FineBins):
        with np.errstate(over="ignore"):  # what single precision cannot tell apart is in one bin
            near = low.astype(np.float32) != high.astype(np.float32)
    return int(np.count_nonzero(bins.at_once(low[near]) != bins.at_once(high[near])))


def reach(classes: int, number: int, unit: float) -> int:
    """Up to how many fine bins apart two samples may be in the other order.

    Bins are narrowest at 0, where all of them would span 4 logits, and have edges in single precision.
    """
    return 1 + int(1.1 * number * ((2 * classes + 136) * unit / 4 + 2**-23))
