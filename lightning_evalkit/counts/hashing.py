"""Maps the id of a sample to its bucket, the same on every machine and in every version.

The hash is fixed for ever, because it pairs states that were counted weeks apart. The hash of an integer is the
finaliser of SplitMix64 (Steele, Lea and Flood 2014), on 64 bits without sign:

    x += 0x9E3779B97F4A7C15
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB
    hash = x ^ (x >> 31)

A text is first turned into a number: the eight bytes of BLAKE2b of its UTF-8, the lowest first. The bucket of a hash is
(its upper 32 bits) · buckets / 2^32, rounded down. The fingerprint of rows is the sum, on 64 bits, of
hash(id) · hash(position) · hash(target) over all targets of all samples. Positions count the targets of a
sample from 0; a single target has position 0.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from lightning_evalkit.counts.deferral import is_deferred
from lightning_evalkit.errors import InputError
from lightning_evalkit.inputs.tensors import kind_of

if TYPE_CHECKING:
    from lightning_evalkit.counts.numpy_path import Array

GOLDEN, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
WHOLE = 1 << 64
MIXED = 16_384
"""Numbers that are hashed at a time: they and as many more stay in a core's cache."""


def ids_of(name: str, ids: Any, target: Tensor) -> Tensor:
    """The ids of samples as integers on the device of the target, one for each."""
    if not isinstance(ids, Tensor):
        texts = _texts(name, ids)
        numbers = ids if texts is None else [_number(text) for text in texts]
        try:
            plain = isinstance(numbers, (list, tuple))
            ids = torch.as_tensor(numbers if plain else np.require(np.asarray(numbers), requirements=["C", "W"]))
        except (TypeError, ValueError, RuntimeError, OverflowError):
            raise InputError(
                f"expected {name} to be ids of samples, whole numbers or texts, got {kind_of(ids)}."
            ) from None
        ids = ids.to(target.device)
    if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
        raise InputError(f"expected {name} to be ids of samples, whole numbers or texts, got {ids.dtype}.")
    if ids.device != target.device:
        raise InputError(f"expected {name} on the device of target, got {ids.device} and {target.device}.")
    if ids.shape != target.shape[:1]:
        raise InputError(
            f"expected one {name} id for every sample, shape {tuple(target.shape[:1])}, got {tuple(ids.shape)}."
        )
    found: Tensor = ids.long()
    return found


def _texts(name: str, ids: Any) -> list[str] | None:
    """Ids that are texts; None if they are numbers."""
    values = ids if isinstance(ids, (list, tuple)) else np.asarray(ids)
    if isinstance(values, np.ndarray):
        if values.dtype.kind not in "OU" or values.ndim != 1:
            return None
        values = values.tolist()
    if not any(isinstance(each, str) for each in values):
        return None
    other = next((each for each in values if not isinstance(each, str)), None)
    if other is not None or None in values:
        raise InputError(f"expected {name} to be ids of one kind, whole numbers or texts, got texts and {other!r}.")
    return [*values]


def _number(text: str) -> int:
    """The eight bytes of a text as a number with a sign, as tensors hold it."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


def hashed(numbers: Tensor, memory: Tensor | None = None) -> Tensor:
    """The hash of each number; on the CPU in ``memory``, if there is some that may be written to.

    >>> hashed(torch.tensor([0, 1])).tolist()
    [-2152535657050944081, -7995527694508729151]
    """
    if is_deferred(numbers):
        return _deferred(numbers)
    given = numbers.numpy().view(np.uint64).reshape(-1)
    found = np.empty_like(given) if memory is None else memory.numpy().view(np.uint64)[: given.size]
    spare = np.empty(min(given.size, MIXED), dtype=np.uint64)
    for start in range(0, given.size, MIXED):
        _mix(given[start : start + MIXED], found[start : start + MIXED], spare)
    return torch.from_numpy(found.view(np.int64)).view(numbers.shape)


def buckets_of(hashes: Tensor, buckets: int, memory: Tensor | None = None) -> Tensor:
    """The bucket of each hash, from 0 to buckets - 1; ``memory`` may be that of the hashes."""
    if is_deferred(hashes):
        return ((hashes >> 32) & 0xFFFFFFFF) * buckets >> 32
    given = hashes.numpy().view(np.uint64)
    found = np.empty_like(given) if memory is None else memory.numpy().view(np.uint64)[: given.size]
    if buckets & (buckets - 1) == 0:  # a power of two: the first bits
        np.right_shift(given, np.uint64(65 - buckets.bit_length()), out=found)
    else:
        np.right_shift(given, np.uint64(32), out=found)
        found *= np.uint64(buckets)
        found >>= np.uint64(32)
    return torch.from_numpy(found.view(np.int64))


def fingerprint(hashes: Tensor, target: Tensor) -> Tensor:
    """One number for a set of samples and their targets, whatever their order: a sum, as an int64 that wraps."""
    codes = target.long().flatten(1) if target.ndim > 1 else target.long().unsqueeze(1)
    if is_deferred(hashes):
        places = _deferred(torch.arange(codes.shape[1], device=codes.device))
        return (hashes * (_deferred(codes) * places).sum(1)).sum()
    ids, values, positions = hashes.numpy().view(np.uint64), codes.numpy().view(np.uint64), _first(codes.shape[1])
    if values.max(initial=0) > 1:
        total = int(ids @ (hashed(codes).numpy().view(np.uint64) @ positions))
    else:  # hash(t) = hash(0) + t · (hash(1) - hash(0)): zeros and ones need no hash each
        zero, one = map(int, _first(2))
        alone = values.shape[1] == 1
        ones = int(ids @ (values[:, 0] if alone else values @ positions)) * (int(positions[0]) if alone else 1)
        total = zero * int(ids.sum()) * int(positions.sum()) + (one - zero) * ones
    return torch.tensor(_signed(total % WHOLE))


@lru_cache(maxsize=16)
def _first(number: int) -> Array:
    """The hashes of 0, 1, 2, …"""
    found: Array = hashed(torch.arange(number)).numpy().view(np.uint64)
    return found


def _mix(given: Array, found: Array, spare: Array) -> None:
    """Hashes into memory that is there: fresh memory would cost more than the arithmetic."""
    spare = spare[: found.size]
    np.add(given, np.uint64(GOLDEN), out=found)
    for shift, factor in ((30, FIRST), (27, SECOND)):
        np.right_shift(found, np.uint64(shift), out=spare)
        found ^= spare
        found *= np.uint64(factor)
    np.right_shift(found, np.uint64(31), out=spare)
    found ^= spare


def _deferred(numbers: Tensor) -> Tensor:
    """The same with torch's signed integers: the bits that a shift copies from the sign are cleared."""
    x = numbers + _signed(GOLDEN)
    for shift, factor in ((30, FIRST), (27, SECOND)):
        x = (x ^ ((x >> shift) & ((1 << (64 - shift)) - 1))) * _signed(factor)
    return x ^ ((x >> 31) & ((1 << 33) - 1))


def _signed(number: int) -> int:
    return number - WHOLE if number >= WHOLE >> 1 else number
