"""Arguments and texts of ThresholdTuning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lightning_evalkit.diagnosis import Table
from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.evaluation import BinaryEvaluation, MultilabelEvaluation
from lightning_evalkit.inputs.threshold import names_of
from lightning_evalkit.statistics import find

if TYPE_CHECKING:
    from collections.abc import Mapping


def checked_tuning(
    evaluation: Any,
    criterion: str,
    costs: Mapping[str, float] | None,
    at_least: Mapping[str, float] | None,
    predicts: str,
) -> Any:
    """Return the declared inputs of an evaluation whose threshold can be tuned; refuse arguments that cannot be met."""
    if not isinstance(evaluation, (BinaryEvaluation, MultilabelEvaluation)):
        raise DeclarationError(
            f"expected a BinaryEvaluation or a MultilabelEvaluation, which decide by a threshold, got "
            f"{type(evaluation).__name__}."
        )
    task: Any = evaluation.tally.counter.task
    if isinstance(evaluation, BinaryEvaluation) and len(task.thresholds) > 1:
        raise DeclarationError(f"expected one threshold to tune, got {list(task.thresholds)}.")
    if task.inputs == "labels":
        raise DeclarationError("expected inputs='logits' or 'probabilities': labels leave nothing to tune.")
    if predicts not in ("probabilities", "logits"):
        raise DeclarationError(f"expected predicts to be 'probabilities' or 'logits', got {predicts!r}.")
    for name in (criterion, *(at_least or ())):
        find(name)  # raises an error that lists candidates
    if costs is not None and (not costs or not set(costs) <= {"tp", "fp", "fn", "tn"}):
        raise DeclarationError(f"expected costs of 'fp', 'fn', 'tp' or 'tn', got {costs}.")
    return task


def ending_of(threshold: float) -> str:
    """The ending of names that are reported at a threshold."""
    return f"@{names_of([threshold])[0]}"


def tuning_table(values: Mapping[str, float]) -> str:
    """The numbers of validation as Markdown."""
    rows = [(name.removeprefix("val/"), f"{value:.6g}") for name, value in values.items()]
    return Table(("on validation", ""), tuple(rows)).markdown()


def shown_names(names: list[str]) -> str:
    """The first names of a list."""
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
