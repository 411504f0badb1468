"""Metrics of scores against torchmetrics, and evaluations with curves against scikit-learn and brute force."""

from __future__ import annotations

import inspect
import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
import torchmetrics.classification as peer
from device import deferred
from lightning import LightningModule, Trainer
from sklearn import metrics as sklearn
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import MetricCollection

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation, metrics
from lightning_evalkit.counts import stored_scores
from lightning_evalkit.errors import DeclarationError, InputError, MixedReadingWarning, UndefinedWarning
from lightning_evalkit.metrics import (
    BinaryAUROC,
    BinaryAveragePrecision,
    BinaryCalibrationError,
    BinaryRecallAtFixedPrecision,
    BinaryROC,
    MulticlassAUROC,
    MulticlassAveragePrecision,
    MulticlassPrecisionRecallCurve,
    MulticlassROC,
    MultilabelAUROC,
)

if TYPE_CHECKING:
    from collections.abc import Callable

FAMILIES = (
    "ROC",
    "PrecisionRecallCurve",
    "AUROC",
    "AveragePrecision",
    "EER",
    "RecallAtFixedPrecision",
    "PrecisionAtFixedRecall",
    "SensitivityAtSpecificity",
    "SpecificityAtSensitivity",
)
NAMES = [f"{task}{family}" for family in FAMILIES for task in ("Binary", "Multiclass", "Multilabel")]
NAMES += ["BinaryCalibrationError", "MulticlassCalibrationError"]
ROWS, CLASSES, LABELS = 64, 4, 3
BOUND = 0.5


def arguments(name: str) -> list[Any]:
    number = {"Multiclass": [CLASSES], "Multilabel": [LABELS]}.get(task_of(name), [])
    return [*number, BOUND] if "At" in name else number


def task_of(name: str) -> str:
    return next(task for task in ("Binary", "Multiclass", "Multilabel") if name.startswith(task))


def batch(task: str, seed: int, case: str = "plain", rows: int = ROWS) -> tuple[Tensor, Tensor]:
    """Scores and targets in which every class occurs."""
    generator = torch.Generator().manual_seed(seed)
    shape = {"Binary": (rows,), "Multiclass": (rows, CLASSES), "Multilabel": (rows, LABELS)}[task]
    logits = torch.randn(shape, generator=generator) * 2
    preds = logits.softmax(1) if task == "Multiclass" else logits.sigmoid()
    if case == "ties":
        preds = (preds * 8).round() / 8
    elif case == "logits":
        preds = logits
    where = shape[:1] if task == "Multiclass" else shape
    target = torch.randint(CLASSES if task == "Multiclass" else 2, where, generator=generator)
    if case == "ignoring":
        target = torch.where(torch.rand(where, generator=generator) < 0.2, -1, target)
    return preds, target


def quietly(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torchmetrics, about memory and missing classes
        return call(*args, **kwargs)


def result(metric: Any, *batches: tuple[Tensor, Tensor]) -> Any:
    for each in batches:
        metric.update(*each)
    return metric.compute()


def assert_same(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other)
    else:
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=2e-6, equal_nan=True)


# ---- torchmetrics' results

THRESHOLDS: dict[str, Any] = {
    "every": None,
    "seven": 7,
    "fifty": 50,
    "list": [0.1, 0.4, 0.4, 0.9],
    "tensor": torch.tensor([0.0, 0.3, 0.7]),
}
CASES = ("plain", "ties", "logits", "ignoring")


def test_every_class_of_the_families_is_there() -> None:
    assert len(NAMES) == 29
    assert all(name in metrics.__all__ for name in NAMES)
    assert all(hasattr(peer, name) for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_torchmetrics_arguments_are_taken(name: str) -> None:
    """By name and in their order; ``normalization`` says what the ``inputs`` are."""
    parameters = inspect.signature(getattr(peer, name).__init__).parameters
    ours = [each for each in inspect.signature(getattr(metrics, name).__init__).parameters if each != "self"]
    names = [each for each in parameters if each not in ("self", "kwargs")]
    if name == "MultilabelEER":  # whose average, a word of the facade, has no meaning in torchmetrics either
        names = [each for each in names if each != "average"]
    assert ours[: len(names)] == names or name == "BinaryAUROC"
    names = [each for each in names if each != "normalization"]
    given = dict(zip(names, arguments(name), strict=False))
    given |= {"thresholds": 5, "ignore_index": -1, "validate_args": False, "n_bins": 4, "norm": "l2"}
    given |= {"max_fpr": 0.5, "average": "macro"}
    metric = getattr(metrics, name)(**{each: given[each] for each in names})
    assert {each: getattr(metric, each) for each in names} == {each: given[each] for each in names}


BROKEN = {"MulticlassROC": ("micro",), "MulticlassPrecisionRecallCurve": ("micro", "macro")}
"""Averaged curves of given thresholds that torchmetrics cannot compute: it crashes, or interpolates between NaN."""


def averages(name: str) -> list[dict[str, Any]]:
    """The ways in which a name averages or sums."""
    parameters = inspect.signature(getattr(peer, name).__init__).parameters
    if "norm" in parameters:
        return [{"norm": norm, "n_bins": bins} for norm in ("l1", "l2", "max") for bins in (1, 15)]
    if "average" not in parameters:
        return [{}]
    if name.endswith(("ROC", "Curve", "EER")) and "AUROC" not in name:
        return [{}, {"average": "micro"}, {"average": "macro"}]
    return [{}, {"average": None}, {"average": "weighted"}, *([{"average": "micro"}] if "Multilabel" in name else [])]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", [name for name in NAMES if "EER" not in name and "Calibration" not in name])
def test_results_are_those_of_torchmetrics(name: str, case: str) -> None:
    for seed, (kind, thresholds) in enumerate(THRESHOLDS.items()):
        for options in averages(name):
            if kind != "every" and options.get("average") in BROKEN.get(name, ()):
                continue
            made = [
                quietly(getattr(module, name), *arguments(name), thresholds=thresholds, ignore_index=-1, **options)
                for module in (metrics, peer)
            ]
            data = batch(task_of(name), seed, case)
            ours = result(made[0], *halves(data))
            theirs = quietly(result, made[1], *halves(data))
            assert_same(ours, theirs)


def halves(data: tuple[Tensor, Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Two batches, both large enough that logits are not taken for probabilities."""
    return [(data[0][part], data[1][part]) for part in (slice(40), slice(40, None))]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ["BinaryCalibrationError", "MulticlassCalibrationError"])
def test_calibration_errors_are_those_of_torchmetrics(name: str, case: str) -> None:
    """Without a confidence of exactly 1, which is in no bin there."""
    for seed in range(3):
        data = batch(task_of(name), seed, case)
        if case == "ties":
            data = data[0].clamp(max=0.875), data[1]
        for options in averages(name):
            made = [getattr(module, name)(*arguments(name), ignore_index=-1, **options) for module in (metrics, peer)]
            ours, theirs = (result(each, *halves(data)) for each in made)
            assert_same(ours, theirs)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ["BinaryEER", "MulticlassEER", "MultilabelEER"])
def test_equal_error_rates_are_at_a_nearest_point_of_torchmetrics_curve(name: str, case: str) -> None:
    """Two points may be equally near, and rounding then decides which one torchmetrics takes."""
    for seed, thresholds in enumerate((None, 7, [0.1, 0.4, 0.9])):
        data = batch(task_of(name), seed, case)
        options = {"thresholds": thresholds, "ignore_index": -1}
        values = result(getattr(metrics, name)(*arguments(name), **options), data)
        fpr, tpr, _ = quietly(result, getattr(peer, name.replace("EER", "ROC"))(*arguments(name), **options), data)
        curves = [(fpr, tpr)] if task_of(name) == "Binary" else list(zip(fpr, tpr, strict=True))
        for value, (x, y) in zip(values.reshape(-1), curves, strict=True):
            gaps = (1 - y.double() - x).abs()
            rates = ((x + 1 - y) / 2)[gaps <= gaps.min() + 1e-6]
            assert min(abs(float(value) - rate) for rate in rates.tolist()) < 1e-6


@pytest.mark.parametrize("average", ["macro", "micro"])
def test_an_averaged_equal_error_rate_is_that_of_the_averaged_curve(average: str) -> None:
    data = batch("Multiclass", 5)
    ours = result(metrics.MulticlassEER(CLASSES, None, average), data)
    fpr, tpr, _ = quietly(result, peer.MulticlassROC(CLASSES, None, average), data)
    gaps = (1 - tpr - fpr).abs()
    assert float(ours) == pytest.approx(float(((fpr + 1 - tpr) / 2)[gaps.argmin()]), abs=1e-6)


@pytest.mark.parametrize("most", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("thresholds", [None, 50], ids=str)
def test_partial_areas_are_those_of_torchmetrics(most: float, thresholds: Any) -> None:
    for seed in range(4):
        data = batch("Binary", seed)
        ours = result(BinaryAUROC(max_fpr=most, thresholds=thresholds), data)
        assert_same(ours, quietly(result, peer.BinaryAUROC(max_fpr=most, thresholds=thresholds), data))


@pytest.mark.parametrize("bound", [0.0, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("name", [name for name in NAMES if "At" in name])
def test_best_points_are_those_of_torchmetrics_for_every_bound(name: str, bound: float) -> None:
    *number, _ = arguments(name)
    for seed, thresholds in enumerate((None, 20)):
        data = batch(task_of(name), seed, "ties")
        ours, theirs = (getattr(module, name)(*number, bound, thresholds) for module in (metrics, peer))
        assert_same(result(ours, data), quietly(result, theirs, data))


@pytest.mark.parametrize("name", ["BinaryROC", "MulticlassROC", "BinaryCalibrationError", "MulticlassCalibrationError"])
@pytest.mark.parametrize("way", ["at_once", "deferred"])
def test_ignored_samples_do_not_decide_what_is_guessed(name: str, way: str) -> None:
    """torchmetrics leaves them out first: probabilities stay probabilities beside a padded score."""
    preds, target = batch(task_of(name), 0)
    preds, target = torch.cat((preds, torch.full_like(preds[:2], 7.0))), torch.cat((target, torch.tensor([-1, -1])))
    options = {} if "Calibration" in name else {"thresholds": None}
    ours, theirs = (getattr(each, name)(*arguments(name), ignore_index=-1, **options) for each in (metrics, peer))
    if way == "deferred":
        with deferred():
            ours.update(preds, target)
    else:
        ours.update(preds, target)
    assert_same(ours.compute(), quietly(result, theirs, (preds, target)))


def test_batches_that_were_guessed_in_two_ways_are_reported() -> None:
    metric = BinaryAUROC()
    metric.update(torch.tensor([0.2, 0.9]), torch.tensor([0, 1]))
    metric.update(torch.tensor([-3.0, 2.0]), torch.tensor([0, 1]))
    with pytest.warns(MixedReadingWarning, match="logits in 1 batches and probabilities in 1"):
        metric.compute()


# ---- the default: a histogram of fixed size


@pytest.mark.parametrize("thresholds", ["fine", "bfloat16"])
@pytest.mark.parametrize("family", ["AUROC", "AveragePrecision"])
@pytest.mark.parametrize("task", ["Binary", "Multiclass", "Multilabel"])
def test_areas_are_exact_within_their_bounds(task: str, family: str, thresholds: str) -> None:
    name = f"{task}{family}"
    options = {} if task == "Binary" else {"average": None}
    data = batch(task, 1, rows=2000)
    metric = getattr(metrics, name)(*arguments(name), thresholds=thresholds, **options)
    value = result(metric, data).reshape(-1)
    expected = quietly(result, getattr(peer, name)(*arguments(name), thresholds=None, **options), data).reshape(-1)
    low, middle, high = metric.bounds()
    assert torch.equal(value, middle.float())
    assert ((low - 1e-6 <= expected) & (expected <= high + 1e-6)).all()
    assert (high - low).max() < (1e-3 if thresholds == "fine" else 0.03)


@pytest.mark.parametrize("name", ["BinaryAUROC", "MulticlassAUROC", "MultilabelAveragePrecision"])
def test_exact_areas_have_the_width_of_rounding(name: str) -> None:
    metric = getattr(metrics, name)(*arguments(name), thresholds=None)
    result(metric, batch(task_of(name), 2, "ties"))
    low, value, high = metric.bounds()
    torch.testing.assert_close(low, value, rtol=1e-13, atol=0)
    torch.testing.assert_close(high, value, rtol=1e-13, atol=0)


@pytest.mark.parametrize("name", [name for name in NAMES if "AUROC" not in name and "Calibration" not in name])
def test_other_results_of_the_default_are_near_those_of_every_score(name: str) -> None:
    """Scores of a few decimals are each in a bin of their own, so only thresholds are rounded to their bin."""
    preds, target = batch(task_of(name), 3)
    preds = preds.mul(50).round().div(50).clamp(0.02, 0.98)
    ours = result(getattr(metrics, name)(*arguments(name)), (preds, target))
    every = result(getattr(metrics, name)(*arguments(name), thresholds=None), (preds, target))
    if task_of(name) != "Binary" and name.endswith(("ROC", "Curve")):
        assert {len(part) for part in ours[:2]} == {CLASSES if "Multiclass" in name else LABELS}
        return  # one grid for all questions, so there are more points
    flat, others = (each if isinstance(each, tuple) else (each,) for each in (ours, every))
    for one, other in zip(flat, others, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=3e-4, equal_nan=True)


def test_saturated_logits_are_ranked_where_they_are_declared() -> None:
    """FACTS: torchmetrics reports .500 where all logits are above 17."""
    target = torch.randint(0, 2, (200,))
    logits = 18 + target + torch.rand(200)
    assert result(BinaryAUROC(inputs="logits"), (logits, target)) == 1
    assert result(BinaryAUROC(thresholds=None, inputs="logits"), (logits, target)) == 1
    assert quietly(result, peer.BinaryAUROC(), (logits, target)) == 0.5


# ---- what has no value: a listed deviation


@pytest.mark.parametrize("thresholds", ["fine", None, 7], ids=str)
@pytest.mark.parametrize("kind", [MulticlassAUROC, MulticlassAveragePrecision])
def test_an_absent_class_has_no_value_and_is_left_out(kind: type, thresholds: Any) -> None:
    """FACTS: torchmetrics averages in a 0 for classes that do not occur."""
    preds, target = batch("Multiclass", 4)
    target = torch.where(target == 2, 0, target)
    each = result(kind(CLASSES, None, thresholds), (preds, target))
    assert each.isnan().tolist() == [False, False, True, False]
    reference = {MulticlassAUROC: sklearn.roc_auc_score, MulticlassAveragePrecision: sklearn.average_precision_score}
    present = [0, 1, 3]
    scores = [reference[kind](target == k, preds[:, k]) for k in present]
    support = [int((target == k).sum()) for k in present]
    tolerance = 0.2 if thresholds == 7 else 1e-3
    assert each[present].tolist() == pytest.approx(scores, abs=tolerance)
    assert float(result(kind(CLASSES, "macro", thresholds), (preds, target))) == pytest.approx(
        each[present].mean().item(), abs=1e-6
    )
    weighted = float(result(kind(CLASSES, "weighted", thresholds), (preds, target)))
    assert weighted == pytest.approx(np.average(each[present], weights=support), abs=1e-6)


@pytest.mark.parametrize("kind", [MulticlassROC, MulticlassPrecisionRecallCurve])
def test_an_absent_class_is_left_out_of_an_averaged_curve(kind: type) -> None:
    preds, target = batch("Multiclass", 4)
    target = torch.where(target == 2, 0, target)
    first, second, _ = result(kind(CLASSES, None, "macro"), (preds, target))
    assert not first.isnan().any()
    assert not second.isnan().any()


@pytest.mark.parametrize("thresholds", ["fine", None, 7], ids=str)
def test_a_label_of_one_kind_has_no_area(thresholds: Any) -> None:
    preds, target = batch("Multilabel", 4)
    target[:, 0], target[:, 1] = 0, 1
    areas = result(MultilabelAUROC(LABELS, None, thresholds), (preds, target))
    assert areas.isnan().tolist() == [True, True, False]
    precisions = result(metrics.MultilabelAveragePrecision(LABELS, None, thresholds), (preds, target))
    assert precisions.isnan().tolist() == [True, False, False]
    assert precisions[1] == 1


@pytest.mark.parametrize("name", NAMES)
def test_nothing_counted_is_no_number(name: str) -> None:
    preds, target = batch(task_of(name), 0)
    for thresholds in [{}] if "Calibration" in name else [{}, {"thresholds": None}, {"thresholds": 7}]:
        metric = getattr(metrics, name)(*arguments(name), **thresholds)
        value = result(metric, (preds[:0], target[:0]))
        if name.endswith(("AUROC", "AveragePrecision", "EER")):
            assert value.isnan().all()


@pytest.mark.parametrize("thresholds", ["fine", None, 7], ids=str)
@pytest.mark.parametrize("average", ["macro", "micro"])
def test_an_averaged_curve_of_nothing_is_no_number(average: str, thresholds: Any) -> None:
    nothing = torch.zeros(0, CLASSES), torch.zeros(0, dtype=torch.int64)
    for kind in (MulticlassROC, MulticlassPrecisionRecallCurve):
        assert len(result(kind(CLASSES, thresholds, average), nothing)) == 3
    assert result(metrics.MulticlassEER(CLASSES, thresholds, average), nothing).isnan()


# ---- beside others


def test_a_stock_collection_shares_equal_declarations_and_no_others() -> None:
    collection = MetricCollection(
        {
            "auroc": BinaryAUROC(),
            "average_precision": BinaryAveragePrecision(),
            "roc": BinaryROC(),
            "partial": BinaryAUROC(max_fpr=0.2),
            "binned": BinaryAUROC(thresholds=5),
            "every": BinaryAUROC(thresholds=None),
            "calibration": BinaryCalibrationError(),
        }
    )
    alone = {name: metric.clone() for name, metric in collection.items()}
    for seed in range(3):
        data = batch("Binary", seed)
        collection.update(*data)
        for metric in alone.values():
            metric.update(*data)
    assert len(collection.compute_groups) == 4
    values = collection.compute()
    for name, metric in alone.items():
        assert_same(values[name], metric.compute())


def test_every_score_that_is_kept_is_worth_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_scores, "LARGE", 100)
    metric = BinaryAUROC(thresholds=None)
    metric.update(*batch("Binary", 0))
    with pytest.warns(UserWarning, match=r"128 scores are kept, because thresholds=None .* thresholds='fine' keeps"):
        metric.update(*batch("Binary", 1))
    metric.update(*batch("Binary", 2))  # said once


def test_scores_that_were_reset_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_scores, "LARGE", 100)
    metric = BinaryAUROC(thresholds=None)
    for seed in range(4):  # epochs
        metric.update(*batch("Binary", seed))
        metric.compute()
        metric.reset()


@pytest.mark.parametrize("name", NAMES)
def test_forward_gives_the_batch_and_keeps_all(name: str) -> None:
    first, second = batch(task_of(name), 1), batch(task_of(name), 2)
    made = [getattr(metrics, name)(*arguments(name)) for _ in range(4)]
    made[0].update(*first)
    assert_same(made[0](*second), result(made[1], second))
    assert_same(made[0].compute(), result(made[2], first, second))
    made[0].reset()
    assert_same(result(made[0], second), result(made[3], second))


# ---- words of errors

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
    "coarse": (lambda: BinaryEvaluation("logits", resolution=9), "resolution=9 is of scores, which are not kept"),
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
    if "SensitivityAt" not in name and "SpecificityAt" not in name:  # which torchmetrics cannot draw: it raises
        stock = getattr(peer, name)(*arguments(name))
        stock.update(*batch(task_of(name), 1))
        _, others = stock.plot()
        assert (axes.get_xlabel(), axes.get_ylabel()) == (others.get_xlabel(), others.get_ylabel())
        assert len(axes.lines) == len(others.lines)
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


# ---- evaluations

BINARY = ["auroc", "average_precision", "brier", "log_loss", "calibration_error", "best_f1", "best_f1_threshold"]


def added(with_curves: Any, without: Any) -> list[str]:
    return [name for name in with_curves.keys() if name not in without.keys()]  # noqa: SIM118  # no dictionary


def test_the_names_that_curves_add() -> None:
    assert added(BinaryEvaluation("logits", curves=True), BinaryEvaluation("logits")) == BINARY
    ranked = ["auroc/macro", "average_precision/macro"]
    judged = ["brier", "log_loss", "calibration_error"]
    many = [
        MulticlassEvaluation("logits", 2, ["cat", "dog"], curves=curves, per_class=True) for curves in (True, False)
    ]
    each = [f"{base}/{name}" for base in (*BINARY[:2], *BINARY[5:]) for name in ("cat", "dog")]
    assert added(*many) == [*ranked, "best_f1/macro", *judged, *each]
    several = [MultilabelEvaluation("logits", 2, ["x", "y"], curves=curves, per_label=True) for curves in (True, False)]
    each = [f"{base}/{name}" for base in BINARY for name in ("x", "y")]
    assert added(*several) == [*ranked, *(f"{name}/macro" for name in judged), "best_f1/macro", *each]


def test_single_statistics_of_scores_can_be_chosen() -> None:
    chosen = ["accuracy", "auroc", "gini", "kolmogorov_smirnov", "eer"]
    evaluation = BinaryEvaluation("probabilities", curves=True, statistics=chosen, prefix="val/")
    preds, target = batch("Binary", 7)
    evaluation.update(preds, target)
    values = evaluation.compute()
    assert list(values) == [f"val/{name}" for name in chosen]
    fpr, tpr, _ = sklearn.roc_curve(target, preds, drop_intermediate=False)
    area = sklearn.roc_auc_score(target, preds)
    assert float(values["val/gini"]) == pytest.approx(2 * area - 1, abs=1e-3)
    assert float(values["val/kolmogorov_smirnov"]) == pytest.approx((tpr - fpr).max(), abs=1e-6)
    place = abs(1 - tpr - fpr).argmin()
    assert float(values["val/eer"]) == pytest.approx((fpr[place] + 1 - tpr[place]) / 2, abs=1e-6)
    several = MulticlassEvaluation("logits", 3, statistics=["auroc/1", "best_f1/weighted"], curves=True)
    assert list(several.keys()) == ["auroc/1", "best_f1/weighted"]
    assert list(BinaryEvaluation("logits", curves=True, statistics=["f1"]).keys()) == ["f1", *BINARY]


@dataclass(frozen=True)
class Table:
    tp: int
    fp: int
    fn: int
    tn: int

    @classmethod
    def at(cls, scores: Tensor, target: Tensor, cut: float) -> Table:
        called, yes = scores >= cut, target == 1
        return cls(*(int(mask.sum()) for mask in (called & yes, called & ~yes, ~called & yes, ~called & ~yes)))


def f(beta: float) -> Callable[[Table], float]:
    b = beta**2
    return lambda t: (1 + b) * t.tp / ((1 + b) * t.tp + b * t.fn + t.fp)


def best_f1_of(scores: Tensor, target: Tensor) -> tuple[float, float]:
    """The best F1 over all thresholds, and the highest threshold that reaches it, by trying every score."""
    tables = {cut: Table.at(scores, target, cut) for cut in scores.unique().tolist()}
    best = max(f(1)(table) for table in tables.values())
    return best, max(cut for cut, table in tables.items() if f(1)(table) == best)


@pytest.mark.parametrize("inputs", ["logits", "probabilities"])
def test_binary_values_are_those_of_scikit_learn(inputs: Any) -> None:
    probabilities, target = batch("Binary", 8, rows=300)
    preds = torch.logit(probabilities) if inputs == "logits" else probabilities
    evaluation = BinaryEvaluation(inputs, curves=True)
    for part in (slice(100), slice(100, None)):
        evaluation.update(preds[part], target[part])
    values = {name: float(value) for name, value in evaluation.compute().items()}
    for name, reference in (("auroc", sklearn.roc_auc_score), ("average_precision", sklearn.average_precision_score)):
        low, value, high = evaluation.bounds(name)
        assert low - 1e-12 <= reference(target, preds.double()) <= high + 1e-12
        assert values[name] == pytest.approx(float(value), abs=1e-6)
    assert values["brier"] == pytest.approx(sklearn.brier_score_loss(target, probabilities.double()), rel=1e-5)
    assert values["log_loss"] == pytest.approx(sklearn.log_loss(target, probabilities.double()), rel=1e-5)
    best, cut = best_f1_of(probabilities, target)
    assert values["best_f1"] == pytest.approx(best)
    assert values["best_f1_threshold"] == pytest.approx(cut, rel=2e-3)


def test_values_of_classes_are_those_of_scikit_learn() -> None:
    preds, target = batch("Multiclass", 9, rows=300)
    evaluation = MulticlassEvaluation("probabilities", CLASSES, list("abcd"), curves=True, per_class=True)
    evaluation.update(preds, target)
    values = {name: float(value) for name, value in evaluation.compute().items()}
    areas = []
    for k, name in enumerate("abcd"):
        truth, scores = (target == k).long(), preds[:, k]
        areas.append(sklearn.roc_auc_score(truth, scores))
        low, _, high = evaluation.bounds("auroc", name)
        assert low - 1e-12 <= areas[-1] <= high + 1e-12
        low, value, high = evaluation.bounds("average_precision", name)
        assert low - 1e-12 <= sklearn.average_precision_score(truth, scores) <= high + 1e-12
        assert values[f"average_precision/{name}"] == pytest.approx(float(value), abs=1e-6)
        assert values[f"best_f1/{name}"] == pytest.approx(best_f1_of(scores, truth)[0])
    assert values["auroc/macro"] == pytest.approx(np.mean(areas), abs=1e-4)
    assert values["auroc/macro"] == pytest.approx(sklearn.roc_auc_score(target, preds, multi_class="ovr"), abs=1e-4)
    happened = preds.double().gather(1, target.unsqueeze(1))
    assert values["log_loss"] == pytest.approx(-float(happened.log().mean()), rel=1e-5)


def test_values_of_labels_are_those_of_scikit_learn() -> None:
    preds, target = batch("Multilabel", 9, rows=300)
    target[:, 1] = torch.where(torch.rand(300) < 0.3, -1, target[:, 1])
    evaluation = MultilabelEvaluation("probabilities", LABELS, curves=True, per_label=True, ignore_index=-1)
    evaluation.update(preds, target)
    values = {name: float(value) for name, value in evaluation.compute().items()}
    for k in range(LABELS):
        used = target[:, k] >= 0
        truth, scores = target[used, k], preds[used, k]
        low, _, high = evaluation.bounds("auroc", str(k))
        assert low - 1e-12 <= sklearn.roc_auc_score(truth, scores) <= high + 1e-12
        assert values[f"brier/{k}"] == pytest.approx(sklearn.brier_score_loss(truth, scores.double()), rel=1e-5)
        assert values[f"best_f1/{k}"] == pytest.approx(best_f1_of(scores, truth)[0])
    assert values["brier/macro"] == pytest.approx(np.mean([values[f"brier/{k}"] for k in range(LABELS)]), rel=1e-5)


def test_an_absent_class_is_undefined_with_a_reason_and_left_out() -> None:
    preds, target = batch("Multiclass", 4)
    target = torch.where(target == 2, 0, target)
    evaluation = MulticlassEvaluation("probabilities", CLASSES, curves=True, statistics=["auroc/2", "auroc/macro"])
    evaluation.update(preds, target)
    with pytest.warns(UndefinedWarning, match=r"auroc/2 is NaN, because .* positive or negative targets are missing"):
        values = evaluation.compute()
    assert values["auroc/2"].isnan()
    areas = [sklearn.roc_auc_score(target == k, preds[:, k]) for k in (0, 1, 3)]
    assert float(values["auroc/macro"]) == pytest.approx(np.mean(areas), abs=1e-4)
    assert evaluation.averaged_over()["auroc/macro"] == 3
    as_zero = MulticlassEvaluation(
        "probabilities", CLASSES, curves=True, statistics=["auroc/2", "auroc/macro"], zero_division=0.0
    )
    as_zero.update(preds, target)
    assert as_zero.compute()["auroc/2"] == 0


def test_nothing_counted_says_so() -> None:
    evaluation = BinaryEvaluation("logits", curves=True, statistics=["auroc", "brier"])
    evaluation.update(torch.zeros(0), torch.zeros(0))
    with pytest.warns(UndefinedWarning, match="auroc is NaN, .* no samples were counted"):
        evaluation.compute()


# ---- curves of evaluations


@pytest.mark.parametrize("inputs", ["logits", "probabilities"])
def test_curves_are_those_of_scikit_learn(inputs: Any) -> None:
    """Scores of few decimals are each in a bin of their own, so no point is lost."""
    probabilities, target = batch("Binary", 10, rows=200)
    probabilities = probabilities.mul(100).round().div(100).clamp(0.01, 0.99)
    evaluation = BinaryEvaluation(inputs, curves=True)
    evaluation.update(torch.logit(probabilities) if inputs == "logits" else probabilities, target)
    fpr, tpr, cuts = sklearn.roc_curve(target, probabilities, drop_intermediate=False)
    x, y, thresholds = evaluation.roc()
    torch.testing.assert_close(x, torch.from_numpy(fpr))
    torch.testing.assert_close(y, torch.from_numpy(tpr))
    assert thresholds[0] == math.inf
    assert thresholds[1:].tolist() == pytest.approx(cuts[1:].tolist(), rel=2e-3)
    precision, recall, cuts = sklearn.precision_recall_curve(target, probabilities)
    x, y, thresholds = evaluation.precision_recall_curve()
    torch.testing.assert_close(x, torch.from_numpy(recall[::-1].copy()))
    torch.testing.assert_close(y, torch.from_numpy(precision[::-1].copy()))
    assert thresholds[1:].tolist() == pytest.approx(cuts[::-1].tolist(), rel=2e-3)


def test_gain_and_lift_are_their_definitions() -> None:
    preds, target = batch("Binary", 11)
    evaluation = BinaryEvaluation("probabilities", curves=True)
    evaluation.update(preds, target)
    order = preds.argsort(descending=True)
    found = target[order].cumsum(0).double()
    called = torch.arange(1, ROWS + 1) / ROWS
    gain, lift = evaluation.cumulative_gain(), evaluation.lift()
    assert (gain.x[0], gain.y[0]) == (0, 0)
    torch.testing.assert_close(gain.x[1:], called.double(), check_dtype=False, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(gain.y[1:], found / target.sum())
    torch.testing.assert_close(lift.y, (found / torch.arange(1, ROWS + 1)) / target.double().mean())


def test_curves_of_a_class_are_those_of_its_yes_or_no_question() -> None:
    preds, target = batch("Multiclass", 12)
    many = MulticlassEvaluation("probabilities", CLASSES, list("abcd"), curves=True)
    many.update(preds, target)
    one = BinaryEvaluation("probabilities", curves=True)
    one.update(preds[:, 2].contiguous(), (target == 2).long())
    for question in ("roc", "precision_recall_curve", "cumulative_gain"):
        of_class, alone = getattr(many, question)("c"), getattr(one, question)()
        points = set(zip(of_class.x.tolist(), of_class.y.tolist(), strict=True))
        assert points >= set(zip(alone.x.tolist(), alone.y.tolist(), strict=True))
    for name in ("auroc", "average_precision"):
        assert [float(part) for part in many.bounds(name, "c")] == pytest.approx([*map(float, one.bounds(name))])
    assert many.best_threshold()["c"] == one.best_threshold()


def test_reliability_is_what_was_predicted_and_what_happened() -> None:
    preds, target = batch("Binary", 13, rows=400)
    evaluation = BinaryEvaluation("probabilities", curves=True)
    evaluation.update(preds, target)
    confidence, accuracy, samples = evaluation.reliability()
    bins = (preds.double() * 15).long().clamp(max=14)
    for k in range(15):
        inside = bins == k
        assert samples[k] == inside.sum()
        assert float(confidence[k]) == pytest.approx(float(preds[inside].mean()), rel=1e-5)
        assert float(accuracy[k]) == pytest.approx(float(target[inside].double().mean()))
    several = MultilabelEvaluation("probabilities", LABELS, list("xyz"), curves=True)
    several.update(preds.unsqueeze(1).expand(400, LABELS), target.unsqueeze(1).expand(400, LABELS))
    torch.testing.assert_close(several.reliability("y").accuracy, accuracy)
    empty = BinaryEvaluation("probabilities", curves=True)
    empty.update(torch.tensor([0.99]), torch.tensor([1]))
    assert empty.reliability().accuracy.isnan().tolist() == [True] * 14 + [False]


# ---- thresholds


CRITERIA: dict[str, Callable[[Table], float]] = {
    "f1": f(1),
    "f2": f(2),
    "f0.5": f(0.5),
    "accuracy": lambda t: (t.tp + t.tn) / ROWS,
    "informedness": lambda t: t.tp / (t.tp + t.fn) + t.tn / (t.tn + t.fp) - 1,
    "balanced_accuracy": lambda t: (t.tp / (t.tp + t.fn) + t.tn / (t.tn + t.fp)) / 2,
    "false_positive_rate": lambda t: -t.fp / (t.fp + t.tn),
}
"""More is better."""
BOUNDED = {"recall": lambda t: t.tp / (t.tp + t.fn), "specificity": lambda t: t.tn / (t.tn + t.fp)}


def every_table(scores: Tensor, target: Tensor) -> dict[float, Table]:
    """At every score, and above all of them."""
    return {cut: Table.at(scores, target, cut) for cut in [*scores.unique().tolist(), math.inf]}


def chosen(seed: int, **choice: Any) -> tuple[Tensor, Tensor, float]:
    preds, target = batch("Binary", seed)
    evaluation = BinaryEvaluation("probabilities", curves=True)
    evaluation.update(preds, target)
    return preds, target, evaluation.best_threshold(**choice)


@pytest.mark.parametrize("name", CRITERIA)
def test_the_best_threshold_is_the_best_of_all(name: str) -> None:
    for seed in range(4):
        preds, target, threshold = chosen(seed, criterion=name)
        values = {cut: CRITERIA[name](table) for cut, table in every_table(preds, target).items()}
        best = max(values.values())
        highest = max(cut for cut, value in values.items() if value == pytest.approx(best))
        assert 0 <= threshold <= 1
        decided = Table.at(preds, target, math.inf if highest == math.inf else threshold)
        assert decided == Table.at(preds, target, highest)
        assert highest < math.inf or threshold == 1


@pytest.mark.parametrize("costs", [{"fp": 1, "fn": 5}, {"fp": 20, "fn": 1}, {"fn": 1, "fp": 1, "tp": -2}, {"tn": -1.5}])
def test_the_cheapest_threshold_is_the_cheapest_of_all(costs: dict[str, float]) -> None:
    for seed in range(4):
        preds, target, threshold = chosen(seed, costs=costs)

        def cost(table: Table) -> float:
            return sum(price * getattr(table, cell) for cell, price in costs.items())

        least = min(map(cost, every_table(preds, target).values()))
        assert 0 <= threshold <= 1
        decided = [Table.at(preds, target, threshold), Table.at(preds, target, math.inf)]
        assert least in [pytest.approx(cost(table)) for table in (decided if threshold == 1 else decided[:1])]


@pytest.mark.parametrize(("name", "bound"), [("recall", 0.9), ("specificity", 0.8), ("recall", 1.0)])
def test_the_best_threshold_keeps_to_a_bound(name: str, bound: float) -> None:
    for seed in range(4):
        preds, target, threshold = chosen(seed, criterion="f0.5", at_least={name: bound})
        allowed = [each for each in every_table(preds, target).values() if BOUNDED[name](each) >= bound and each.tp]
        table = Table.at(preds, target, threshold)
        assert BOUNDED[name](table) >= bound
        assert f(0.5)(table) == pytest.approx(max(map(f(0.5), allowed)))


def test_a_bound_that_nothing_keeps_has_no_threshold() -> None:
    preds, target = torch.tensor([0.9, 0.8, 0.3, 0.2]), torch.tensor([0, 1, 0, 1])
    evaluation = BinaryEvaluation("probabilities", curves=True)
    evaluation.update(preds, target)
    assert math.isnan(evaluation.best_threshold("recall", at_least={"precision": 0.9}))
    assert math.isnan(evaluation.best_threshold(at_least={"recall": 1.0, "specificity": 1.0}))


def test_without_both_classes_there_is_no_threshold() -> None:
    evaluation = MultilabelEvaluation("probabilities", 2, ["x", "y"], curves=True)
    evaluation.update(torch.rand(9, 2), torch.stack((torch.ones(9), torch.arange(9) % 2), 1))
    found = evaluation.best_threshold()
    assert math.isnan(found["x"])
    assert 0 <= found["y"] <= 1


def test_every_label_has_a_threshold_of_its_own() -> None:
    preds, target = batch("Multilabel", 3)
    evaluation = MultilabelEvaluation("probabilities", LABELS, list("xyz"), curves=True)
    evaluation.update(preds, target)
    found = evaluation.best_threshold("informedness")
    assert list(found) == ["x", "y", "z"]
    for k, name in enumerate("xyz"):
        tables = every_table(preds[:, k], target[:, k]).values()
        best = max(map(CRITERIA["informedness"], tables))
        assert CRITERIA["informedness"](Table.at(preds[:, k], target[:, k], found[name])) == pytest.approx(best)
    again = MultilabelEvaluation("probabilities", LABELS, threshold=list(found.values()), statistics=["informedness/0"])
    again.update(preds, target)
    assert float(again.compute()["informedness/0"]) > 0


@pytest.mark.parametrize("inputs", ["logits", "probabilities"])
@pytest.mark.parametrize("rows", [40, 2000])
def test_a_threshold_can_be_declared_and_gives_the_same_f1(inputs: Any, rows: int) -> None:
    """To within a bin, of which each holds few of the samples."""
    for seed in range(3):
        probabilities, target = batch("Binary", seed, rows=rows)
        preds = torch.logit(probabilities) if inputs == "logits" else probabilities
        fitted = BinaryEvaluation(inputs, curves=True)
        fitted.update(preds, target)
        values = fitted.compute()
        threshold = fitted.best_threshold()
        assert threshold == pytest.approx(float(values["best_f1_threshold"]), abs=1e-6)
        applied = BinaryEvaluation(inputs, threshold=threshold, statistics=["f1"])
        applied.update(preds, target)
        assert float(applied.compute()["f1"]) == pytest.approx(float(values["best_f1"]), abs=4 / rows)


@pytest.mark.parametrize(
    "scores",
    [
        [0.5, 0.5, 0.2, 0.2],
        [1.0, 1.0, 0.0, 0.0],
        [1.0, 1.0, 0.999, 0.5],
        [0.25, 0.25, 0.125, 0.0],
        [1e-9, 1e-9, 0.0, 0.0],
    ],
)
def test_a_threshold_at_tied_scores_can_be_declared(scores: list[float]) -> None:
    """Positives are tied at one score, above all negatives; an evaluation calls positive what is above a threshold."""
    preds, target = torch.tensor(scores), torch.tensor([1, 1, 0, 0])
    fitted = BinaryEvaluation("probabilities", curves=True, statistics=["best_f1"])
    fitted.update(preds, target)
    assert fitted.compute()["best_f1"] == 1
    applied = BinaryEvaluation("probabilities", threshold=fitted.best_threshold(), statistics=["f1"], zero_division=0.0)
    applied.update(preds, target)
    assert applied.compute()["f1"] == 1


def test_counts_at_a_threshold_are_those_of_the_scores_above_it() -> None:
    preds, target = batch("Binary", 5, rows=300)
    evaluation = BinaryEvaluation("probabilities", curves=True)
    evaluation.update(preds, target)
    for cut in (0.0, 0.1, 0.25, 0.5, 0.7315, 0.999, 1.0):
        counts = evaluation.at_threshold(cut)
        table = Table.at(preds, target, math.nextafter(cut, 1) if cut < 1 else 2.0)
        assert sum(map(int, counts.cells)) == 300
        for cell in ("tp", "fp", "fn", "tn"):
            assert abs(int(getattr(counts, cell)) - getattr(table, cell)) <= 1
    for cut in evaluation.roc().thresholds[1::17].tolist():
        counts = evaluation.at_threshold(math.nextafter(cut, 0))  # a curve is of scores from its thresholds up
        assert Table.at(preds, target, cut) == Table(*(int(getattr(counts, cell)) for cell in ("tp", "fp", "fn", "tn")))
    many = MultilabelEvaluation("probabilities", LABELS, curves=True)
    many.update(*batch("Multilabel", 5))
    assert many.at_threshold(0.5).tp.shape == (LABELS,)
    assert torch.equal(many.at_threshold(0.5).tp, many.counts.tp)


def test_weighted_thresholds_are_those_of_repeated_samples() -> None:
    preds, target = batch("Binary", 6)
    weight = torch.randint(0, 4, (ROWS,))
    weighted = BinaryEvaluation("probabilities", curves=True, weighted=True)
    weighted.update(preds, target, weight.double())
    repeated = BinaryEvaluation("probabilities", curves=True)
    repeated.update(preds.repeat_interleave(weight), target.repeat_interleave(weight))
    for choice in ({}, {"criterion": "accuracy"}, {"costs": {"fp": 2, "fn": 1}}):
        assert weighted.best_threshold(**choice) == repeated.best_threshold(**choice)
    assert float(weighted.at_threshold(0.5).tp) == int(repeated.at_threshold(0.5).tp)


def test_many_classes_are_computed_once_each() -> None:
    """The number of histograms that are looked at grows with the entries, not with entries times classes."""
    evaluation = MulticlassEvaluation("probabilities", CLASSES, curves=True, per_class=True, resolution=64)
    evaluation.update(*batch("Multiclass", 1))
    looked: list[int] = []
    entries = {name: entry for name, entry in evaluation.items() if name.startswith(("auroc/", "best_f1/"))}
    original = {name: entry.readout.statistic.compute for name, entry in entries.items()}
    for name, entry in entries.items():

        def counting(source: Any, compute: Any = original[name]) -> Tensor:
            looked.append(len(source.yes))
            return compute(source)

        object.__setattr__(entry.readout, "statistic", _with(entry.readout.statistic, counting))
    evaluation.compute()
    averages_of_all, single = 2, 2 * CLASSES
    assert sum(looked) == averages_of_all * CLASSES + single


def _with(statistic: Any, compute: Callable[[Any], Tensor]) -> Any:
    return type(statistic)(**{**vars(statistic), "compute": compute})


# ---- in a LightningModule


class ScoreStatistic(LightningModule):
    """Logs single metrics by their objects and an evaluation by its entries."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))
        self.auroc, self.every = BinaryAUROC(), BinaryAUROC(thresholds=None)
        self.calibration = BinaryCalibrationError()
        self.evaluation = BinaryEvaluation("probabilities", curves=True, prefix="val/")

    def validation_step(self, batch: tuple[Tensor, Tensor], _: int) -> None:
        preds, target = batch
        for name in ("auroc", "every", "calibration"):
            metric = getattr(self, name)
            metric(preds, target)
            self.log(name, metric)
        self.evaluation.update(preds, target)
        self.log_dict(self.evaluation)


def test_lightning_logs_the_values_of_the_epoch() -> None:
    preds, target = batch("Binary", 1, rows=100)
    module = ScoreStatistic()
    trainer = Trainer(
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
    )
    for _ in range(2):  # nothing is left over
        trainer.validate(module, DataLoader(TensorDataset(preds, target), batch_size=32), verbose=False)
        logged = {name: float(value) for name, value in trainer.callback_metrics.items()}
        area = sklearn.roc_auc_score(target, preds)
        assert logged["every"] == pytest.approx(area, abs=1e-6)
        assert logged["auroc"] == logged["val/auroc"] == pytest.approx(area, abs=1e-3)
        assert logged["calibration"] == pytest.approx(logged["val/calibration_error"], abs=1e-6)
        assert {f"val/{name}" for name in BINARY} <= logged.keys()
        assert not module.auroc.update_called
