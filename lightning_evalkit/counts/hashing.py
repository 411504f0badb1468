"""Maps the id of a sample to its bucket, the same on every machine and in every version.

The hash is fixed for ever, because it pairs states that were counted weeks apart. The hash of an integer is the
finaliser of SplitMix64 (Steele, Lea and Flood 2014), on 64 bits without sign:

    x += 0x9E3779B97F4A7C15
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB
    hash = x ^ (x >> 31)

A text is first turned into a number: the eight bytes of BLAKE2b of its UTF-8, the lowest first. The bucket of a hash is
(its upper 32 bits) · buckets / 2^32, rounded down. The fingerprint of rows is the sum, on 64 bits, of
hash(hash(id) + target) over all samples. Samples with several targets add hash(hash(id) + position · G + target) for
each, with positions from 0 and G the first constant above.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from lightning_evalkit.counts.deferral import is_deferred
from lightning_evalkit.counts.numpy_path import BLOCK, Array
from lightning_evalkit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

GOLDEN, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def ids_of(name: str, ids: Any, target: Tensor) -> Tensor:
    """The ids of samples as integers on the device of the target, one for each."""
    if not isinstance(ids, Tensor):
        texts = list(ids) if isinstance(ids, (list, tuple)) else []
        if texts and all(isinstance(each, str) for each in texts):
            ids = torch.tensor([_number(text) for text in texts], dtype=torch.int64).to(target.device)
        else:
            ids = torch.as_tensor(ids, device=target.device)
    if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
        raise InputError(f"expected {name} to be ids of samples, whole numbers or texts, got {ids.dtype}.")
    if ids.device != target.device:
        raise InputError(f"expected {name} on the device of target, got {ids.device} and {target.device}.")
    if ids.shape != target.shape[:1]:
        raise InputError(
            f"expected one {name} id for every sample, shape {tuple(target.shape[:1])}, got {tuple(ids.shape)}."
        )
    numbers: Tensor = ids.long()
    return numbers


def _number(text: str) -> int:
    """The eight bytes of a text as a number with a sign, as tensors hold it."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


def hashed(numbers: Tensor) -> Tensor:
    """The hash of each number.

    >>> hashed(torch.tensor([0, 1])).tolist()
    [-2152535657050944081, -7995527694508729151]
    """
    if is_deferred(numbers):
        return _deferred(numbers)
    found = np.array(numbers.numpy(), dtype=np.int64).view(np.uint64)  # a copy
    for block in _blocks(found):
        _mix(block)
    return torch.from_numpy(found.view(np.int64))


def buckets_of(hashes: Tensor, buckets: int) -> Tensor:
    """The bucket of each hash, from 0 to buckets - 1."""
    if is_deferred(hashes):
        return ((hashes >> 32) & 0xFFFFFFFF) * buckets >> 32
    places = np.empty(hashes.shape, dtype=np.uint64)
    for given, found in zip(_blocks(hashes.numpy().view(np.uint64)), _blocks(places), strict=True):
        np.right_shift(given, np.uint64(32), out=found)
        found *= np.uint64(buckets)
        found >>= np.uint64(32)
    return torch.from_numpy(places.view(np.int64))


def fingerprint(hashes: Tensor, target: Tensor) -> Tensor:
    """One number for a set of samples and their targets, whatever their order: a sum, as an int64 that wraps."""
    codes = target.long().flatten(1) if target.ndim > 1 else target.long()
    if is_deferred(hashes):
        return _deferred(_combined(hashes, codes)).sum()
    total = np.zeros((), dtype=np.uint64)
    for start in range(0, len(codes), BLOCK):
        block = _combined(hashes[start : start + BLOCK], codes[start : start + BLOCK]).numpy().view(np.uint64)
        _mix(block)
        total += block.sum(dtype=np.uint64)
    return torch.from_numpy(total.view(np.int64))


def _combined(hashes: Tensor, codes: Tensor) -> Tensor:
    if codes.ndim == 1:
        return hashes + codes
    positions = torch.arange(codes.shape[1], device=codes.device) * _signed(GOLDEN)
    return hashes.unsqueeze(1) + positions + codes


def _blocks(numbers: Array) -> Iterator[Array]:
    flat = numbers.reshape(-1)
    return (flat[start : start + BLOCK] for start in range(0, flat.size, BLOCK))


def _mix(numbers: Array) -> None:
    """Mix the bits in place."""
    numbers += np.uint64(GOLDEN)
    numbers ^= numbers >> np.uint64(30)
    numbers *= np.uint64(FIRST)
    numbers ^= numbers >> np.uint64(27)
    numbers *= np.uint64(SECOND)
    numbers ^= numbers >> np.uint64(31)


def _deferred(numbers: Tensor) -> Tensor:
    """The same with torch's signed integers: the bits that a shift copies from the sign are cleared."""
    x = numbers + _signed(GOLDEN)
    for shift, factor in ((30, FIRST), (27, SECOND)):
        x = (x ^ ((x >> shift) & ((1 << (64 - shift)) - 1))) * _signed(factor)
    return x ^ ((x >> 31) & ((1 << 33) - 1))


def _signed(number: int) -> int:
    return number - (1 << 64) if number >= 1 << 63 else number
