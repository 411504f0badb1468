"""The default network of a classifier."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from torch.nn import Linear, Module, ReLU, Sequential

from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.trainer import hyperparameters_are_given

if TYPE_CHECKING:
    from collections.abc import Sequence


def built(network: Module | None, num_features: int | None, hidden: Sequence[int], outputs: int) -> Module:
    """Return the given network; or a linear layer, or with ``hidden`` widths a multilayer perceptron."""
    if network is not None:
        return network
    if num_features is None:
        raise DeclarationError("expected num_features, to build a network with, or a network; got neither.")
    if min(num_features, *hidden, outputs) < 1:
        raise DeclarationError(f"expected layers of at least one unit, got {[num_features, *hidden, outputs]}.")
    layers: list[Module] = []
    for width, following in pairwise((num_features, *hidden)):
        layers += [Linear(width, following), ReLU()]
    return Sequential(*layers, Linear(hidden[-1] if hidden else num_features, outputs))


def left_out() -> list[str]:
    """Hyperparameters to leave out: a network built by hand, whose weights are in the checkpoint.

    A network that the command line describes is saved as that description, and built again from it.
    """
    return [] if hyperparameters_are_given() else ["network"]
