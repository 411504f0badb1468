"""Binary decisions compared between groups of samples: torchmetrics' names, arguments and results.

Groups are counted as ``Slices`` counts them: one state, one collective, and an update touches only groups in the batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lightning_evalkit.counts import BinaryCounter, SliceCounter
from lightning_evalkit.inputs import Binary, Inputs
from lightning_evalkit.state import GroupTally
from lightning_evalkit.statistics.fairness import (
    Compared,
    checked_comparison,
    fairness,
    rates_of_groups,
    without_target,
)

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts import Totals


class GroupMetric(GroupTally):
    """The four cells of every group, numbered from 0."""

    higher_is_better = False
    plot_lower_bound, plot_upper_bound = 0.0, 1.0

    def __init__(
        self,
        num_groups: int,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        validate_args: bool = True,
        *,
        inputs: Inputs = "auto",
        weighted: bool = False,
        **kwargs: Any,
    ) -> None:
        counter: Any = SliceCounter(
            BinaryCounter(Binary(inputs, ignore_index, weighted, thresholds=(threshold,))), num_groups
        )
        super().__init__(counter, **kwargs)
        self.num_groups, self.threshold, self.ignore_index = num_groups, threshold, ignore_index
        self.validate_args = validate_args

    def update(  # type: ignore[override]
        self, preds: Tensor, target: Tensor, groups: Tensor, sample_weight: Tensor | None = None
    ) -> None:
        super().update(preds, target, groups.flatten(), sample_weight)

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Draw one value or several with torchmetrics' own plot."""
        return self._plot(val, ax)


class BinaryGroupStatRates(GroupMetric):
    """The shares of tp, fp, tn and fn in every group; NaN for a group without samples.

    >>> import torch
    >>> rates = BinaryGroupStatRates(num_groups=2)
    >>> rates.update(torch.tensor([1, 0, 1, 0]), torch.tensor([1, 1, 0, 0]), torch.tensor([0, 0, 1, 1]))
    >>> rates.compute()["group_1"]
    tensor([0.0000, 0.5000, 0.5000, 0.0000])
    """

    def value_of(self, totals: Totals) -> dict[str, Tensor]:
        return rates_of_groups(self.counter.counts(totals).at(0))


class BinaryFairness(GroupMetric):
    """The ratio of the least to the most favoured group: the lowest rate divided by the highest.

    "demographic_parity" compares the rates of positive predictions (entry ``DP_low_high``, by the numbers of the two
    groups), "equal_opportunity" true-positive rates (``EO_low_high``), "all" both. Groups without such a rate are left
    out.
    """

    def __init__(
        self,
        num_groups: int,
        task: Compared = "all",
        threshold: float = 0.5,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_groups, threshold, ignore_index, validate_args, **kwargs)
        self.task = checked_comparison(task)

    def update(  # type: ignore[override]
        self, preds: Tensor, target: Tensor | None, groups: Tensor, sample_weight: Tensor | None = None
    ) -> None:
        """Count a batch, each sample in its group; ``target`` is None where only predictions are compared."""
        if self.task == "demographic_parity":
            preds, target = without_target(preds, target, self.device)
        super().update(preds, target, groups, sample_weight)  # type: ignore[arg-type]  # None is refused in words

    def value_of(self, totals: Totals) -> dict[str, Tensor]:
        return fairness(self.counter.counts(totals).at(0), self.task)
