"""Errors about values that are not countable tensors. Slow on purpose: only called when an update has failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from lightning_evalkit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

USUAL = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
USUAL_REALS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def explain_failure(error: Exception, given: Mapping[str, Any]) -> None:
    """Raise an error about the kind of a failed call's tensors, if that is the cause; values are not read.

    >>> explain_failure(TypeError(), {"x": torch.eye(2).to_sparse()})
    Traceback (most recent call last):
        ...
    lightning_evalkit.errors.InputError: expected dense tensors of real numbers, got torch.sparse_coo as x: \
call x.to_dense().
    """
    for name, value in given.items():
        wrong = _unusable(name, value) or (None if isinstance(error, InputError) else _uncommon(name, value))
        if wrong is not None:
            raise InputError(f"expected dense tensors of real numbers, got {wrong}.") from None


def kind_of(value: object) -> str:
    """Name the type of a value as its users know it."""
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__.partition('.')[0]}.{kind.__name__}"


def _unusable(name: str, value: Tensor) -> str | None:
    if value.is_nested:
        return f"a nested tensor as {name}: update once for each of its parts"
    if value.layout != torch.strided:
        return f"{value.layout} as {name}: call {name}.to_dense()"
    if value.is_quantized:
        return f"{value.dtype} as {name}: call {name}.dequantize()"
    if value.is_complex():
        return f"{value.dtype} as {name}: complex numbers have no order"
    return None


def _uncommon(name: str, value: Tensor) -> str | None:
    if value.is_meta:
        return f"a tensor without values (on meta) as {name}"
    if value.dtype in (*USUAL, *USUAL_REALS):
        return None
    return f"{value.dtype} as {name}: call {name}.{'float' if value.is_floating_point() else 'long'}()"
