"""Ends the process of the command line, without ever hanging.

The interpreter waits for threads, then for exit handlers, then destroys the objects of torch and Lightning; each of
these may block. Here threads and exit handlers get limited time, and the operating system cleans up the rest.
"""

from __future__ import annotations

import atexit
import os
import re
import signal
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

from lightning_evalkit.cli.main import INTERRUPTED, UNWRITTEN, main
from lightning_evalkit.cli.signals import ending_on_signals

if TYPE_CHECKING:
    from collections.abc import Callable

VARIABLE = "EVALKIT_EXIT_SECONDS"
SECONDS = 60.0
"""Seconds for threads and exit handlers, some of which upload results; the environment may set another number."""
_UNWRITTEN: list[Any] = []
"""Streams that could not be written: Python 3.13 would say so again when it drops one."""


def console() -> NoReturn:
    """Run the command line as a program, and end the process."""
    code = 1
    try:
        code = _code_of(_run)
    finally:
        leave(code)


def _run() -> int:
    find_own_modules()
    with ending_on_signals():
        return main()


def find_own_modules() -> None:
    """Look for modules in the current folder, as ``python -m`` does, unless Python was told not to (-P)."""
    here = os.getcwd()
    if not getattr(sys.flags, "safe_path", False) and not {"", here} & {*sys.path}:
        sys.path.insert(0, here)


def _code_of(command: Callable[[], int]) -> int:
    """The exit code that the interpreter gives for a result, a ``SystemExit`` or any other error."""
    try:
        return command()
    except SystemExit as stopped:
        if stopped.code is None or isinstance(stopped.code, int):
            return stopped.code or 0
        print(stopped.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # before a command was chosen
        return INTERRUPTED
    except BaseException as wrong:
        sys.excepthook(type(wrong), wrong, wrong.__traceback__)
        return 1


def leave(code: int) -> NoReturn:
    """End the process with this code, as soon as threads and exit handlers have ended or their time is up."""
    code = _flushed(code)
    seconds = _seconds()
    watch = threading.Timer(seconds, _give_up, (code, seconds))
    watch.daemon = True
    try:
        if hasattr(signal, "SIGALRM"):  # if even the watching thread gets no turn, the system ends the process
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, 2 * seconds + 1)
        with suppress(RuntimeError):  # no thread can be started
            watch.start()
        with suppress(BaseException):  # an impatient second Ctrl-C
            threading._shutdown()  # type: ignore[attr-defined]
            atexit._run_exitfuncs()
        code = _flushed(code)
    finally:
        os._exit(code)


def _seconds() -> float:
    given = os.environ.get(VARIABLE, "")
    return float(given) if re.fullmatch(r"\d{1,6}(\.\d+)?", given) else SECONDS


def _give_up(code: int, seconds: float) -> None:
    others = [each.name for each in threading.enumerate() if not each.daemon and each is not threading.main_thread()]
    what = f"threads ({', '.join(others)})" if others else "exit handlers"
    try:
        print(f"evalkit: {what} had not ended after {seconds:g} seconds ({VARIABLE}); left them.", file=sys.stderr)
        code = _flushed(code)
    finally:
        os._exit(code)


def _flushed(code: int) -> int:
    """Flush the output; if that fails, the command has failed."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except (OSError, ValueError) as wrong:
            setattr(sys, name, None)  # say it once
            _UNWRITTEN.append(stream)
            code = code or UNWRITTEN
            if not isinstance(wrong, BrokenPipeError):  # a reader that has left needs no explanation
                _complain(wrong)
    return code


def _complain(wrong: Exception) -> None:
    with suppress(OSError, ValueError):
        print(f"evalkit: the output could not be written: {wrong}", file=sys.stderr, flush=True)
