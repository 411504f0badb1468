"""The classifier of several yes-or-no labels per sample."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightning_evalkit.errors import DeclarationError, InputError
from lightning_evalkit.evaluation import MultilabelEvaluation
from lightning_evalkit.inputs.threshold import Given, plain_of
from lightning_evalkit.modules.classifier import Classifier
from lightning_evalkit.modules.losses import LossName, YesNoLoss
from lightning_evalkit.modules.network import built, left_out

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module


class MultilabelClassifier(Classifier):
    """A classifier of several yes-or-no labels.

    ``network`` returns (N, labels) logits; without one, ``num_features`` and the ``hidden`` widths make a linear layer
    or a multilayer perceptron. The loss of a sample is the mean over its labels; ``pos_weight`` multiplies the loss of
    positives, by one number or one per label. ``threshold`` is a cut on the probability, one number or one per label.

    >>> import torch
    >>> MultilabelClassifier(num_labels=3, num_features=4)(torch.zeros(2, 4)).shape
    torch.Size([2, 3])
    """

    def __init__(
        self,
        num_labels: int,
        num_features: int | None = None,
        network: Module | None = None,
        hidden: tuple[int, ...] = (),
        loss: LossName = "cross_entropy",
        pos_weight: float | list[float] | None = None,
        focal_gamma: float = 2.0,
        learning_rate: float = 0.01,
        label_names: list[str] | None = None,
        threshold: Given | tuple[Given, ...] = 0.5,
        per_label: bool = False,
        statistics: list[str] | None = None,
        curves: bool = False,
        weighted: bool = False,
        worst: float | None = None,
        intervals: bool = False,
    ) -> None:
        if isinstance(pos_weight, list) and len(pos_weight) != num_labels:
            raise DeclarationError(f"expected one pos_weight, or {num_labels}, one per label, got {len(pos_weight)}.")
        super().__init__(
            built(network, num_features, hidden, outputs=num_labels),
            YesNoLoss(pos_weight, loss, focal_gamma),
            MultilabelEvaluation(
                inputs="logits",
                num_labels=num_labels,
                label_names=label_names,
                threshold=threshold,
                per_label=per_label,
                statistics=statistics,
                curves=curves,
                weighted=weighted,
            ),
            learning_rate,
            worst,
            intervals,
        )
        self.num_labels = num_labels
        threshold = plain_of(threshold)  # as it is saved, for files that hold plain values
        self.save_hyperparameters(ignore=left_out())

    def arranged(self, logits: Tensor) -> Tensor:
        """A logit per label."""
        if logits.ndim != 2 or logits.shape[1] != self.num_labels:
            raise InputError(
                f"expected a network that gives a logit per label, (N, {self.num_labels}), got {tuple(logits.shape)}."
            )
        return logits

    def probabilities(self, logits: Tensor) -> Tensor:
        """The probability of each label."""
        return logits.sigmoid()
