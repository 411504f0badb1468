"""Functions that share arguments: one function counts a batch, the others compute results from the counts."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Arguments = ParamSpec("Arguments")
Counted = TypeVar("Counted")
Result = TypeVar("Result")


def arguments_of(
    count: Callable[Arguments, Counted],
) -> Callable[[Callable[[Counted], Result]], Callable[Arguments, Result]]:
    """Give a function of counts the arguments of ``count``, visible to ``inspect`` and a type checker.

    >>> def total(numbers: list[int], start: int = 0) -> int:
    ...     return sum(numbers, start)
    >>> @arguments_of(total)
    ... def doubled(counted: int) -> int:
    ...     return 2 * counted
    >>> doubled([1, 2], start=4), str(inspect.signature(doubled))
    (14, "(numbers: 'list[int]', start: 'int' = 0) -> 'int'")
    """
    signature = inspect.signature(count)

    def decorated(compute: Callable[[Counted], Result]) -> Callable[Arguments, Result]:
        @functools.wraps(compute)
        def function(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            try:
                counted = count(*args, **kwargs)
            except TypeError as error:
                _raise_for(function, error, args, kwargs)
            return compute(counted)

        returned = inspect.signature(compute).return_annotation
        function.__signature__ = signature.replace(return_annotation=returned)  # type: ignore[attr-defined]
        function.__annotations__ = {**count.__annotations__, "return": returned}
        return function

    return decorated


def _raise_for(
    function: Callable[..., Any], error: TypeError, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> NoReturn:
    """Raise in the name of the function if its arguments are wrong; otherwise the error itself."""
    signature = inspect.signature(function)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as wrong:
        raise TypeError(f"{function.__name__}() {wrong}; expected {', '.join(signature.parameters)}.") from None
    raise error
