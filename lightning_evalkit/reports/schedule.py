"""Chooses the epochs to draw: every n-th, or a few that are spaced out and take little of the run's time."""

from __future__ import annotations

from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from lightning_evalkit.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SHARE = 0.05
"""The share of the run's time that drawing may take; the end is drawn however short the run is."""
FIRST = 0.5
"""The assumed seconds of the first drawing."""


class Schedule:
    """Decides for every epoch whether it is drawn; the last one always is.

    ``every_n_epochs`` draws every n-th. Without it, the epochs 1, 2, 4, 8, … are drawn, as long as all drawings
    together, the one at the end included, take at most a twentieth of the time since the run began.
    """

    def __init__(self, every_n_epochs: int | None, clock: Callable[[], float] = monotonic) -> None:
        n = every_n_epochs
        if n is not None and (not isinstance(n, int) or isinstance(n, bool) or n < 1):
            raise DeclarationError(f"expected every_n_epochs to be a whole number from 1 on, or None, got {n!r}.")
        self.every_n_epochs, self._clock = n, clock
        self.begin()

    def begin(self) -> None:
        """Start a run."""
        self._started, self._spent, self._last = self._clock(), 0.0, FIRST

    def is_due(self, epoch: int) -> bool:
        """Whether an epoch, counted from 0, is drawn at once."""
        if self.every_n_epochs is not None:
            return (epoch + 1) % self.every_n_epochs == 0
        is_spaced_out = (epoch + 1) & epoch == 0
        with_the_end = self._spent + 2 * self._last
        return is_spaced_out and with_the_end <= SHARE * (self._clock() - self._started)

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Measure a drawing."""
        before = self._clock()
        yield
        self._last = self._clock() - before
        self._spent += self._last
