"""Counting one batch for a function."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import torch

from lightning_evalkit.counts import Counter, Totals, is_deferred
from lightning_evalkit.errors import InputError
from lightning_evalkit.inputs.arrays import as_tensors
from lightning_evalkit.inputs.declaration import refuse_large

if TYPE_CHECKING:
    from torch import Tensor

AnyCounter = TypeVar("AnyCounter", bound=Counter)
Ignored = int | tuple[int, ...] | None


def counted(
    counter: AnyCounter, preds: Tensor, target: Tensor, validate_args: bool, sample_weight: Tensor | None
) -> tuple[AnyCounter, Totals]:
    """The counter and the totals of the batch; on an accelerator ``validate_args`` waits, to raise for bad values."""
    refuse_large(counter.layout.size, str(counter.task))
    tensors = None
    try:
        totals = counter.count(preds, target, sample_weight).dense(counter.layout.integers.width)
    except Exception as failure:
        tensors = as_tensors(counter.count, failure, counter.task, None, preds, target, sample_weight)
        if tensors is None:
            raise
    if tensors is not None:  # arrays or lists
        preds, target, sample_weight = tensors.args
        return counted(counter, preds, target, validate_args, sample_weight)
    if (
        validate_args
        and is_deferred(preds)
        and not torch.compiler.is_compiling()
        and (invalid := counter.ledger(totals).invalid)
    ):
        raise InputError(
            f"{invalid} samples are not what was declared ({counter.task}): move them to the CPU to see which."
        )
    return counter, totals
