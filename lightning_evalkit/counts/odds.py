"""The one-vs-rest log-odds of classes, and the uncertainty of their order by rounding.

Logits are exact, but log-odds are computed: rounding may swap two samples, or separate equal ones. If the bin of a
score is in doubt, samples in neighbouring bins count as undecided.
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
    """ln(p / (1 - p)) of every class's softmax p, also if p rounds to 1.

    Computed in double precision if the device has it. Sums over the other classes are taken relative to the second
    largest logit: for the likeliest class they are all of 1 - p; for the rest they are added to 1, so nothing cancels.
    """
    given, kind = logits.dtype, real_dtype(logits.device)
    logits, least = logits.to(kind), torch.finfo(kind).min
    best, place = logits.max(-1, keepdim=True)
    behind = logits - best  # first, because differences of large logits may be small
    if torch.finfo(given).max > torch.finfo(kind).max / 2:  # a far smaller logit is not impossible
        behind = torch.where(logits == -torch.inf, behind, behind.clamp(min=least))
    others = behind.scatter(-1, place, -torch.inf)
    second = others.amax(-1, keepdim=True).clamp(min=least)
    shares = (others - second).exp()
    total = shares.sum(-1, keepdim=True)
    odds = behind - torch.log1p((total - shares) * second.exp())
    return odds.scatter(-1, place, -(second + total.log()))


def odds_error(odds: Tensor) -> Tensor:
    """The largest error of computed log-odds.

    Each step rounds by a unit or two of its own size, a sum over classes by as many as there are classes, and sizes
    are at most the result's and the logarithm of the number of classes: twice of what that adds up to.
    """
    unit = torch.finfo(odds.dtype).eps / 2
    return odds.abs().mul(8 * unit).add((2 * odds.shape[-1] + 128) * unit).clamp(max=torch.finfo(odds.dtype).max)


def doubtful(bins: Bins, odds: Array) -> int:
    """The number of log-odds, of shape (M, K), so near the edge of a bin that rounding may have moved them across."""
    error = odds_error(torch.from_numpy(odds)).numpy()
    with np.errstate(over="ignore"):  # infinities are beyond all edges too
        low, high = odds - error, odds + error
    near: Any = slice(None)
    if isinstance(bins, FineBins):
        with np.errstate(over="ignore"):  # scores that are equal in single precision share a bin
            near = low.astype(np.float32) != high.astype(np.float32)
    return int(np.count_nonzero(bins.at_once(low[near]) != bins.at_once(high[near])))


def reach(classes: int, number: int, unit: float) -> int:
    """The most fine bins by which two samples in the wrong order can be apart.

    Bins are narrowest at 0, where all of them would span 4 logits, and have edges in single precision.
    """
    return 1 + int(1.1 * number * ((2 * classes + 136) * unit / 4 + 2**-23))
