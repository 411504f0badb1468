"""Which functions of the package some work calls."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import lightning_evalkit

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

PACKAGE = str(Path(lightning_evalkit.__file__).parent)


def calls_of(work: Callable[[], object]) -> list[str]:
    """The functions that are called, comprehensions included, as file.py:name."""
    called: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            called.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_code.co_name}")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return called
