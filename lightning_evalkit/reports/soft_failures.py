"""Turns failures of drawing and logging into warnings: they never end a run, and never stay silent."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from torchmetrics.utilities import rank_zero_warn

from lightning_evalkit.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Iterator


class SoftFailures:
    """Warns once for each reason about what a callback could not do."""

    def __init__(self, callback: str) -> None:
        self._callback = callback
        self._said: set[tuple[str, str]] = set()

    @contextmanager
    def going_on(self, doing: str, prefix: str = "") -> Iterator[None]:
        """Turn any exception into a warning."""
        try:
            yield
        except Exception as failure:
            kind = "" if isinstance(failure, DeclarationError) else f"{type(failure).__name__}: "
            self.warn(doing, f"{kind}{failure}", f" under {prefix!r}" if prefix else "")

    def warn(self, doing: str, reason: str, where: str = "") -> None:
        """Warn once for each reason."""
        if (doing, reason) not in self._said:
            self._said.add((doing, reason))
            rank_zero_warn(f"{self._callback} could not {doing}{where}: {reason}", UserWarning)
