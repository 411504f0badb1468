"""Chooses a command and imports only that one: explaining a table should not wait for Lightning."""

from __future__ import annotations

import select
import shutil
import sys
from argparse import ArgumentError, RawDescriptionHelpFormatter
from contextlib import suppress
from importlib import import_module
from textwrap import fill
from typing import TYPE_CHECKING

from lightning_evalkit import __version__
from lightning_evalkit.cli.commands import COMMANDS, EXAMPLES, example
from lightning_evalkit.cli.messages import USER_ERRORS, OneLineParser, in_one_line
from lightning_evalkit.cli.signals import Ended
from lightning_evalkit.errors import nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

INTERRUPTED = 130
"""The exit code of a program that was stopped by Ctrl-C."""
UNWRITTEN = 120
"""The exit code of Python where its output could not be written."""
NARROWEST = 20
"""The least columns of a terminal."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; wrong use prints one readable line and gives exit code 2."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    command = words[0] if words else ""
    if command not in COMMANDS:
        return _without_command(command)
    if words in [[each] for each in EXAMPLES]:  # before anything heavy is imported
        print(example(command), file=sys.stderr)
        return 2
    try:
        module = import_module(f"lightning_evalkit.cli.{'training' if command in EXAMPLES else command}")
        code: int = module.run(words if command in EXAMPLES else words[1:])
    except USER_ERRORS as wrong:
        if isinstance(wrong, BrokenPipeError) and _is_unread():
            return UNWRITTEN
        complain(f"evalkit {command}: {_line(wrong, command)}")
        return 2
    except KeyboardInterrupt:
        return _stopped(command, "interrupted", INTERRUPTED)
    except Ended as ended:
        return _stopped(command, f"ended by {ended.name}", int(str(ended.code)))
    return code


def _without_command(word: str) -> int:
    """Answer ``--help`` and ``--version``, and refuse anything else that is not a command."""
    if not word:
        wrong = f"expected a command: {', '.join(COMMANDS)}. What they do: evalkit --help."
    elif not word.startswith("-"):
        wrong = f"there is no command {word!r}: {nearest(word, COMMANDS)}"
    else:
        try:
            _parser().parse_args([word])
        except ArgumentError:
            wrong = f"there is no option {word!r} without a command. All commands: evalkit --help."
    complain(f"evalkit: {wrong}")
    return 2


def _line(wrong: BaseException, command: str) -> str:
    """An error in one line; one of a parser does not name the options, so the line says where they are."""
    line = in_one_line(wrong)
    is_bare = isinstance(wrong, ArgumentError)
    return f"{line.rstrip('.')}. All options: evalkit {command} --help." if is_bare else line


def complain(line: str) -> None:
    """Print an error: in one line, which a terminal shows wrapped between words."""
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns - 1
        line = fill(line, max(width, NARROWEST), break_long_words=False, break_on_hyphens=False, subsequent_indent="  ")
    print(line, file=sys.stderr)


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


def _parser() -> OneLineParser:
    parser = OneLineParser(
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
