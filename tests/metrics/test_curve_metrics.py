"""Metrics of scores against torchmetrics, and evaluations with curves against scikit-learn and brute force."""

from __future__ import annotations

import inspect
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
import torchmetrics.classification as peer
from curve_batches import CLASSES, LABELS, NAMES, arguments, batch, task_of
from device import deferred
from sklearn import metrics as sklearn
from torch import Tensor
from torchmetrics import MetricCollection
from versions import EER, UNDEFINED, compared

from lightning_evalkit import metrics
from lightning_evalkit.counts import stored_scores
from lightning_evalkit.errors import MixedScoresWarning
from lightning_evalkit.metrics import (
    BinaryAUROC,
    BinaryAveragePrecision,
    BinaryCalibrationError,
    BinaryROC,
    MulticlassAUROC,
    MulticlassAveragePrecision,
    MulticlassPrecisionRecallCurve,
    MulticlassROC,
)

if TYPE_CHECKING:
    from collections.abc import Callable


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


@EER.since()
def test_every_class_of_the_families_is_there() -> None:
    assert len(NAMES) == 29
    assert all(name in metrics.__all__ for name in NAMES)
    assert all(hasattr(peer, name) for name in NAMES)


@pytest.mark.parametrize("name", compared(NAMES, EER))
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


OF_CURVES = [name for name in NAMES if "EER" not in name and "Calibration" not in name]
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
@pytest.mark.parametrize("name", compared(OF_CURVES, UNDEFINED))
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
@pytest.mark.parametrize("name", compared([name for name in NAMES if "At" in name], UNDEFINED))
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
    with pytest.warns(MixedScoresWarning, match="logits in 1 batches and probabilities in 1"):
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


@pytest.mark.parametrize("declared", ["logits", "auto"])
def test_saturated_logits_are_ranked_as_they_are(declared: Any) -> None:
    """FACTS: torchmetrics reports .500 where all logits are above 17."""
    target = torch.randint(0, 2, (200,))
    logits = 18 + target + torch.rand(200)
    assert result(BinaryAUROC(inputs=declared), (logits, target)) == 1
    assert result(BinaryAUROC(thresholds=None, inputs=declared), (logits, target)) == 1
    assert quietly(result, peer.BinaryAUROC(), (logits, target)) == 0.5


# ---- what has no value: a listed deviation


missing = pytest.mark.filterwarnings("ignore:No positive samples", "ignore:.*average leaves them out")


@missing
@pytest.mark.parametrize("thresholds", ["fine", None, 7], ids=str)
@pytest.mark.parametrize("kind", [MulticlassAUROC, MulticlassAveragePrecision])
def test_an_absent_class_is_left_out_of_an_average(kind: type, thresholds: Any) -> None:
    """FACTS: torchmetrics averages in a 0 for classes that do not occur."""
    preds, target = batch("Multiclass", 4)
    target = torch.where(target == 2, 0, target)
    each = result(kind(CLASSES, None, thresholds), (preds, target))
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


@missing
@pytest.mark.parametrize("kind", [MulticlassROC, MulticlassPrecisionRecallCurve])
def test_an_absent_class_is_left_out_of_an_averaged_curve(kind: type) -> None:
    preds, target = batch("Multiclass", 4)
    target = torch.where(target == 2, 0, target)
    first, second, _ = result(kind(CLASSES, None, "macro"), (preds, target))
    assert not first.isnan().any()
    assert not second.isnan().any()


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


@pytest.mark.parametrize("thresholds", ["fine", None, 7], ids=str)
def test_log_auc_of_nothing_is_no_number(thresholds: Any) -> None:
    for name in ("BinaryLogAUC", "MulticlassLogAUC", "MultilabelLogAUC"):
        preds, target = batch(task_of(name), 0)
        metric = getattr(metrics, name)(*arguments(name), thresholds=thresholds)
        assert metric(preds[:0], target[:0]).isnan().all()
        assert not metric(preds, target).isnan().any()


@pytest.mark.filterwarnings("ignore:No (positive|negative) samples")
def test_log_auc_of_a_label_without_a_sample_that_counts_is_that_of_an_absent_one() -> None:
    preds, target = batch("Multilabel", 0)
    target[:, 1] = -1
    found = result(metrics.MultilabelLogAUC(LABELS, thresholds=None, ignore_index=-1), (preds, target))
    alone = result(metrics.BinaryLogAUC(thresholds=None), (preds[:, 0], target[:, 0]))
    assert found[1] == 0
    assert found[0] == alone


@pytest.mark.parametrize("kind", [metrics.BinaryLogAUC, peer.BinaryLogAUC], ids=["here", "torchmetrics"])
def test_log_auc_of_one_threshold_is_that_of_torchmetrics(kind: Any) -> None:
    with pytest.warns(UserWarning, match="(?i)at least two"):
        assert result(kind(thresholds=[0.5]), batch("Binary", 0)) == 0


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


@pytest.mark.parametrize("declared", ["logits", "auto"])
def test_a_micro_average_tells_all_scores_apart(declared: str) -> None:
    """Of logits whose sigmoids are all 1, and of double-precision scores that single precision does not tell apart."""
    generator = torch.Generator().manual_seed(0)
    if declared == "logits":
        scores = 40 + torch.randint(0, 9, (30, LABELS), generator=generator).double()
    else:
        scores = 0.5 + 1e-12 * torch.randint(0, 9, (30, LABELS), generator=generator).double()
    target = torch.randint(2, scores.shape, generator=generator)
    expected = sklearn.roc_auc_score(target.ravel(), scores.ravel())
    precision = sklearn.average_precision_score(target.ravel(), scores.ravel())
    options: Any = {"average": "micro", "thresholds": None, "inputs": declared}
    assert metrics.MultilabelAUROC(LABELS, **options)(scores, target) == pytest.approx(expected)
    assert metrics.MultilabelAveragePrecision(LABELS, **options)(scores, target) == pytest.approx(precision)


@pytest.mark.parametrize(("above", "negatives"), [(1, 3), (2, 5), (1, 6), (3, 7), (4, 9), (3, 11)])
@pytest.mark.parametrize("thresholds", [None, [0.1, 0.5]], ids=["stored", "given"])
def test_of_two_points_equally_near_an_equal_error_rate_is_that_of_the_higher_threshold(
    above: int, negatives: int, thresholds: Any
) -> None:
    """Half of the positives are missed at both; false-positive rates of k / n and 1 - k / n are equally far from it."""
    no = torch.tensor([0.95] * above + [0.45] * (negatives - 2 * above) + [0.05] * above)
    scores, target = torch.cat((torch.tensor([0.95, 0.05]), no)), torch.tensor([1, 1] + [0] * negatives)
    metric = metrics.BinaryEER(thresholds=thresholds)
    metric.update(scores, target)
    assert float(metric.compute()) == pytest.approx((1 / 2 + above / negatives) / 2)
