"""LightningModules that count every stage separately and report the loss of the whole epoch."""

from lightning_evalkit.modules.binary import BinaryClassifier as BinaryClassifier
from lightning_evalkit.modules.multiclass import MulticlassClassifier as MulticlassClassifier
from lightning_evalkit.modules.multilabel import MultilabelClassifier as MultilabelClassifier
from lightning_evalkit.modules.text import TextClassifier as TextClassifier
