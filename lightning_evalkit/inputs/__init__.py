"""Declares the meaning of raw tensors, and checks it."""

from lightning_evalkit.inputs.binary import Binary
from lightning_evalkit.inputs.binning import Binning, binning_of
from lightning_evalkit.inputs.declaration import Declaration, Inputs, MultidimAverage, is_samplewise
from lightning_evalkit.inputs.losses import Losses
from lightning_evalkit.inputs.multiclass import Multiclass
from lightning_evalkit.inputs.multilabel import Multilabel
from lightning_evalkit.inputs.threshold import Threshold
from lightning_evalkit.inputs.thresholded import Thresholded

__all__ = [
    "Binary",
    "Binning",
    "Declaration",
    "Inputs",
    "Losses",
    "Multiclass",
    "MultidimAverage",
    "Multilabel",
    "Threshold",
    "Thresholded",
    "binning_of",
    "is_samplewise",
]
