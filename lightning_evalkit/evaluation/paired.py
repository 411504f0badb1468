"""Compares two models on the same samples in one pass: McNemar's test, and paired differences of all statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from lightning_evalkit.counts import BucketCounter, PairCounter, Totals
from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.evaluation.base import Evaluation
from lightning_evalkit.evaluation.comparison import compare
from lightning_evalkit.intervals.comparison import Comparison, McNemar, mcnemar
from lightning_evalkit.state import PairTally

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


class PairedComparison(PairTally):
    """Compares two models; each update takes the predictions of both for the same samples.

    ``evaluation`` is a template: it declares what to count and compare, and stays unchanged. McNemar's test counts a
    sample as correct if its class, or all its labels, are correct. The state is one tensor, summed over ranks in one
    all-reduce.

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

    def __init__(self, evaluation: Evaluation, buckets: int = 1024, **kwargs: Any) -> None:
        if not isinstance(evaluation, Evaluation):
            raise DeclarationError(f"expected an evaluation that declares what to compare, got {evaluation!r}.")
        if isinstance(getattr(evaluation, "threshold", None), (list, tuple)) and not hasattr(evaluation, "num_labels"):
            raise DeclarationError("expected one threshold, which decides whether a sample is correct, got several.")
        template = evaluation.replace(buckets=buckets, sync_on_compute=False)
        bucketed: Any = template.tally.counter
        assert isinstance(bucketed, BucketCounter)  # declared
        super().__init__(PairCounter(bucketed), **kwargs)  # type: ignore[arg-type]  # counts two predictions
        self.__dict__["_template"] = template  # not a submodule: only its declaration is used

    # ---- asking

    def comparisons(
        self, statistics: Sequence[str] | None = None, level: float = 0.95, margin: float = 0.0
    ) -> dict[str, Comparison]:
        """The second model minus the first, statistic by statistic; see ``compare``."""
        return compare(*self.models(), statistics, level, margin, paired=True)

    def models(self) -> tuple[Evaluation, Evaluation]:
        """The evaluation of each model over all ranks, as a copy."""
        return self._evaluations(self._valid().totals)

    def mcnemar(self) -> McNemar:
        """McNemar's test of the samples that only one model gets right, across ranks."""
        return mcnemar(*self.counter.split(self._valid().totals).only.tolist())

    def value_of(self, totals: Totals) -> dict[str, Tensor]:
        """The differences, second minus first, and the exact p-value of McNemar's test as "mcnemar"."""
        before, after = (each.compute() for each in self._evaluations(totals))
        p_value = mcnemar(*self.counter.split(totals).only.tolist()).exact
        found = {name: after[name] - value for name, value in before.items()}
        return {**found, "mcnemar": torch.tensor(p_value, device=totals.integers.device)}

    def _evaluations(self, totals: Totals) -> tuple[Evaluation, Evaluation]:
        parts, template = self.counter.split(totals), self.__dict__["_template"]
        first, second = (template.clone().to(totals.integers.device) for _ in range(2))
        first.tally.load_totals(parts.first)
        second.tally.load_totals(parts.second)
        return first, second
