"""Evaluations: collections of metrics, intervals and explanations on one tally."""

from lightning_evalkit.evaluation.binary import BinaryEvaluation
from lightning_evalkit.evaluation.comparison import compare
from lightning_evalkit.evaluation.diagnosing import diagnose
from lightning_evalkit.evaluation.multiclass import MulticlassEvaluation
from lightning_evalkit.evaluation.multilabel import MultilabelEvaluation
from lightning_evalkit.evaluation.paired import PairedComparison
from lightning_evalkit.evaluation.slices import Slices
from lightning_evalkit.evaluation.stock import explain

__all__ = [
    "BinaryEvaluation",
    "MulticlassEvaluation",
    "MultilabelEvaluation",
    "PairedComparison",
    "Slices",
    "compare",
    "diagnose",
    "explain",
]
