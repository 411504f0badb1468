"""Binary scores and targets: their declared meaning, and the shapes and types in which they may come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lightning_evalkit.errors import DeclarationError, InputError
from lightning_evalkit.inputs.declaration import Declaration, checked_threshold, logit

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Binary(Declaration):
    """One yes-or-no question per element, cut at one or several thresholds on the probability.

    >>> Binary(inputs="logits", thresholds=(0.5, 0.9)).cuts("logits")
    (0.0, 2.1972245773362196)
    """

    thresholds: tuple[float, ...] = (0.5,)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.thresholds:
            raise DeclarationError("expected at least one threshold, got an empty list.")
        if len(set(self.thresholds)) < len(self.thresholds):
            raise DeclarationError(f"expected different thresholds, got {list(self.thresholds)}.")
        object.__setattr__(self, "thresholds", tuple(map(checked_threshold, self.thresholds)))
        object.__setattr__(self, "_logit_cuts", tuple(map(logit, self.thresholds)))

    def cuts(self, reading: str) -> tuple[float, ...]:
        """Where scores of this reading are cut: above is positive."""
        return self._logit_cuts if reading == "logits" else self.thresholds  # type: ignore[attr-defined]

    def reading(self, preds: Tensor) -> str:
        """How this batch is read, as far as its type decides; ``auto`` is left open for real scores."""
        if self.inputs == "auto":
            return "auto" if preds.is_floating_point() else "labels"
        if self.inputs != "labels" and not preds.is_floating_point():
            raise InputError(
                f"expected preds to be floating-point {self.inputs}, got {preds.dtype}: "
                "declare inputs='labels' for decided predictions."
            )
        return self.inputs

    def arranged(
        self, preds: Tensor, target: Tensor, sample_weight: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """The tensors flattened to (N,), or to (N, X) where each sample is counted by itself."""
        if preds.shape != target.shape:
            raise InputError(_unequal_shapes(preds, target))
        if preds.device != target.device:
            raise InputError(f"expected preds and target on one device, got {preds.device} and {target.device}.")
        weight = self.arranged_weight(preds, sample_weight)
        if self.samplewise:
            if preds.ndim < 2:
                raise InputError(
                    f"expected at least 2 dimensions, (N, ...), to count samplewise, got shape {tuple(preds.shape)}."
                )
            preds, target = preds.flatten(1), target.flatten(1)
            return preds, target, None if weight is None else weight.flatten(1)
        return preds.flatten(), target.flatten(), None if weight is None else weight.flatten()

    def arranged_weight(self, preds: Tensor, sample_weight: Tensor | None) -> Tensor | None:
        """The weights, repeated over the dimensions that they lack at the end."""
        if (sample_weight is None) is self.weighted:
            raise InputError(
                "declared weighted=True, so update needs sample_weight (torch.ones(len(target)) weighs all alike)."
                if self.weighted
                else "got sample_weight, but the metric counts unweighted: construct it with weighted=True."
            )
        if sample_weight is None:
            return None
        if sample_weight.device != preds.device:
            raise InputError(
                f"expected sample_weight on the device of preds, got {sample_weight.device} and {preds.device}."
            )
        lead = sample_weight.ndim
        if sample_weight.shape != preds.shape[:lead]:
            raise InputError(
                f"expected sample_weight to have the shape of preds, {tuple(preds.shape)}, or of its first dimensions, "
                f"got {tuple(sample_weight.shape)}."
            )
        return sample_weight.reshape(sample_weight.shape + (1,) * (preds.ndim - lead)).expand(preds.shape)


def _unequal_shapes(preds: Tensor, target: Tensor) -> str:
    message = f"expected preds and target of one shape, got {tuple(preds.shape)} and {tuple(target.shape)}"
    for name, wide, narrow in (("preds", preds, target), ("target", target, preds)):
        if wide.shape == (*narrow.shape, 1):
            return f"{message}: call {name}.squeeze(-1) to drop the last dimension."
    if preds.ndim == target.ndim + 1 and preds.shape[0] == target.shape[0]:
        return f"{message}: scores for {preds.shape[1]} classes are a multiclass problem, not a binary one."
    return f"{message}."
