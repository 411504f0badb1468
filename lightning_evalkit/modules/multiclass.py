"""The classifier of one class among many."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightning_evalkit.errors import DeclarationError, InputError
from lightning_evalkit.evaluation import MulticlassEvaluation
from lightning_evalkit.modules.classifier import Classifier
from lightning_evalkit.modules.losses import LossName, OneOfManyLoss
from lightning_evalkit.modules.network import built, left_out

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module


class MulticlassClassifier(Classifier):
    """A classifier of one class among many.

    ``network`` returns (N, classes) logits; without one, ``num_features`` and the ``hidden`` widths make a linear layer
    or a multilayer perceptron. ``class_weights`` weight the loss of each class, and so move each learnt logit by
    ln(weight). ``confusion_matrix`` stores the whole matrix; by default up to 1,000 classes.

    >>> import torch
    >>> module = MulticlassClassifier(num_classes=3, num_features=4, class_weights=[1.0, 1.0, 5.0])
    >>> module.predict_step(torch.zeros(2, 4)).sum(1)
    tensor([1., 1.], grad_fn=<SumBackward1>)
    """

    def __init__(
        self,
        num_classes: int,
        num_features: int | None = None,
        network: Module | None = None,
        hidden: tuple[int, ...] = (),
        loss: LossName = "cross_entropy",
        class_weights: list[float] | None = None,
        focal_gamma: float = 2.0,
        learning_rate: float = 0.01,
        class_names: list[str] | None = None,
        per_class: bool = False,
        confusion_matrix: bool | None = None,
        statistics: list[str] | None = None,
        curves: bool = False,
        weighted: bool = False,
        worst: float | None = None,
        intervals: bool = False,
    ) -> None:
        if class_weights is not None and len(class_weights) != num_classes:
            raise DeclarationError(f"expected {num_classes} class_weights, one per class, got {len(class_weights)}.")
        super().__init__(
            built(network, num_features, hidden, outputs=num_classes),
            OneOfManyLoss(class_weights, loss, focal_gamma),
            MulticlassEvaluation(
                inputs="logits",
                num_classes=num_classes,
                class_names=class_names,
                per_class=per_class,
                confusion_matrix=num_classes <= 1_000 if confusion_matrix is None else confusion_matrix,
                statistics=statistics,
                curves=curves,
                weighted=weighted,
            ),
            learning_rate,
            worst,
            intervals,
        )
        self.num_classes = num_classes
        self.save_hyperparameters(ignore=left_out())

    def arranged(self, logits: Tensor) -> Tensor:
        """A logit per class."""
        if logits.ndim != 2 or logits.shape[1] != self.num_classes:
            raise InputError(
                f"expected a network that gives a logit per class, (N, {self.num_classes}), got {tuple(logits.shape)}."
            )
        return logits

    def probabilities(self, logits: Tensor) -> Tensor:
        """The probability of each class; they add up to 1."""
        return logits.softmax(1)
