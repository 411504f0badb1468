"""The meaning of tensors, declared at construction; equal declarations may share a state."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch

from lightning_evalkit.errors import DeclarationError, InputError
from lightning_evalkit.inputs.numbers import as_number, checked_flag
from lightning_evalkit.inputs.threshold import Threshold

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torch import Tensor

    from lightning_evalkit.inputs.binning import Binning

Inputs = Literal["logits", "probabilities", "labels", "auto"]
"""The kind of the first tensor of ``update``; ``auto`` guesses for each batch, as torchmetrics does."""

MultidimAverage = Literal["global", "samplewise"]


@dataclass(frozen=True)
class Declaration:
    """Base of every task's declaration; its fields alone decide which metrics may share a state."""

    inputs: Inputs = "auto"
    ignore_index: int | tuple[int, ...] | None = None
    weighted: bool = False
    samplewise: bool = False
    binning: Binning | None = field(default=None, kw_only=True)
    """How scores are stored, if curves are declared."""
    buckets: int | None = field(default=None, kw_only=True, repr=False)
    """The number of buckets in which samples are counted by the hash of their ids."""
    names: tuple[str, ...] | None = field(default=None, kw_only=True, repr=False)
    """The names of classes or labels in order; None if they are called by number.

    They are part of the declaration, because a state knows classes only by number: with names in another order it would
    report the numbers of one class for another. If only one of two states has names, they may mean different classes.
    """

    def __post_init__(self) -> None:
        if self.inputs not in get_args(Inputs):
            raise DeclarationError(
                f"expected inputs to be one of {', '.join(map(repr, get_args(Inputs)))}, got {self.inputs!r}."
            )
        if any(not isinstance(index, int) or isinstance(index, bool) for index in self.ignored):
            raise DeclarationError(f"expected ignore_index to be None or an integer, got {self.ignore_index!r}.")
        checked_flag("weighted", self.weighted)
        if self.buckets is not None:
            checked_number("buckets", self.buckets, least=2)
        if self.binning is not None and self.inputs == "labels":
            raise DeclarationError("expected scores for curves, got inputs='labels': labels have no order.")

    @property
    def ignored(self) -> tuple[int, ...]:
        """The target values that are left out."""
        if self.ignore_index is None:
            return ()
        return self.ignore_index if isinstance(self.ignore_index, tuple) else (self.ignore_index,)

    def marks(self, kind: torch.dtype) -> tuple[int, ...]:
        """The ignored target values that this type can hold: no byte is -100."""
        return tuple(index for index in self.ignored if holds(kind, index))

    def left_out(self, target: Tensor) -> Tensor:
        """Which targets are ignored, compared as exact numbers, never wrapped or rounded to a type."""
        marked = [target == index for index in self.marks(target.dtype)]
        return reduce(torch.logical_or, marked) if marked else torch.zeros_like(target, dtype=torch.bool)

    def names_of_values(self, argument: str) -> tuple[str, ...] | None:
        """The names allowed as values of an argument of ``update``, in the order of their numbers."""
        return None

    def names_classes(self, argument: str) -> bool:
        """Whether an argument of ``update`` holds classes: targets do, and predictions unless they are scores."""
        return argument == "target" or (argument == "preds" and self.inputs in ("labels", "auto"))

    def described(self) -> dict[str, Any]:
        """The declaration as plain values, for a checkpoint and for messages."""
        return {"task": type(self).__name__, **asdict(self)}

    @property
    def key(self) -> str:
        """A short hash of the declaration: unequal declarations have unequal keys."""
        return hashlib.sha256(json.dumps(self.described(), sort_keys=True).encode()).hexdigest()[:10]

    def arranged_weight(self, target: Tensor, sample_weight: Tensor | None, preds: Tensor) -> Tensor | None:
        """Expand weights to the dimensions of the target that they lack; all tensors are on one device."""
        if preds.is_complex() or target.is_complex():
            raise InputError("complex numbers have no order.")  # explain_failure says what to do
        if preds.device != target.device:
            raise InputError(f"expected preds and target on one device, got {preds.device} and {target.device}.")
        if (sample_weight is None) is self.weighted:
            raise InputError(
                "declared weighted=True, so update needs sample_weight (torch.ones(len(target)) weighs all alike)."
                if self.weighted
                else "got sample_weight, but the metric counts unweighted: construct it with weighted=True."
            )
        if sample_weight is None:
            return None
        if sample_weight.device != target.device:
            raise InputError(
                f"expected sample_weight on the device of target, got {sample_weight.device} and {target.device}."
            )
        if sample_weight.is_complex():
            raise InputError("complex numbers are no weights.")
        lead = sample_weight.ndim
        if sample_weight.shape != target.shape[:lead]:
            raise InputError(
                f"expected sample_weight to have the shape of target, {tuple(target.shape)}, or of its first "
                f"dimensions, got {tuple(sample_weight.shape)}."
            )
        return sample_weight.reshape(sample_weight.shape + (1,) * (target.ndim - lead)).expand(target.shape)

    def refuse_weights_of_elements(self, sample_weight: Tensor | None, samples: int, what: str) -> None:
        """Refuse weights of elements where whole samples are counted."""
        if sample_weight is not None and sample_weight.ndim > 1:
            raise InputError(
                f"expected one sample_weight per sample, shape ({samples},), because {what} samples, "
                f"got {tuple(sample_weight.shape)}."
            )


def is_samplewise(multidim_average: str) -> bool:
    """Whether torchmetrics' ``multidim_average`` asks for one result per sample."""
    if multidim_average not in get_args(MultidimAverage):
        raise DeclarationError(f"expected multidim_average to be 'global' or 'samplewise', got {multidim_average!r}.")
    return multidim_average == "samplewise"


def holds(kind: torch.dtype, number: int) -> bool:
    """Whether a tensor of this type can hold a whole number as it is.

    >>> holds(torch.uint8, -100), holds(torch.float16, 2048), holds(torch.float16, 2049)
    (False, True, False)
    """
    if kind == torch.bool:
        return number in (0, 1)
    if not kind.is_floating_point:
        return torch.iinfo(kind).min <= number <= torch.iinfo(kind).max
    digits = 1 - round(math.log2(torch.finfo(kind).eps))
    size = abs(number)
    odd = size // (size & -size) if size else 0  # without factors of two, which the exponent holds
    return size <= torch.finfo(kind).max and odd.bit_length() <= digits


def names_given(names: Sequence[str], usual: Iterable[str] | None = None) -> tuple[str, ...] | None:
    """Names for a declaration: None if they are the usual ones, by default the numbers from 0.

    >>> names_given(["0", "1"]), names_given(["cat", "dog"])
    (None, ('cat', 'dog'))
    """
    expected = tuple(map(str, range(len(names)))) if usual is None else tuple(usual)
    return None if tuple(names) == expected else tuple(names)


LONG = 300
LARGEST_STATE = 2 * 2**30
"""The most bytes of one copy of a state: more is usually a mistake, and would kill the process silently."""


def refuse_large(numbers: int, what: str) -> None:
    """Refuse a state of too many numbers of 8 bytes each, before allocating it."""
    if 8 * numbers > LARGEST_STATE:
        what = what if len(what) <= LONG else f"{what[:LONG]} ..."  # a declaration may have thousands of thresholds
        most, size = LARGEST_STATE / 2**30, 8 * numbers / 2**30
        raise DeclarationError(
            f"expected a state of at most {most:g} GiB, got {size:,.1f} GiB for {what}: "
            "declare fewer classes, labels, groups, thresholds or bins, or no confusion matrix."
        )


def checked_number(name: str, number: object, least: int) -> None:
    """A whole number that is not too small."""
    if not isinstance(number, int) or isinstance(number, bool) or number < least:
        raise DeclarationError(f"expected {name} to be a whole number of at least {least}, got {number!r}.")


def checked_threshold(threshold: object) -> float:
    """A threshold on probabilities, in [0, 1]; one that keeps its logit stays as it is."""
    number = as_number(threshold)
    if number is None or not 0 <= number <= 1:
        raise DeclarationError(
            f"expected threshold to be a number in [0, 1] (on probabilities, also when inputs are logits), "
            f"got {threshold!r}."
        )
    return number if isinstance(number, Threshold) else float(number)
