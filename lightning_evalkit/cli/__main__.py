"""``python -m lightning_evalkit.cli``."""

import sys

from lightning_evalkit.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
