"""Numbers of classes beside logits of shape (N, C, ...): the second dimension is that of the classes or labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightning_evalkit.errors import DeclarationError

if TYPE_CHECKING:
    from torch import Tensor


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
