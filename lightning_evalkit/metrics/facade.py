"""One name for the metrics of the three tasks: ``Accuracy(task="binary")`` is a ``BinaryAccuracy``.

A facade is a class, as in torchmetrics, that never has instances of its own; its metrics count as its subclasses. A
type checker knows the metric by the task, and ``inspect`` and configuration files see the arguments of torchmetrics.
"""

# mypy: disable-error-code="misc"
# (It expects that a class makes instances of its own only; it knows all the same which metric comes out.)

from __future__ import annotations

from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypedDict, TypeVar, get_args, overload

from torchmetrics import Metric

from lightning_evalkit.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import Unpack

    from lightning_evalkit.inputs import Inputs, MultidimAverage
    from lightning_evalkit.inputs.binning import Thresholds
    from lightning_evalkit.statistics import KappaWeights, Normalize
    from lightning_evalkit.statistics.curve_families import Norm

OfBinary = TypeVar("OfBinary", bound=Metric)
OfMulticlass = TypeVar("OfMulticlass", bound=Metric)
OfMultilabel = TypeVar("OfMultilabel", bound=Metric)
TASKS = ("binary", "multiclass", "multilabel")
NUMBERS = {"multiclass": "num_classes", "multilabel": "num_labels"}
"""The argument that a task cannot do without."""


class Options(TypedDict, total=False):
    """The types of all arguments of all facades, and of what every metric takes besides."""

    threshold: float | Sequence[float]
    thresholds: Thresholds
    num_classes: int | None
    num_labels: int | None
    average: Literal["micro", "macro", "weighted", "none"] | None
    multidim_average: MultidimAverage
    top_k: int
    beta: float
    normalize: Normalize | None
    weights: KappaWeights | None
    max_fpr: float | None
    min_precision: float
    min_recall: float
    min_specificity: float
    min_sensitivity: float
    n_bins: int
    norm: Norm
    ignore_index: int | tuple[int, ...] | None
    validate_args: bool
    zero_division: float | None
    inputs: Inputs
    weighted: bool
    compute_on_cpu: bool
    compute_with_cache: bool
    dist_sync_fn: Callable[..., Any] | None
    dist_sync_on_step: bool
    distributed_available_fn: Callable[..., Any] | None
    process_group: Any
    sync_on_compute: bool


DEFAULTS: dict[str, Any] = {
    "threshold": 0.5,
    "thresholds": "fine",
    "num_classes": None,
    "num_labels": None,
    "multidim_average": "global",
    "top_k": 1,
    "beta": 1.0,
    "normalize": None,
    "weights": None,
    "max_fpr": None,
    "n_bins": 15,
    "norm": "l1",
    "ignore_index": None,
    "validate_args": True,
    "zero_division": 0.0,
}
"""The defaults of facades; an argument without one is required, and averages differ."""


class Facade(Metric, Generic[OfBinary, OfMulticlass, OfMultilabel]):
    """Makes the metric of a task: ``class Recall(Facade[BinaryRecall, MulticlassRecall, MultilabelRecall], ...)``.

    ``arguments`` has torchmetrics' order of the arguments after the task, ``average`` the default of that argument.
    ``NoReturn`` stands for the metric of a task that has none.
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
    shown = _shown(arguments, average)

    def __new__(cls: type[Facade[Any, Any, Any]], task: Any = None, *args: Any, **kwargs: Any) -> Metric:  # noqa: N807
        if not isinstance(task, str) or task not in cls.tasks:
            raise DeclarationError(f"expected task to be one of {', '.join(map(repr, cls.tasks))}, got {task!r}.")
        try:
            bound = shown.bind(cls, task, *args, **kwargs)
        except TypeError as wrong:
            raise TypeError(f"{cls.__name__}() {wrong}; expected task, {', '.join(arguments)}.") from None
        bound.apply_defaults()
        return _made(cls.tasks[task], task, bound.arguments)

    __new__.__signature__ = shown  # type: ignore[attr-defined]
    __new__.__annotations__ = {each.name: each.annotation for each in shown.parameters.values()}
    return __new__


def _shown(arguments: tuple[str, ...], average: str | None) -> Signature:
    """Compose a constructor's signature from names, with the types of ``Options`` and the defaults of the table."""
    kind, defaults = Parameter.POSITIONAL_OR_KEYWORD, DEFAULTS | {"average": average}
    types = {name: reference.__forward_arg__ for name, reference in Options.__annotations__.items()}
    first = [Parameter("cls", kind, annotation="Any"), Parameter("task", kind, annotation=f"Literal{list(TASKS)}")]
    named = [
        Parameter(name, kind, default=defaults.get(name, Parameter.empty), annotation=types[name]) for name in arguments
    ]
    return Signature([*first, *named, Parameter("kwargs", Parameter.VAR_KEYWORD, annotation="Any")])


def _made(kind: type[Metric], task: str, arguments: dict[str, Any]) -> Metric:
    """Make a metric from those arguments of its facade that it has; as in torchmetrics, the others are ignored."""
    number = NUMBERS.get(task)
    if number is not None and not isinstance(arguments.get(number), int):
        raise DeclarationError(f"expected {number} for task={task!r}, got {arguments.get(number)!r}.")
    known = {name: arguments[name] for name in signature(kind).parameters if name in arguments and name != "kwargs"}
    return kind(**known, **arguments["kwargs"])
