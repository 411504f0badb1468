"""Curves, areas, best points and calibration as functions of one batch, with torchmetrics' names and arguments.

A function is a row: its task, what is computed, and the names of its arguments behind preds and target, in the order of
torchmetrics. By default every score is a threshold (``thresholds=None``): a batch is in memory anyway.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from lightning_evalkit.counts import ExactScores, ScoreCounter
from lightning_evalkit.errors import DeclarationError, nearest
from lightning_evalkit.functional.counting import counted
from lightning_evalkit.inputs import Binary, Multiclass, Multilabel, scores_of
from lightning_evalkit.statistics import curve_results as results

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from lightning_evalkit.counts import ScoreCounts, Totals
    from lightning_evalkit.inputs import Declaration, Inputs, Scores

    Tables = list[ScoreCounts]
    Options = dict[str, Any]

Task = Literal["binary", "multiclass", "multilabel"]
COMMON = ("thresholds", "ignore_index", "validate_args")
AVERAGED = ("thresholds", "average", "ignore_index", "validate_args")
CALIBRATED = ("n_bins", "norm", "ignore_index", "validate_args")
FIRST: dict[str, tuple[str, ...]] = {"binary": (), "multiclass": ("num_classes",), "multilabel": ("num_labels",)}
DEFAULTS = {"thresholds": None, "ignore_index": None, "validate_args": True, "n_bins": 15, "norm": "l1"}


@dataclass(frozen=True)
class ScoreFunction:
    """A function of the scores of one batch; it also takes ``inputs`` and ``sample_weight``."""

    task: Task
    compute: Callable[[ScoreCounter, Totals, Options], Any]
    order: tuple[str, ...] = COMMON
    defaults: Options = field(default_factory=dict)

    def __call__(
        self,
        preds: Tensor,
        target: Tensor,
        *args: Any,
        inputs: Inputs = "auto",
        sample_weight: Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        """The result of this batch."""
        options = self._options(args, kwargs)
        declared = self._declared(options, inputs, sample_weight is not None)
        exact = declared.scores is not None and declared.scores.kind == "exact"
        counter = (ExactScores if exact else ScoreCounter)(declared)
        counter, totals = counted(counter, preds, target, options["validate_args"], sample_weight)
        return self.compute(counter, totals, options)

    def _options(self, args: tuple[Any, ...], kwargs: Options) -> Options:
        names = (*FIRST[self.task], *self.order)
        unknown = [name for name in kwargs if name not in names]
        if unknown or len(args) > len(names):
            what = unknown[0] if unknown else f"{len(args)} arguments"
            raise DeclarationError(
                f"expected the arguments {', '.join(names)}, got {what!r}: {nearest(str(what), names)}"
            )
        options = DEFAULTS | self.defaults | dict(zip(names, args, strict=False)) | kwargs
        missing = [name for name in names if name not in options]
        if missing:
            raise DeclarationError(f"expected {missing[0]}, which has no default.")
        return options

    def _declared(self, options: Options, inputs: Inputs, weighted: bool) -> Declaration:
        questions = options.get("num_classes") or options.get("num_labels") or 1
        scores: Scores = scores_of(options["thresholds"], questions)
        if self.order == CALIBRATED:
            scores = scores_of((0.5,), questions, sums=True, calibration_bins=options["n_bins"])
        ignored = options["ignore_index"]
        if self.task == "multiclass":
            return Multiclass(inputs, ignored, weighted, num_classes=options["num_classes"], scores=scores)
        if self.task == "multilabel":
            return Multilabel(inputs, ignored, weighted, num_labels=options["num_labels"], scores=scores)
        return Binary(inputs, ignored, weighted, scores=scores)


# ---- what is computed


def _curve(curve: Callable[[ScoreCounts], Any]) -> Callable[[ScoreCounter, Totals, Options], Any]:
    def compute(counter: ScoreCounter, totals: Totals, options: Options) -> Any:
        tables = counter.tables(totals)
        if counter.questions == 1:
            first, second, thresholds = curve(tables[0])
            return first[0], second[0], thresholds
        return results.all_curves(tables, curve, options.get("average"))

    return compute


def _number(values: Callable[..., Tensor]) -> Callable[[ScoreCounter, Totals, Options], Tensor]:
    def compute(counter: ScoreCounter, totals: Totals, options: Options) -> Tensor:
        tables, average = counter.tables(totals), options.get("average")
        if average == "micro":
            tables = results.micro(tables)
        found = values(tables, options["max_fpr"]) if options.get("max_fpr") is not None else values(tables)
        if counter.questions == 1 or average == "micro":
            return found[0].float()
        return results.averaged_over_questions(found, tables, average)

    return compute


def _equal_error_rate(counter: ScoreCounter, totals: Totals, options: Options) -> Tensor:
    if options.get("average"):
        return results.averaged_equal_error_rate(counter.tables(totals), options["average"])
    return _number(results.equal_error_rates)(counter, totals, options)


def _point(
    pair: Callable[[ScoreCounts], Any], best: Callable[..., Any], bound: str
) -> Callable[[ScoreCounter, Totals, Options], tuple[Tensor, Tensor]]:
    def compute(counter: ScoreCounter, totals: Totals, options: Options) -> tuple[Tensor, Tensor]:
        tables = counter.tables(totals)
        values, thresholds = results.best_pairs(tables, pair, lambda *three: best(*three, options[bound]))
        return (values[0], thresholds[0]) if counter.questions == 1 else (values, thresholds)

    return compute


def _calibration(counter: ScoreCounter, totals: Totals, options: Options) -> Tensor:
    if options["norm"] not in ("l1", "l2", "max"):
        raise DeclarationError(f"expected norm to be 'l1', 'l2' or 'max', got {options['norm']!r}.")
    return results.calibration_error(counter.calibration(totals), options["norm"])


def _swapped(table: ScoreCounts) -> Any:
    precision, recall, thresholds = results.precision_recall(table)
    return recall, precision, thresholds


def _sensitive(table: ScoreCounts) -> Any:
    fpr, tpr, thresholds = results.roc(table)
    return tpr, 1 - fpr, thresholds


def _specific(table: ScoreCounts) -> Any:
    fpr, tpr, thresholds = results.roc(table)
    return 1 - fpr, tpr, thresholds


# ---- the functions

_roc, _precision_recall = _curve(results.roc), _curve(results.precision_recall)
_auroc, _precision, _eer = _number(results.areas), _number(results.average_precisions), _equal_error_rate
_NO_AVERAGE: dict[str, Any] = {"average": None}
_MACRO = {"average": "macro"}
_NUMBERS = ("average", *COMMON)

binary_roc = ScoreFunction("binary", _roc)
multiclass_roc = ScoreFunction("multiclass", _roc, AVERAGED, _NO_AVERAGE)
multilabel_roc = ScoreFunction("multilabel", _roc)
binary_precision_recall_curve = ScoreFunction("binary", _precision_recall)
multiclass_precision_recall_curve = ScoreFunction("multiclass", _precision_recall, AVERAGED, _NO_AVERAGE)
multilabel_precision_recall_curve = ScoreFunction("multilabel", _precision_recall)
binary_auroc = ScoreFunction("binary", _auroc, ("max_fpr", *COMMON), {"max_fpr": None})
multiclass_auroc = ScoreFunction("multiclass", _auroc, _NUMBERS, _MACRO)
multilabel_auroc = ScoreFunction("multilabel", _auroc, _NUMBERS, _MACRO)
binary_average_precision = ScoreFunction("binary", _precision)
multiclass_average_precision = ScoreFunction("multiclass", _precision, _NUMBERS, _MACRO)
multilabel_average_precision = ScoreFunction("multilabel", _precision, _NUMBERS, _MACRO)
binary_eer = ScoreFunction("binary", _eer)
multiclass_eer = ScoreFunction("multiclass", _eer, AVERAGED, _NO_AVERAGE)
multilabel_eer = ScoreFunction("multilabel", _eer)
binary_calibration_error = ScoreFunction("binary", _calibration, CALIBRATED)
multiclass_calibration_error = ScoreFunction("multiclass", _calibration, CALIBRATED)

_RECALL = (_point(_swapped, results.at_least, "min_precision"), ("min_precision", *COMMON))
_PRECISION = (_point(results.precision_recall, results.at_least, "min_recall"), ("min_recall", *COMMON))
_SENSITIVITY = (_point(_sensitive, results.first_at_least, "min_specificity"), ("min_specificity", *COMMON))
_SPECIFICITY = (_point(_specific, results.first_at_least, "min_sensitivity"), ("min_sensitivity", *COMMON))

binary_recall_at_fixed_precision = ScoreFunction("binary", *_RECALL)
multiclass_recall_at_fixed_precision = ScoreFunction("multiclass", *_RECALL)
multilabel_recall_at_fixed_precision = ScoreFunction("multilabel", *_RECALL)
binary_precision_at_fixed_recall = ScoreFunction("binary", *_PRECISION)
multiclass_precision_at_fixed_recall = ScoreFunction("multiclass", *_PRECISION)
multilabel_precision_at_fixed_recall = ScoreFunction("multilabel", *_PRECISION)
binary_sensitivity_at_specificity = ScoreFunction("binary", *_SENSITIVITY)
multiclass_sensitivity_at_specificity = ScoreFunction("multiclass", *_SENSITIVITY)
multilabel_sensitivity_at_specificity = ScoreFunction("multilabel", *_SENSITIVITY)
binary_specificity_at_sensitivity = ScoreFunction("binary", *_SPECIFICITY)
multiclass_specificity_at_sensitivity = ScoreFunction("multiclass", *_SPECIFICITY)
multilabel_specificity_at_sensitivity = ScoreFunction("multilabel", *_SPECIFICITY)
