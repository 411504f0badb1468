"""Comparisons of rates between groups, in torchmetrics' form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

import torch

from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.inputs.arrays import tensor_of
from lightning_evalkit.ranks import warn_on_rank_zero
from lightning_evalkit.statistics.definitions import predicted_prevalence, recall

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts import Counts

Compared = Literal["demographic_parity", "equal_opportunity", "all"]


def rates_of_groups(counts: Counts) -> dict[str, Tensor]:
    """The shares of tp, fp, tn and fn in every group."""
    cells = torch.stack((counts.tp, counts.fp, counts.tn, counts.fn), -1)
    return {f"group_{place}": (row / row.sum()).float() for place, row in enumerate(cells)}


def fairness(counts: Counts, compared: Compared) -> dict[str, Tensor]:
    """The lowest rate of any group divided by the highest, under a name with the numbers of both groups."""
    found: dict[str, Tensor] = {}
    if compared != "equal_opportunity":
        found |= _ratio("DP", predicted_prevalence(counts).value())
    if compared != "demographic_parity":
        found |= _ratio("EO", recall(counts).value())
    return found


def _ratio(name: str, rates: Tensor) -> dict[str, Tensor]:
    """The ratio over groups with a defined rate; 0 if no rate is above 0, as in torchmetrics."""
    low, high = rates.nan_to_num(torch.inf).argmin(), rates.nan_to_num(-torch.inf).argmax()
    ratio = rates[low] / rates[high]
    return {f"{name}_{int(low)}_{int(high)}": ratio.nan_to_num(0.0).float()}


def checked_comparison(compared: Any) -> Compared:
    """Return the comparison, if it is known."""
    if compared not in get_args(Compared):
        raise DeclarationError(
            f"expected task to be one of {', '.join(map(repr, get_args(Compared)))}, got {compared!r}."
        )
    known: Compared = compared
    return known


def without_target(preds: Any, target: Any, device: torch.device | None = None) -> tuple[Tensor, Tensor]:
    """The predictions with placeholder targets; warn if targets were given, which the comparison does not need."""
    if target is not None:
        warn_on_rank_zero("The task demographic_parity does not require a target.")
    preds = tensor_of("preds", preds, device or torch.device("cpu"))
    return preds, torch.zeros_like(preds, dtype=torch.int64)
