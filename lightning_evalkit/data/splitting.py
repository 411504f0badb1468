"""Splits one table into three with the same mix of classes, and standardises features."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from lightning_evalkit.errors import DeclarationError, InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

SPLITS = 3
LEFT = SPLITS
"""The code of a row that has no split yet."""
TINY = 1e-6
"""Above the rounding error of rows · share, below any remainder that matters."""
SHOWN = 5
"""How many classes an error names."""


class Shares(NamedTuple):
    """The share of each split."""

    train: float
    val: float
    test: float


class SplitRows(NamedTuple):
    """The rows of each split, in the order of the table."""

    train: Tensor
    val: Tensor
    test: Tensor


def checked_shares(val_share: float, test_share: float) -> Shares:
    """Check the shares; training gets the rest of validation and test."""
    if not (val_share > 0 and test_share > 0 and val_share + test_share < 1 - TINY):
        raise DeclarationError(
            "expected val_share and test_share above 0 that leave something for training, "
            f"got val_share={val_share} and test_share={test_share}."
        )
    return Shares(1 - val_share - test_share, val_share, test_share)


def stratified(target: Tensor, shares: Shares, seed: int, names: Sequence[str], source: str) -> SplitRows:
    """Split rows at random so that each class, or each label, has its share in each split.

    A target of shape (N,) holds classes. Each class is divided by the shares and rounded: first so that no split lacks
    it, then so that rounding errors of the classes cancel and the splits get their sizes. The class counts and the
    shares alone decide how many rows of a class a split has. A target of shape (N, L) holds labels. Every joint pattern
    is divided as far as whole rows go; the remaining rows go to the split that lacks their rarest label most.

    >>> rows = stratified(torch.tensor([0] * 10 + [1] * 5), Shares(0.6, 0.2, 0.2), 0, ["no", "yes"], "example")
    >>> [len(split) for split in rows], (rows.val >= 10).sum().item()
    ([9, 3, 3], 1)
    """
    order = torch.randperm(len(target), generator=torch.Generator().manual_seed(seed))
    shuffled = target[order]
    split = torch.empty_like(order)
    split[order] = _of_classes(shuffled, shares) if target.ndim == 1 else _of_labels(shuffled.bool(), shares)
    _check_presence(target, split, names, source)
    return SplitRows(*((split == place).nonzero().flatten() for place in range(SPLITS)))


def _of_classes(classes: Tensor, shares: Shares) -> Tensor:
    owed = [0.0] * SPLITS
    sizes: list[int] = classes.bincount().tolist()
    counts = [_rounded([size * share for share in shares], size, [0] * SPLITS, owed) for size in sizes]
    return _dealt(classes, torch.tensor(counts))


def _of_labels(labels: Tensor, shares: Shares) -> Tensor:
    rare = labels ^ (labels.double().mean(0) > 0.5)  # the rarer value of each label needs care
    strata = _patterns(rare)
    wanted = strata.bincount().unsqueeze(1) * torch.tensor(shares, dtype=torch.float64)
    split = _dealt(strata, (wanted + TINY).long())
    owed = [0.0] * SPLITS
    for label in rare.sum(0).argsort(stable=True).tolist():
        _give_left(split, rare[:, label], shares, owed)
    _give_left(split, torch.ones_like(split, dtype=torch.bool), shares, owed)
    return split


def _patterns(labels: Tensor) -> Tensor:
    """A number for each joint pattern of labels, equal for equal rows; 30 labels at a time fit into 64 bits."""
    codes = torch.zeros(len(labels), dtype=torch.int64)
    for part in labels.split(30, dim=1):
        packed = (part.long() << torch.arange(part.shape[1])).sum(1)
        codes = torch.unique((codes << 30) + packed, return_inverse=True)[1]
    return codes


def _dealt(strata: Tensor, counts: Tensor) -> Tensor:
    """The split of each row: the first rows of a stratum go to training, the next to validation, and so on."""
    sizes = strata.bincount()
    order = strata.argsort(stable=True)
    place = torch.empty_like(strata)
    place[order] = torch.arange(len(strata)) - (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
    split = torch.zeros_like(strata)
    for end in counts.cumsum(1).unbind(1):
        split += place >= end[strata]
    return split


def _give_left(split: Tensor, having: Tensor, shares: Shares, owed: list[float]) -> None:
    """Give the remaining rows of a label to the splits that lack the label most."""
    left = (having & (split == LEFT)).nonzero().flatten()
    *given, _ = split[having].bincount(minlength=SPLITS + 1).tolist()
    rows = sum(given) + len(left)
    wanted = [rows * share - count for share, count in zip(shares, given, strict=True)]
    counts = _rounded(wanted, len(left), given, owed)
    split[left] = torch.arange(SPLITS).repeat_interleave(torch.tensor(counts))


def _rounded(wanted: Sequence[float], rows: int, given: Sequence[int], owed: list[float]) -> list[int]:
    """Round shares to whole rows by largest remainders: first to splits without any, then by the amount owed.

    ``owed`` is each split's loss by rounding so far; this updates it.
    """
    missing = [max(number, 0.0) for number in wanted]
    exact = [number * rows / (sum(missing) or 1.0) for number in missing]
    counts = [int(number + TINY) for number in exact]
    for split in range(SPLITS):
        owed[split] += exact[split] - counts[split]
    unfinished = [split for split in range(SPLITS) if exact[split] > counts[split] + TINY]
    unfinished.sort(key=lambda split: (given[split] + counts[split] > 0, -owed[split]))
    for split in unfinished[: rows - sum(counts)]:
        counts[split] += 1
        owed[split] -= 1
    return counts


def _check_presence(target: Tensor, split: Tensor, names: Sequence[str], source: str) -> None:
    """Refuse classes, or values of a label, that a split lacks; the error names them all, within reason."""
    counts = _presence(target, split, len(names))
    if target.ndim > 1:
        names = [f"{name} = {value}" for name in names for value in (0, 1)]
    lacking = (counts.amin(1) == 0).nonzero().flatten().tolist()
    if lacking:
        told = [f"{names[place]} ({_summed_up(counts[place].tolist())})" for place in lacking[:SHOWN]]
        more = [f"{len(lacking) - SHOWN:,} more"] * (len(lacking) > SHOWN)
        raise InputError(
            f"{source}: expected rows of every class in training, validation and test, but the {len(target):,} rows "
            f"have too few of {', '.join(told + more)}: gather more of them, raise val_share and test_share, or leave "
            "that class out."
        )


def _summed_up(counts: list[int]) -> str:
    rows = sum(counts)
    return f"{rows} row{'s' * (rows != 1)}, shared out as {', '.join(map(str, counts))}"


def _presence(target: Tensor, split: Tensor, number: int) -> Tensor:
    """The number of rows of each class, or of each value of each label, in each split."""
    if target.ndim == 1:
        return (target * SPLITS + split).bincount(minlength=number * SPLITS).view(-1, SPLITS)
    ones = torch.stack([target[split == place].sum(0) for place in range(SPLITS)], 1)
    return torch.stack((split.bincount(minlength=SPLITS) - ones, ones), 1).view(-1, SPLITS)


def standardised(features: Tensor, train: Tensor) -> Tensor:
    """Scale columns to mean 0 and deviation 1 over the training rows; a column that is constant there becomes 0.

    Computed in float64 as distances from the first training row, so a large offset (a year, a time stamp) costs no
    digits, and a constant column has a deviation of exactly 0.

    >>> standardised(torch.tensor([[1.0, 7.0], [3.0, 7.0], [4.0, 7.0]]), torch.tensor([0, 1]))
    tensor([[-1.,  0.],
            [ 1.,  0.],
            [ 2.,  0.]])
    """
    shifted = features.double() - features[train[0]].double()
    known = shifted[train]
    deviation = known.std(0, correction=0)
    return shifted.sub_(known.mean(0)).div_(deviation).where(deviation > 0, 0.0).float()
