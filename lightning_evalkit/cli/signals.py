"""SIGTERM and SIGHUP end a command as Ctrl-C does, with the exit code that a shell gives them."""

from __future__ import annotations

import os
import signal
import stat
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Sent by whoever stops a service, and by a terminal that is closed."""


class Ended(SystemExit):
    """Raised when a signal asks to end; the code is the one a shell reports for it."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.name = signal.Signals(number).name


@contextmanager
def ending_on_signals() -> Iterator[None]:
    """Have signals raise ``Ended``, unless somebody else handles or ignores them (as nohup does)."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours = [number for number in ENDING if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _end(number: int, frame: Any) -> None:
    """End at once, unless Lightning's own handler is installed, which ends after the batch in progress."""
    if signal.getsignal(number) is _end:
        raise ended_by(number)


def ended_by(number: int) -> Ended:
    """The exception for a signal; further signals are ignored while it is handled."""
    if signal.getsignal(number) is _end:
        signal.signal(number, signal.SIG_IGN)
    if number not in (signal.SIGTERM, signal.SIGINT):
        _let_go_of_the_terminal()
    return Ended(number)


def _let_go_of_the_terminal() -> None:
    """Discard output after a terminal was closed: a failing print would lose the results."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        with suppress(OSError):
            if stat.S_ISCHR(os.fstat(stream).st_mode) and not os.isatty(stream):
                os.dup2(nowhere, stream)
    os.close(nowhere)
