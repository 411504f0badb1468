"""``evalkit rule EK101``: what a rule finds, why it matters, and the remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jsonargparse import ArgumentParser

from lightning_evalkit.diagnosis.rules import RULES
from lightning_evalkit.sinks.terminal import show_page

if TYPE_CHECKING:
    from collections.abc import Sequence


def run(arguments: Sequence[str]) -> int:
    """Print the page of a rule."""
    parser = ArgumentParser(
        prog="evalkit rule", exit_on_error=False, description="Print the page of a rule. Example: evalkit rule EK101"
    )
    parser.add_argument("code", type=str, help="The code of the rule, such as EK101.")
    show_page(RULES[parser.parse_args(list(arguments)).code.upper()].page())
    return 0
