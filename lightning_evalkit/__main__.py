"""``python -m lightning_evalkit`` is ``evalkit``."""

from lightning_evalkit.cli import console

if __name__ == "__main__":
    console()
