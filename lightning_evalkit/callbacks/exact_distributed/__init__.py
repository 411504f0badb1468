"""Evaluation on many ranks that counts every row once."""

from lightning_evalkit.callbacks.exact_distributed.callback import ExactDistributedEvaluation

__all__ = ["ExactDistributedEvaluation"]
