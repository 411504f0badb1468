"""Callbacks of the Lightning trainer."""

from lightning_evalkit.callbacks.evaluate import Evaluate
from lightning_evalkit.callbacks.exact import ExactDistributedEvaluation
from lightning_evalkit.callbacks.loss_report import LossReport
from lightning_evalkit.callbacks.prior_correction import PriorCorrection
from lightning_evalkit.callbacks.temperature_scaling import TemperatureScaling
from lightning_evalkit.callbacks.tensorboard_report import TensorBoardReport
from lightning_evalkit.callbacks.threshold_tuning import ThresholdTuning

__all__ = [
    "Evaluate",
    "ExactDistributedEvaluation",
    "LossReport",
    "PriorCorrection",
    "TemperatureScaling",
    "TensorBoardReport",
    "ThresholdTuning",
]
