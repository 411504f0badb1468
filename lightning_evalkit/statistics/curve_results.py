"""Curves and areas in torchmetrics' form: its order of points, its end points, its averages."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lightning_evalkit.counts import Limits
from lightning_evalkit.ranks import warn_on_rank_zero
from lightning_evalkit.statistics import curves
from lightning_evalkit.statistics.arrays import array_of, tensor_of
from lightning_evalkit.statistics.missing import BOTH, has_value, value_of_missing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from lightning_evalkit.counts import BinSums, ScoreCounts
    from lightning_evalkit.statistics.arrays import Array

Tables = list["ScoreCounts"]
Three = tuple[Any, Any, Any]


def micro(tables: Tables) -> Tables:
    """The tables of all questions as one; stored scores keep their own precision, in which large logits differ."""
    if len(tables) == 1:
        table = tables[0]
        return [replace(table, yes=table.yes.sum(0, keepdim=True), no=table.no.sum(0, keepdim=True))]
    first, places = torch.cat([table.edges.first for table in tables]).unique(return_inverse=True)
    lowest, cut = (
        torch.zeros_like(first).scatter(0, places, torch.cat(parts).to(first))
        for parts in zip(*((table.lowest, table.edges.cut) for table in tables), strict=True)
    )
    yes, no = (torch.cat([getattr(table, name)[0] for table in tables]) for name in ("yes", "no"))
    sums = [
        torch.zeros(len(first), dtype=part.dtype, device=part.device).index_add_(0, places, part) for part in (yes, no)
    ]
    alone, ends = torch.ones_like(first, dtype=torch.bool), tables[0].edges._replace(first=first, cut=cut)
    limits = Limits(alone, lowest, lowest, ends)
    return [type(tables[0])(sums[0].unsqueeze(0), sums[1].unsqueeze(0), limits)]


# ---- curves


def roc(table: ScoreCounts, missing: float = 0.0) -> Three:
    """False-positive rates, true-positive rates and falling thresholds, of shape (K, P) and (P,).

    ``missing`` is the rate of a class without samples, 0 in torchmetrics.
    """
    if table.given:
        points = curves.at_given(table)
        fpr, tpr = (rates.nan_to_num(missing).float() for rates in curves.rates(points))
        return fpr, tpr, points.thresholds.float()
    table = table.occupied()
    shares, yes = curves.shares_above(table, np.float32), table.yes
    for share, support in zip(shares, table.support[::-1], strict=True):
        if np.count_nonzero(support) < support.size:
            share[support == 0] = missing
    thresholds = np.ones(shares[0].shape[-1], np.float32)
    thresholds[1:] = array_of(table.lowest)[::-1]
    return tensor_of(shares[0], yes), tensor_of(shares[1], yes), tensor_of(thresholds, yes)


def precision_recall(table: ScoreCounts, missing: float = 1.0) -> Three:
    """Precisions, recalls and rising thresholds; one point more than thresholds, at recall 0.

    ``missing`` is the recall without positive samples, at all scores that occur: 1 in torchmetrics, NaN of classes.
    """
    if table.given:
        points = curves.at_given(table)
        precision, recall = _given_precision(points), curves.rates(points)[1]
        end = torch.ones_like(precision[:, :1])
        parts = [torch.cat((part.flip(-1), last), -1) for part, last in ((precision, end), (recall, 0 * end))]
        return parts[0].float(), parts[1].float(), points.thresholds.flip(0).float()
    table = table.occupied()
    tp, fp = (curves.sums_above(part)[:, ::-1] for part in (table.yes, table.no))
    with np.errstate(invalid="ignore"):
        precisions, recalls = (tp / whole for whole in (tp + fp, table.support[0][:, None]))
    precisions[np.isnan(precisions)] = 1.0
    recalls[table.support[0] == 0, :-1] = missing
    recalls[:, -1] = 0.0  # above all scores
    first, second = (tensor_of(part.astype(np.float32), table.yes) for part in (precisions, recalls))
    return first, second, table.lowest.float()


def _given_precision(points: curves.Reached) -> Tensor:
    return points.tp / (points.tp + points.fp).double()  # NaN where nothing is predicted positive, as in torchmetrics


def all_curves(
    tables: Tables, curve: Callable[[ScoreCounts], Three], average: str | None, needs: tuple[str, ...]
) -> Three:
    """Curves as (K, P) tensors of one table or as lists, if their lengths differ; averaged as in torchmetrics."""
    if average == "micro":
        first, second, thresholds = curve(micro(tables)[0])
        return first[0], second[0], thresholds
    found = [curve(table) for table in tables]
    if average == "macro":
        known = has_value(tables, needs)
        if isnan(value_of_missing(tables, 0.0)):
            return found[0][0][0], found[0][1][0], found[0][2]  # the one point of nothing
        return _macro(found, known if known.any() else ~known)
    if len(found) == 1:
        return found[0]
    return [one[0][0] for one in found], [one[1][0] for one in found], [one[2] for one in found]


def _macro(found: Sequence[Three], known: Array) -> Three:
    """Average the second coordinate over the known questions, at every first coordinate that occurs."""
    every = [(x, y) for xs, ys, _ in found for x, y in zip(xs, ys, strict=True)]
    pairs = [pair for pair, is_known in zip(every, known.tolist(), strict=True) if is_known]
    thresholds = torch.cat([one[2].repeat(len(one[0])) for one in found])
    x = torch.cat([x for x, _ in pairs]).sort().values
    y = torch.stack([_interpolated(x, *pair) for pair in pairs]).mean(0)
    falling = bool(len(found[0][2]) > 1 and found[0][2][0] > found[0][2][-1])
    return x, y, thresholds.sort(descending=falling).values


def _interpolated(x: Tensor, known_x: Tensor, known_y: Tensor, right: bool = True) -> Tensor:
    """The curve at x, linear between neighbouring points; vertical steps count as flat, as in torchmetrics.

    At a step the value is that of its ``right`` end, or else of its left one.
    """
    run, rise = known_x.diff(), known_y.diff()
    slope = torch.where(run != 0, rise / run, 0.0)
    place = (torch.searchsorted(known_x.sort().values, x, right=right) - 1).clamp(0, len(slope) - 1)
    return slope[place] * (x - known_x[place]) + known_y[place]


# ---- areas


def areas(tables: Tables, max_fpr: float | None = None) -> Tensor:
    """The area under the ROC curve of every question; NaN without both classes."""
    return _joined([_area(table, max_fpr) for table in tables])


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _area(table: ScoreCounts, max_fpr: float | None) -> Tensor:
    if not table.given:
        return curves.auroc_value(table, max_fpr)
    fpr, tpr = curves.rates(curves.at_given(table))
    if max_fpr is not None and max_fpr < 1:
        return torch.stack([_partial(x, y, max_fpr) for x, y in zip(fpr, tpr, strict=True)])
    return torch.trapezoid(tpr, fpr)


def _partial(fpr: Tensor, tpr: Tensor, most: float) -> Tensor:
    area = curves.area_up_to(fpr, tpr, most)
    return curves.rescaled(area, most)


def log_areas(tables: Tables, fpr_range: tuple[float, float], missing: float) -> Tensor:
    """The area under the ROC curve of every question over log10(fpr) within a range, divided by the range's width."""
    pairs = [pair for table in tables for pair in zip(*_rates(table, missing), strict=True)]
    if tables[0].given and len(pairs[0][0]) == 1:
        warn_on_rank_zero("LogAUC at one threshold is 0, as in torchmetrics: an area needs at least two thresholds.")
    return torch.stack([_log_area(fpr, tpr, fpr.new_tensor(fpr_range)) for fpr, tpr in pairs])


def _log_area(fpr: Tensor, tpr: Tensor, ends: Tensor) -> Tensor:
    """The area with straight lines between the points inside the range and the curve's values at its ends."""
    if len(fpr) == 1:
        return fpr[0] * 0.0  # torchmetrics' value of one point; NaN if nothing was counted at all
    inside = (fpr > ends[0]) & (fpr < ends[1])
    low, high = (_interpolated(ends[k : k + 1], fpr, tpr, right=k == 0) for k in (0, 1))
    if not bool(fpr.any()) and bool(tpr.any()):
        return torch.full_like(ends[0], torch.inf)  # as torchmetrics has it, where no sample is negative
    x = torch.cat((ends[:1], fpr[inside], ends[1:])).log10()
    y = torch.cat((low, tpr[inside], high))
    return torch.trapezoid(y, x) / (x[-1] - x[0])


def _rates(table: ScoreCounts, missing: float) -> tuple[Tensor, Tensor]:
    """False-positive and true-positive rates, at given thresholds or at all scores that occur."""
    if table.given:
        fpr, tpr = curves.rates(curves.at_given(table))
    else:
        fpr, tpr = (tensor_of(share, table.yes) for share in curves.shares_above(table.occupied()))
    return fpr.nan_to_num(missing), tpr.nan_to_num(missing)


def average_precisions(tables: Tables) -> Tensor:
    """The average precision of every question; NaN without positives."""
    return _joined([_average_precision(table) for table in tables])


def _average_precision(table: ScoreCounts) -> Tensor:
    if not table.given:
        return curves.average_precision_value(table)
    points = curves.at_given(table)
    precision, recall = _given_precision(points), curves.rates(points)[1]
    gained = recall.diff(dim=-1, prepend=torch.zeros_like(recall[:, :1]))
    return (gained * precision.nan_to_num(0.0)).sum(-1)


def equal_error_rates(tables: Tables, missing: float) -> Tensor:
    """The equal error rate of every question."""
    return _joined([_nearest(*_rates(table, missing)) for table in tables])


def _nearest(fpr: Tensor, tpr: Tensor) -> Tensor:
    rounding = 1e-12 if fpr.dtype == torch.float64 else 1e-6
    return tensor_of(curves.nearest_rate(array_of(fpr.double()), array_of(tpr.double()), rounding), fpr)


def averaged_equal_error_rate(tables: Tables, average: str, missing: float) -> Tensor:
    """The equal error rate of the averaged curve, as in torchmetrics: not the average of the rates."""
    fpr, tpr, _ = all_curves(tables, partial(roc, missing=missing), average, BOTH)
    return _nearest(fpr.unsqueeze(0), tpr.unsqueeze(0)).squeeze(0).float()


def averaged_over_questions(values: Tensor, known: Array, tables: Tables, average: str) -> Tensor:
    """Average over the questions that have a value."""
    weights = known.astype(np.float64)
    if average == "weighted":
        weights *= np.concatenate([table.support[0] for table in tables])
    parts = np.where(known, array_of(values), 0.0) * weights
    with np.errstate(invalid="ignore"):
        return tensor_of(np.asarray(parts.sum() / weights.sum()), values)


# ---- one point of a curve


def best_pairs(
    tables: Tables, curve: Callable[[ScoreCounts], Three], best: Callable[..., tuple[Tensor, Tensor]]
) -> tuple[Tensor, Tensor]:
    """The best value and its threshold, for every question."""
    found = []
    for table in tables:
        firsts, seconds, thresholds = curve(table)
        of_table = [best(first, second, thresholds) for first, second in zip(firsts, seconds, strict=True)]
        _warn_if_shared(table, [threshold for _, threshold in of_table])
        found += of_table
    values, chosen = zip(*found, strict=True)
    return torch.stack(values), torch.stack(chosen)


def _warn_if_shared(table: ScoreCounts, chosen: list[Tensor]) -> None:
    """Warn if a chosen threshold, a probability in single precision, stands for several counted logits."""
    counted = table.lowest[((table.yes + table.no) > 0).any(0)]
    shared = [float(threshold) for threshold in chosen if int((counted == threshold).sum()) > 1]
    if shared:
        warn_on_rank_zero(
            f"the threshold {shared[0]!r} stands for several logits that have the same probability in single "
            "precision, so deciding by it does not reproduce this point: best_threshold(criterion, at_least=...) of "
            "an evaluation with curves=True keeps the logit.",
        )


def at_least(wanted: Tensor, bounded: Tensor, thresholds: Tensor, bound: float) -> tuple[Tensor, Tensor]:
    """The largest wanted value where the other reaches a bound; ties go to the larger other value, then threshold."""
    points = min(len(wanted), len(thresholds))
    wanted, bounded, thresholds = wanted[:points], bounded[:points], thresholds[:points]
    keep = (bounded >= bound) & ~wanted.isnan()
    if not bool(keep.any()) or not bool((wanted[keep] > 0).any()):
        return wanted.new_zeros(()), thresholds.new_full((), torch.nan)
    rows = sorted(zip(wanted[keep].tolist(), bounded[keep].tolist(), thresholds[keep].tolist(), strict=True))
    value, _, threshold = rows[-1]
    return wanted.new_tensor(value), thresholds.new_tensor(threshold)


def first_at_least(wanted: Tensor, bounded: Tensor, thresholds: Tensor, bound: float) -> tuple[Tensor, Tensor]:
    """The largest wanted value where the other reaches a bound; ties go to the first point along the curve."""
    keep = bounded >= bound
    if not bool(keep.any()):
        return wanted.new_zeros(()), thresholds.new_full((), 1e6)
    place = wanted[keep].argmax()
    return wanted[keep][place], thresholds[keep][place]


# ---- calibration


def calibration_error(sums: BinSums, norm: str, device: torch.device) -> Tensor:
    """The gap between mean confidence and share of hits in bins: mean (l1), root mean square (l2) or largest (max)."""
    weights, confidences, hits, kind = sums
    with np.errstate(invalid="ignore", divide="ignore"):
        gaps = np.where(weights > 0, np.abs(confidences - hits) / weights, 0.0)
        if norm == "max":
            error = gaps.max()
        else:
            shares = weights / weights.sum()
            error = (gaps * shares).sum() if norm == "l1" else np.sqrt((gaps**2 * shares).sum())
    return torch.tensor(float(error), dtype=kind, device=device)
