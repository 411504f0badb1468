"""The number of buckets that bear on a number: those with samples that it looks at.

If no bucket differs from others, as for a recall without a miss, this number alone decides the width of the interval:
four positives among thousands of samples are four, whatever the number of buckets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from lightning_evalkit.evaluation.readouts import Averaged, FromScores, OneTable, WholeMatrix
from lightning_evalkit.intervals.averages import looked_at
from lightning_evalkit.intervals.shares import share_of

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts import Counts, Evidence
    from lightning_evalkit.evaluation.readouts import Readout
    from lightning_evalkit.statistics import Statistic

ROUNDING = 1e-12
"""The share of a sum of weights that adding them in another order may lose."""
OF_ALL = ("brier", "log_loss", "calibration_error")
"""Statistics of scores that look at every sample alike; others compare classes."""


def telling(readout: Readout, without: Evidence, whole: Evidence) -> int:
    """The number of buckets that bear on a readout; ``without`` has a row for each bucket left out of the ``whole``."""
    if isinstance(readout, OneTable):
        return _of_table(readout.statistic, *(each.counts.at(readout.place) for each in (without, whole)))
    if isinstance(readout, Averaged) and readout.average == "micro":
        return _of_table(readout.statistic, *(each.counts.summed() for each in (without, whole)))
    unequal = isinstance(readout, Averaged)
    unequal |= isinstance(readout, WholeMatrix) and readout.statistic.name != "accuracy"
    unequal |= isinstance(readout, FromScores) and readout.statistic.name not in OF_ALL
    return _of_rarest(without.counts, whole.counts) if unequal else len(without.counts.tp)


def of_each_class(statistic: Statistic, without: Evidence, whole: Evidence) -> Tensor:
    """The number of buckets with samples that the statistic looks at, for each class or label."""
    left, everything = (looked_at(statistic, each.counts) for each in (without, whole))
    return _holding(left, everything)


def of_each_term(readout: OneTable, without: Evidence, whole: Evidence) -> Tensor | None:
    """The number of buckets for each term of a sum of shares, such as balanced accuracy; None for other statistics."""
    left, everything = (readout.statistic.in_tensors(each.counts.at(readout.place)) for each in (without, whole))
    if len(everything.terms) < 2 or any(term.root for term in everything.terms):
        return None
    both = zip(left.terms, everything.terms, strict=True)
    return torch.stack([_holding(one.whole, other.whole) for one, other in both])


def _of_table(statistic: Statistic, without: Counts, whole: Counts) -> int:
    """The number of buckets for one table: a share looks at its whole, any other statistic at both classes."""
    if share_of(statistic) is None:
        return _of_rarest(without, whole)
    left, everything = (statistic.in_tensors(counts).terms[0].whole for counts in (without, whole))
    return int(_holding(left, everything))


def _of_rarest(without: Counts, whole: Counts) -> int:
    found = [
        _holding(getattr(without, name), getattr(whole, name))[getattr(whole, name) > 0].flatten()
        for name in ("positives", "negatives")
    ]
    return min((int(each.min()) for each in found if each.numel()), default=len(without.tp))


def _holding(without: Tensor, whole: Tensor) -> Tensor:
    """The number of buckets that hold a part of the whole."""
    whole = whole.to(without.device)
    return (without < whole * (1 - ROUNDING)).sum(0)
