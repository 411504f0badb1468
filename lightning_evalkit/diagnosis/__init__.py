"""Turns counts, statistics and projections into findings: why two numbers are equal, or why they differ."""

from lightning_evalkit.diagnosis.comparison import compared, explain
from lightning_evalkit.diagnosis.finding import Finding, Table
from lightning_evalkit.diagnosis.how_sure import with_intervals
from lightning_evalkit.diagnosis.losses import explain_confidence, explain_loss
from lightning_evalkit.diagnosis.many import SampleSums, explain_multiclass, explain_multilabel
from lightning_evalkit.diagnosis.one_number import Number, explain_one, told, told_of_table
from lightning_evalkit.diagnosis.value import why_undefined

__all__ = [
    "Finding",
    "Number",
    "SampleSums",
    "Table",
    "compared",
    "explain",
    "explain_confidence",
    "explain_loss",
    "explain_multiclass",
    "explain_multilabel",
    "explain_one",
    "told",
    "told_of_table",
    "why_undefined",
    "with_intervals",
]
