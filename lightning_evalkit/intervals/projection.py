"""The same classifier at another prevalence: recall and specificity stay, the class proportions change."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from torch import Tensor

from lightning_evalkit.counts import Counts
from lightning_evalkit.errors import InputError


def at_prevalence(counts: Counts, prevalence: float | Fraction) -> Counts:
    """The expected counts of as many samples if the share of positives were ``prevalence``.

    Python integers give exact fractions, tensors give real tensors.

    >>> at_prevalence(Counts(tp=40, fp=10, fn=10, tn=40), Fraction(1, 10)).tp
    Fraction(8, 1)
    """
    if not 0 <= prevalence <= 1:
        raise InputError(f"expected a prevalence in [0, 1], got {prevalence}.")
    if isinstance(counts.tp, Tensor):
        counts = counts.real()
    missing = [name for name in ("positives", "negatives") if _any_zero(getattr(counts, name))]
    if missing:
        raise InputError(
            f"cannot project to another prevalence without {' and '.join(missing)}: "
            "recall needs positives and specificity needs negatives to be known."
        )
    share = prevalence if isinstance(counts.tp, Tensor) else Fraction(prevalence)
    positive, negative = share * counts.total, (1 - share) * counts.total
    return Counts(
        tp=_part(counts.tp, counts.positives, positive),
        fp=_part(counts.fp, counts.negatives, negative),
        fn=_part(counts.fn, counts.positives, positive),
        tn=_part(counts.tn, counts.negatives, negative),
    )


def crossing_prevalence(counts: Counts) -> Fraction | None:
    """The prevalence s / (r + s) at which accuracy and F1 cross; None if they never cross, or are equal everywhere.

    With recall r and specificity s fixed, accuracy - F1 has the sign of TN - TP = (1 - π) s - π r as long as there
    are errors, so both are equal at exactly one prevalence π if r, s > 0 and not both are 1.

    >>> crossing_prevalence(Counts(tp=45, fp=30, fn=5, tn=20))
    Fraction(4, 13)
    """
    if not (counts.tp and counts.tn and counts.errors):
        return None
    recall = Fraction(counts.tp) / Fraction(counts.positives)
    specificity = Fraction(counts.tn) / Fraction(counts.negatives)
    return specificity / (recall + specificity)


def _part(cell: Any, whole: Any, size: Any) -> Any:
    if isinstance(cell, Tensor):
        return cell / whole * size
    return Fraction(cell) / Fraction(whole) * size


def _any_zero(number: Any) -> bool:
    return bool((number == 0).any()) if isinstance(number, Tensor) else bool(number == 0)
