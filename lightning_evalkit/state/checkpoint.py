"""A tally in a checkpoint: its tensors under stable names, with a description to read them by.

The description is the declaration, the layout of the cells and the number of this format. It is stored as the bytes of
its JSON in a tensor, so that every tool that expects tensors in a ``state_dict`` keeps working and
``torch.load(..., weights_only=True)`` reads it.
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

    from lightning_evalkit.counts import Counter

LONG = 8
INTEGERS, REALS, DECLARATION = "integers", "reals", "declaration"
FORMAT = 3
"""Raised when a cell of unchanged name and size changes its meaning."""
LEAVE_OUT = "leave this state out (metric.persistent(False))"


def saved(totals: Totals, counter: Counter) -> dict[str, Tensor]:
    """Return the entries for a ``state_dict``."""
    entries = {INTEGERS: totals.integers.detach().clone(), DECLARATION: _encoded(_described(counter))}
    if totals.reals is not None:
        entries[REALS] = totals.reals.detach().clone()
    return entries


def unpack(state_dict: MutableMapping[str, Any], prefix: str, counter: Counter) -> Totals | None:
    """Remove a tally's entries from a ``state_dict``; None if it has none. Refuse the state of anything else."""
    names = [prefix + name for name in (INTEGERS, REALS, DECLARATION)]
    integers, reals, declaration = (state_dict.pop(name, None) for name in names)
    if integers is None:
        return None
    if declaration is not None:
        _refuse_other(prefix or "this metric", _decoded(declaration), _described(counter))
    return Totals(integers, reals)


def _described(counter: Counter) -> dict[str, Any]:
    return {"format": FORMAT, "layout": counter.layout.described(), **counter.task.described()}


def declaration_of(saved: Tensor) -> dict[str, Any]:
    """The declaration and the layout of a state in a file; refuse another format."""
    declared = _decoded(saved)
    if declared.get("format") != FORMAT:
        raise InputError(
            f"a state in the file has format {declared.get('format')}, and this version reads format {FORMAT}: read it "
            "with the version that saved it."
        )
    return declared


def layout_of(counter: Counter) -> dict[str, Any]:
    """The layout of a counter's cells, as a file holds it."""
    layout: dict[str, Any] = json.loads(json.dumps(counter.layout.described()))
    return layout


def described_differences(found: dict[str, Any], expected: dict[str, Any], where: str) -> list[str]:
    """The differences of two declarations; of long lists only the first entry."""
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


def _refuse_other(name: str, found: dict[str, Any], expected: dict[str, Any]) -> None:
    expected = json.loads(json.dumps(expected))
    kept = found.pop("format", None)
    if kept != expected.pop("format"):
        raise InputError(
            f"the state saved as {name!r} has format {kept}, and this version reads format {FORMAT}: load it "
            f"with the version that saved it, or {LEAVE_OUT}."
        )
    layouts = found.pop("layout"), expected.pop("layout")
    differences = described_differences(found, expected, "in the checkpoint")
    if differences:
        raise InputError(
            f"the state saved as {name!r} was counted under another declaration: {'; '.join(differences)}. Declare the "
            f"same, or {LEAVE_OUT}."
        )
    refuse_other_layout(name, *layouts)


def refuse_other_layout(name: str, found: dict[str, str], expected: dict[str, str]) -> None:
    """Refuse another layout, which another metric or version may use for the same declaration."""
    differences = described_differences(found, expected, "there")
    if differences:
        raise InputError(
            f"the state of {name!r} keeps other cells, or the same in another order: {'; '.join(differences)}. "
            f"Load it into the metric and with the version that saved it, or {LEAVE_OUT}."
        )


def _encoded(declaration: dict[str, Any]) -> Tensor:
    return torch.frombuffer(bytearray(json.dumps(declaration, sort_keys=True).encode()), dtype=torch.uint8).clone()


def _decoded(declaration: Tensor) -> dict[str, Any]:
    described: dict[str, Any] = json.loads(bytes(declaration.tolist()))
    return described
