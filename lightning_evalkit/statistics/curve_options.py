"""Options of curves and calibration, checked so that a metric and its function refuse the same."""

from __future__ import annotations

from typing import Literal

from lightning_evalkit.errors import DeclarationError

Norm = Literal["l1", "l2", "max"]
CURVE_AVERAGES = ("micro", "macro")
LOG_AVERAGES = ("macro", "none")
CLASS_AVERAGES = ("macro", "weighted", "none")
LABEL_AVERAGES = ("micro", *CLASS_AVERAGES)


def checked_curve_average(average: str | None, allowed: tuple[str, ...]) -> str | None:
    """Return one of torchmetrics' averages for this family."""
    if average is not None and average not in allowed:
        raise DeclarationError(f"expected average to be one of {', '.join(allowed)} or None, got {average!r}.")
    return average


def checked_bins(n_bins: int) -> int:
    """Return a number of calibration bins."""
    if not isinstance(n_bins, int) or isinstance(n_bins, bool) or n_bins < 1:
        raise DeclarationError(f"expected n_bins to be a whole number of at least 1, got {n_bins!r}.")
    return n_bins


def checked_norm(norm: Norm) -> Norm:
    """Return one of the three norms of a calibration error."""
    if norm not in ("l1", "l2", "max"):
        raise DeclarationError(f"expected norm to be 'l1', 'l2' or 'max', got {norm!r}.")
    return norm
