"""Counts, statistics and projections into findings: why numbers are equal, and when they are not."""

from lightning_evalkit.diagnosis.comparison import explain, why_undefined
from lightning_evalkit.diagnosis.finding import Finding, Table
from lightning_evalkit.diagnosis.losses import explain_confidence, explain_loss
from lightning_evalkit.diagnosis.many import explain_multiclass, explain_multilabel

__all__ = [
    "Finding",
    "Table",
    "explain",
    "explain_confidence",
    "explain_loss",
    "explain_multiclass",
    "explain_multilabel",
    "why_undefined",
]
