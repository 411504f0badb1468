"""What a step returned into what an evaluation counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from lightning_evalkit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

KEYS = {"logits": ("logits", "preds"), "probabilities": ("probabilities", "preds"), "labels": ("preds",)}
"""Under which names predictions are looked for, by what they are declared to be: never as what they are not."""


@dataclass(frozen=True)
class Outputs:
    """Finds predictions, targets and, where they are declared, weights: by their keys or by a function."""

    inputs: str
    weighted: bool
    preds_key: str | None
    target_key: str
    weight_key: str
    take: Callable[[Any, Any], Any] | None
    who: str = "Evaluate"

    def of(self, outputs: Any, batch: Any, step: str) -> tuple[Tensor, ...] | None:
        """Tensors without their graphs; None if the function leaves the batch out."""
        found = self._by_key(outputs, step) if self.take is None else self._taken(self.take(outputs, batch))
        return None if found is None else tuple(tensor.detach() for tensor in found)

    def _by_key(self, outputs: Any, step: str) -> tuple[Any, ...]:
        names = (self.preds_key,) if self.preds_key else KEYS[self.inputs]
        given = outputs if isinstance(outputs, Mapping) else {}
        keys = [next((name for name in names if name in given), names[0]), self.target_key]
        keys += [self.weight_key] if self.weighted else []
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
        return tuple(found)


def _are_tensors(values: Any) -> bool:
    return all(isinstance(value, Tensor) for value in values)


def described(value: Any) -> str:
    """What came, in the words of an error.

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
