"""The evaluation of predictions of one class among many."""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING, Any, Literal

from lightning_evalkit.counts import MulticlassCounter
from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.evaluation.base import Evaluation, checked_names
from lightning_evalkit.evaluation.curves import CHOSEN, JUDGED, RANKED, declared_binning, with_curves
from lightning_evalkit.evaluation.explaining_many import ExplainingClasses
from lightning_evalkit.evaluation.names import (
    ONE_VS_REST,
    checked_class_names,
    hits_of,
    multiclass_readout,
    number_named,
    of_each,
)
from lightning_evalkit.evaluation.readouts import Averaged, Readout
from lightning_evalkit.inputs import Inputs, Multiclass
from lightning_evalkit.inputs.declaration import names_given
from lightning_evalkit.inputs.numbers import checked_flag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

DEFAULT = ("accuracy", "balanced_accuracy", "precision/macro", "recall/macro", "f1/macro", "mcc")


class MulticlassEvaluation(ExplainingClasses, Evaluation):
    """All numbers of a multiclass classifier from one count of every batch; every name has one meaning.

    "accuracy" is the share of correct predictions, "balanced_accuracy" the mean recall of the classes that occur,
    "top_5_accuracy" how often the target is among the five largest scores. Any one-vs-rest statistic can be averaged:
    "f1/macro", "f1/micro", "f1/weighted"; ``per_class=True`` also reports it for each class under its name. An average
    covers the classes where the statistic has a value: ``averaged_over()`` says how many. ``confusion_matrix=True``
    keeps the whole matrix, not only the cells of single classes. ``num_classes`` may be left out if ``class_names`` are
    given.

    >>> import torch
    >>> evaluation = MulticlassEvaluation(inputs="labels", num_classes=3, statistics=["accuracy", "recall/macro"])
    >>> evaluation.update(torch.tensor([0, 1, 2, 1]), torch.tensor([0, 1, 2, 2]))
    >>> evaluation.compute()
    {'accuracy': tensor(0.7500), 'recall/macro': tensor(0.8333)}
    """

    def __init__(
        self,
        inputs: Inputs,
        num_classes: int | None = None,
        class_names: Sequence[str] | None = None,
        top_k: int = 1,
        per_class: bool = False,
        confusion_matrix: bool = False,
        statistics: Sequence[str] | None = None,
        curves: bool = False,
        resolution: int | Literal["bfloat16"] | None = None,
        weighted: bool = False,
        ignore_index: int | tuple[int, ...] | None = None,
        zero_division: float = nan,
        prefix: str | None = None,
        postfix: str | None = None,
        buckets: int | None = None,
        **kwargs: Any,
    ) -> None:
        num_classes = number_named("class", num_classes, class_names)
        averaged = tuple(f"{name}/macro" for name in (*RANKED, "best_f1"))
        names = with_curves(checked_names(inputs, statistics, DEFAULT), curves, (*averaged, *JUDGED))
        checked_flag("per_class", per_class)
        hits = hits_of(names)
        classes = checked_class_names("class", class_names, num_classes)
        task = Multiclass(
            inputs,
            ignore_index,
            weighted,
            num_classes=num_classes,
            top_k=top_k,
            hits=hits,
            matrix=confusion_matrix,
            binning=declared_binning(curves, resolution, num_curves=num_classes),
            names=names_given(tuple(classes)),
            buckets=buckets,
        )
        readouts: dict[str, Readout] = {name: multiclass_readout(name, classes) for name in names}
        if per_class:
            bases = [name.partition("/")[0] for name, readout in readouts.items() if isinstance(readout, Averaged)]
            bases = ["recall" if base == "balanced_accuracy" else base for base in bases]
            for base in dict.fromkeys([*bases, "recall", ONE_VS_REST]):
                readouts |= {f"{base}/{name}": multiclass_readout(f"{base}/{name}", classes) for name in classes}
            if curves:
                readouts |= of_each((*RANKED, *CHOSEN), classes)
        super().__init__(MulticlassCounter(task), readouts, zero_division, prefix, postfix, **kwargs)
        self.num_classes, self.class_names = num_classes, tuple(classes)

    @property
    def confusion_matrix(self) -> Tensor:
        """Targets in rows, predictions in columns, of shape (C, C); needs ``confusion_matrix=True``."""
        declared = getattr(self.tally.counter.task, "matrix", False)  # few weighted classes keep one internally
        matrix = self.tally.evidence.matrix if declared else None
        if matrix is None:
            raise DeclarationError("the confusion matrix was not kept: construct with confusion_matrix=True.")
        return matrix

    def curve_names(self) -> Sequence[str]:
        """The names of the classes, each against the rest."""
        return self.class_names
