"""Two models on the same samples, in one pass: McNemar's test, and the paired difference of every statistic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torchmetrics import Metric

from lightning_evalkit.counts import BucketCounter, SliceCounter, Totals, real_dtype
from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.evaluation.base import Evaluation
from lightning_evalkit.evaluation.comparison import compare
from lightning_evalkit.intervals.comparison import Comparison, McNemar, mcnemar
from lightning_evalkit.ranks import rank_and_world_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

RANK = 2**40
"""Rows that a rank may see before its ids are those of the next."""


class PairedComparison(Metric):
    """Compares two models whose predictions for the same samples come together.

    ``evaluation`` is a template: it says what is counted and compared, and stays as it is. A sample is right for
    McNemar's test if all of it is: its class, or all of its labels.

    >>> from lightning_evalkit import BinaryEvaluation
    >>> paired = PairedComparison(BinaryEvaluation(inputs="labels", statistics=["accuracy"]))
    >>> target = torch.tensor([0, 1] * 50)
    >>> better = torch.where(torch.arange(100) < 95, target, 1 - target)
    >>> worse = torch.where(torch.arange(100) < 80, target, 1 - target)
    >>> paired.update(worse, better, target)
    >>> paired.mcnemar()
    McNemar(only_first=0, only_second=15, exact=6.103515625e-05, mid_p=3.0517578125e-05)
    >>> paired.comparisons()["accuracy"].verdict
    'better'
    """

    full_state_update = False
    is_differentiable = False
    only: torch.Tensor
    rows: torch.Tensor

    def __init__(self, evaluation: Evaluation, buckets: int = 1024, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not isinstance(evaluation, Evaluation):
            raise DeclarationError(f"expected an evaluation that says what is compared, got {evaluation!r}.")
        if isinstance(getattr(evaluation, "threshold", None), (list, tuple)) and not hasattr(evaluation, "num_labels"):
            raise DeclarationError("expected one threshold, because a sample is right or wrong at one, got several.")
        self.first, self.second = (evaluation.replace(buckets=buckets, **kwargs) for _ in range(2))
        self.add_state("only", torch.zeros(2, dtype=torch.int64), dist_reduce_fx="sum")
        self.add_state("rows", torch.zeros(1, dtype=torch.int64), dist_reduce_fx="sum")

    def update(
        self,
        first: Tensor,
        second: Tensor,
        target: Tensor,
        sample_weight: Tensor | None = None,
        sample: Any = None,
        cluster: Any = None,
    ) -> None:
        """Count the predictions of both models; without ids every row is a sample of its own."""
        one, other = (self._right(preds, target, sample_weight) for preds in (first, second))
        if sample is None and cluster is None:
            begin = rank_and_world_size()[0] * RANK
            sample = torch.arange(begin, begin + len(target), device=target.device) + self.rows
        self.first.update(first, target, sample_weight, sample, cluster)
        self.second.update(second, target, sample_weight, sample, cluster)
        self.only += torch.stack(((one & ~other).sum(), (other & ~one).sum()))
        self.rows += len(target)

    def _right(self, preds: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
        """Which samples have no error, each counted as a group of its own; raises for bad values."""
        bucketed = self.first.tally.counter
        assert isinstance(bucketed, BucketCounter)  # declared
        counter = SliceCounter(bucketed.counts, max(len(target), 1))
        integers, reals = (cells.width for cells in counter.layout)
        totals = Totals(
            torch.zeros(integers, dtype=torch.int64, device=target.device),
            torch.zeros(reals, dtype=real_dtype(target.device), device=target.device) if reals else None,
        )
        counter.add(totals, preds, target, torch.arange(len(target), device=target.device), weight)
        errors: Tensor = counter.counts(totals).errors
        return errors.sum(-1).narrow(0, 0, len(target)) == 0

    # ---- asking

    def comparisons(
        self, statistics: Sequence[str] | None = None, level: float = 0.95, margin: float = 0.0
    ) -> dict[str, Comparison]:
        """The second model minus the first, statistic by statistic; see ``compare``."""
        return compare(self.first, self.second, statistics, level, margin, paired=True)

    def mcnemar(self) -> McNemar:
        """McNemar's test of the samples that only one of them gets right, over all ranks."""
        with self.sync_context(should_sync=self._to_sync, should_unsync=self._should_unsync):
            only_first, only_second = self.only.tolist()
        return mcnemar(only_first, only_second)

    def compute(self) -> dict[str, Tensor]:
        """The differences, second minus first, and the exact p-value of McNemar's test as "mcnemar"."""
        before, after = self.first.compute(), self.second.compute()
        found = {name: after[name] - value for name, value in before.items()}
        p_value = mcnemar(*self.only.tolist()).exact
        return {**found, "mcnemar": torch.tensor(p_value, device=self.only.device)}

    def reset(self) -> None:
        """Back to no samples."""
        super().reset()
        self.first.reset()
        self.second.reset()
