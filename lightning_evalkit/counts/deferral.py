"""Decides whether counting may read values, or has to defer checks to ``compute``."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import Parameter


def is_deferred(values: Tensor) -> bool:
    """Whether reading values would make the host wait or break a graph."""
    if torch.compiler.is_compiling() or not values.is_cpu:
        return True
    return type(values) is not Tensor and type(values) is not Parameter  # fake tensors and the like hold no values
