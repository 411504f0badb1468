"""``Accuracy(task="binary")`` and its relatives: one name for the three tasks, with torchmetrics' defaults.

A facade is called like a class and gives the metric of the task; a type checker knows which.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.metrics import binary, calibration, curves, multiclass, multilabel, points

if TYPE_CHECKING:
    from lightning_evalkit.state import Tally

Task = Literal["binary", "multiclass", "multilabel"]
OfBinary = TypeVar("OfBinary", bound="Tally | None")
OfMulticlass = TypeVar("OfMulticlass", bound="Tally | None")
OfMultilabel = TypeVar("OfMultilabel", bound="Tally | None")


ORDER = ("threshold", "num_classes", "num_labels", "average", "multidim_average", "top_k")
LAST = ("ignore_index", "validate_args", "zero_division")
FOREIGN = {
    "binary": ("num_classes", "num_labels", "average", "top_k"),
    "multiclass": ("threshold", "num_labels", "max_fpr"),
    "multilabel": ("num_classes", "top_k", "max_fpr"),
}
"""Arguments of a facade that are of no meaning for a task."""


@dataclass(frozen=True)
class Facade(Generic[OfBinary, OfMulticlass, OfMultilabel]):
    """The metrics of one name; ``order`` is that of torchmetrics' arguments, ``average`` its default."""

    binary: type[OfBinary]
    multiclass: type[OfMulticlass]
    multilabel: type[OfMultilabel]
    order: tuple[str, ...] = ORDER
    average: str | None = "micro"

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
        kinds: dict[str, Any] = {
            "binary": self.binary,
            "multiclass": self.multiclass,
            "multilabel": self.multilabel,
        }
        kinds = {name: kind for name, kind in kinds.items() if kind is not type(None)}
        if task not in kinds:
            raise DeclarationError(f"expected task to be one of {', '.join(map(repr, kinds))}, got {task!r}.")
        order = (*self.order, *LAST)
        if len(args) > len(order):
            raise DeclarationError(f"expected at most {len(order)} arguments after the task, got {len(args)}.")
        given = dict(zip(order, args, strict=False)) | kwargs
        if "beta" in self.order:
            given.setdefault("beta", 1.0)
        if "average" in self.order:
            given.setdefault("average", self.average)
        for name, needing in (("num_classes", "multiclass"), ("num_labels", "multilabel")):
            if task == needing:
                _require(name, given.get(name), task)
        return kinds[task](**{name: value for name, value in given.items() if name not in FOREIGN[task]})


def _require(name: str, number: object, task: str) -> None:
    if not isinstance(number, int):
        raise DeclarationError(f"expected {name} for task={task!r}, got {number!r}.")


_B, _C, _L = binary, multiclass, multilabel
_TABLE = ("threshold", "num_classes", "num_labels")
Accuracy = Facade(_B.BinaryAccuracy, _C.MulticlassAccuracy, _L.MultilabelAccuracy)
Precision = Facade(_B.BinaryPrecision, _C.MulticlassPrecision, _L.MultilabelPrecision)
Recall = Facade(_B.BinaryRecall, _C.MulticlassRecall, _L.MultilabelRecall)
Specificity = Facade(_B.BinarySpecificity, _C.MulticlassSpecificity, _L.MultilabelSpecificity)
NegativePredictiveValue = Facade(
    _B.BinaryNegativePredictiveValue, _C.MulticlassNegativePredictiveValue, _L.MultilabelNegativePredictiveValue
)
HammingDistance = Facade(_B.BinaryHammingDistance, _C.MulticlassHammingDistance, _L.MultilabelHammingDistance)
F1Score = Facade(_B.BinaryF1Score, _C.MulticlassF1Score, _L.MultilabelF1Score)
FBetaScore = Facade(_B.BinaryFBetaScore, _C.MulticlassFBetaScore, _L.MultilabelFBetaScore, ("beta", *ORDER))
StatScores = Facade(_B.BinaryStatScores, _C.MulticlassStatScores, _L.MultilabelStatScores)
JaccardIndex = Facade(
    _B.BinaryJaccardIndex, _C.MulticlassJaccardIndex, _L.MultilabelJaccardIndex, (*_TABLE, "average"), "macro"
)
MatthewsCorrCoef = Facade(
    _B.BinaryMatthewsCorrCoef, _C.MulticlassMatthewsCorrCoef, _L.MultilabelMatthewsCorrCoef, _TABLE
)
ConfusionMatrix = Facade(
    _B.BinaryConfusionMatrix, _C.MulticlassConfusionMatrix, _L.MultilabelConfusionMatrix, (*_TABLE, "normalize")
)
CohenKappa = Facade(_B.BinaryCohenKappa, _C.MulticlassCohenKappa, type(None), ("threshold", "num_classes", "weights"))
ExactMatch = Facade(type(None), _C.MulticlassExactMatch, _L.MultilabelExactMatch, (*_TABLE, "multidim_average"))

_SCORES = ("thresholds", "num_classes", "num_labels")
_P = points
ROC = Facade(curves.BinaryROC, curves.MulticlassROC, curves.MultilabelROC, _SCORES)
PrecisionRecallCurve = Facade(
    curves.BinaryPrecisionRecallCurve,
    curves.MulticlassPrecisionRecallCurve,
    curves.MultilabelPrecisionRecallCurve,
    _SCORES,
)
EER = Facade(curves.BinaryEER, curves.MulticlassEER, curves.MultilabelEER, (*_SCORES, "average"), None)
AUROC = Facade(
    curves.BinaryAUROC, curves.MulticlassAUROC, curves.MultilabelAUROC, (*_SCORES, "average", "max_fpr"), "macro"
)
AveragePrecision = Facade(
    curves.BinaryAveragePrecision,
    curves.MulticlassAveragePrecision,
    curves.MultilabelAveragePrecision,
    (*_SCORES, "average"),
    "macro",
)
RecallAtFixedPrecision = Facade(
    _P.BinaryRecallAtFixedPrecision,
    _P.MulticlassRecallAtFixedPrecision,
    _P.MultilabelRecallAtFixedPrecision,
    ("min_precision", *_SCORES),
)
PrecisionAtFixedRecall = Facade(
    _P.BinaryPrecisionAtFixedRecall,
    _P.MulticlassPrecisionAtFixedRecall,
    _P.MultilabelPrecisionAtFixedRecall,
    ("min_recall", *_SCORES),
)
SensitivityAtSpecificity = Facade(
    _P.BinarySensitivityAtSpecificity,
    _P.MulticlassSensitivityAtSpecificity,
    _P.MultilabelSensitivityAtSpecificity,
    ("min_specificity", *_SCORES),
)
SpecificityAtSensitivity = Facade(
    _P.BinarySpecificityAtSensitivity,
    _P.MulticlassSpecificityAtSensitivity,
    _P.MultilabelSpecificityAtSensitivity,
    ("min_sensitivity", *_SCORES),
)
CalibrationError = Facade(
    calibration.BinaryCalibrationError,
    calibration.MulticlassCalibrationError,
    type(None),
    ("n_bins", "norm", "num_classes"),
)
