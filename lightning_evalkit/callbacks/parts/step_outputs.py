"""Turns what a step returned into what an evaluation counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from lightning_evalkit.errors import DeclarationError, InputError

if TYPE_CHECKING:
    from collections.abc import Callable

KEYS = {"logits": ("logits", "preds"), "probabilities": ("probabilities", "preds"), "labels": ("preds",)}
"""The keys under which predictions are looked for, by what they are declared to be."""


@dataclass(frozen=True)
class StepOutputs:
    """Finds predictions, targets and declared weights, by their keys or by a function."""

    inputs: str
    weighted: bool
    preds_key: str | None
    target_key: str
    weight_key: str | None
    """None ignores weights on purpose; otherwise undeclared weights are refused."""
    take: Callable[[Any, Any], Any] | None
    who: str = "Evaluate"
    remedy: str = "declare its evaluation with weighted=True to use them, or say weight_key=None to leave them out"

    def __post_init__(self) -> None:
        if self.weighted and self.weight_key is None:
            raise DeclarationError(
                "expected weight_key to name the weights, because weights are declared, got None, which would leave "
                "them out."
            )

    def of(self, outputs: Any, batch: Any, step: str) -> tuple[Tensor, ...] | None:
        """Return detached tensors, or None if the function skips the batch."""
        found = self._by_key(outputs, step) if self.take is None else self._taken(self.take(outputs, batch))
        return None if found is None else tuple(tensor.detach() for tensor in found)

    def _by_key(self, outputs: Any, step: str) -> tuple[Any, ...]:
        names = (self.preds_key,) if self.preds_key else KEYS[self.inputs]
        given = outputs if isinstance(outputs, Mapping) else {}
        keys = [next((name for name in names if name in given), names[0]), self.target_key]
        if self.weighted and self.weight_key is not None:
            keys.append(self.weight_key)
        elif isinstance(given.get(self.weight_key), Tensor):
            raise InputError(self.untold(f"{step} returns {self.weight_key!r}"))
        found = tuple(given.get(key) for key in keys)
        if not all(isinstance(each, Tensor) for each in found):
            raise InputError(self._complaint(names, keys[1:], outputs, step))
        return found

    def _complaint(self, names: tuple[str, ...], others: list[str], outputs: Any, step: str) -> str:
        wanted = " and ".join([" or ".join(map(repr, names)), *map(repr, others)])
        example = ", ".join(f"{name!r}: {name}" for name in ("loss", names[0], *others))
        parts = ", ".join((names[0], *others))
        return (
            f"expected {step} to return a dict with the tensors {wanted}, because {self.who} counts what the step "
            f"returns, and is declared for inputs={self.inputs!r}; got {described(outputs)}. "
            f"Return {{{example}}}; or name the keys that the step returns with preds_key, target_key and weight_key; "
            f"or take=f, where f(outputs, batch) gives ({parts})."
        )

    def _taken(self, found: Any) -> tuple[Any, ...] | None:
        if found is None:
            return None
        if not isinstance(found, (tuple, list)) or len(found) not in (2, 3) or not _are_tensors(found):
            raise InputError(
                "expected take(outputs, batch) to give the tensors (preds, target) or (preds, target, sample_weight), "
                f"or None for a batch that is not counted; got {described(found)}."
            )
        if len(found) == 3 and not self.weighted:
            if self.weight_key is not None:
                raise InputError(self.untold("take(outputs, batch) gives weights"))
            return tuple(found[:2])
        if len(found) == 2 and self.weighted:
            raise InputError(
                f"expected take(outputs, batch) to give (preds, target, sample_weight), because {self.who} counts with "
                f"weights, got {described(found)}."
            )
        return tuple(found)

    def untold(self, where: str) -> str:
        """The error about weights that would be ignored."""
        return f"{where}, but {self.who} was not told of any weights: {self.remedy}."


def of_logits(
    weighted: bool | None,
    preds_key: str | None,
    target_key: str,
    weight_key: str,
    take: Callable[[Any, Any], Any] | None,
    who: str,
) -> StepOutputs:
    """For a callback that reads logits: ``weighted=None`` leaves weights open, False ignores them."""
    key = None if weighted is False else weight_key
    remedy = "say weighted=True to use them, or weighted=False to leave them out"
    return StepOutputs("logits", bool(weighted), preds_key, target_key, key, take, who, remedy)


def _are_tensors(values: Any) -> bool:
    return all(isinstance(value, Tensor) for value in values)


def described(value: Any) -> str:
    """Describe a value in the words of an error.

    >>> described({"loss": 0.5})
    "a dict with 'loss' (float)"
    """
    if isinstance(value, Mapping):
        return f"a dict with {', '.join(f'{key!r} ({_kind(each)})' for key, each in value.items()) or 'nothing'}"
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {', '.join(map(_kind, value)) or 'nothing'}"
    return _kind(value)


def _kind(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"tensor of shape {tuple(value.shape)}"
    return "None" if value is None else type(value).__name__
