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

INTEGERS, REALS, DECLARATION = "integers", "reals", "declaration"


def saved(totals: Totals, task: Declaration) -> dict[str, Tensor]:
    """What goes into a ``state_dict``."""
    entries = {INTEGERS: totals.integers.detach().clone(), DECLARATION: _encoded(task.described())}
    if totals.reals is not None:
        entries[REALS] = totals.reals.detach().clone()
    return entries


def taken(state_dict: MutableMapping[str, Any], prefix: str, task: Declaration) -> Totals | None:
    """Take a tally's entries out of a ``state_dict``; None if it has none. Another declaration is refused."""
    names = [prefix + name for name in (INTEGERS, REALS, DECLARATION)]
    integers, reals, declaration = (state_dict.pop(name, None) for name in names)
    if integers is None:
        return None
    if declaration is not None:
        _refuse_other(prefix, _decoded(declaration), task.described())
    return Totals(integers, reals)


def _refuse_other(prefix: str, found: dict[str, Any], expected: dict[str, Any]) -> None:
    expected = json.loads(json.dumps(expected))
    differences = [
        f"{key}={found.get(key)!r} in the checkpoint, {expected.get(key)!r} here"
        for key in {**expected, **found}
        if found.get(key) != expected.get(key)
    ]
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
