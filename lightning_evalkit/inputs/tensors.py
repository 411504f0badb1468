"""Words for what is no tensor to count. Slow on purpose: only called when an update has failed."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from lightning_evalkit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

USUAL = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
USUAL_REALS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def explain_failure(function: Callable[..., Any], error: Exception, *args: Any, **kwargs: Any) -> None:
    """Raise what is wrong with the arguments of a function that failed, if it is their kind; values are not looked at.

    >>> import numpy
    >>> explain_failure(lambda x: None, TypeError(), numpy.zeros(3))
    Traceback (most recent call last):
        ...
    lightning_evalkit.errors.InputError: expected tensors, got numpy.ndarray as x: wrap it with torch.as_tensor(...).
    """
    try:
        bound = signature(function).bind_partial(*args, **kwargs)
    except TypeError:
        return  # wrong arguments, which Python has said
    optional = {name for name, each in bound.signature.parameters.items() if each.default is None}
    given = {name: value for name, value in bound.arguments.items() if value is not None or name not in optional}
    if any(str(error).startswith(f"expected {name} to be a tensor") for name in given):
        return  # said already, with more about the argument
    refuse_others(given, uncommon=not isinstance(error, InputError))


def refuse_others(given: Mapping[str, Any], uncommon: bool = True) -> None:
    """Raise for the first value that is no dense tensor of real numbers, or ``uncommon`` by its type or device."""
    for name, value in given.items():
        if not isinstance(value, Tensor):
            raise InputError(f"expected tensors, got {_kind(value)} as {name}: {_remedy(value)}.") from None
        wrong = _unusable(name, value) or (_uncommon(name, value) if uncommon else None)
        if wrong is not None:
            raise InputError(f"expected dense tensors of real numbers, got {wrong}.") from None


def _kind(value: object) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__.partition('.')[0]}.{kind.__name__}"


def _remedy(value: object) -> str:
    if value is None:
        return "look for a step that returns nothing"
    if hasattr(value, "__array__"):
        return "wrap it with torch.as_tensor(...)"
    if isinstance(value, (list, tuple, int, float)):
        return "wrap it with torch.tensor(...)"
    return "pass the tensor itself"


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
