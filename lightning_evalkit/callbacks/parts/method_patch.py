"""Replaces methods of single objects for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class MethodPatch:
    """Replaces a method until it is removed: ``call`` gets the original method and the arguments.

    A copy of the object, a pickled one too, has its own method again.
    """

    def __init__(self, owner: Any, name: str, call: Callable[..., Any]) -> None:
        self.owner, self.name, self.call = owner, name, call
        self.method = getattr(owner, name)
        self.replaced = vars(owner).get(name)  # a Metric keeps its wrapped update in the instance
        vars(owner)[name] = self  # not through a __setattr__ that may have opinions

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the replacement."""
        return self.call(self.method, *args, **kwargs)

    def remove(self) -> None:
        """Put the method back."""
        vars(self.owner).pop(self.name, None)
        if self.replaced is not None:
            vars(self.owner)[self.name] = self.replaced

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self.owner, self.name)  # asked of a copy that has no attributes yet: its class answers


class MethodPatches:
    """Patches that are removed together."""

    def __init__(self) -> None:
        self._placed: dict[tuple[int, str], MethodPatch] = {}

    def __bool__(self) -> bool:
        return bool(self._placed)

    def place(self, owner: Any, name: str, call: Callable[..., Any]) -> None:
        """Replace a method, once."""
        if (id(owner), name) not in self._placed:
            self._placed[id(owner), name] = MethodPatch(owner, name, call)

    def remove(self) -> None:
        """Put all methods back."""
        while self._placed:
            self._placed.popitem()[1].remove()
