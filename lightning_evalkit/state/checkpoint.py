"""A tally in a checkpoint: its tensors once, under stable names, with the declaration they were counted under.

The declaration travels as the bytes of its JSON in a tensor, so that every tool that expects tensors in a
``state_dict`` keeps working and ``torch.load(..., weights_only=True)`` reads it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import torch

from lightning_evalkit.counts import Totals
from lightning_evalkit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from torch import Tensor

    from lightning_evalkit.inputs import Declaration

LONG = 8
INTEGERS, REALS, DECLARATION = "integers", "reals", "declaration"
LAYOUT = {"layout": 2}
"""Raised when counts change their places: an older state would be read as other counts."""


def saved(totals: Totals, task: Declaration) -> dict[str, Tensor]:
    """What goes into a ``state_dict``."""
    entries = {INTEGERS: totals.integers.detach().clone(), DECLARATION: _encoded({**task.described(), **LAYOUT})}
    if totals.reals is not None:
        entries[REALS] = totals.reals.detach().clone()
    return entries


def unpack(state_dict: MutableMapping[str, Any], prefix: str, task: Declaration) -> Totals | None:
    """Take a tally's entries out of a ``state_dict``; None if it has none. Another declaration is refused."""
    names = [prefix + name for name in (INTEGERS, REALS, DECLARATION)]
    integers, reals, declaration = (state_dict.pop(name, None) for name in names)
    if integers is None:
        return None
    if declaration is not None:
        _refuse_other(prefix, _decoded(declaration), {**task.described(), **LAYOUT})
    return Totals(integers, reals)


def described_differences(found: dict[str, Any], expected: dict[str, Any], where: str) -> list[str]:
    """What two declarations differ in; of long lists the first entry."""
    differences = []
    for key in {**expected, **found}:
        one, other = found.get(key), expected.get(key)
        if one == other:
            continue
        if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)) and len(one) == len(other) > LONG:
            place = next(place for place, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1])
            key, one, other = f"{key}[{place}]", one[place], other[place]
        differences.append(f"{key}={one!r} {where}, {other!r} here")
    return differences


def _refuse_other(prefix: str, found: dict[str, Any], expected: dict[str, Any]) -> None:
    expected = json.loads(json.dumps(expected))
    differences = described_differences(found, expected, "in the checkpoint")
    if differences:
        raise InputError(
            f"the state saved as {prefix or 'this metric'!r} was counted under another declaration: "
            f"{'; '.join(differences)}. Declare the same, or leave this state out (metric.persistent(False))."
        )


def _encoded(declaration: dict[str, Any]) -> Tensor:
    return torch.frombuffer(bytearray(json.dumps(declaration, sort_keys=True).encode()), dtype=torch.uint8).clone()


def _decoded(declaration: Tensor) -> dict[str, Any]:
    described: dict[str, Any] = json.loads(bytes(declaration.tolist()))
    return described
