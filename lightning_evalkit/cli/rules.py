"""``evalkit rules``: what Diagnose looks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jsonargparse import ArgumentParser

from lightning_evalkit.diagnosis import Table
from lightning_evalkit.diagnosis.rules import RULES
from lightning_evalkit.sinks.terminal import show_table

if TYPE_CHECKING:
    from collections.abc import Sequence


def run(arguments: Sequence[str]) -> int:
    """List the rules."""
    parser = ArgumentParser(prog="evalkit rules", exit_on_error=False, description="List what Diagnose looks for.")
    parser.parse_args(list(arguments))
    rules = [RULES[code] for code in sorted(RULES)]
    rows = tuple((rule.code, rule.severity, rule.certainty, rule.name) for rule in rules)
    show_table(Table(("code", "severity", "certainty", "rule"), rows, of_words=True))
    print("The page of one: evalkit rule EK101")
    return 0
