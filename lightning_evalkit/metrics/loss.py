"""The loss of an epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from lightning_evalkit.counts import LossCounter
from lightning_evalkit.inputs.numbers import checked_share
from lightning_evalkit.state import Tally

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts import Totals


class MeanLoss(Tally):
    """Sum of weighted losses / sum of weights over an epoch: the loss of the epoch as one batch.

    Logging a loss averages the batches' means, which depends on how rows fall into batches and ranks (a short last
    batch, class weights); this metric does not. ``update`` takes losses that are not reduced.

    >>> import torch
    >>> loss = MeanLoss()
    >>> loss.update(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 3.0]))
    >>> loss.update(torch.tensor([6.0]), torch.tensor([1.0]))
    >>> loss.compute()  # (1*1 + 2*3 + 6*1) / 5
    tensor(2.6000)
    """

    higher_is_better: bool | None = False
    histogram: ClassVar[bool] = False
    counter: LossCounter
    without_counts = "losses are added up, not counted: an evaluation has counts."

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(LossCounter(self.histogram), **kwargs)

    def update(self, losses: Tensor, weights: Tensor | None = None) -> None:  # type: ignore[override]
        """Add the losses of a batch and their weights, 1 if not given."""
        super().update(losses, weights)  # type: ignore[arg-type]  # of which the counter makes ones

    def value_of(self, totals: Totals) -> Tensor:
        """The mean, in single precision as other metrics' values."""
        return self.counter.mean(totals).float()


class WorstLossShare(MeanLoss):
    """The share of an epoch's loss that its worst samples carry: 1 % of them, unless ``worst`` says otherwise.

    Losses are kept in a histogram of fixed size, so memory does not grow with the data; the share is exact but for the
    one bin where it ends, whose losses are within 1/128 of each other.

    >>> import torch
    >>> share = WorstLossShare(worst=0.25)
    >>> share.update(torch.tensor([0.1, 0.1, 0.1, 2.7]))
    >>> share.compute()
    tensor(0.9000)
    """

    higher_is_better = None
    histogram = True

    def __init__(self, worst: float = 0.01, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.worst = checked_share("worst, a share of the samples,", worst, above=True)

    def value_of(self, totals: Totals) -> Tensor:
        """The share of the loss."""
        return self.counter.share_of_worst(totals, self.worst).float()
