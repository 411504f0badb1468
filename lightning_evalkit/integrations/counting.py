"""Counts evaluations one after the other, for trainers that do not signal the start of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torchmetrics.utilities import rank_zero_warn

from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.evaluation.base import Evaluation
from lightning_evalkit.inputs.arrays import tensor_of
from lightning_evalkit.integrations.predictions import arranged, tensors

if TYPE_CHECKING:
    from torch import Tensor


class Counting:
    """Counts rows; the first row after a result, or after ``reset``, begins the next evaluation.

    The counts stay readable until then: ``evaluation.explain()`` explains the last result.
    """

    def __init__(self, evaluation: Evaluation, over_ranks: bool) -> None:
        if not isinstance(evaluation, Evaluation):
            raise DeclarationError(
                "expected an evaluation of this package, such as MultilabelEvaluation(inputs='logits', num_labels=3), "
                f"got {evaluation!r}."
            )
        self.evaluation = evaluation.replace(sync_on_compute=over_ranks)
        self.rows, self.finished = 0, False
        self._range: Tensor | None = None
        self._said: set[str] = set()

    @property
    def task(self) -> Any:
        """The declared meaning of the tensors."""
        return self.evaluation.tally.counter.task

    def reset(self) -> None:
        """Forget all counts."""
        self.evaluation.reset()
        self.rows, self.finished, self._range = 0, False, None

    def count(self, preds: Any, target: Any, *weight: Any, rows: int | None = None) -> None:
        """Count a batch, or only its first ``rows``."""
        if self.finished:
            self.reset()
        scores, truth = (each[:rows] for each in tensors(self.task, preds, target))
        if self.evaluation.tally.device != scores.device:
            self.evaluation.to(scores.device)
        weights = (tensor_of("sample_weight", each, scores.device)[:rows] for each in weight)
        self.evaluation.update(*arranged(self.task, scores, truth), *weights)
        self._look_at(scores, truth)
        self.rows += len(truth)

    def values(self) -> dict[str, float]:
        """Return every number as a plain float, and end this evaluation."""
        values = {name: float(value) for name, value in self.evaluation.compute().items()}
        self.finished = True
        if self._range is not None:
            self._warn_of_probabilities(*self._range.tolist())
        return values

    def warn_once(self, message: str) -> None:
        """Say each sentence once, on the first rank."""
        if message not in self._said:
            self._said.add(message)
            rank_zero_warn(message, UserWarning)

    # ---- probabilities that are declared as logits

    def _look_at(self, scores: Tensor, target: Tensor) -> None:
        """Track the smallest and largest score on the device; they are read with the result."""
        if self.task.inputs != "logits" or not scores.numel():
            return
        if self.task.ignored and scores.ndim >= target.ndim:  # padding is not a score
            left_out = self.task.left_out(target)
            left_out = left_out.reshape(*left_out.shape, *[1] * (scores.ndim - target.ndim))
            scores = torch.where(left_out, 0.5, scores) if scores.shape[: target.ndim] == target.shape else scores
        low, high = scores.detach().aminmax()
        seen = torch.stack((low, high)).double()
        before = seen if self._range is None else self._range
        self._range = torch.stack((torch.minimum(seen[0], before[0]), torch.maximum(seen[1], before[1])))

    def _warn_of_probabilities(self, low: float, high: float) -> None:
        if low >= 0 and high <= 1:
            self.warn_once(
                f"expected logits, as declared, but every score is in [0, 1] (from {low:.3g} to {high:.3g}): if a "
                "sigmoid or softmax was applied, declare inputs='probabilities'."
            )
