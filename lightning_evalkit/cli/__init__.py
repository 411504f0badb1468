"""The command ``evalkit``."""

from lightning_evalkit.cli.main import main

__all__ = ["main"]
