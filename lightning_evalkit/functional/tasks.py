"""One name for the functions of the three tasks: ``accuracy(preds, target, task="binary")`` is ``binary_accuracy``."""

from __future__ import annotations

import functools
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from lightning_evalkit.statistics.arguments import TASKS, Arguments, Task, checked_task, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor
    from typing_extensions import Unpack

Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)
FIRST = {"preds": "Tensor", "target": "Tensor", "task": f"Literal{list(TASKS)}"}
OWN = [
    Parameter("inputs", Parameter.KEYWORD_ONLY, default="auto", annotation="Inputs"),
    Parameter("sample_weight", Parameter.KEYWORD_ONLY, default=None, annotation="Tensor | None"),
]


class Options(Arguments, total=False):
    """The types of all arguments of these functions by name."""

    sample_weight: Tensor | None


class ByTask(Protocol[Result_co]):
    """A function that takes a task."""

    def __call__(self, preds: Tensor, target: Tensor, task: Task, *args: Any, **options: Unpack[Options]) -> Result_co:
        """Call the function of the task."""


def by_task(
    *functions: Callable[..., Any] | None, arguments: tuple[str, ...], average: str | None = "micro"
) -> Callable[[Callable[[Result], Result]], ByTask[Result]]:
    """Give a function of a result the arguments of the functions that compute it, binary, multiclass and multilabel."""
    known = {task: each for task, each in zip(TASKS, functions, strict=True) if each is not None}
    names = {task: signature(each).parameters for task, each in known.items()}
    taken = shown(FIRST, arguments, OWN, average=average, thresholds=None)

    def decorated(finish: Callable[[Result], Result]) -> ByTask[Result]:
        @functools.wraps(finish)
        def function(*args: Any, **options: Any) -> Result:
            try:
                bound = taken.bind(*args, **options)
            except TypeError as wrong:
                raise TypeError(f"{finish.__name__}() {wrong}; expected {', '.join(taken.parameters)}.") from None
            bound.apply_defaults()
            task = checked_task(bound.arguments["task"], known, bound.arguments)
            own = {name: bound.arguments[name] for name in names[task] if name in taken.parameters}
            return finish(known[task](**own))

        returned = signature(finish).return_annotation
        function.__signature__ = taken.replace(return_annotation=returned)  # type: ignore[attr-defined]
        return function

    return decorated
