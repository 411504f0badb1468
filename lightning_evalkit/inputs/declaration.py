"""What tensors mean is declared at construction, and a declaration has an identity: equal ones may share a state."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from lightning_evalkit.errors import DeclarationError

Inputs = Literal["logits", "probabilities", "labels", "auto"]
"""What the first tensor of ``update`` holds; ``auto`` guesses for each batch, as torchmetrics does."""

MultidimAverage = Literal["global", "samplewise"]


@dataclass(frozen=True)
class Declaration:
    """What every task declares; its fields alone decide which metrics may share a state."""

    inputs: Inputs = "auto"
    ignore_index: int | None = None
    weighted: bool = False
    samplewise: bool = False

    def __post_init__(self) -> None:
        if self.inputs not in get_args(Inputs):
            raise DeclarationError(
                f"expected inputs to be one of {', '.join(map(repr, get_args(Inputs)))}, got {self.inputs!r}."
            )
        if self.ignore_index is not None and (
            not isinstance(self.ignore_index, int) or isinstance(self.ignore_index, bool)
        ):
            raise DeclarationError(f"expected ignore_index to be None or an integer, got {self.ignore_index!r}.")

    def described(self) -> dict[str, Any]:
        """The declaration as plain values, for a checkpoint and for messages."""
        return {"task": type(self).__name__, **asdict(self)}

    @property
    def key(self) -> str:
        """A short hash of the declaration: unequal declarations have unequal keys."""
        return hashlib.sha256(json.dumps(self.described(), sort_keys=True).encode()).hexdigest()[:10]


def is_samplewise(multidim_average: str) -> bool:
    """Whether torchmetrics' ``multidim_average`` asks for one result per sample."""
    if multidim_average not in get_args(MultidimAverage):
        raise DeclarationError(f"expected multidim_average to be 'global' or 'samplewise', got {multidim_average!r}.")
    return multidim_average == "samplewise"


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
