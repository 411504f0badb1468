"""``Accuracy(task="binary")`` and its relatives: one name for the three tasks, with torchmetrics' defaults.

A facade is called like a class and gives the metric of the task; a type checker knows which.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.metrics import binary, multiclass, multilabel

if TYPE_CHECKING:
    from lightning_evalkit.metrics.base import CountMetric

Task = Literal["binary", "multiclass", "multilabel"]
OfBinary = TypeVar("OfBinary", bound="CountMetric | None")
OfMulticlass = TypeVar("OfMulticlass", bound="CountMetric | None")
OfMultilabel = TypeVar("OfMultilabel", bound="CountMetric | None")


@dataclass(frozen=True)
class Facade(Generic[OfBinary, OfMulticlass, OfMultilabel]):
    """The metrics of one name; ``average`` is the facade's default, None where averages make no sense."""

    name: str
    binary: type[OfBinary]
    multiclass: type[OfMulticlass]
    multilabel: type[OfMultilabel]
    average: str | None = "micro"
    samples: bool = True
    """Whether ``multidim_average`` exists."""
    top: bool = True
    """Whether ``top_k`` exists."""

    @overload
    def __call__(self, task: Literal["binary"], *args: Any, **kwargs: Any) -> OfBinary: ...
    @overload
    def __call__(self, task: Literal["multiclass"], *args: Any, **kwargs: Any) -> OfMulticlass: ...
    @overload
    def __call__(self, task: Literal["multilabel"], *args: Any, **kwargs: Any) -> OfMultilabel: ...
    def __call__(self, task: Task, *args: Any, **kwargs: Any) -> Any:
        """The metric of the task.

        >>> Accuracy(task="multiclass", num_classes=3).average
        'micro'
        """
        return self._metric(task, *args, **kwargs)

    def _metric(
        self,
        task: Task,
        threshold: float = 0.5,
        num_classes: int | None = None,
        num_labels: int | None = None,
        average: str | None = "of the facade",
        multidim_average: str = "global",
        top_k: int = 1,
        **kwargs: Any,
    ) -> Any:
        kinds: dict[str, Any] = {"binary": self.binary, "multiclass": self.multiclass, "multilabel": self.multilabel}
        kinds = {name: kind for name, kind in kinds.items() if kind is not type(None)}
        if task not in kinds:
            raise DeclarationError(f"expected task to be one of {', '.join(map(repr, kinds))}, got {task!r}.")
        if task == "multiclass":
            kwargs["num_classes"] = _given("num_classes", num_classes, task)
            kwargs |= {"top_k": top_k} if self.top else {}
        else:
            kwargs["threshold"] = threshold
        if task == "multilabel":
            kwargs["num_labels"] = _given("num_labels", num_labels, task)
        if self.average is not None and task != "binary":
            kwargs["average"] = self.average if average == "of the facade" else average
        if self.samples:
            kwargs["multidim_average"] = multidim_average
        return kinds[task](**kwargs)


@dataclass(frozen=True)
class BetaFacade(Facade[OfBinary, OfMulticlass, OfMultilabel]):
    """The same with ``beta`` after the task."""

    def _metric(self, task: Task, beta: float = 1.0, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        return super()._metric(task, *args, beta=beta, **kwargs)


def _given(name: str, number: int | None, task: str) -> int:
    if not isinstance(number, int):
        raise DeclarationError(f"expected {name} for task={task!r}, got {number!r}.")
    return number


_B, _C, _L = binary, multiclass, multilabel
Accuracy = Facade("Accuracy", _B.BinaryAccuracy, _C.MulticlassAccuracy, _L.MultilabelAccuracy)
Precision = Facade("Precision", _B.BinaryPrecision, _C.MulticlassPrecision, _L.MultilabelPrecision)
Recall = Facade("Recall", _B.BinaryRecall, _C.MulticlassRecall, _L.MultilabelRecall)
Specificity = Facade("Specificity", _B.BinarySpecificity, _C.MulticlassSpecificity, _L.MultilabelSpecificity)
NegativePredictiveValue = Facade(
    "NegativePredictiveValue",
    _B.BinaryNegativePredictiveValue,
    _C.MulticlassNegativePredictiveValue,
    _L.MultilabelNegativePredictiveValue,
)
HammingDistance = Facade(
    "HammingDistance", _B.BinaryHammingDistance, _C.MulticlassHammingDistance, _L.MultilabelHammingDistance
)
F1Score = Facade("F1Score", _B.BinaryF1Score, _C.MulticlassF1Score, _L.MultilabelF1Score)
FBetaScore = BetaFacade("FBetaScore", _B.BinaryFBetaScore, _C.MulticlassFBetaScore, _L.MultilabelFBetaScore)
StatScores = Facade("StatScores", _B.BinaryStatScores, _C.MulticlassStatScores, _L.MultilabelStatScores)
JaccardIndex = Facade(
    "JaccardIndex",
    _B.BinaryJaccardIndex,
    _C.MulticlassJaccardIndex,
    _L.MultilabelJaccardIndex,
    average="macro",
    samples=False,
    top=False,
)
MatthewsCorrCoef = Facade(
    "MatthewsCorrCoef",
    _B.BinaryMatthewsCorrCoef,
    _C.MulticlassMatthewsCorrCoef,
    _L.MultilabelMatthewsCorrCoef,
    average=None,
    samples=False,
    top=False,
)
ConfusionMatrix = Facade(
    "ConfusionMatrix",
    _B.BinaryConfusionMatrix,
    _C.MulticlassConfusionMatrix,
    _L.MultilabelConfusionMatrix,
    average=None,
    samples=False,
    top=False,
)
CohenKappa = Facade(
    "CohenKappa", _B.BinaryCohenKappa, _C.MulticlassCohenKappa, type(None), average=None, samples=False, top=False
)
ExactMatch = Facade("ExactMatch", type(None), _C.MulticlassExactMatch, _L.MultilabelExactMatch, average=None, top=False)
