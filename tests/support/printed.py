"""Printed numbers beside those that ``compute`` gives."""

from __future__ import annotations

import math
import warnings
from typing import Any

from lightning_evalkit.errors import UndefinedWarning


def agrees(said: float, value: float, digits: int) -> bool:
    """Whether a printed number is a value, to its printed digits and single precision."""
    if math.isnan(value) or math.isinf(value):
        return said == value or (math.isnan(said) and math.isnan(value))
    return math.isclose(said, value, rel_tol=0.6 * 10.0 ** (1 - digits), abs_tol=1e-7)


def computed(evaluation: Any) -> dict[str, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedWarning)
        return {name: float(value) for name, value in evaluation.compute().items()}
