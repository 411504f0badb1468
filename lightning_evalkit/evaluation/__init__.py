"""Evaluations: collections of metrics, intervals and explanations on one tally."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lightning_evalkit.evaluation.binary import BinaryEvaluation
    from lightning_evalkit.evaluation.comparison import compare
    from lightning_evalkit.evaluation.diagnosing import diagnose
    from lightning_evalkit.evaluation.multiclass import MulticlassEvaluation
    from lightning_evalkit.evaluation.multilabel import MultilabelEvaluation
    from lightning_evalkit.evaluation.paired import PairedComparison
    from lightning_evalkit.evaluation.slices import Slices
    from lightning_evalkit.evaluation.stock import explain

__all__ = [
    "BinaryEvaluation",
    "MulticlassEvaluation",
    "MultilabelEvaluation",
    "PairedComparison",
    "Slices",
    "compare",
    "diagnose",
    "explain",
]

HOMES = {
    "BinaryEvaluation": "binary",
    "MulticlassEvaluation": "multiclass",
    "MultilabelEvaluation": "multilabel",
    "PairedComparison": "paired",
    "Slices": "slices",
    "compare": "comparison",
    "diagnose": "diagnosing",
    "explain": "stock",
}
"""The module of each name."""

if not TYPE_CHECKING:  # a type checker would take any name for one of ours

    def __getattr__(name: str) -> Any:
        """Import a name when it is first used: the command line explains counts without torchmetrics."""
        if name in HOMES:
            return getattr(import_module(f"{__name__}.{HOMES[name]}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
