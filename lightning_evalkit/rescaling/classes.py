"""Logits of shape (N, C, ...) and numbers of classes beside them: the second dimension is that of classes or labels."""

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
    """Logits of another number of classes are refused; of one number, as binary problems have it, any shape is."""
    if width > 1 and (logits.ndim < 2 or logits.shape[1] != width):
        raise DeclarationError(
            f"expected logits of {width} classes in the second dimension, (N, {width}, ...), got {tuple(logits.shape)}."
        )


def along_classes(numbers: Tensor, logits: Tensor) -> Tensor:
    """One number per class in the shape that meets the logits at their classes; a single number meets all of them.

    >>> import torch
    >>> along_classes(torch.tensor([1.0, 2.0]), torch.zeros(5, 2, 3, 4)).shape
    torch.Size([2, 1, 1])
    """
    insist_on_classes(logits, len(numbers))
    return numbers.reshape(() if len(numbers) == 1 else (-1, *[1] * (logits.ndim - 2)))


def by_element(values: Tensor) -> Tensor:
    """(N, C, ...) as (M, C): a row for every element of every sample."""
    return values.movedim(1, -1).flatten(0, -2)
