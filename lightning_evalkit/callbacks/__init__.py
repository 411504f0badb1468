"""Callbacks of the Lightning trainer."""

from lightning_evalkit.callbacks.tensorboard_report import TensorBoardReport

__all__ = ["TensorBoardReport"]
