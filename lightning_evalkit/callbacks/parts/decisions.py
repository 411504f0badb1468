"""Applies thresholds that were chosen on validation to scores that were scaled since, or became probabilities.

If the scores as validation saw them are known, those are compared: a scaling with a negative slope reverses the order,
and a probability of 1 stands for many logits. Otherwise the smallest positive score goes through the same scaling, and
everything at or above the result is positive.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import torch
from torchmetrics.utilities import rank_zero_warn

from lightning_evalkit.inputs.threshold import above_of, cut_of, logit_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    Way = Callable[[Tensor], Tensor]

CLOSE = 1e-2
"""How far scores in half precision may be from the same scores in another precision."""
VISIBLE = 1e-3
"""A difference of logits that a decision should see."""


class Passed(NamedTuple):
    """The logits that entered and that left a correction."""

    before: Tensor
    after: Tensor


class Decisions:
    """Decides by thresholds, one or one per label, on ``inputs`` ("logits" or "probabilities") of validation."""

    def __init__(self, thresholds: Sequence[float], inputs: str) -> None:
        self.thresholds, self.inputs = tuple(thresholds), inputs
        self._warned = False

    def of_validated(self, scores: Tensor) -> Tensor:
        """Labels of scores as validation sees them."""
        cuts = [cut_of(each, self.inputs, scores.dtype) for each in self.thresholds]
        return (scores > self._spread(cuts, scores)).long()

    def of(self, scores: Tensor, kind: str, passed: Passed | None, corrections: Sequence[Way] = ()) -> Tensor:
        """Label scores of another kind, or after corrections; ``passed`` is where they may come from."""
        validated = self._validated(scores, kind, passed, bool(corrections))
        return self.of_validated(validated) if validated is not None else self._behind(scores, kind, corrections)

    def _validated(self, scores: Tensor, kind: str, passed: Passed | None, corrected: bool) -> Tensor | None:
        """The scores as validation would have seen them; None if unknown."""
        if kind == self.inputs and not corrected:
            return scores
        if kind == "logits" and not corrected:
            return scores.sigmoid()
        if passed is None or not _came_from(scores, passed.after, kind):
            return None
        before = passed.before.detach().reshape(scores.shape)
        return before if self.inputs == "logits" else before.to(scores.dtype).sigmoid()

    def _behind(self, scores: Tensor, kind: str, corrections: Sequence[Way]) -> Tensor:
        """Compare with the corrected smallest positive score; a falling correction puts positives below it."""

        def moved(numbers: Tensor) -> Tensor:
            for correction in corrections:
                numbers = correction(numbers)
            return numbers

        logits = [logit_of(each) for each in self.thresholds]
        least = [math.nan if cut == math.inf else above_of(cut, scores.dtype) for cut in logits]  # nothing is above it
        way: Way = moved if kind == "logits" else lambda numbers: moved(numbers).sigmoid()
        edge = way(self._spread(least, scores))
        rises = moved(torch.ones_like(edge, dtype=torch.float32)) >= moved(torch.zeros_like(edge, dtype=torch.float32))
        lower = self._spread([cut - VISIBLE * (1 + abs(cut)) for cut in logits], scores)
        self._warn(scores, edge, edge == way(lower))
        return torch.where(rises, scores >= edge, scores <= edge).long()

    def _warn(self, scores: Tensor, edge: Tensor, blurred: Tensor) -> None:
        """Warn once that rounding hides on which side of the threshold some scores are."""
        same = (scores == edge) & blurred
        if self._warned or not bool(same.any()):
            return
        self._warned = True
        rank_zero_warn(
            f"some predictions are {float(scores[same][0]):g}, as are logits on both sides of "
            "the chosen threshold, so that nothing tells whether they are above it: let predict_step return logits "
            "(predicts='logits'), or a dict with 'logits' beside the probabilities.",
            UserWarning,
        )

    def _spread(self, numbers: Sequence[float], like: Tensor) -> Tensor:
        """Shape one number for all, or one per label along dimension 1, like a sample."""
        sample = torch.tensor(numbers, dtype=like.dtype, device=like.device)
        return sample.reshape(1, -1, *[1] * (like.ndim - 2)).expand(1, *like.shape[1:]) if like.ndim > 1 else sample


def _came_from(scores: Tensor, logits: Tensor, kind: str) -> bool:
    """Whether the scores are these logits or their probabilities."""
    if scores.numel() != logits.numel():
        return False
    if kind == "logits" and scores.data_ptr() == logits.data_ptr() and scores.dtype == logits.dtype:
        return True
    given, expected = scores.float().flatten(), logits.detach().float().flatten()
    expected = expected if kind == "logits" else expected.sigmoid()
    return torch.allclose(given, expected, rtol=CLOSE, atol=CLOSE, equal_nan=True)
