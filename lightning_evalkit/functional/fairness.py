"""Binary decisions compared between groups, as functions of one batch, with torchmetrics' names and arguments.

Functions without a number of groups read it from the groups, which waits for the device.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lightning_evalkit.counts import BinaryCounter, Counts, SliceCounter, Totals, is_deferred, real_dtype
from lightning_evalkit.errors import InputError
from lightning_evalkit.inputs import Binary, Inputs
from lightning_evalkit.inputs.arrays import tensor_of
from lightning_evalkit.statistics.fairness import (
    Compared,
    checked_comparison,
    fairness,
    rates_of_groups,
    without_target,
)

Results = dict[str, Tensor]


def group_counts(
    preds: Any,
    target: Any,
    groups: Any,
    num_groups: int | None,
    threshold: float,
    ignore_index: int | None,
    validate_args: bool,
    inputs: Inputs,
    sample_weight: Any,
) -> Counts:
    """Count a batch in every group."""
    task = Binary(inputs, ignore_index, sample_weight is not None, thresholds=(threshold,))
    preds, target, groups, weight = _tensors(task, preds, target, groups, sample_weight)
    if num_groups is None:
        num_groups = int(groups.max()) + 1 if groups.numel() else 1
    counter = SliceCounter(BinaryCounter(task), num_groups)
    kinds, here = (torch.int64, real_dtype(preds.device)), preds.device
    pairs = zip(counter.layout, kinds, strict=True)
    integers, reals = (torch.zeros(cells.width, dtype=kind, device=here) for cells, kind in pairs)
    totals = Totals(integers, None if weight is None else reals)
    counter.add(totals, preds, target, groups.flatten(), weight)
    if validate_args and is_deferred(preds) and (invalid := counter.ledger(totals).invalid):
        raise InputError(f"{invalid} samples are not what was declared: move them to the CPU to see which.")
    return counter.counts(totals).at(0)


def _tensors(task: Binary, preds: Any, target: Any, groups: Any, weight: Any) -> tuple[Any, ...]:
    """Convert arrays or lists to tensors on the device of the first tensor."""
    given = {"preds": preds, "target": target, "groups": groups, "sample_weight": weight}
    here = next((each.device for each in given.values() if isinstance(each, Tensor)), torch.device("cpu"))
    optional = weight is None
    return tuple(
        None if optional and name == "sample_weight" else tensor_of(name, each, here, task.names_of_values(name))
        for name, each in given.items()
    )


def binary_groups_stat_rates(
    preds: Tensor,
    target: Tensor,
    groups: Tensor,
    num_groups: int,
    threshold: float = 0.5,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Results:
    """Compute the shares of tp, fp, tn and fn in every group."""
    declared = (threshold, ignore_index, validate_args, inputs, sample_weight)
    return rates_of_groups(group_counts(preds, target, groups, num_groups, *declared))


def binary_fairness(
    preds: Tensor,
    target: Tensor | None,
    groups: Tensor,
    task: Compared = "all",
    threshold: float = 0.5,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Results:
    """Compare the rates of groups: the lowest / the highest, of positive predictions, true positives, or both."""
    declared = (threshold, ignore_index, validate_args, inputs, sample_weight)
    if checked_comparison(task) == "demographic_parity":
        preds, target = without_target(preds, target)
    return fairness(group_counts(preds, target, groups, None, *declared), task)


def demographic_parity(
    preds: Tensor,
    groups: Tensor,
    threshold: float = 0.5,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Results:
    """Compare the rates of positive predictions of groups: the lowest / the highest."""
    declared = (threshold, ignore_index, validate_args, inputs, sample_weight)
    preds, target = without_target(preds, None)
    counts = group_counts(preds, target, groups, None, *declared)
    return fairness(counts, "demographic_parity")


def equal_opportunity(
    preds: Tensor,
    target: Tensor,
    groups: Tensor,
    threshold: float = 0.5,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    inputs: Inputs = "auto",
    sample_weight: Tensor | None = None,
) -> Results:
    """Compare the true-positive rates of groups: the lowest / the highest."""
    declared = (threshold, ignore_index, validate_args, inputs, sample_weight)
    counts = group_counts(preds, target, groups, None, *declared)
    return fairness(counts, "equal_opportunity")
