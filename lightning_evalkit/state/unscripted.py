"""Keeps metrics out of a script that ``torch.jit.script`` compiles, as torchmetrics does."""

from __future__ import annotations

from inspect import getattr_static
from typing import Any, ClassVar


class Unscripted:
    """Hides the properties and annotated fields of a metric from torch's compiler of scripts.

    ``forward`` is marked with ``torch.jit.unused``, as in torchmetrics.
    """

    __jit_ignored_attributes__: ClassVar[list[str]] = []
    __jit_unused_properties__: ClassVar[list[str]] = []

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        properties = {name: getattr_static(cls, name) for name in dir(cls)}
        properties = {name: found for name, found in properties.items() if isinstance(found, property)}
        for name, found in properties.items():
            setattr(cls, name, found)  # torch skips those of the class itself only, and evaluates inherited ones
        fields = [name for owner in cls.__mro__ for name in vars(owner).get("__annotations__", {})]
        cls.__jit_unused_properties__ = [*properties]
        cls.__jit_ignored_attributes__ = [*properties, *fields]
