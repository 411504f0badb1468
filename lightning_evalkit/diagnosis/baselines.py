"""Counts of classifiers that ignore their inputs: they always predict one class, or predict at random."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import torch

from lightning_evalkit.counts import Counts


def always(counts: Counts, positive: bool) -> Counts:
    """The counts of one table, or of several, if every sample were predicted positive, or negative."""
    none = 0 * counts.positives
    if positive:
        return Counts(tp=counts.positives, fp=counts.negatives, fn=none, tn=none)
    return Counts(tp=none, fp=none, fn=counts.positives, tn=counts.negatives)


def at_random(counts: Counts) -> Counts:
    """The expected counts if as many positives were predicted at random; whole numbers and fractions stay exact.

    >>> at_random(Counts(tp=5, fp=1, fn=5, tn=9)).tp
    Fraction(3, 1)
    """
    real = counts if isinstance(counts.tp, (int, Fraction)) else counts.real()
    tp = _divided(real.positives * real.predicted_positives, real.total)
    fp = real.predicted_positives - tp
    return Counts(tp=tp, fp=fp, fn=real.positives - tp, tn=real.negatives - fp)


def always_one_class(counts: Counts, place: int) -> Counts:
    """The one-vs-rest tables of all classes if every sample were predicted as the class at this place."""
    said = torch.zeros_like(counts.positives, dtype=torch.bool)
    said[place] = True
    yes, no = always(counts, positive=True), always(counts, positive=False)
    return Counts(*(torch.where(said, a, b) for a, b in zip(yes.cells, no.cells, strict=True)))


def always_the_frequent(counts: Counts) -> Counts:
    """The tables of all labels if each label were always predicted as its more frequent value."""
    yes, no = always(counts, positive=True), always(counts, positive=False)
    frequent = counts.positives > counts.negatives
    return Counts(*(torch.where(frequent, a, b) for a, b in zip(yes.cells, no.cells, strict=True)))


def _divided(part: Any, whole: Any) -> Any:
    if isinstance(part, (int, Fraction)):
        return Fraction(part) / Fraction(whole) if whole else Fraction(0)
    return (part / whole).nan_to_num(0.0)
