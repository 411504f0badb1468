"""LightningModules that count every stage apart and report the loss of an epoch as it is."""

from lightning_evalkit.modules.binary import BinaryClassifier
from lightning_evalkit.modules.multiclass import MulticlassClassifier
from lightning_evalkit.modules.multilabel import MultilabelClassifier
from lightning_evalkit.modules.resuming import ExactResume

__all__ = ["BinaryClassifier", "ExactResume", "MulticlassClassifier", "MultilabelClassifier"]
