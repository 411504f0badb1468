"""Multilabel scores and targets: several yes-or-no questions about each sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lightning_evalkit.errors import DeclarationError, InputError
from lightning_evalkit.inputs.declaration import checked_number
from lightning_evalkit.inputs.thresholded import Thresholded

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Multilabel(Thresholded):
    """L questions per sample, with one threshold for all or one for each; ``sample_sums`` are kept over samples."""

    num_labels: int = 2
    sample_sums: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        checked_number("num_labels", self.num_labels, least=2)
        if len(self.thresholds) not in (1, self.num_labels):
            raise DeclarationError(
                f"expected one threshold or one for each of {self.num_labels} labels, got {len(self.thresholds)}."
            )

    def arranged(
        self, preds: Tensor, target: Tensor, sample_weight: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """The tensors with labels last: (M, L), or (N, X, L) where each sample is counted by itself."""
        if preds.shape != target.shape:
            self.refuse_unequal_shapes(preds, target)
        least = 3 if self.samplewise else 2
        if preds.ndim < least or preds.shape[1] != self.num_labels:
            shape = f"(N, {self.num_labels}, ...)" if self.samplewise else f"(N, {self.num_labels})"
            raise InputError(
                f"expected preds and target of shape {shape}, labels in the second dimension, got {tuple(preds.shape)}."
            )
        weight = self.arranged_weight(target, sample_weight, preds)
        if self.sample_sums and sample_weight is not None:
            self.refuse_weights_of_elements(sample_weight, len(preds), f"{', '.join(self.sample_sums)} count")
        return self._last(preds), self._last(target), None if weight is None else self._last(weight)

    def _last(self, values: Tensor) -> Tensor:
        if self.samplewise:
            return values.flatten(2).movedim(1, -1)
        return values if values.ndim == 2 else values.movedim(1, -1).reshape(-1, self.num_labels)
