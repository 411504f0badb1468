"""Turns arrays, series, data frames, lists and numbers into tensors; only called after a call with one has failed."""

from __future__ import annotations

from inspect import BoundArguments, signature
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from lightning_evalkit.errors import InputError
from lightning_evalkit.inputs.binary import YES_NO
from lightning_evalkit.inputs.tensors import explain_failure, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lightning_evalkit.inputs.declaration import Declaration

IDS = ("sample", "cluster")
"""Arguments that may hold texts of any kind; who counts by them reads them."""
NUMBERS = (int, float, np.number, np.bool_)


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
        _refuse_another_order(name, value, task.names)
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


def _refuse_another_order(name: str, value: Any, names: Sequence[str] | None) -> None:
    """Refuse a data frame whose columns are the declared names in another order, as they would be taken for others."""
    columns = [*map(str, value.columns)] if names is not None and type(value).__name__ == "DataFrame" else []
    if names is not None and columns != list(names) and sorted(columns) == sorted(names):
        raise InputError(
            f"expected the columns of {name} in the order of the declared names, got {', '.join(columns)}: "
            f"pass {name}[{list(names[:10])}{' and so on' if len(names) > 10 else ''}]."
        )


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
    no_number = next((at for at, text in enumerate(texts) if not isinstance(text, NUMBERS)), None)
    if no_number is None:
        return np.array(texts).reshape(array.shape)  # they had the dtype object
    if names is None:
        raise InputError(f"expected numbers as {name}, got {texts[no_number]!r} at position {no_number}.")
    places = {known: place for place, known in enumerate(names)}
    unknown = next((at for at, text in enumerate(texts) if not isinstance(text, str) or text not in places), None)
    if unknown is not None:
        listed = ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")
        raise InputError(
            f"expected every text in {name} to be one of {listed}, got {texts[unknown]!r} at position {unknown}: "
            f"{_remedy(name, texts[unknown], names)}."
        )
    return np.array([places[text] for text in texts], dtype=np.int64).reshape(array.shape)


def _remedy(name: str, value: Any, names: Sequence[str]) -> str:
    """Say what to do about a value that is no name."""
    if isinstance(value, NUMBERS) and value == value:
        return "use names or numbers, not both"
    if not isinstance(value, str):
        return "leave out samples whose value is missing"
    if tuple(names) == YES_NO:
        return f"compare with the positive class, as in numpy.asarray({name}) == {value!r}"
    return f"declare {'group_names' if name == 'groups' else 'class_names'} to call them otherwise"
