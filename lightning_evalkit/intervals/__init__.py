"""Confidence intervals and comparisons from counts, and the same classifier projected to another prevalence."""

from lightning_evalkit.counts import ANSWERS, Counts
from lightning_evalkit.intervals.comparison import Comparison, holm, mcnemar
from lightning_evalkit.intervals.crossing import crossing_interval
from lightning_evalkit.intervals.differences import table_difference
from lightning_evalkit.intervals.interval import METHODS, Interval
from lightning_evalkit.intervals.matrices import matrix_interval
from lightning_evalkit.intervals.projection import at_prevalence, crossing_prevalence
from lightning_evalkit.intervals.ranks import auroc_interval
from lightning_evalkit.intervals.sizes import Required, required
from lightning_evalkit.intervals.tables import intervals, share_interval, table_interval

ANSWERS.add("intervals", intervals)

__all__ = [
    "METHODS",
    "Comparison",
    "Counts",
    "Interval",
    "Required",
    "at_prevalence",
    "auroc_interval",
    "crossing_interval",
    "crossing_prevalence",
    "holm",
    "intervals",
    "matrix_interval",
    "mcnemar",
    "required",
    "share_interval",
    "table_difference",
    "table_interval",
]
