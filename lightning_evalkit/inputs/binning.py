"""Declares how scores are stored: in a fixed number of bins, or every score."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import torch

from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.inputs.declaration import checked_number, refuse_large
from lightning_evalkit.inputs.numbers import checked_flag

if TYPE_CHECKING:
    from collections.abc import Sequence

    Thresholds = int | Sequence[float] | torch.Tensor | None | Literal["fine", "bfloat16"]

MOST_BINS = 65_536
USUAL_STATE, LARGEST_STATE, BESIDE = 8 * 2**20, 64 * 2**20, 2**9
"""Bytes of the whole state, and of each class or label besides its histogram; many classes get fewer bins.

A larger state would fit, but all of it crosses ranks and is read at every compute.
"""
FEWEST_BINS = 256
"""The bins of each of very many classes, up to the largest state."""


@dataclass(frozen=True)
class Binning:
    """``fine`` bins that follow the logit; ``bfloat16`` bins, one per value; bins between ``cuts``; or ``exact``.

    With ``calibration`` there are only calibration bins, and no histogram of scores.
    """

    kind: Literal["fine", "bfloat16", "cuts", "exact", "calibration"] = "fine"
    number: int = MOST_BINS
    cuts: tuple[float, ...] = ()
    sums: bool = False
    """Whether to store Brier score, log loss and calibration sums too, which no histogram of scores contains."""
    calibration_bins: int = 15

    def __post_init__(self) -> None:
        checked_flag("sums", self.sums)
        checked_number("calibration_bins", self.calibration_bins, least=1)

    @property
    def bins(self) -> int:
        """The number of bins."""
        return len(self.cuts) + 1 if self.kind == "cuts" else self.number


def binning_of(thresholds: Thresholds, num_curves: int = 1, **options: Any) -> Binning:
    """The binning of a ``thresholds`` argument: as in torchmetrics, or one of the two kinds of fine bins.

    An integer is that many thresholds from 0 to 1, None keeps every score.

    >>> binning_of(3).cuts
    (0.0, 0.5, 1.0)
    """
    if thresholds is None:
        return Binning("exact", 0, **options)
    if isinstance(thresholds, str):
        return _named(thresholds, num_curves, options)
    if isinstance(thresholds, int) and not isinstance(thresholds, bool):
        if thresholds < 2:
            raise DeclarationError(f"expected at least 2 thresholds, got {thresholds}.")
        refuse_large(2 * thresholds, f"{thresholds:,} thresholds")
        return Binning("cuts", cuts=tuple(torch.linspace(0, 1, thresholds, dtype=torch.float32).tolist()), **options)
    cuts = _numbers(thresholds)
    if not cuts or any(not 0 <= cut <= 1 for cut in cuts) or any(a > b for a, b in pairwise(cuts)):
        raise DeclarationError(f"expected thresholds to rise from 0 to 1, got {thresholds!r}.")
    return Binning("cuts", cuts=cuts, **options)


def _named(name: str, num_curves: int, options: dict[str, Any]) -> Binning:
    if name == "bfloat16":
        return Binning("bfloat16", MOST_BINS, **options)
    if name != "fine":
        raise DeclarationError(
            "expected thresholds to be a number of them, a list, None for exact curves, 'fine' or 'bfloat16', "
            f"got {name!r}."
        )
    number = num_curves if isinstance(num_curves, int) and num_curves > 0 else 1  # the task reports the error
    usual, largest = ((size // number - BESIDE) // 16 for size in (USUAL_STATE, LARGEST_STATE))  # two counts each
    return Binning("fine", max(min(MOST_BINS, usual), min(FEWEST_BINS, largest), 8), **options)


def _numbers(thresholds: Any) -> tuple[float, ...]:
    try:
        return tuple(
            float(cut) for cut in (thresholds.tolist() if isinstance(thresholds, torch.Tensor) else thresholds)
        )
    except (TypeError, ValueError):
        raise DeclarationError(
            f"expected thresholds to be a number of them, a list or a tensor of one dimension, got {thresholds!r}."
        ) from None
