"""Writes names as they are: in one line, and in Markdown so that they are not taken for markup."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# An underscore inside a word is only an underscore; so is everything that is not listed here.
_MARKS = re.compile(r"[\\`*\[\]<>&|$~#]|(?<![^\W_])_|_(?![^\W_])")
_BULLET = re.compile(r"^([-+]|\d+[.)])(?=\s|$)")


def one_line(text: str) -> str:
    """A text without line breaks and other control characters, which break tables and terminals.

    >>> one_line("two\\nlines")
    'two lines'
    """
    return " ".join(_CONTROL.sub(" ", text).split())


def literal(text: str) -> str:
    """Markdown that shows a text as it is, by writing its marks, HTML and mathematics as character references.

    >>> literal("a|b <i> f1_score")
    'a&#124;b &#60;i&#62; f1_score'
    """
    return _BULLET.sub(_reference, _MARKS.sub(_reference, one_line(text)))


def _reference(found: re.Match[str]) -> str:
    return f"{found[0][:-1]}&#{ord(found[0][-1])};"
