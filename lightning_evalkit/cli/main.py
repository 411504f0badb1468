"""Chooses a command and imports only that one: explaining a table should not wait for Lightning."""

from __future__ import annotations

import select
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING

from lightning_evalkit import __version__
from lightning_evalkit.cli.commands import COMMANDS
from lightning_evalkit.cli.messages import USER_ERRORS, in_one_line
from lightning_evalkit.cli.signals import Ended

if TYPE_CHECKING:
    from collections.abc import Sequence

TRAINING = ("fit", "validate", "test", "predict")
INTERRUPTED = 130
"""The exit code of a program that was stopped by Ctrl-C."""
UNWRITTEN = 120
"""The exit code of Python where its output could not be written."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; wrong use prints one readable line and gives exit code 2."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    parser = _parser()
    if not words:
        parser.error(f"expected a command: {', '.join(COMMANDS)}.")
    command: str = parser.parse_args(words[:1]).command
    try:
        module = import_module(f"lightning_evalkit.cli.{'training' if command in TRAINING else command}")
        code: int = module.run(words if command in TRAINING else words[1:])
    except USER_ERRORS as wrong:
        if isinstance(wrong, BrokenPipeError) and _is_unread():
            return UNWRITTEN
        print(f"evalkit {command}: {in_one_line(wrong)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return _stopped(command, "interrupted", INTERRUPTED)
    except Ended as ended:
        return _stopped(command, f"ended by {ended.name}", int(str(ended.code)))
    return code


def _is_unread() -> bool:
    """Whether the reader of the output has left, as in ``evalkit rules | head``; other pipes are the command's own."""
    with suppress(AttributeError, OSError, ValueError):  # no poll on Windows, no descriptor of a replaced output
        output = select.poll()
        output.register(sys.stdout.fileno(), 0)
        return bool(output.poll(0))
    return False


def _stopped(command: str, how: str, code: int) -> int:
    with suppress(OSError):  # a terminal that was closed
        print(f"evalkit {command}: {how}; what was done so far is kept.", file=sys.stderr, flush=True)
    return code


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="evalkit",
        description="Evaluation for PyTorch Lightning whose numbers can be trusted.",
        epilog="Start with: evalkit reproduce --quick. Every command has a --help of its own.",
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"evalkit {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    for name, help_text in COMMANDS.items():
        commands.add_parser(name, help=help_text, add_help=False)
    return parser
