"""Where counting may look at values, and where it has to defer that to ``compute``."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import Parameter


def is_deferred(values: Tensor) -> bool:
    """Whether looking at values would make the host wait, or a graph break."""
    if torch.compiler.is_compiling() or not values.is_cpu:
        return True
    return type(values) is not Tensor and type(values) is not Parameter  # fake tensors and the like hold no values
