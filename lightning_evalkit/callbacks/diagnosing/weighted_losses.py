"""The epoch's value of a loss with class weights, from the batches' values that a module logs.

Such a loss divides by the weights of the batch's targets. Batches' values times these weights, added up on the device
and divided once by all weights, are the loss of the epoch as one batch.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from lightning_evalkit.callbacks.diagnosing.structure import is_weighted_loss
from lightning_evalkit.counts import real_dtype

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.nn import Module


class _Returned(NamedTuple):
    value: weakref.ref[Tensor]
    path: str
    loss: Any
    target: Tensor


class WeightedLosses:
    """Recognises the values of weighted losses by identity when they are logged."""

    def __init__(self, module: Module) -> None:
        self._losses = [(path, each) for path, each in module.named_modules() if is_weighted_loss(each)]
        self.paths = tuple(path for path, _ in self._losses)
        self._returned: dict[int, _Returned] = {}
        self._sums: dict[str, Tensor] = {}
        self._handles: list[Any] = []

    def enter(self) -> None:
        """Watch, until ``leave`` is called."""
        self._handles = [each.register_forward_hook(self._remember(path)) for path, each in self._losses]

    def leave(self) -> None:
        """Take the hooks off."""
        while self._handles:
            self._handles.pop().remove()

    def begin(self) -> None:
        """Forget the sums: a validation or test begins."""
        self._sums.clear()

    def forget(self) -> None:
        """Forget what was returned: a step has ended."""
        self._returned.clear()

    def _remember(self, path: str) -> Callable[..., None]:
        def remember(loss: Module, given: tuple[Any, ...], value: Any) -> None:
            target = given[1] if len(given) > 1 else None
            if torch.compiler.is_compiling() or not isinstance(target, Tensor) or target.is_floating_point():
                return  # the mean over probabilities as targets divides by the number of samples
            self._returned[id(value)] = _Returned(weakref.ref(value), path, loss, target)

        return remember

    def logged(self, name: str, value: Any) -> str:
        """Add up a value that is logged; the path of the loss it came from, empty if it came from none."""
        known = self._returned.get(id(value))
        if known is None or known.value() is not value or not isinstance(value, Tensor):
            return ""
        with torch.no_grad():
            used = known.target != known.loss.ignore_index
            weights = known.loss.weight.take(torch.where(used, known.target, 0)) * used
            weight = weights.sum(dtype=real_dtype(value.device))
            self._sums[name] = self._sums.get(name, 0) + torch.stack((value.detach() * weight, weight))
        return known.path

    def read(self) -> dict[str, float]:
        """The values of the epoch by the names they are logged under; this reads from the device."""
        return {name: float(total / weight) for name, (total, weight) in self._sums.items()}
