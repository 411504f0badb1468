"""lightning_evalkit: classification metrics for PyTorch Lightning whose numbers can be trusted."""

from lightning_evalkit.counts import Counts
from lightning_evalkit.evaluation import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation, Slices
from lightning_evalkit.inputs import Threshold

__all__ = ["BinaryEvaluation", "Counts", "MulticlassEvaluation", "MultilabelEvaluation", "Slices", "Threshold"]
__version__ = "0.1.0"
