"""What tensors mean is declared at construction, and a declaration has an identity: equal ones may share a state."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from lightning_evalkit.errors import DeclarationError, InputError

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.inputs.scores import Scores

Inputs = Literal["logits", "probabilities", "labels", "auto"]
"""What the first tensor of ``update`` holds; ``auto`` guesses for each batch, as torchmetrics does."""

MultidimAverage = Literal["global", "samplewise"]


@dataclass(frozen=True)
class Declaration:
    """What every task declares; its fields alone decide which metrics may share a state."""

    inputs: Inputs = "auto"
    ignore_index: int | tuple[int, ...] | None = None
    weighted: bool = False
    samplewise: bool = False
    scores: Scores | None = field(default=None, kw_only=True)
    """How scores are kept beside counts, where curves are asked for."""

    def __post_init__(self) -> None:
        if self.inputs not in get_args(Inputs):
            raise DeclarationError(
                f"expected inputs to be one of {', '.join(map(repr, get_args(Inputs)))}, got {self.inputs!r}."
            )
        if any(not isinstance(index, int) or isinstance(index, bool) for index in self.ignored):
            raise DeclarationError(f"expected ignore_index to be None or an integer, got {self.ignore_index!r}.")
        if self.scores is not None and self.inputs == "labels":
            raise DeclarationError("expected scores for curves, got inputs='labels': labels have no order.")

    @property
    def ignored(self) -> tuple[int, ...]:
        """The target values that are left out."""
        if self.ignore_index is None:
            return ()
        return self.ignore_index if isinstance(self.ignore_index, tuple) else (self.ignore_index,)

    def described(self) -> dict[str, Any]:
        """The declaration as plain values, for a checkpoint and for messages."""
        return {"task": type(self).__name__, **asdict(self)}

    @property
    def key(self) -> str:
        """A short hash of the declaration: unequal declarations have unequal keys."""
        return hashlib.sha256(json.dumps(self.described(), sort_keys=True).encode()).hexdigest()[:10]

    def arranged_weight(self, target: Tensor, sample_weight: Tensor | None, preds: Tensor) -> Tensor | None:
        """The weights, repeated over the dimensions of the target that they lack; all tensors are on one device."""
        if preds.device != target.device:
            raise InputError(f"expected preds and target on one device, got {preds.device} and {target.device}.")
        if (sample_weight is None) is self.weighted:
            raise InputError(
                "declared weighted=True, so update needs sample_weight (torch.ones(len(target)) weighs all alike)."
                if self.weighted
                else "got sample_weight, but the metric counts unweighted: construct it with weighted=True."
            )
        if sample_weight is None:
            return None
        if sample_weight.device != target.device:
            raise InputError(
                f"expected sample_weight on the device of target, got {sample_weight.device} and {target.device}."
            )
        lead = sample_weight.ndim
        if sample_weight.shape != target.shape[:lead]:
            raise InputError(
                f"expected sample_weight to have the shape of target, {tuple(target.shape)}, or of its first "
                f"dimensions, got {tuple(sample_weight.shape)}."
            )
        return sample_weight.reshape(sample_weight.shape + (1,) * (target.ndim - lead)).expand(target.shape)

    def refuse_weights_of_elements(self, sample_weight: Tensor | None, samples: int, what: str) -> None:
        """Where whole samples are counted, a sample has one weight."""
        if sample_weight is not None and sample_weight.ndim > 1:
            raise InputError(
                f"expected one sample_weight per sample, shape ({samples},), because {what} samples, "
                f"got {tuple(sample_weight.shape)}."
            )


def is_samplewise(multidim_average: str) -> bool:
    """Whether torchmetrics' ``multidim_average`` asks for one result per sample."""
    if multidim_average not in get_args(MultidimAverage):
        raise DeclarationError(f"expected multidim_average to be 'global' or 'samplewise', got {multidim_average!r}.")
    return multidim_average == "samplewise"


def checked_number(name: str, number: object, least: int) -> None:
    """A whole number that is not too small."""
    if not isinstance(number, int) or isinstance(number, bool) or number < least:
        raise DeclarationError(f"expected {name} to be a whole number of at least {least}, got {number!r}.")


def checked_threshold(threshold: object) -> float:
    """A threshold on probabilities, in [0, 1]."""
    if isinstance(threshold, bool) or not isinstance(threshold, (int, float)) or not 0 <= threshold <= 1:
        raise DeclarationError(
            f"expected threshold to be a number in [0, 1] (on probabilities, also when inputs are logits), "
            f"got {threshold!r}."
        )
    return float(threshold)


def logit(threshold: float) -> float:
    """The threshold moved to logit space, so that no score needs a sigmoid: 0 and 1 become infinities.

    >>> logit(0.5)
    0.0
    """
    if threshold in (0.0, 1.0):
        return math.inf if threshold else -math.inf
    return math.log(threshold) - math.log1p(-threshold)
