"""The collections that people use: metrics, projection and explanation on one tally."""

from lightning_evalkit.evaluation.binary import BinaryEvaluation

__all__ = ["BinaryEvaluation"]
