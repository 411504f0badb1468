"""Checks of the options of curves and calibration, shared by metrics and functions."""

from __future__ import annotations

from typing import Literal

from lightning_evalkit.errors import DeclarationError

Norm = Literal["l1", "l2", "max"]
CURVE_AVERAGES = ("micro", "macro")
LOG_AVERAGES = ("macro", "none")
CLASS_AVERAGES = ("macro", "weighted", "none")
LABEL_AVERAGES = ("micro", *CLASS_AVERAGES)


def checked_curve_average(average: str | None, allowed: tuple[str, ...]) -> str | None:
    """Return the average, if it is allowed for this family."""
    if average is not None and average not in allowed:
        raise DeclarationError(f"expected average to be one of {', '.join(allowed)} or None, got {average!r}.")
    return average


def checked_bins(n_bins: int) -> int:
    """Return the number of calibration bins, if it is a whole number of at least 1."""
    if not isinstance(n_bins, int) or isinstance(n_bins, bool) or n_bins < 1:
        raise DeclarationError(f"expected n_bins to be a whole number of at least 1, got {n_bins!r}.")
    return n_bins


def checked_norm(norm: Norm) -> Norm:
    """Return the norm of a calibration error, if it is one of the three."""
    if norm not in ("l1", "l2", "max"):
        raise DeclarationError(f"expected norm to be 'l1', 'l2' or 'max', got {norm!r}.")
    return norm
