"""Logits into logits whose probabilities hold: a temperature, a line per class, the shift of a prior."""

from lightning_evalkit.calibration.priors import PriorCorrection
from lightning_evalkit.calibration.scaling import TemperatureScaling, VectorScaling

__all__ = ["PriorCorrection", "TemperatureScaling", "VectorScaling"]
