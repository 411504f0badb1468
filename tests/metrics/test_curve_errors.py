"""What curve metrics refuse, and what they say."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torchmetrics.classification as peer
from curve_batches import CLASSES, NAMES, arguments, batch, task_of
from versions import has

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation, metrics
from lightning_evalkit.errors import DeclarationError, InputError
from lightning_evalkit.metrics import (
    BinaryAUROC,
    BinaryCalibrationError,
    BinaryRecallAtFixedPrecision,
    BinaryROC,
    MulticlassAUROC,
    MulticlassROC,
    MultilabelAUROC,
)

if TYPE_CHECKING:
    from collections.abc import Callable


KEYWORDS = "expected thresholds to be a number of them, a list, None for exact curves, 'fine' or 'bfloat16', got"
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "one": (lambda: BinaryROC(1), "expected at least 2 thresholds, got 1"),
    "falling": (lambda: BinaryROC([0.5, 0.2]), r"expected thresholds to rise from 0 to 1, got \[0.5, 0.2\]"),
    "outside": (lambda: BinaryROC([0.5, 1.2]), "expected thresholds to rise from 0 to 1"),
    "no": (lambda: BinaryROC([]), r"expected thresholds to rise from 0 to 1, got \[\]"),
    "word": (lambda: BinaryROC("coarse"), f"{KEYWORDS} 'coarse'"),
    "number": (lambda: BinaryROC(0.5), "a list or a tensor of one dimension, got 0.5"),
    "truth": (lambda: BinaryROC(True), "a list or a tensor of one dimension, got True"),
    "table": (lambda: BinaryROC(torch.zeros(2, 2)), "a list or a tensor of one dimension"),
    "labels": (lambda: BinaryROC(inputs="labels"), "expected scores for curves, got inputs='labels': labels have no"),
    "inputs": (lambda: BinaryROC(inputs="odds"), "expected inputs to be one of 'logits', 'probabilities'"),
    "max_fpr": (lambda: BinaryAUROC(max_fpr=1.5), r"expected max_fpr to be a number in .0, 1\], got 1.5"),
    "no_fpr": (lambda: BinaryAUROC(max_fpr=0.0), r"expected max_fpr to be a number in .0, 1\], got 0"),
    "softmax": (
        lambda: BinaryROC(normalization="softmax"),
        "expected normalization to be 'sigmoid' or None, got 'soft",
    ),
    "raw": (lambda: BinaryROC(normalization=None, inputs="logits"), "inputs='logits' are normalized: leave"),
    "coarse": (lambda: BinaryEvaluation("logits", resolution=9), "resolution=9 needs the scores: declare curves=True"),
    "aurok": (lambda: BinaryEvaluation("logits", statistics=["aurok"]), "no statistic 'aurok': did you mean 'auroc'"),
    "bound": (
        lambda: BinaryRecallAtFixedPrecision(2.0),
        r"expected min_precision to be a number in \[0, 1\], got 2.0",
    ),
    "truth_bound": (lambda: metrics.BinaryPrecisionAtFixedRecall(True), "expected min_recall to be a number"),
    "average": (
        lambda: MulticlassAUROC(3, average="micro"),
        "expected average to be one of macro, weighted, none or None, got 'micro'",
    ),
    "curve_average": (
        lambda: MulticlassROC(3, average="weighted"),
        "expected average to be one of micro, macro or None, got 'weighted'",
    ),
    "label_average": (
        lambda: MultilabelAUROC(3, average="mean"),
        "expected average to be one of micro, macro",
    ),
    "classes": (lambda: MulticlassAUROC(1), "expected num_classes to be a whole number of at least 2, got 1"),
    "no_classes": (lambda: MulticlassAUROC(0), "expected num_classes to be a whole number of at least 2, got 0"),
    "text_classes": (lambda: MulticlassROC("3"), "expected num_classes to be a whole number of at least 2, got '3'"),
    "no_labels": (lambda: MultilabelAUROC(0), "expected num_labels to be a whole number of at least 2, got 0"),
    "bins": (lambda: BinaryCalibrationError(0), "expected n_bins to be a whole number of at least 1, got 0"),
    "norm": (lambda: BinaryCalibrationError(norm="l3"), "expected norm to be 'l1', 'l2' or 'max', got 'l3'"),
    "curves_of_labels": (
        lambda: BinaryEvaluation("labels", curves=True),
        "expected scores for curves, got inputs='labels': labels have no order",
    ),
    "without_curves": (
        lambda: BinaryEvaluation("logits", statistics=["accuracy", "auroc"]),
        "'auroc' needs the scores: declare curves=True",
    ),
    "classes_without_curves": (
        lambda: MulticlassEvaluation("logits", 3, statistics=["auroc/macro"]),
        "'auroc/macro' needs the scores: declare curves=True",
    ),
    "which_class": (
        lambda: MulticlassEvaluation("logits", 2, ["cat", "dog"], statistics=["auroc/dogs"], curves=True),
        "'auroc/dogs' is no statistic of scores here: did you mean 'auroc/dog'",
    ),
    "which_average": (
        lambda: MultilabelEvaluation("logits", 2, statistics=["auroc"], curves=True),
        "'auroc' is no statistic of scores here: did you mean",
    ),
    "one_brier": (
        lambda: MulticlassEvaluation("logits", 2, statistics=["brier/macro"], curves=True),
        r"'brier/macro' is no statistic of scores here: did you mean 'brier'\?",
    ),
    "resolution": (
        lambda: BinaryEvaluation("logits", curves=True, resolution=4),
        "expected resolution to be a number of bins from 8 on, 'bfloat16' or None, got 4",
    ),
    "resolution_word": (
        lambda: BinaryEvaluation("logits", curves=True, resolution="float16"),  # type: ignore[arg-type]
        "a number of bins from 8 on, 'bfloat16' or None, got 'float16'",
    ),
    "evaluated_classes": (
        lambda: MulticlassEvaluation("logits", 0, curves=True),
        "expected num_classes to be a whole number of at least 2, got 0",
    ),
    "not_kept": (lambda: BinaryEvaluation("logits").roc(), "the scores were not kept: .* with curves=True"),
}


def test_scores_that_are_not_to_be_normalized_are_probabilities() -> None:
    plain = metrics.BinaryAveragePrecision(normalization=None)
    assert plain.counter.task.inputs == "probabilities"
    assert plain.normalization is None
    with pytest.raises(ValueError, match="a probability in"):
        plain.update(torch.tensor([1.5, -2.0]), torch.tensor([1, 0]))


@pytest.mark.parametrize("name", NAMES)
def test_everything_draws_itself(name: str) -> None:
    """With torchmetrics' own plot, on axes that are named as there."""
    import matplotlib.pyplot as plt

    metric = getattr(metrics, name)(*arguments(name))
    metric.update(*batch(task_of(name), 1))
    _, axes = metric.plot()
    assert axes.lines
    undrawn = "(Sensitivity|Specificity)At" if has("torchmetrics", "1.7") else "(Sensitivity|Specificity)At|EER"
    if not re.search(undrawn, name):  # which torchmetrics cannot draw: it raises; before 1.7 it has no EER
        stock = getattr(peer, name)(*arguments(name))
        stock.update(*batch(task_of(name), 1))
        _, others = stock.plot()
        assert (axes.get_xlabel(), axes.get_ylabel()) == (others.get_xlabel(), others.get_ylabel())
        assert len(axes.lines) == len(others.lines)
    plt.close("all")


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith(("ROC", "Curve")) and "AUROC" not in name])
def test_the_legend_of_curves_has_their_areas_and_labels(name: str) -> None:
    import matplotlib.pyplot as plt

    def legend(metric: Any, **options: Any) -> list[str]:
        _, axes = metric.plot(**options)
        return [] if axes.get_legend() is None else [each.get_text() for each in axes.get_legend().get_texts()]

    metric, stock = (getattr(module, name)(*arguments(name), thresholds=None) for module in (metrics, peer))
    for each in (metric, stock):
        each.update(*batch(task_of(name), 1))
    areas = [text[-5:] for text in legend(stock, score=True)]
    assert [text[-5:] for text in legend(metric, score=True)] == areas
    given = torch.arange(len(areas)) / 8 if len(areas) > 1 else torch.tensor(0.0)
    expected = [f"{place / 8:.3f}" for place in range(max(len(areas), 1))]
    assert [text[-5:] for text in legend(metric, score=given)] == expected
    assert not any("AUC" in text for text in legend(metric, score=False))
    names = [f"curve {place}" for place in range(len(areas))]
    assert task_of(name) == "Binary" or legend(metric, labels=names) == names
    plt.close("all")


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_declaration_says_what_was_expected(name: str) -> None:
    declare, words = REFUSED[name]
    with pytest.raises(DeclarationError, match=words):
        declare()


def asked() -> tuple[BinaryEvaluation, MulticlassEvaluation]:
    one, many = (
        BinaryEvaluation("probabilities", curves=True),
        MulticlassEvaluation("probabilities", CLASSES, list("abcd"), curves=True),
    )
    one.update(*batch("Binary", 1))
    many.update(*batch("Multiclass", 1))
    return one, many


WRONG_QUESTIONS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "which": (
        lambda one, many: many.roc(),
        "expected the name of a class or label, got None: expected one of a, b, c, d",
    ),
    "unknown": (lambda one, many: many.precision_recall_curve("e"), "expected the name of a class or label, got 'e'"),
    "bounds": (lambda one, many: one.bounds("f1"), "expected 'auroc' or 'average_precision', got 'f1'"),
    "threshold": (lambda one, many: one.at_threshold(1.5), r"expected a threshold in \[0, 1\], got 1.5"),
    "no_threshold": (lambda one, many: one.at_threshold(math.nan), r"expected a threshold in \[0, 1\], got nan"),
    "costs": (lambda one, many: one.best_threshold(costs={"miss": 1}), "expected costs of 'fp', 'fn', .* got 'miss'"),
    "no_costs": (lambda one, many: one.best_threshold(costs={}), "expected costs of 'fp', 'fn', 'tp' or 'tn'"),
    "explained": (lambda one, many: one.explain("auroc", "f1"), "'auroc'"),
    "counts": (lambda one, many: BinaryAUROC().counts, "a curve has no counts without a threshold"),
    "one_curve": (lambda one, many: one.roc("x"), "expected no name, as there is one curve, got 'x'"),
    "no_class": (lambda one, many: many.reliability("zz"), "expected the name of a class or label, got 'zz'"),
    "labels": (
        lambda one, many: BinaryAUROC().update(torch.tensor([0, 1]), torch.tensor([0, 1])),
        "expected preds to be floating-point",
    ),
    "classes": (
        lambda one, many: MulticlassAUROC(3).update(torch.tensor([0, 1]), torch.tensor([0, 1])),
        r"expected (preds to be floating-point|scores)",
    ),
}


@pytest.mark.filterwarnings("ignore:The ``compute`` method")
@pytest.mark.parametrize("name", WRONG_QUESTIONS)
def test_a_wrong_question_says_what_was_expected(name: str) -> None:
    ask, words = WRONG_QUESTIONS[name]
    with pytest.raises(InputError, match=words):
        ask(*asked())


def test_an_unknown_criterion_names_its_neighbours() -> None:
    with pytest.raises(DeclarationError, match="there is no statistic 'accurac': did you mean 'accuracy'"):
        asked()[0].best_threshold("accurac")
