"""Checks the declared roles, categories, gaps and separator of a file's columns before it is opened."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Literal, get_args

from lightning_evalkit.data.features import Missing
from lightning_evalkit.data.options import option
from lightning_evalkit.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Sequence


def check_labels(labels: list[str], positive: Any) -> None:
    """Refuse a list of one label, and ``positive`` for labels."""
    if len(labels) < 2:
        raise DeclarationError(f"expected at least 2 labels in a list, got {labels}: name a single column without one.")
    if positive is not None:
        raise DeclarationError(
            f"expected labels of 0 and 1 without positive, got {option(positive=positive)} for {labels}."
        )


def check_roles(
    targets: Sequence[str], features: Sequence[str] | None, weight: str | None, exclude: Sequence[str]
) -> None:
    """Refuse a column with two roles, and an empty list of features."""
    if isinstance(features, str) or (features is not None and not features):
        raise DeclarationError(f"expected a list of features, got {features!r}: leave it out to use all other columns.")
    if features and exclude:
        raise DeclarationError("expected either features or exclude, got both: features that are listed are all.")
    roles = Counter([*targets, *(features or []), *([] if weight is None else [weight]), *exclude])
    for name in (name for name, times in roles.items() if times > 1):
        role = "both target and" if name in targets else "twice as"
        raise DeclarationError(f"expected every column in one role, got {name!r} {role} feature, weight or target.")


def checked_categories(categorical: Any) -> list[str] | Literal["auto"] | None:
    """Return a list of columns, or "auto"."""
    if isinstance(categorical, str) and categorical != "auto":
        raise DeclarationError(f"expected categorical to be a list of columns or 'auto', got {categorical!r}.")
    return "auto" if categorical == "auto" else None if categorical is None else list(categorical)


def checked_missing(missing: Any) -> Missing | None:
    """Return the treatment of gaps, if any."""
    if missing is not None and missing not in get_args(Missing):
        raise DeclarationError(f"expected missing to be one of {', '.join(get_args(Missing))}, got {missing!r}.")
    chosen: Missing | None = missing
    return chosen


def checked_separator(separator: Any, path: str) -> str:
    """Return one character: by default a comma, in a .tsv file a tab; "tab" may be spelt out."""
    if separator is None:
        separator = "tab" if path.lower().endswith(".tsv") else ","
    character = "\t" if separator in ("tab", r"\t") else separator
    if not isinstance(character, str) or len(character) != 1:
        raise DeclarationError(f"expected a separator of one character, such as ';', or 'tab', got {separator!r}.")
    if character != "," and path.lower().endswith(".parquet"):
        raise DeclarationError(f"expected no separator for {path}, which is no CSV file, got {separator!r}.")
    return character
