"""Crossing ranks once.

1. The integers and, where there are any, the reals of a tally are laid into one tensor, the wire.
2. Integers alone travel as they are. Beside reals each integer travels as two float64, its high part and its low 31
   bits: both are whole numbers below 2**53 on up to 2**21 ranks, so their sums are exact.
3. One all-reduce sums the wire over the ranks, a rank without data included.
4. The sums are taken apart again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torchmetrics.utilities.distributed import gather_all_tensors

from lightning_evalkit.counts import Totals

if TYPE_CHECKING:
    from torch import Tensor

_LOW = 31


def summed_over_ranks(totals: Totals, group: Any = None, gather: Any = None) -> Totals:
    """The totals of all ranks of the group, by one collective.

    ``gather`` is torchmetrics' ``dist_sync_fn``: a function of tensor and group that returns a list to be summed.
    """
    wire = _laid(totals)
    parts = (gather or all_reduced)(wire, group)
    return _unpacked(parts[0] if len(parts) == 1 else torch.stack(parts).sum(0), like=totals)


def all_reduced(wire: Tensor, group: Any = None) -> list[Tensor]:
    """The sum over ranks as a list of one, the form in which torchmetrics expects a gathered state."""
    total = wire.contiguous().clone()
    torch.distributed.all_reduce(total, group=group)
    return [total]


def gathered(rows: Tensor, group: Any = None) -> list[Tensor]:
    """The rows of each rank; the threads of gloo in torch 2.5 cannot fill tensors that inference mode made."""
    with torch.inference_mode(False):
        parts: list[Tensor] = gather_all_tensors(rows, group)
    return parts


def _laid(totals: Totals) -> Tensor:
    integers, reals = totals.integers, totals.reals
    if reals is None:
        return integers
    if reals.dtype != torch.float64:  # a device without float64 hands over through the host
        integers, reals = integers.cpu(), reals.cpu().double()
    high, low = integers >> _LOW, integers & (2**_LOW - 1)
    return torch.cat((high.double(), low.double(), reals))


def _unpacked(wire: Tensor, like: Totals) -> Totals:
    integers, reals = like.integers, like.reals
    if reals is None:
        return Totals(wire)
    high, low, sums = wire.split((integers.numel(), integers.numel(), reals.numel()))
    return Totals((high.long() << _LOW) + low.long(), sums)
