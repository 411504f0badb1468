"""Errors and warnings that teach: each message says what was expected, what came, and what to do next."""

from __future__ import annotations

from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_LISTED = 40
"""More names than this are not listed."""


class InputError(ValueError, RuntimeError):
    """Tensors do not have the declared meaning.

    torchmetrics raises ``ValueError`` for some of these cases and ``RuntimeError`` for others; code that catches
    either catches this.
    """


class DeclarationError(ValueError):
    """A declaration (an argument of a constructor) contradicts itself or is not known."""


class UndefinedWarning(UserWarning):
    """A reported value is NaN because its definition divides nothing by nothing."""


class MixedScoresWarning(UserWarning):
    """Scores of one epoch were guessed to be probabilities in some batches and logits in others."""


@contextmanager
def required(package: str, extra: str | None = None) -> Iterator[None]:
    """Import an optional package, or say how to install it: alone, or as an extra of this one."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != package:
            raise
        install = package if extra is None else f'"lightning-evalkit[{extra}]"'
        raise ModuleNotFoundError(
            f"this part of lightning_evalkit needs {package}, which is not installed: pip install {install}",
            name=missing.name,
        ) from missing


def nearest(name: str, known: Iterable[str]) -> str:
    """Name the known words closest to a wrong one, for the last sentence of an error.

    >>> nearest("acuracy", ["accuracy", "recall"])
    "did you mean 'accuracy'?"
    """
    others = sorted({*known} - {name})  # the wrong word itself is no answer
    return meant(name, others) or listed(others)


def meant(name: str, known: Iterable[str]) -> str:
    """Ask whether one of the three known words closest to a wrong one was meant; empty if none is close.

    >>> meant("ek10", ["EK101", "accuracy"])
    "did you mean 'EK101'?"
    """
    by_letters = {other.lower(): other for other in known}
    close = [by_letters[word] for word in get_close_matches(name.lower(), by_letters, n=3, cutoff=0.5)]
    return f"did you mean {' or '.join(map(repr, close))}?" if close else ""


def listed(known: Iterable[str]) -> str:
    """Name what can be asked for, for the last sentence of an error.

    >>> listed(["recall", "accuracy"])
    'expected one of accuracy, recall.'
    """
    names = sorted(known)
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return f"expected one of {', '.join(names[:MAX_LISTED])}{more}." if names else "nothing else is known."
