"""Rescales logits so that their probabilities hold: a temperature, a line per class, the shift of a prior."""

from lightning_evalkit.rescaling.priors import PriorCorrection
from lightning_evalkit.rescaling.scaling import TemperatureScaling
from lightning_evalkit.rescaling.vector import VectorScaling

__all__ = ["PriorCorrection", "TemperatureScaling", "VectorScaling"]
