"""``python -m lightning_evalkit.cli``."""

from lightning_evalkit.cli.leaving import console

if __name__ == "__main__":
    console()
