"""Curves of questions without a positive or without a negative sample: the values that torchmetrics gives them.

One rule for all names of torchmetrics: a value that is 0/0 is torchmetrics' value, with its warning; only averages
leave such classes and labels out. (An evaluation says NaN, with the reason.)
"""

from __future__ import annotations

from math import isnan, nan
from typing import TYPE_CHECKING

import torch

from lightning_evalkit.ranks import warn_on_rank_zero

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from lightning_evalkit.counts import ScoreCounts

BOTH, POSITIVES = ("yes", "no"), ("yes",)
"""What a question needs for a ROC curve, and for a precision-recall curve."""
RATES = "No {} samples in targets, {} value should be meaningless. Returning zero tensor in {} score"
WORDS = {
    BOTH: {
        "yes": RATES.format("positive", "true positive", "true positive"),
        "no": RATES.format("negative", "false positive", "false positive"),
    },
    POSITIVES: {
        "yes": "No positive samples found in target, recall is undefined. Setting recall to one for all thresholds.",
    },
}
"""torchmetrics' warnings, by what is missing."""


def value_of_missing(tables: Sequence[ScoreCounts], value: float) -> float:
    """The value where samples of a kind are missing; NaN where nothing was counted at all."""
    return value if any(bool(table.yes.any()) or bool(table.no.any()) for table in tables) else nan


def has_value(table: ScoreCounts, needs: tuple[str, ...] = BOTH) -> Tensor:
    """Which questions have samples of the kinds that a curve needs."""
    kept = [getattr(table, name).sum(-1) > 0 for name in needs]
    return torch.stack(kept).all(0)


def _asked(table: ScoreCounts) -> Tensor:
    """All questions but those of classes that are ignored by declaration."""
    places = torch.arange(len(table.yes), device=table.yes.device)
    return torch.isin(places, places.new_tensor(table.unasked)).logical_not()


def warn_if_missing(tables: Sequence[ScoreCounts], needs: tuple[str, ...] = BOTH) -> None:
    """Say in torchmetrics' words that samples are missing, once for all questions."""
    if needs == POSITIVES and tables[0].given:
        return  # recall at given thresholds is NaN, which says it
    for name, words in WORDS[needs].items():
        if any(bool(((getattr(table, name).sum(-1) == 0) & _asked(table)).any()) for table in tables):
            warn_on_rank_zero(words)


def warn_if_left_out(tables: Sequence[ScoreCounts], needs: tuple[str, ...], average: str) -> None:
    """Say over how many classes or labels an average is, where it is not over all of them."""
    known = torch.cat([has_value(table, needs) for table in tables])
    missing = int((known.logical_not() & torch.cat([_asked(table) for table in tables])).sum())
    if bool(known.any()) and missing:
        kinds = "no positive or no negative samples" if needs == BOTH else "no positive samples"
        warn_on_rank_zero(
            f"{missing} of {len(known)} classes or labels have {kinds}: the {average} average leaves them out."
        )
    elif not bool(known.any()) and not isnan(value_of_missing(tables, 0.0)):
        warn_if_missing(tables, needs)
