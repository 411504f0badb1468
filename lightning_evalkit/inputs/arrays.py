"""Turns arrays, series, data frames, lists and numbers into tensors; only called after a call with one has failed."""

from __future__ import annotations

from inspect import BoundArguments, signature
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from lightning_evalkit.errors import InputError
from lightning_evalkit.inputs.tensors import explain_failure, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lightning_evalkit.inputs.declaration import Declaration

IDS = ("sample", "cluster")
"""Arguments that may hold texts of any kind; who counts by them reads them."""


def as_tensors(
    function: Callable[..., Any],
    error: Exception,
    task: Declaration,
    device: torch.device | None,
    *args: Any,
    **kwargs: Any,
) -> BoundArguments | None:
    """Return the arguments of a failed call as tensors; None if they already were. Raise if they cannot be counted.

    Without a ``device`` they join the first tensor among them.
    """
    try:
        bound = signature(function).bind(*args, **kwargs)
    except TypeError:
        return None  # wrong arguments, which Python's error names
    optional = {name for name, each in bound.signature.parameters.items() if each.default is None}
    given = {name: value for name, value in bound.arguments.items() if value is not None or name not in optional}
    given = {name: value for name, value in given.items() if name not in IDS}
    others = {name: value for name, value in given.items() if not isinstance(value, Tensor)}
    if not others:
        explain_failure(error, given)
        return None
    if device is None:
        device = next((value.device for value in given.values() if isinstance(value, Tensor)), torch.device("cpu"))
    for name, value in others.items():
        bound.arguments[name] = tensor_of(name, value, device, task.names_of_values(name))
    return bound


def tensor_of(name: str, value: Any, device: torch.device, names: Sequence[str] | None = None) -> Tensor:
    """Convert an argument to a tensor; with ``names`` of classes, texts become their numbers.

    >>> tensor_of("target", ["dog", "cat"], torch.device("cpu"), names=["cat", "dog"])
    tensor([1, 0])
    """
    if isinstance(value, Tensor):
        return value
    if isinstance(value, (list, tuple)) and value and all(isinstance(each, Tensor) for each in value):
        return _stacked(name, value).to(device)
    array = _array(name, value)
    if array.dtype.kind in "OU":
        array = _numbered(name, array, names)
    try:
        tensor = torch.from_numpy(np.require(array, array.dtype.newbyteorder("="), ["C", "W"]))
    except TypeError:
        raise InputError(f"expected numbers as {name}, got {kind_of(value)} of {array.dtype}.") from None
    has_double = device.type != "mps" or tensor.dtype != torch.float64
    return tensor.to(device) if has_double else tensor.float().to(device)


def _array(name: str, value: Any) -> Any:
    """Return the array of a value that has one."""
    if value is None:
        remedy = "look for a step that returns nothing"
    elif isinstance(value, (list, tuple, int, float)) or hasattr(value, "__array__"):
        try:
            return np.asarray(value)
        except (TypeError, ValueError):
            remedy = "its rows are of different lengths or kinds"
    else:
        remedy = "pass the numbers themselves"
    raise InputError(f"expected a tensor, an array or a list, got {kind_of(value)} as {name}: {remedy}.") from None


def _stacked(name: str, parts: Sequence[Tensor]) -> Tensor:
    try:
        return torch.stack(tuple(parts))
    except (RuntimeError, TypeError) as wrong:
        raise InputError(f"expected tensors of one shape in the list {name}: {wrong}.") from None


def _numbered(name: str, array: Any, names: Sequence[str] | None) -> Any:
    """Return the numbers of names."""
    texts = array.ravel().tolist()
    if names is None:
        wrong = next((text for text in texts if not isinstance(text, (int, float))), array.dtype)
        raise InputError(f"expected numbers as {name}, got {wrong!r}.")
    places = {known: place for place, known in enumerate(names)}
    unknown = next((at for at, text in enumerate(texts) if not isinstance(text, str) or text not in places), None)
    if unknown is not None:
        listed = ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")
        argument = "group_names" if name == "groups" else "class_names"
        raise InputError(
            f"expected every text in {name} to be one of {listed}, got {texts[unknown]!r} at position {unknown}: "
            f"declare {argument} to call them otherwise."
        )
    return np.array([places[text] for text in texts], dtype=np.int64).reshape(array.shape)
