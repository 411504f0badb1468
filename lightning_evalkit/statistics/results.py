"""Counts into results in torchmetrics' form, for the metrics and functions that have its names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

import torch

from lightning_evalkit.counts import Counts, is_deferred, real_dtype
from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.ranks import warn_on_rank_zero
from lightning_evalkit.statistics.averages import Average, averaged
from lightning_evalkit.statistics.overall import OVERALL
from lightning_evalkit.statistics.quantity import ratio
from lightning_evalkit.statistics.table import STATISTICS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from lightning_evalkit.statistics.table import Statistic

Normalize = Literal["true", "pred", "all", "none"]
KappaWeights = Literal["linear", "quadratic", "none"]
Choice = TypeVar("Choice", bound=str)


def stat_scores(counts: Counts) -> Tensor:
    """The counts as the last dimension: tp, fp, tn, fn, support."""
    return torch.stack((counts.tp, counts.fp, counts.tn, counts.fn, counts.support), -1)


def averaged_stat_scores(counts: Counts, average: Average) -> Tensor:
    """The counts over classes or labels: summed (micro), averaged, averaged by support, or one row for each."""
    scores = stat_scores(counts)
    if average == "none":
        return scores
    if average == "micro":
        return scores.sum(-2)
    kind = real_dtype(scores.device)
    if average == "macro":
        return _single(scores.to(kind).mean(-2), counts)
    support = counts.support.to(kind)
    shares = support / support.sum(-1, keepdim=True)
    return _single((scores * shares.unsqueeze(-1)).sum(-2), counts)


def _single(values: Tensor, counts: Counts) -> Tensor:
    """The values in single precision, as in torchmetrics, except for sums of weights, which it may not hold."""
    return values if counts.tp.is_floating_point() else values.float()


def checked_normalize(normalize: Normalize | None) -> Normalize:
    """Return how a confusion matrix is divided, 'none' for None."""
    return _checked("normalize", "none" if normalize is None else normalize, Normalize)


def checked_weights(weights: KappaWeights | None) -> KappaWeights:
    """Return how kappa weights disagreements between ordered classes, 'none' for None."""
    return _checked("weights", "none" if weights is None else weights, KappaWeights)


def _checked(name: str, choice: Choice, kind: Any) -> Choice:
    if choice not in get_args(kind):
        raise DeclarationError(
            f"expected {name} to be None or one of {', '.join(map(repr, get_args(kind)))}, got {choice!r}."
        )
    return choice


def confusion_matrix(counts: Counts, normalize: Normalize = "none") -> Tensor:
    """Targets in rows and predictions in columns, negative first."""
    matrix = torch.stack((counts.tn, counts.fp, counts.fn, counts.tp), -1).unflatten(-1, (2, 2))
    return normalized(matrix, normalize)


def normalized(matrix: Tensor, normalize: Normalize) -> Tensor:
    """A confusion matrix divided by row ("true"), by column ("pred") or by all; warn where 0/0 becomes 0."""
    if normalize == "none":
        return matrix
    matrix = matrix.to(real_dtype(matrix.device))
    whole = matrix.sum({"true": (-1,), "pred": (-2,), "all": (-2, -1)}[normalize], keepdim=True)
    nothing = (whole == 0).expand(matrix.shape)
    if not torch.compiler.is_compiling() and (number := int(nothing.sum())):
        warn_on_rank_zero(f"{number} NaN values found in confusion matrix have been replaced with zeros.")
    return torch.where(nothing, 0.0, matrix / whole).float()


def matthews_of_torchmetrics(counts: Counts) -> Tensor:
    """Matthews correlation, with torchmetrics' values where it is undefined.

    A table without errors gives 1, one without correct predictions -1; if only one class occurs or is predicted, a
    small number stands in for the empty marginals.
    """
    exact = STATISTICS["mcc"].value(counts)
    if not is_deferred(exact) and all(bool(cell.all()) for cell in counts.cells):
        return exact.float()
    c = counts.real()
    correct, tiny = c.tp + c.tn, torch.finfo(torch.float32).eps
    marginals = torch.stack((c.predicted_positives, c.positives, c.negatives, c.predicted_negatives))
    nearly = tiny**0.5 * (correct - c.errors) / (marginals + tiny).sqrt().prod(0)
    value = torch.where((marginals == 0).any(0), nearly, exact)
    value = torch.where((c.errors == 0) & (correct != 0), 1.0, value)
    return torch.where((correct == 0) & (c.errors != 0), -1.0, value).float()


def present(counts: Counts, ignored: Sequence[int] = (), by_support: bool = False) -> Tensor:
    """Mask the classes that torchmetrics averages over: those that occur as target or prediction (or as target alone).

    Ignored classes are left out. torchmetrics does not leave them out: it includes a recall of 0 for each.
    """
    mask: Tensor = (counts.support if by_support else counts.tp + counts.fp + counts.fn) != 0
    for index in ignored:
        if 0 <= index < mask.shape[-1]:
            mask.select(-1, index).fill_(False)
    return mask


def without_classes(counts: Counts, ignored: Sequence[int]) -> Counts:
    """The counts with the tables of some classes emptied."""
    copies = [cell.clone() for cell in counts.cells]
    for index in ignored:
        if 0 <= index < counts.tp.shape[-1]:
            for cell in copies:
                cell.select(-1, index).zero_()
    return Counts(*copies)


@dataclass(frozen=True)
class ClassAverage:
    """A statistic over classes, averaged as torchmetrics averages it; metrics and functions share it.

    ``by_support``: with ``top_k`` above 1 only classes that occur as target take part, for some of torchmetrics'
    names. ``empty``: the average over no class.
    """

    statistic: Statistic
    average: Average
    zero_division: float
    by_support: bool = False
    empty: float = 0.0

    def __call__(self, counts: Counts, ignored: Sequence[int] = ()) -> Tensor:
        """The result of these counts of shape (..., C), in float32."""
        included = present(counts, ignored, self.by_support)
        return averaged(self.statistic, counts, self.average, self.zero_division, included, self.empty).float()


@dataclass(frozen=True)
class LabelAverage:
    """A statistic over labels, averaged as torchmetrics averages it: every label takes part."""

    statistic: Statistic
    average: Average
    zero_division: float
    empty: float = 0.0

    def __call__(self, counts: Counts) -> Tensor:
        """The result of these counts of shape (..., L), in float32."""
        everyone = torch.ones_like(counts.tp, dtype=torch.bool)
        return averaged(self.statistic, counts, self.average, self.zero_division, everyone, self.empty).float()


def multiclass_matthews_of_torchmetrics(counts: Counts) -> Tensor:
    """Matthews correlation of all classes; 0 where it is undefined, and as for a binary table with two classes."""
    if counts.tp.shape[-1] == 2:
        return matthews_of_torchmetrics(counts.at(1))
    return OVERALL["mcc"](counts.in_reach()).value(0.0).float()


def multiclass_kappa(counts: Counts) -> Tensor:
    """Cohen's kappa of all classes; NaN where it is undefined."""
    return OVERALL["kappa"](counts.in_reach()).value().float()


def exact_match_of_torchmetrics(exact: Tensor, looked: Tensor, _: Tensor, samples: Tensor) -> Tensor:
    """The share of samples without an error; a sample whose labels are all ignored counts as a match."""
    return ratio(exact + samples - looked, samples).value(0.0).float()
