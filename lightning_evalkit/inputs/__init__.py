"""Raw tensors into their declared meaning."""

from lightning_evalkit.inputs.binary import Binary
from lightning_evalkit.inputs.complaints import complaint
from lightning_evalkit.inputs.declaration import Declaration, Inputs, MultidimAverage, is_samplewise

__all__ = ["Binary", "Declaration", "Inputs", "MultidimAverage", "complaint", "is_samplewise"]
