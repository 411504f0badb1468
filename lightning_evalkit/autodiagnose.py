"""``EVALKIT_DIAGNOSE=1 python train.py``: Diagnose in every Trainer of anyone's script.

Lightning asks this file for callbacks through an entry point, each time a Trainer is made. Without the variable it
imports nothing.
"""

import os
from typing import Any

VARIABLE = "EVALKIT_DIAGNOSE"
OFF = ("", "0", "false", "no")


def callbacks() -> list[Any]:
    """A Diagnose callback if the environment asks for one; ``EVALKIT_DIAGNOSE=strict`` ends a run that has errors."""
    asked = os.environ.get(VARIABLE, "").lower()
    if asked in OFF:
        return []
    from lightning_evalkit.callbacks import Diagnose

    return [Diagnose(strict=asked == "strict")]
