"""lightning_evalkit: classification metrics for PyTorch Lightning whose numbers can be trusted."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lightning_evalkit.evaluation import (
        BinaryEvaluation,
        MulticlassEvaluation,
        MultilabelEvaluation,
        PairedComparison,
        Slices,
        compare,
        diagnose,
        explain,
    )
    from lightning_evalkit.inputs import Threshold
    from lightning_evalkit.intervals import Counts, Interval, required

__all__ = [
    "BinaryEvaluation",
    "Counts",
    "Interval",
    "MulticlassEvaluation",
    "MultilabelEvaluation",
    "PairedComparison",
    "Slices",
    "Threshold",
    "compare",
    "diagnose",
    "explain",
    "required",
]
__version__ = "0.1.0"

HOMES = {"Counts": "intervals", "Interval": "intervals", "Threshold": "inputs", "required": "intervals"}
"""The module of a public name, if it is not ``evaluation``; counts come from the part that knows their intervals."""
PARTS = (
    "callbacks",
    "counts",
    "data",
    "diagnosis",
    "evaluation",
    "functional",
    "inputs",
    "intervals",
    "metrics",
    "modules",
)

if not TYPE_CHECKING:  # a type checker would take any name for one of ours

    def __getattr__(name: str) -> Any:
        """Import a name when it is first used: ``evalkit --help`` need not wait for torch."""
        if name in __all__:
            return getattr(import_module(f"{__name__}.{HOMES.get(name, 'evaluation')}"), name)
        if name in PARTS:
            return import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__, *PARTS})
