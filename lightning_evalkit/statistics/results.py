"""Counts in the forms in which torchmetrics gives results, for metrics and functions that carry its names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

import torch

from lightning_evalkit.counts import real_dtype
from lightning_evalkit.errors import DeclarationError

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts import Counts

Normalize = Literal["true", "pred", "all", "none"]
KappaWeights = Literal["linear", "quadratic", "none"]
Choice = TypeVar("Choice", bound=str)


def stat_scores(counts: Counts) -> Tensor:
    """The counts as the last dimension: tp, fp, tn, fn, support."""
    return torch.stack((counts.tp, counts.fp, counts.tn, counts.fn, counts.support), -1)


def checked_normalize(normalize: Normalize | None) -> Normalize:
    """How a confusion matrix is divided, or 'none'."""
    return _checked("normalize", normalize or "none", Normalize)


def checked_weights(weights: KappaWeights | None) -> KappaWeights:
    """How kappa weighs disagreements between ordered classes, or 'none'."""
    return _checked("weights", weights or "none", KappaWeights)


def _checked(name: str, choice: Choice, kind: Any) -> Choice:
    if choice not in get_args(kind):
        raise DeclarationError(
            f"expected {name} to be None or one of {', '.join(map(repr, get_args(kind)))}, got {choice!r}."
        )
    return choice


def confusion_matrix(counts: Counts, normalize: Normalize = "none") -> Tensor:
    """Targets in rows and predictions in columns, negative first; divided by row, by column, or by all."""
    matrix: Tensor = torch.stack((counts.tn, counts.fp, counts.fn, counts.tp), -1).unflatten(-1, (2, 2))
    if normalize == "none":
        return matrix
    matrix = matrix.to(real_dtype(matrix.device))
    whole = matrix.sum({"true": (-1,), "pred": (-2,), "all": (-2, -1)}[normalize], keepdim=True)
    return torch.where(whole == 0, 0.0, matrix / whole).float()


def matthews_of_torchmetrics(counts: Counts) -> Tensor:
    """Matthews correlation with torchmetrics' values where the definition has none.

    A table without errors is 1 and one without correct predictions is -1; where only one class occurs or is predicted,
    a small number stands in for the empty marginals.
    """
    c = counts.real()
    correct, tiny = c.tp + c.tn, torch.finfo(torch.float32).eps
    marginals = (c.predicted_positives, c.positives, c.negatives, c.predicted_negatives)
    exact = (c.tp * c.tn - c.fp * c.fn) / torch.stack(marginals).sqrt().prod(0)
    nearly = tiny**0.5 * (correct - c.errors) / torch.stack([m + tiny for m in marginals]).sqrt().prod(0)
    value = torch.where(torch.stack(marginals).prod(0) == 0, nearly, exact)
    value = torch.where((c.errors == 0) & (correct != 0), 1.0, value)
    return torch.where((correct == 0) & (c.errors != 0), -1.0, value).float()
