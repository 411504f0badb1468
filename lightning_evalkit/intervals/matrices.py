"""Intervals of statistics of a whole multiclass table: averages over classes, Matthews correlation, kappa.

A statistic that is a share of samples (accuracy; micro F1 with one label per sample) has the interval of a share. Any
other statistic gets Wilson's interval with an effective number of samples: p (1 - p) divided by the variance of the
statistic, which follows from the change by one more sample in each cell. That interval stays inside the range and holds
near its ends, where normal intervals and percentiles of resamples fail. The variance is that of a table with two more
samples: one correct, by the frequency of classes, and one wrong, by the product of the margins. Without them a table
without errors would count as certain. For the same reason the accuracy of each class is shrunk towards that of all. An
average over classes also follows the rules of intervals/averages.py.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, isfinite
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from lightning_evalkit.counts import Counts
from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.intervals.averages import from_classes, looked_at, one_class, too_few
from lightning_evalkit.intervals.binomial import BINOMIAL, wilson
from lightning_evalkit.intervals.interval import Interval, around, checked_method, no_interval, undefined
from lightning_evalkit.intervals.resampling import multinomial, tails
from lightning_evalkit.intervals.shares import Share, share_in
from lightning_evalkit.intervals.tables import image_interval

if TYPE_CHECKING:
    from collections.abc import Callable

    from lightning_evalkit.statistics import Quantity, Statistic

    Values = Callable[[Counts], Tensor]

SHOWN = 3
"""Enough classes to see what a sample adds: to its own class, to the predicted one, and to others."""
GENERIC = ((3, 5, 7, 11, 13, 2, 19, 4, 6), (29, 1, 8, 3, 17, 5, 2, 23, 9))
RESAMPLES = 1_000
KINK = 1e-6
DRAWN = 2
"""The number of samples with the accuracy of all classes that are mixed into each class."""
UNTOLD = "no single sample changes it, so its variance cannot be estimated"
UNBOUNDED = "the statistic has no largest value, so one class can move the average anywhere"


class Whole(NamedTuple):
    """One-vs-rest counts of shape (C,), and the confusion matrix if it was counted."""

    counts: Counts
    matrix: Tensor | None

    @property
    def samples(self) -> int:
        """The number of samples."""
        return int(self.counts.positives.sum())


def share_of_matrix(quantity_of: Callable[[Counts], Quantity], classes: int) -> Share | None:
    """A statistic of all classes as a share of samples; None if it is not a share."""
    shown = min(classes, SHOWN)
    single = [tuple(int(place == cell) for place in range(shown**2)) for cell in range(shown**2)]
    generic = [numbers[: shown**2] for numbers in GENERIC]
    return share_in(lambda cells: quantity_of(_against_rest(cells, shown, classes)), single, generic)


def _against_rest(cells: tuple[int, ...], shown: int, classes: int) -> Counts:
    """The one-vs-rest counts of a matrix of the first classes; the others do not occur."""
    matrix = torch.tensor(cells, dtype=torch.float64).view(shown, shown)
    right = matrix.diagonal()
    parts = (right, matrix.sum(1) - right, matrix.sum(0) - right)
    tp, fn, fp = (torch.constant_pad_nd(part, (0, classes - shown)) for part in parts)
    return Counts(tp=tp, fp=fp, fn=fn, tn=matrix.sum() - tp - fp - fn)


def matrix_interval(
    statistic: Statistic,
    value_of: Callable[[Counts], Quantity | Tensor],
    whole: Whole,
    level: float,
    method: str,
    included: Tensor | None = None,
) -> Interval:
    """The interval of a statistic of all classes; ``value_of`` returns a fraction undivided, an average as a number.

    ``included`` masks the classes of a mean in which each class has the same weight.
    """
    first = value_of(whole.counts)
    share = None if isinstance(first, Tensor) else share_of_matrix(value_of, whole.counts.tp.shape[-1])  # type: ignore[arg-type]
    methods = (*BINOMIAL, "bootstrap") if share else ("smoothed", "bootstrap")
    method = checked_method(method, methods, statistic.name)

    def number(counts: Counts) -> Tensor:
        found = value_of(counts)
        return found if isinstance(found, Tensor) else found.value()

    value = float(number(whole.counts))
    if value != value:
        return undefined(value, level, whole.samples)
    if method == "bootstrap":
        return percentiles(number, whole, value, level)
    if share is not None and not isinstance(first, Tensor):
        return image_interval(share, first, level, method)
    if included is not None:
        few = too_few(looked_at(statistic, whole.counts)[included], "classes", "samples")
    else:  # classes with few samples have little weight in a mean over samples
        few = "" if isinstance(first, Tensor) else one_class(whole.counts.positives)
    if few:
        return no_interval(value, level, few, whole.samples)
    found = smoothed(number, whole, statistic.bounds, value, level)
    if included is None or not found.known:
        return found
    low, high = from_classes(statistic, whole.counts, included, value, level)
    return replace(found, low=min(found.low, low), high=max(found.high, high))


def smoothed(value_of: Values, whole: Whole, bounds: tuple[float, float], value: float, level: float) -> Interval:
    """Wilson's interval with the effective number of samples.

    Without the confusion matrix, only the margins of the errors are known: their targets and their predictions. The
    variance is then the largest that any matrix with these margins has.
    """
    n, lowest, width = whole.samples, bounds[0], bounds[1] - bounds[0]
    if not isfinite(width):
        return no_interval(value, level, UNBOUNDED, n)
    near, variance = near_and_variance(value_of, whole)
    share = (near - lowest) / width
    effective = share * (1 - share) * width**2 / variance if variance > 0 else inf
    if not 0 < effective < inf:
        return no_interval(value, level, UNTOLD, n)
    low, high = wilson((value - lowest) / width * effective, effective, level)
    return around(value, (lowest + width * low, lowest + width * high), level, "smoothed", n)


def percentiles(values_of: Values, whole: Whole, value: float, level: float) -> Interval:
    """The interval between percentiles of resamples of the confusion matrix."""
    if whole.matrix is None:
        raise DeclarationError(
            "method='bootstrap' needs the confusion matrix: construct the evaluation with confusion_matrix=True, or "
            "use method='auto'."
        )
    classes = whole.matrix.shape[-1]
    drawn = torch.from_numpy(multinomial(whole.matrix.flatten().numpy(), RESAMPLES)).view(-1, classes, classes)
    right = drawn.diagonal(dim1=-2, dim2=-1)
    fn, fp = drawn.sum(-1) - right, drawn.sum(-2) - right
    counts = Counts(tp=right, fp=fp, fn=fn, tn=whole.samples - right - fp - fn)
    return around(value, tails(values_of(counts).numpy(), level), level, "bootstrap", whole.samples)


def near_and_variance(value_of: Values, whole: Whole) -> tuple[float, float]:
    """The value and its variance near the table: with two more samples, and with classes shrunk towards all."""
    counts = whole.counts.real()
    right, wrong = _more(counts)
    near = _drawn_together(_added(counts, right, wrong), counts.tp + counts.fp + counts.fn)
    value, (tp, fp, fn, tn) = influence(value_of, near)
    hit, missed, taken = tp - tn, fn - tn, fp - tn
    # An error is missed in its own class and taken by another: it changes the value by missed + taken.
    mean = ((near.tp * hit).sum() + (near.fn * missed).sum() + (near.fp * taken).sum()) / near.positives.sum()
    taken = taken - mean
    squares = (near.tp * (hit - mean) ** 2).sum() + (near.fn * missed**2).sum() + (near.fp * taken**2).sum()
    if whole.matrix is None:
        products = _largest_product(missed, near.fn, taken, near.fp)
    else:
        matrix = whole.matrix.to(missed)
        products = missed @ matrix @ taken - (matrix.diagonal() * missed * taken).sum() + wrong.product(missed, taken)
    return value, float(squares + 2 * products)


class _Wrong(NamedTuple):
    """One wrong sample, spread over all pairs of different classes by the product of target and predicted shares."""

    targets: Tensor
    predictions: Tensor

    def product(self, one: Tensor, other: Tensor) -> Tensor:
        """The mean of one(target) · other(prediction)."""
        first, second = self.targets * one, self.predictions * other
        return (first.sum() * second.sum() - (first * second).sum()) / self._pairs()

    def margins(self) -> tuple[Tensor, Tensor]:
        """The parts of the sample by target, and by prediction."""
        targets, predictions = self.targets, self.predictions
        missed, taken = targets * (predictions.sum() - predictions), predictions * (targets.sum() - targets)
        return missed / self._pairs(), taken / self._pairs()

    def _pairs(self) -> Tensor:
        return self.targets.sum() * self.predictions.sum() - (self.targets * self.predictions).sum()


def _more(counts: Counts) -> tuple[Tensor, _Wrong]:
    """One correct sample, by the frequency of classes, and one wrong sample."""
    targets, predictions = (
        counts.positives / counts.positives.sum(),
        counts.predicted_positives / counts.positives.sum(),
    )
    wrong = _Wrong(targets, predictions)
    if not bool(wrong._pairs() > 0):  # there is one class: its errors may be predicted as any other
        wrong = _Wrong(targets, torch.ones_like(targets))
    return targets, wrong


def _added(counts: Counts, right: Tensor, wrong: _Wrong) -> Counts:
    missed, taken = wrong.margins()
    tp, fn, fp = counts.tp + right, counts.fn + missed, counts.fp + taken
    return Counts(tp=tp, fp=fp, fn=fn, tn=(tp + fn).sum() - tp - fp - fn)


def _drawn_together(near: Counts, size: Tensor) -> Counts:
    """Shrink the accuracy of each class towards that of all, at about the same number of samples, its ``size``."""
    right = near.tp.sum() / near.positives.sum()
    scale = torch.where(size > 0, size / (size + DRAWN * (2 - right)), 1.0)
    more = torch.where(size > 0, DRAWN * scale, 0.0)
    tp, fn, fp = (
        near.tp * scale + more * right,
        near.fn * scale + more * (1 - right),
        near.fp * scale + more * (1 - right),
    )
    fp = fp * (fn.sum() / fp.sum())  # every error is missed once and taken once
    return Counts(tp=tp, fp=fp, fn=fn, tn=(tp + fn).sum() - tp - fp - fn)


def influence(value_of: Values, counts: Counts) -> tuple[float, list[Tensor]]:
    """The value, and its change by one more sample in each cell."""
    with torch.inference_mode(False), torch.enable_grad():
        cells = [cell.clone().requires_grad_() for cell in counts.cells]
        value = value_of(Counts(*cells))
        found = torch.autograd.grad(value, cells, allow_unused=True)
    slopes = [torch.zeros_like(counts.tp) if slope is None else slope for slope in found]
    kinks = any(bool((~slope.isfinite() & (cell > 0)).any()) for slope, cell in zip(slopes, counts.cells, strict=True))
    if kinks and bool(value.isfinite()):  # a root at 0 has no slope there, but has one nearby
        return influence(value_of, Counts(counts.tp * (1 + KINK), counts.fp, counts.fn, counts.tn))
    return float(value.detach()), [slope.nan_to_num(0.0) for slope in slopes]


def _largest_product(one: Tensor, one_mass: Tensor, other: Tensor, other_mass: Tensor) -> Tensor:
    """The largest sum of products over all joint distributions with these margins: it pairs largest with largest."""
    ends, values = [], []
    for value, mass in ((one, one_mass), (other, other_mass)):
        order = value.argsort(stable=True)
        ends.append(mass[order].cumsum(0))
        values.append(value[order])
    steps = torch.cat(ends).sort().values
    mass = steps.diff(prepend=steps.new_zeros(1))
    middle = steps - mass / 2
    picked = [
        value[torch.searchsorted(end, middle).clamp(max=len(value) - 1)]
        for value, end in zip(values, ends, strict=True)
    ]
    return (mass * picked[0] * picked[1]).sum()
