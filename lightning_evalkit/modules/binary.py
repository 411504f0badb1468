"""The binary classifier."""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING

from lightning_evalkit.errors import InputError
from lightning_evalkit.evaluation import BinaryEvaluation
from lightning_evalkit.inputs.threshold import Given, plain_of
from lightning_evalkit.modules.classifier import Classifier
from lightning_evalkit.modules.losses import LossName, YesNoLoss
from lightning_evalkit.modules.network import built, left_out

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module


class BinaryClassifier(Classifier):
    """A yes-or-no classifier.

    ``network`` returns (N,) or (N, 1) logits; without one, ``num_features`` and the ``hidden`` widths make a linear
    layer or a multilayer perceptron. ``pos_weight`` multiplies the loss of positives, and so moves the learnt logits by
    ln(pos_weight). ``correct_shift`` subtracts that from the logits that are evaluated and predicted with, so that
    probabilities are those of the unweighted problem. ``threshold`` is a cut on the probability.

    >>> import torch
    >>> module = BinaryClassifier(num_features=4, hidden=(8,), loss="focal")
    >>> module(torch.zeros(2, 4)).shape
    torch.Size([2])
    """

    def __init__(
        self,
        num_features: int | None = None,
        network: Module | None = None,
        hidden: tuple[int, ...] = (),
        loss: LossName = "cross_entropy",
        pos_weight: float | None = None,
        correct_shift: bool = False,
        focal_gamma: float = 2.0,
        learning_rate: float = 0.01,
        threshold: Given | tuple[Given, ...] = 0.5,
        statistics: list[str] | None = None,
        curves: bool = False,
        weighted: bool = False,
        worst: float | None = None,
        intervals: bool = False,
    ) -> None:
        super().__init__(
            built(network, num_features, hidden, outputs=1),
            YesNoLoss(pos_weight, loss, focal_gamma),
            BinaryEvaluation(
                inputs="logits", threshold=threshold, statistics=statistics, curves=curves, weighted=weighted
            ),
            learning_rate,
            worst,
            intervals,
        )
        self.shift = log(pos_weight or 1.0) if correct_shift else 0.0
        threshold = plain_of(threshold)  # as it is saved, for files that hold plain values
        self.save_hyperparameters(ignore=left_out())

    def arranged(self, logits: Tensor) -> Tensor:
        """One logit per sample."""
        if logits.ndim == 2 and logits.shape[1] == 1:
            return logits.squeeze(1)
        if logits.ndim != 1:
            raise InputError(
                f"expected a network that gives one logit per sample, (N,) or (N, 1), got {tuple(logits.shape)}: "
                "several are for MulticlassClassifier or MultilabelClassifier."
            )
        return logits

    def decided(self, logits: Tensor) -> Tensor:
        """Subtract the shift of a weighted loss, if it is to be corrected."""
        return super().decided(logits - self.shift if self.shift else logits)

    def probabilities(self, logits: Tensor) -> Tensor:
        """The probability of the positive class."""
        return logits.sigmoid()
