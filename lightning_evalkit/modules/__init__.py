"""LightningModules that count every stage apart and report the loss of an epoch as it is."""

from lightning_evalkit.modules.binary import BinaryClassifier as BinaryClassifier
from lightning_evalkit.modules.multiclass import MulticlassClassifier as MulticlassClassifier
from lightning_evalkit.modules.multilabel import MultilabelClassifier as MultilabelClassifier
