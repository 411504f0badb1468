"""One name for the metrics of the three tasks: ``Accuracy(task="binary")`` is a ``BinaryAccuracy``.

A facade is a class, as in torchmetrics, that never has instances of its own; its metrics count as its subclasses. A
type checker knows the metric by the task, and ``inspect`` and configuration files see the arguments of torchmetrics.
"""

# mypy: disable-error-code="misc"
# (It expects that a class makes instances of its own only; it knows all the same which metric comes out.)

from __future__ import annotations

from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar, get_args, overload

from torchmetrics import Metric

from lightning_evalkit.statistics.arguments import TASKS, Arguments, checked_task, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Unpack

OfBinary = TypeVar("OfBinary", bound=Metric)
OfMulticlass = TypeVar("OfMulticlass", bound=Metric)
OfMultilabel = TypeVar("OfMultilabel", bound=Metric)


class Options(Arguments, total=False):
    """The types of all arguments of all facades, and of what every metric takes besides."""

    weighted: bool
    compute_on_cpu: bool
    compute_with_cache: bool
    dist_sync_fn: Callable[..., Any] | None
    dist_sync_on_step: bool
    distributed_available_fn: Callable[..., Any] | None
    process_group: Any
    sync_on_compute: bool


class Facade(Metric, Generic[OfBinary, OfMulticlass, OfMultilabel]):
    """Makes the metric of a task: ``class Recall(Facade[BinaryRecall, MulticlassRecall, MultilabelRecall], ...)``.

    ``arguments`` lists the arguments after the task in torchmetrics' order, ``average`` is the default of that
    argument. ``NoReturn`` stands for a task without a metric.
    """

    tasks: ClassVar[dict[str, type[Metric]]] = {}

    def __init_subclass__(cls, arguments: tuple[str, ...] = (), average: str | None = "micro", **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__orig_bases__" not in cls.__dict__:
            return  # derived from a facade: the same metrics
        given = dict(zip(TASKS, get_args(cls.__dict__["__orig_bases__"][0]), strict=True))
        cls.tasks = {task: kind for task, kind in given.items() if isinstance(kind, type)}
        # Each class has its own, because inspect and configuration files read the arguments of a class from it.
        cls.__new__ = staticmethod(_constructor(arguments, average))  # type: ignore[method-assign,assignment]

    @classmethod
    def __subclasshook__(cls, kind: type) -> Any:
        """Count the metrics of a facade as its subclasses: ``isinstance(Recall(task="binary"), Recall)``."""
        return any(issubclass(kind, each) for each in cls.tasks.values()) or NotImplemented

    @overload
    def __new__(cls, task: Literal["binary"], *args: Any, **options: Unpack[Options]) -> OfBinary: ...
    @overload
    def __new__(cls, task: Literal["multiclass"], *args: Any, **options: Unpack[Options]) -> OfMulticlass: ...
    @overload
    def __new__(cls, task: Literal["multilabel"], *args: Any, **options: Unpack[Options]) -> OfMultilabel: ...
    def __new__(cls, *args: Any, **options: Any) -> Any:
        """Refuse: only classes of a facade make metrics."""
        raise TypeError(f"{cls.__name__} names no metrics.")

    def update(self, *_: Any, **__: Any) -> None:
        """Do nothing: there are no instances."""

    def compute(self) -> None:
        """Do nothing: there are no instances."""


def _constructor(arguments: tuple[str, ...], average: str | None) -> Callable[..., Metric]:
    first = {"cls": "Any", "task": f"Literal{list(TASKS)}"}
    more = Parameter("kwargs", Parameter.VAR_KEYWORD, annotation="Any")
    taken = shown(first, arguments, [more], average=average, thresholds="fine")

    def __new__(cls: type[Facade[Any, Any, Any]], task: Any = None, *args: Any, **kwargs: Any) -> Metric:  # noqa: N807
        try:
            bound = taken.bind(cls, task, *args, **kwargs)
        except TypeError as wrong:
            checked_task(task, cls.tasks, kwargs)
            raise TypeError(f"{cls.__name__}() {wrong}; expected task, {', '.join(arguments)}.") from None
        bound.apply_defaults()
        given = bound.arguments
        kind = cls.tasks[checked_task(task, cls.tasks, given)]
        # As in torchmetrics, arguments that the metric does not have are ignored.
        known = {name: given[name] for name in signature(kind).parameters if name in given and name != "kwargs"}
        return kind(**known, **given["kwargs"])

    __new__.__signature__ = taken  # type: ignore[attr-defined]
    __new__.__annotations__ = {each.name: each.annotation for each in taken.parameters.values()}
    return __new__
