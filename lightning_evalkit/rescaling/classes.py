"""Aligns logits of shape (N, C, ...) with numbers per class: the second dimension is that of classes or labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from lightning_evalkit.errors import DeclarationError, InputError
from lightning_evalkit.inputs.arrays import tensor_of

if TYPE_CHECKING:
    import torch


def as_logits(logits: Any, device: torch.device, done: str = "scaled") -> Tensor:
    """Return logits, of an array or a list as a tensor on the device; labels are refused."""
    given: Tensor = logits if isinstance(logits, Tensor) else tensor_of("logits", logits, device)
    if not given.is_floating_point():
        raise InputError(f"expected logits, got {given.dtype}: labels have no confidence that could be {done}.")
    return given


def insist_on_classes(logits: Tensor, width: int) -> None:
    """Refuse logits of another number of classes; a single number, as in binary problems, fits any shape."""
    if width > 1 and (logits.ndim < 2 or logits.shape[1] != width):
        raise DeclarationError(
            f"expected logits of {width} classes in the second dimension, (N, {width}, ...), got {tuple(logits.shape)}."
        )


def along_classes(numbers: Tensor, logits: Tensor) -> Tensor:
    """Shape one number per class so that it broadcasts over the class dimension; a single number fits all.

    >>> import torch
    >>> along_classes(torch.tensor([1.0, 2.0]), torch.zeros(5, 2, 3, 4)).shape
    torch.Size([2, 1, 1])
    """
    insist_on_classes(logits, len(numbers))
    return numbers.reshape(() if len(numbers) == 1 else (-1, *[1] * (logits.ndim - 2)))


def by_element(values: Tensor) -> Tensor:
    """Reshape (N, C, ...) to (M, C): a row for every element of every sample."""
    return values.movedim(1, -1).flatten(0, -2)
