"""Evaluations with curves: their numbers, curves and thresholds, also in a LightningModule."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from curve_batches import CLASSES, LABELS, ROWS, batch
from lightning import LightningModule, Trainer
from sklearn import metrics as sklearn
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit.errors import UndefinedWarning
from lightning_evalkit.metrics import (
    BinaryAUROC,
    BinaryCalibrationError,
)

if TYPE_CHECKING:
    from collections.abc import Callable


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


def test_a_statistic_is_computed_once_for_all_classes() -> None:
    """Whatever the number of entries that read it: for each class, and averaged over them."""
    evaluation = MulticlassEvaluation("probabilities", CLASSES, curves=True, per_class=True, resolution=64)
    evaluation.update(*batch("Multiclass", 1))
    looked: list[int] = []
    entries = {name: entry for name, entry in evaluation.items() if name.startswith("auroc/")}
    statistic = entries["auroc/macro"].readout.statistic

    def counting(source: Any) -> Tensor:
        looked.append(len(source.yes))
        return statistic.compute(source)  # type: ignore[union-attr]  # of scores

    replaced = type(statistic)(**{**vars(statistic), "compute": counting})
    for entry in entries.values():
        object.__setattr__(entry.readout, "statistic", replaced)
    evaluation.compute()
    assert len(entries) == CLASSES + 1
    assert looked == [CLASSES]
    for entry in entries.values():
        entry.compute()  # as Lightning asks for them, one by one
    assert looked == [CLASSES]


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
