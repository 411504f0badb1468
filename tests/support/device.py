"""Tensors that only claim to be on an accelerator, and a record of the operators that are dispatched for them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

if TYPE_CHECKING:
    from collections.abc import Iterator


DEVICE = torch.device("cuda:0")


# They read a value, or a size that depends on values, or memory of the host; the first few raise on fake tensors too.
WAITING = {
    "_local_scalar_dense",
    "item",
    "is_nonzero",
    "equal",
    "nonzero",
    "nonzero_static",
    "argwhere",
    "bincount",
    "unique",
    "_unique",
    "_unique2",
    "unique_dim",
    "unique_consecutive",
    "masked_select",
    "index",
    "index_put",
    "index_put_",
    "_index_put_impl_",
    "repeat_interleave",
    "histc",
    "histogram",
    "lift",
    "lift_fresh",
    "lift_fresh_copy",
    "_copy_from",
    "_pin_memory",
}


class Operators(TorchDispatchMode):
    """Records the operators that are dispatched, and which of them touch a tensor off the device."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.crossing: list[str] = []

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = operator(*args, **(kwargs or {}))
        if operator.namespace == "aten":  # fake tensors ask for their device through an operator of another namespace
            name = operator._schema.name.removeprefix("aten::")
            self.names.append(name)
            self.crossing += [name] if name != "scalar_tensor" and self._leaves(name, args, kwargs, result) else []
        return result

    def _leaves(self, name: str, *operands: Any) -> bool:
        """Whether a tensor is off the device. Not a number that stands for itself: it travels as an argument."""
        tensors = [leaf for leaf in tree_leaves(operands) if isinstance(leaf, Tensor) and leaf.device != DEVICE]
        return any(tensor.ndim or name in ("_to_copy", "copy_") for tensor in tensors)

    @property
    def waiting(self) -> list[str]:
        return [name for name in self.names if name in WAITING] + self.crossing


def tally_of(metric: Any) -> Any:
    return getattr(metric, "tally", metric)


def pretend_on_device(metric: Any) -> Any:
    """Give a metric, built on the CPU, states that claim to be on the device (inside a fake mode)."""
    tally = tally_of(metric)
    for name, default in tally._defaults.items():
        if isinstance(default, Tensor):
            setattr(tally, name, torch.zeros(default.shape, dtype=default.dtype, device=DEVICE))
    tally._device = DEVICE
    return metric


@contextmanager
def deferred() -> Iterator[None]:
    """Count as on a device: the two paths are told apart by the device and by whether a graph is being compiled."""
    with mock.patch.object(torch.compiler, "is_compiling", return_value=True):
        yield


# What torch.use_deterministic_algorithms lists, as far as counting could use it; index_add is on that list with a
# deterministic way of its own, and sums weights.
WITHOUT_ORDER = {
    "scatter_add",
    "scatter_add_",
    "scatter_reduce",
    "scatter_reduce_",
    "put_",
    "histc",
    "bincount",
    "kthvalue",
    "median",
    "index_reduce",
    "index_reduce_",
}


class OrderedOperators(Operators):
    """Also records which operators add in no fixed order."""

    def __init__(self) -> None:
        super().__init__()
        self.without_order: list[str] = []

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_dispatch__(operator, types, args, kwargs)
        name = operator._schema.name.removeprefix("aten::")
        adds_reals = name.startswith("cumsum") and result.is_floating_point()
        self.without_order += [name] if name in WITHOUT_ORDER or adds_reals else []
        return result


@contextmanager
def synchronisation_is_an_error() -> Iterator[None]:
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")
