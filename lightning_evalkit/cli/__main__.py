"""``python -m lightning_evalkit.cli``."""

import sys

from lightning_evalkit.cli.main import main

sys.exit(main())
