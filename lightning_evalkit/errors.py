"""Errors and warnings that teach: each message says what was expected, what came, and what to do next."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


MANY = 40
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


class MixedReadingWarning(UserWarning):
    """Scores of one epoch were guessed to be probabilities in some batches and logits in others."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Name the known words closest to a wrong one, for the last sentence of an error.

    >>> nearest("acuracy", ["accuracy", "recall"])
    "did you mean 'accuracy'?"
    """
    known = sorted(known)
    close = get_close_matches(name, known, n=3, cutoff=0.5)
    if close:
        return f"did you mean {' or '.join(map(repr, close))}?"
    more = f" and {len(known) - MANY} more" if len(known) > MANY else ""
    return f"known are {', '.join(known[:MANY])}{more}."
