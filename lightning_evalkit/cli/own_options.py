"""Options of ``evalkit`` that are removed from the command line before Lightning's parser reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lightning_evalkit.cli.messages import WrongError

if TYPE_CHECKING:
    from collections.abc import Sequence

WITH_VALUE = ("--run", "--output")


class OwnOptions(NamedTuple):
    """The run whose configuration and checkpoint are used, whether there may be none, and the predictions' path."""

    run: str | None = None
    untrained: bool = False
    output: str | None = None


def split_own(arguments: Sequence[str]) -> tuple[OwnOptions, list[str]]:
    """Return our own options, and the remaining words."""
    found: dict[str, str] = {}
    left: list[str] = []
    words = iter(arguments)
    for word in words:
        option, equals, value = word.partition("=")
        if option in WITH_VALUE:
            found[option] = value if equals else next(words, "")
            if not found[option]:
                raise WrongError(f"{option}: expected one argument.")
        elif word == "--untrained":
            found[word] = word
        else:
            left.append(word)
    _check(left[0], found)
    return OwnOptions(found.get("--run"), "--untrained" in found, found.get("--output")), left


def _check(command: str, found: dict[str, str]) -> None:
    if command == "fit" and found:
        raise WrongError(
            f"there is no option {next(iter(found))} of fit: to resume a run, give its configuration and checkpoint, "
            "--config FOLDER/config.yaml --ckpt_path FILE."
        )
    if command != "predict" and "--output" in found:
        raise WrongError(f"there is no option --output of {command}: it is where predictions are written.")
