"""Intervals of statistics of a whole multiclass table: averages over classes, Matthews correlation, kappa.

A statistic that is a share of samples (accuracy; micro F1 of one label per sample) has the interval of a share. Any
other is as sure as a share of some number of samples would be, its effective number: p (1 - p) over the variance of the
statistic, which follows from what one more sample in each cell changes. Wilson's interval of that number stays inside
the range and holds near its ends, where normal intervals and percentiles of resamples fail. The variance is that of a
table with two more samples, one right, by the frequency of classes, and one wrong, by the product of the margins:
without them a table without errors would be taken to be certain. For the same reason each class is drawn towards the
accuracy of all. An average over classes has in addition what intervals/averages.py says.
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
from lightning_evalkit.intervals.tables import NO_SHARE, image_interval

if TYPE_CHECKING:
    from collections.abc import Callable

    from lightning_evalkit.statistics import Quantity, Statistic

    Values = Callable[[Counts], Tensor]

SHOWN = 3
"""Classes that show what a sample adds: to its own class, to the one it is taken for, and to others."""
GENERIC = ((3, 5, 7, 11, 13, 2, 19, 4, 6), (29, 1, 8, 3, 17, 5, 2, 23, 9))
RESAMPLES = 1_000
KINK = 1e-6
DRAWN = 2
"""How many samples with the accuracy of all classes each class is drawn towards that by."""
UNTOLD = "no change of a single sample changes it, so that its spread cannot be told"
UNBOUNDED = "an average of a statistic that has no largest value can be moved anywhere by one class"


class Whole(NamedTuple):
    """One class against the rest, of shape (C,), and the confusion matrix, where it was kept."""

    counts: Counts
    matrix: Tensor | None

    @property
    def samples(self) -> int:
        """How many there are."""
        return int(self.counts.positives.sum())


def share_of_matrix(quantity_of: Callable[[Counts], Quantity], classes: int) -> Share | None:
    """How a statistic of all classes is a share of samples; None if it is none."""
    shown = min(classes, SHOWN)
    single = [tuple(int(place == cell) for place in range(shown**2)) for cell in range(shown**2)]
    generic = [numbers[: shown**2] for numbers in GENERIC]
    return share_in(lambda cells: quantity_of(_against_rest(cells, shown, classes)), single, generic)


def _against_rest(cells: tuple[int, ...], shown: int, classes: int) -> Counts:
    """The counts of a matrix of the first classes; the others do not occur."""
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
    """The interval of a statistic of all classes: undivided where it is one fraction, or an average as a number.

    ``included`` says which classes the mean is over, if each of them has the same weight in it.
    """
    first = value_of(whole.counts)
    share = None if isinstance(first, Tensor) else share_of_matrix(value_of, whole.counts.tp.shape[-1])  # type: ignore[arg-type]
    methods = (*BINOMIAL, "bootstrap") if share else ("smoothed", "bootstrap")
    method = checked_method(method, methods, statistic.name, NO_SHARE)

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
    else:  # a mean by samples has little of the classes with few
        few = "" if isinstance(first, Tensor) else one_class(whole.counts.positives)
    if few:
        return no_interval(value, level, few, whole.samples)
    found = smoothed(number, whole, statistic.bounds, value, level)
    if included is None or not found.known:
        return found
    low, high = from_classes(statistic, whole.counts, included, value, level)
    return replace(found, low=min(found.low, low), high=max(found.high, high))


def smoothed(value_of: Values, whole: Whole, bounds: tuple[float, float], value: float, level: float) -> Interval:
    """Wilson's interval of the effective number of samples.

    Without the confusion matrix the targets and the predictions of errors are known only apart. The variance is then
    that of the matrix with these margins for which it is largest.
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
    """The percentiles of resamples of the confusion matrix."""
    if whole.matrix is None:
        raise DeclarationError(
            "method='bootstrap' needs to know which class was taken for which: construct the evaluation with "
            "confusion_matrix=True, or say method='auto'."
        )
    classes = whole.matrix.shape[-1]
    drawn = torch.from_numpy(multinomial(whole.matrix.flatten().numpy(), RESAMPLES)).view(-1, classes, classes)
    right = drawn.diagonal(dim1=-2, dim2=-1)
    fn, fp = drawn.sum(-1) - right, drawn.sum(-2) - right
    counts = Counts(tp=right, fp=fp, fn=fn, tn=whole.samples - right - fp - fn)
    return around(value, tails(values_of(counts).numpy(), level), level, "bootstrap", whole.samples)


def near_and_variance(value_of: Values, whole: Whole) -> tuple[float, float]:
    """The value near the table, with two more samples and its classes drawn together, and its variance there."""
    counts = whole.counts.real()
    right, wrong = _more(counts)
    near = _drawn_together(_added(counts, right, wrong), counts.tp + counts.fp + counts.fn)
    value, (tp, fp, fn, tn) = influence(value_of, near)
    hit, missed, taken = tp - tn, fn - tn, fp - tn
    # An error is missed in one class and taken for another: it changes the value by missed + taken.
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
    """A sample spread over all pairs of different classes by the product of how often they are target and predicted."""

    targets: Tensor
    predictions: Tensor

    def product(self, one: Tensor, other: Tensor) -> Tensor:
        """The mean of one(target) · other(prediction)."""
        first, second = self.targets * one, self.predictions * other
        return (first.sum() * second.sum() - (first * second).sum()) / self._pairs()

    def margins(self) -> tuple[Tensor, Tensor]:
        """Its parts by target, and by prediction."""
        targets, predictions = self.targets, self.predictions
        missed, taken = targets * (predictions.sum() - predictions), predictions * (targets.sum() - targets)
        return missed / self._pairs(), taken / self._pairs()

    def _pairs(self) -> Tensor:
        return self.targets.sum() * self.predictions.sum() - (self.targets * self.predictions).sum()


def _more(counts: Counts) -> tuple[Tensor, _Wrong]:
    """One sample that is right, by the frequency of classes, and one that is wrong."""
    targets, predictions = (
        counts.positives / counts.positives.sum(),
        counts.predicted_positives / counts.positives.sum(),
    )
    wrong = _Wrong(targets, predictions)
    if not bool(wrong._pairs() > 0):  # there is one class: it may be taken for any other
        wrong = _Wrong(targets, torch.ones_like(targets))
    return targets, wrong


def _added(counts: Counts, right: Tensor, wrong: _Wrong) -> Counts:
    missed, taken = wrong.margins()
    tp, fn, fp = counts.tp + right, counts.fn + missed, counts.fp + taken
    return Counts(tp=tp, fp=fp, fn=fn, tn=(tp + fn).sum() - tp - fp - fn)


def _drawn_together(near: Counts, size: Tensor) -> Counts:
    """Each class between its own accuracy and that of all, with about as many samples as it has: its ``size``."""
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
    """The value, and what one more sample in each cell changes in it."""
    with torch.inference_mode(False), torch.enable_grad():
        cells = [cell.clone().requires_grad_() for cell in counts.cells]
        value = value_of(Counts(*cells))
        found = torch.autograd.grad(value, cells, allow_unused=True)
    slopes = [torch.zeros_like(counts.tp) if slope is None else slope for slope in found]
    kinks = any(bool((~slope.isfinite() & (cell > 0)).any()) for slope, cell in zip(slopes, counts.cells, strict=True))
    if kinks and bool(value.isfinite()):  # a root at 0, which has its slope just beside it
        return influence(value_of, Counts(counts.tp * (1 + KINK), counts.fp, counts.fn, counts.tn))
    return float(value.detach()), [slope.nan_to_num(0.0) for slope in slopes]


def _largest_product(one: Tensor, one_mass: Tensor, other: Tensor, other_mass: Tensor) -> Tensor:
    """The largest sum of products over all joint distributions with these margins: largest meets largest."""
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
