"""The command ``evalkit``."""

from lightning_evalkit.cli.leaving import console
from lightning_evalkit.cli.main import main

__all__ = ["console", "main"]
