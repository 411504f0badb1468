"""Scores that are cut at thresholds: the base of binary and multilabel declarations."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch

from lightning_evalkit.errors import DeclarationError, InputError
from lightning_evalkit.inputs.complaints import complaint
from lightning_evalkit.inputs.declaration import Declaration, checked_threshold
from lightning_evalkit.inputs.threshold import Cuts, cuts_of, guessed_cuts_of, parsed, plain_of

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Thresholded(Declaration):
    """A yes or no per element, decided by thresholds on the probability."""

    thresholds: tuple[float, ...] = (0.5,)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.ignore_index, tuple):
            raise DeclarationError(f"expected ignore_index to be None or one integer, got {self.ignore_index!r}.")
        if not self.thresholds:
            raise DeclarationError("expected at least one threshold, got an empty list.")
        thresholds = tuple(map(checked_threshold, parsed(self.thresholds)))
        object.__setattr__(self, "thresholds", thresholds)
        object.__setattr__(self, "_cuts", (guessed_cuts_of if self.rounds else cuts_of)(thresholds))

    @cached_property
    def rounds(self) -> bool:
        """Whether guessed logits are cut where torchmetrics cuts them, after a sigmoid in their own precision.

        If a threshold keeps a logit that no probability represents, all are cut at the exact logits instead.
        """
        return self.inputs == "auto" and not any(isinstance(each, dict) for each in plain_of(self.thresholds))

    def cuts(self, score_kind: str, kind: torch.dtype = torch.float64) -> tuple[float, ...]:
        """The cuts for scores of this kind and type: scores above are positive."""
        cuts: Cuts = self._cuts  # type: ignore[attr-defined]
        found = cuts.get((score_kind, kind))
        return found or cuts["logits" if score_kind == "logits" else "probabilities", torch.float64]

    def has_cuts(self, score_kind: str) -> bool:
        """Whether there are numbers at which scores of this kind can be cut."""
        return (score_kind, torch.float64) in self._cuts  # type: ignore[attr-defined]

    def described(self) -> dict[str, Any]:
        """Describe thresholds as plain values, from which ``parsed`` restores them."""
        return {**super().described(), "thresholds": plain_of(self.thresholds)}

    def score_kind(self, preds: Tensor) -> str:
        """The kind of a batch's scores, as far as its type decides; ``auto`` stays open for real scores."""
        if self.inputs == "auto":
            return "auto" if preds.is_floating_point() else "labels"
        if self.inputs != "labels" and not preds.is_floating_point():
            raise InputError(
                f"expected preds to be floating-point {self.inputs}, got {preds.dtype}: "
                "declare inputs='labels' for decided predictions."
            )
        return self.inputs

    def complaint(self, preds: Tensor, target: Tensor, weight: Tensor | None) -> str:
        """The error message about the values of a batch."""
        return complaint(self, preds, target, weight)

    def refuse_unequal_shapes(self, preds: Tensor, target: Tensor) -> None:
        """Refuse tensors whose elements do not correspond one to one."""
        if preds.shape != target.shape:
            raise InputError(_unequal_shapes(preds, target))


def _unequal_shapes(preds: Tensor, target: Tensor) -> str:
    message = f"expected preds and target of one shape, got {tuple(preds.shape)} and {tuple(target.shape)}"
    for name, wide, narrow in (("preds", preds, target), ("target", target, preds)):
        if wide.shape == (*narrow.shape, 1):
            return f"{message}: call {name}.squeeze(-1) to drop the last dimension."
    if preds.ndim == target.ndim + 1 and preds.shape[:1] == target.shape[:1]:
        return f"{message}: scores for {preds.shape[1]} classes are a multiclass problem, not a binary one."
    return f"{message}."
