"""torchmetrics' values for curves of classes and labels without positive or without negative samples.

One rule holds for all names of torchmetrics: 0/0 becomes torchmetrics' value, with its warning, and only averages leave
such classes and labels out. (An evaluation reports NaN, with the reason.)
"""

from __future__ import annotations

from math import isnan, nan
from typing import TYPE_CHECKING

import numpy as np

from lightning_evalkit.ranks import warn_on_rank_zero

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lightning_evalkit.counts import ScoreCounts
    from lightning_evalkit.statistics.arrays import Array

BOTH, POSITIVES = ("yes", "no"), ("yes",)
"""The kinds of samples that a ROC curve needs, and a precision-recall curve."""
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
"""torchmetrics' warnings, by the kind of samples that is missing."""


def value_of_missing(tables: Sequence[ScoreCounts], value: float) -> float:
    """The value where samples of a kind are missing; NaN if there are no samples at all."""
    return value if any(map(np.count_nonzero, [kind for table in tables for kind in table.support])) else nan


def has_value(tables: Sequence[ScoreCounts], needs: tuple[str, ...] = BOTH) -> Array:
    """Which questions have samples of the kinds that a curve needs."""
    kept: Array = np.concatenate([_supports(table, needs).all(0) for table in tables])
    return kept


def _supports(table: ScoreCounts, needs: tuple[str, ...]) -> Array:
    """Which questions have samples, for each kind that is needed."""
    return np.stack([table.support[BOTH.index(name)] > 0 for name in needs])


def _asked(table: ScoreCounts) -> Array:
    """All questions but those of classes that are ignored by declaration."""
    asked = np.ones(len(table.yes), dtype=np.bool_)
    asked[list(table.unasked)] = False
    return asked


def warn_if_missing(tables: Sequence[ScoreCounts], needs: tuple[str, ...] = BOTH) -> None:
    """Warn in torchmetrics' words that samples are missing, once for all questions."""
    if needs == POSITIVES and tables[0].given:
        return  # recall at given thresholds is NaN, which says it
    if all(np.count_nonzero(kind) == kind.size for table in tables for kind in table.support):
        return
    missing = np.any([(_asked(table) & ~_supports(table, needs)).any(-1) for table in tables], axis=0)
    for is_missing, words in zip(missing, WORDS[needs].values(), strict=True):
        if is_missing:
            warn_on_rank_zero(words)


def warn_if_left_out(tables: Sequence[ScoreCounts], needs: tuple[str, ...], average: str) -> None:
    """Warn how many classes or labels an average leaves out."""
    known = has_value(tables, needs)
    missing = np.count_nonzero(np.concatenate([_asked(table) for table in tables]) & ~known)
    if known.any() and missing:
        kinds = "no positive or no negative samples" if needs == BOTH else "no positive samples"
        warn_on_rank_zero(
            f"{missing} of {len(known)} classes or labels have {kinds}: the {average} average leaves them out."
        )
    elif not known.any() and not isnan(value_of_missing(tables, 0.0)):
        warn_if_missing(tables, needs)
