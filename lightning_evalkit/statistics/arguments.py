"""The arguments of names that serve three tasks, as torchmetrics has them: their types, defaults and order.

Metrics (``Accuracy(task="binary")``) and functions (``accuracy(preds, target, task="binary")``) both read this table.
"""

from __future__ import annotations

from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.inputs.numbers import checked_flag

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lightning_evalkit.inputs import Inputs, MultidimAverage
    from lightning_evalkit.inputs.binning import Thresholds
    from lightning_evalkit.statistics.curve_options import Norm
    from lightning_evalkit.statistics.results import KappaWeights, Normalize

Task = Literal["binary", "multiclass", "multilabel"]
TASKS = get_args(Task)
NEEDED = {"multiclass": "num_classes", "multilabel": "num_labels"}
"""The argument that each task requires."""
MulticlassMode = Literal["crammer-singer", "one-vs-all"]


class Arguments(TypedDict, total=False):
    """The types of all arguments that such a name may have."""

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
    fpr_range: tuple[float, float]
    min_precision: float
    min_recall: float
    min_specificity: float
    min_sensitivity: float
    n_bins: int
    norm: Norm
    squared: bool
    multiclass_mode: MulticlassMode
    ignore_index: int | tuple[int, ...] | None
    validate_args: bool
    zero_division: float | None
    inputs: Inputs


DEFAULTS: dict[str, Any] = {
    "threshold": 0.5,
    "num_classes": None,
    "num_labels": None,
    "multidim_average": "global",
    "top_k": 1,
    "beta": 1.0,
    "normalize": None,
    "weights": None,
    "max_fpr": None,
    "fpr_range": (0.001, 0.1),
    "n_bins": 15,
    "norm": "l1",
    "squared": False,
    "multiclass_mode": "crammer-singer",
    "ignore_index": None,
    "validate_args": True,
    "zero_division": 0.0,
}
"""The defaults that all names share; ``shown`` takes those of ``average`` and ``thresholds``, which differ by name."""

NUMBERS = ("num_classes", "num_labels")
LAST = ("ignore_index", "validate_args")
COUNTED = ("threshold", *NUMBERS)
AVERAGED = (*COUNTED, "average", "multidim_average", "top_k", *LAST)
SCORED = ("thresholds", *NUMBERS)
HINGED = ("num_classes", "squared", "multiclass_mode", *LAST)


def shown(first: Mapping[str, str], names: Sequence[str], last: Sequence[Parameter], **defaults: Any) -> Signature:
    """Compose a signature from names, with the types of ``Arguments``; ``first`` has names and types of its own."""
    kind, known = Parameter.POSITIONAL_OR_KEYWORD, DEFAULTS | defaults
    types = {name: reference.__forward_arg__ for name, reference in Arguments.__annotations__.items()}
    before = [Parameter(name, kind, annotation=annotation) for name, annotation in first.items()]
    named = [Parameter(name, kind, default=known.get(name, Parameter.empty), annotation=types[name]) for name in names]
    return Signature([*before, *named, *last])


def checked_task(task: object, known: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    """Return the task in small letters; refuse an unknown task, and one without the argument that it requires."""
    name = task.lower() if isinstance(task, str) else ""
    if name not in known:
        raise DeclarationError(f"expected task to be one of {', '.join(map(repr, known))}, got {task!r}.")
    number = NEEDED.get(name)
    if number is not None and not isinstance(given.get(number), int):
        raise DeclarationError(f"expected {number} for task={name!r}, got {given.get(number)!r}.")
    return name


def hinge_of(squared: bool, mode: str = "hinge") -> str:
    """The name under which a hinge loss is summed."""
    checked_flag("squared", squared)
    if mode not in ("hinge", *get_args(MulticlassMode)):
        raise DeclarationError(f"expected multiclass_mode to be 'crammer-singer' or 'one-vs-all', got {mode!r}.")
    return f"{mode} squared" if squared else mode
