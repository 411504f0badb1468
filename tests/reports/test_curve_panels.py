"""The lines of a figure of curves, and what is said of those that are undefined."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from drawn_curves import CLASSES, binary, check_area, classes, evaluation, labels, line, updated, written
from sklearn import metrics as sklearn
from statsmodels.stats.proportion import proportion_confint

from lightning_evalkit.errors import InputError
from lightning_evalkit.evaluation.curve_panels import panels, thresholds

if TYPE_CHECKING:
    from lightning_evalkit.sinks.panels import Line, Panel

WIDTH = 4e-5


# ---- the lines that are drawn


def test_roc_is_that_of_scikit_learn():
    scores, y = binary()
    panel = panels(updated(evaluation("binary"), scores, y))[0]
    drawn = line(panel, "AUROC")
    check_area(drawn.label, sklearn.roc_auc_score(y, scores))
    assert len(written(drawn.label)) == 3  # with its interval
    fpr, tpr, _ = sklearn.roc_curve(y, scores, drop_intermediate=False)
    assert (drawn.x[0], drawn.y[0]) == (0, 0)
    assert np.abs(np.interp(drawn.x[1:], fpr, tpr) - drawn.y[1:].numpy()).max() < 0.01  # one positive is 1/150
    assert line(panel, "chance").x == line(panel, "chance").y == (0, 1)


def test_what_wide_bins_leave_open_is_said():
    scores, y = binary()
    metric = evaluation("binary", resolution=16)
    label = line(panels(updated(metric, scores, y))[0], "AUROC").label
    low, _, high = (float(part) for part in metric.bounds("auroc"))
    assert label.endswith(f", bins leave {low:.4f} to {high:.4f} open")


def test_precision_and_recall_are_those_of_scikit_learn():
    scores, y = binary()
    panel = panels(updated(evaluation("binary"), scores, y))[1]
    drawn, exact = line(panel, "average precision"), sklearn.average_precision_score(y, scores)
    check_area(drawn.label, exact)
    assert float(drawn.y.mean()) == pytest.approx(exact, abs=0.005)  # the area under steps, read at 501 places
    precision, recall, _ = sklearn.precision_recall_curve(y, scores)
    for place in (25, 150, 300, 450, 500):
        best = precision[recall >= drawn.x[place].item()]
        assert best[-1] == pytest.approx(drawn.y[place].item(), abs=1e-6)
    prevalence, share = float(y.double().mean()), line(panel, "prevalence")
    assert written(share.label) == pytest.approx([prevalence], abs=1e-4)
    assert share.y.tolist() == pytest.approx([prevalence] * 2)


def test_thresholds_show_scikit_learn_s_values_and_mark_the_best():
    scores, y = binary()
    panel = panels(updated(evaluation("binary"), scores, y))[2]
    drawn = {name: line(panel, name) for name in ("F1", "precision", "recall")}
    chance = scores.double().sigmoid().numpy()
    for place in range(0, len(drawn["F1"].x), 50):
        cut = float(drawn["F1"].x[place])
        tables = [sklearn.confusion_matrix(y, chance >= cut + width) for width in (0, WIDTH)]
        assert np.array_equal(*tables), "choose other scores: some lie in the bin of a threshold"
        chosen = chance >= cut
        assert float(drawn["F1"].y[place]) == pytest.approx(sklearn.f1_score(y, chosen))
        assert float(drawn["recall"].y[place]) == pytest.approx(sklearn.recall_score(y, chosen))
        if chosen.any():
            assert float(drawn["precision"].y[place]) == pytest.approx(sklearn.precision_score(y, chosen))
        else:
            assert drawn["precision"].y[place].isnan()
    mark = line(panel, "best F1")
    best = best_f1(y, chance)
    assert mark.kind == "mark"
    assert float(mark.y) == pytest.approx(best)
    assert sklearn.f1_score(y, chance >= float(mark.x)) == pytest.approx(best)
    assert written(mark.label.removeprefix("best F1 ")) == pytest.approx([best, float(mark.x)], abs=1e-4)
    on_line = drawn["F1"].y[drawn["F1"].x == mark.x]
    assert on_line.tolist() == mark.y.tolist()


def best_f1(truth: Any, scores: Any) -> float:
    precision, recall, _ = sklearn.precision_recall_curve(truth, scores)
    return float(np.nanmax(2 * precision * recall / np.maximum(precision + recall, 1e-9)))


def test_reliability_is_what_happened_in_each_bin():
    scores, y = binary()
    panel = panels(updated(evaluation("binary"), scores, y))[3]
    chance = scores.sigmoid().numpy()
    inside = np.minimum((chance * 15).astype(int), 14)  # fifteen bins, the last one closed
    drawn, bars = line(panel, "bins"), line(panel, "share of samples")
    shares = drawn.sizes.numpy()
    assert (shares * len(y) >= 20).all()  # of fewer samples nothing is said
    assert 8 <= len(shares) < 15
    assert shares.sum() == pytest.approx(1)
    ends = np.searchsorted(np.cumsum(np.bincount(inside, minlength=15)), np.cumsum(shares * len(y)).round())
    bins = [(inside > low) & (inside <= high) for low, high in zip([-1, *ends[:-1]], ends, strict=True)]
    assert drawn.x.tolist() == pytest.approx([chance[each].mean() for each in bins], abs=1e-6)
    assert drawn.y.tolist() == pytest.approx([y.numpy()[each].mean() for each in bins])
    for low, value, high, each in zip(drawn.ends[0], drawn.y, drawn.ends[1], bins, strict=True):
        wilson = proportion_confint(int(y.numpy()[each].sum()), int(each.sum()), method="wilson")
        assert (low, high) == pytest.approx(wilson, abs=1e-9)
        assert low <= value <= high
    assert bars.y.tolist() == pytest.approx(np.bincount(inside, minlength=15) / len(y))
    assert bars.x.tolist() == pytest.approx([(number + 0.5) / 15 for number in range(15)])
    whole = [inside == number for number in np.unique(inside)]
    error = sum(abs(chance[each].mean() - y.numpy()[each].mean()) * each.mean() for each in whole)
    assert panel.title == f"Reliability · calibration error {error:.4f}"


def test_the_cost_and_the_declared_threshold_are_shown():
    scores, y = binary()
    panel = thresholds(updated(evaluation("binary", threshold=0.3), scores, y), {"fp": 1, "fn": 5})
    chance = scores.double().sigmoid().numpy()
    cost, least = line(panel, "mean cost (right axis)"), line(panel, "least cost ")
    at = [
        (np.mean((chance >= cut) & (y.numpy() == 0)) + 5 * np.mean((chance < cut) & (y.numpy() == 1))) for cut in chance
    ]
    said, where = written(least.label)[0], float(least.x)
    assert said == pytest.approx(min(at), abs=1e-4)
    assert float(least.y) == pytest.approx(min(at), rel=1e-6)
    assert where == pytest.approx(chance[np.argmin(at)], abs=0.01)
    assert cost.y.tolist()[0] == pytest.approx(np.mean(y.numpy() == 0)), "at 0 everything is predicted positive"
    assert panel.right is not None
    assert (panel.right.label, panel.right.number) == ("mean cost", cost.number)
    assert panel.right.values(placed(panel, cost)) == pytest.approx(cost.y.numpy())
    assert placed(panel, cost).min() >= 0
    assert placed(panel, cost).max() <= 1
    assert line(panel, "declared: 0.3").x == (0.3, 0.3)


def placed(panel: Panel, wanted: Line) -> Any:
    """The heights of a line on the left axis."""
    return np.asarray(panel.placed[[each.label for each in panel.lines].index(wanted.label)].y)


@pytest.mark.parametrize(
    ("costs", "low", "high"),
    [
        ({"fp": 1, "fn": 5}, 0.0, 2.0),
        ({"fp": 1000, "fn": 5000}, 0.0, 2000.0),
        ({"tp": -3, "fp": 1}, -0.75, 0.0),
        ({"fp": 0}, 0.0, 1.0),
    ],
)
def test_an_axis_of_costs_holds_0_and_every_cost_in_five_round_steps(costs: dict[str, float], low: float, high: float):
    panel = thresholds(updated(evaluation("binary"), *binary()), costs)
    assert panel.right is not None
    assert (panel.right.low, panel.right.high) == pytest.approx((low, high))
    assert [float(tick) for tick in panel.right.ticks] == pytest.approx(np.linspace(low, high, 6))
    cost = placed(panel, line(panel, "mean cost"))
    assert 0 <= cost.min() <= cost.max() <= 1


@pytest.mark.parametrize(
    ("costs", "said"),
    [
        ({"fnn": 2}, "expected costs of 'fp', 'fn', 'tp' or 'tn', got 'fnn'"),
        ({"fp": "1"}, "expected a finite number as the cost of 'fp', got '1'"),
        ({"fn": float("nan")}, "expected a finite number as the cost of 'fn', got nan"),
    ],
)
def test_costs_that_are_none_are_refused(costs: Any, said: str):
    with pytest.raises(InputError, match=said):
        thresholds(updated(evaluation("binary"), *binary()), costs)


def test_of_one_class_the_cost_is_drawn_without_a_least_one():
    scores, y = binary()
    panel = thresholds(updated(evaluation("binary"), scores[y == 1], y[y == 1]), {"fn": 5})
    assert line(panel, "mean cost").y.tolist()[0] == 0
    assert not [each for each in panel.lines if each.label.startswith("least cost")]


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_reliability_bins_do_not_depend_on_the_scale_of_weights(scale: float):
    scores, y = binary()
    weights = torch.rand(len(y), generator=torch.Generator().manual_seed(0)) + 0.5
    bins = []
    for factor in (1.0, scale):
        drawn = line(panels(updated(evaluation("binary", weighted=True), scores, y, weights * factor))[3], "bins")
        bins.append((drawn.x, drawn.y))
    for one, other in zip(*bins, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    assert len(bins[0][0]) > 5


def test_classes_are_drawn_each_against_the_rest():
    kept, chances, y = classes(3, class_names=CLASSES)
    roc, precision_recall, cuts, reliability = panels(kept)
    assert (roc.title, roc.heading) == ("ROC, each class against the rest", "AUROC")
    for k, name in enumerate(CLASSES):
        truth = y == k
        check_area(line(roc, f"{name}: ").label, sklearn.roc_auc_score(truth, chances[:, k]))
        check_area(line(precision_recall, f"{name}: ").label, sklearn.average_precision_score(truth, chances[:, k]))
        said = written(line(cuts, f"{name}: ").label)[0]
        assert said == pytest.approx(best_f1(truth, chances[:, k]), abs=1e-4)
    assert [each.kind for each in cuts.lines].count("mark") == 3
    hits = (chances.argmax(1) == y).float()
    assert float((line(reliability, "bins").y * line(reliability, "bins").sizes).sum()) == pytest.approx(hits.mean())


def test_of_many_classes_the_worst_are_named_and_all_are_averaged():
    kept, chances, y = classes(30, 900)
    roc, precision_recall, cuts, _ = panels(kept)
    areas = [sklearn.roc_auc_score(y == k, chances[:, k]) for k in range(30)]
    lowest = [str(k) for k in np.argsort(areas)[:9]]
    for panel in (roc, precision_recall, cuts):
        named = [each.label.partition(":")[0] for each in panel.lines if each.kind == "solid"]
        assert named == lowest
        assert panel.heading.endswith(", where AUROC is lowest")
        assert line(panel, "21 others").y.shape[1] == 21
        assert len(line(panel, "mean of 30 of 30").y) == len(line(panel, "21 others").y)
    assert written(line(roc, "mean of").label) == pytest.approx([np.mean(areas)], abs=2e-4)
    exact = np.mean([sklearn.average_precision_score(y == k, chances[:, k]) for k in range(30)])
    assert written(line(precision_recall, "mean of").label) == pytest.approx([exact], abs=2e-3)
    assert line(precision_recall, "mean prevalence").y.tolist() == pytest.approx([1 / 30] * 2)
    assert list(kept.pr_curves()) == []


def test_labels_have_a_reliability_each():
    kept = labels(3)
    panel = panels(kept)[3]
    errors = [written(line(panel, f"{name}: ").label)[0] for name in CLASSES]
    assert panel.title == f"Reliability · mean calibration error {panel_number(panel.title):.4f}"
    assert panel_number(panel.title) == pytest.approx(np.mean(errors), abs=2e-4)
    assert panels(kept)[0].title == "ROC"
    many = panels(labels(30))[3]
    assert [each.kind for each in many.lines].count("thin") == 21
    assert [each.kind for each in many.lines].count("solid") == 9


def panel_number(title: str) -> float:
    return float(title.rpartition(" ")[2])


# ---- what is undefined is said


@pytest.mark.parametrize(
    ("target", "undefined"),
    [
        (1, {"ROC": "no negative targets"}),
        (0, dict.fromkeys(("ROC", "Precision and recall", "Thresholds"), "no positive targets")),
        (-1, dict.fromkeys(("ROC", "Precision and recall", "Thresholds", "Reliability"), "no samples")),
    ],
)
def test_panels_without_curves_say_why(target: int, undefined: dict[str, str]):
    kept = updated(evaluation("binary", ignore_index=-1), torch.tensor([1.0, 2.0, -1.0]), torch.full((3,), target))
    found = {panel.title: panel.note for panel in panels(kept) if panel.note}
    assert found == {title: f"undefined: {reason}" for title, reason in undefined.items()}
    missing = undefined["ROC"]
    assert line(panels(kept)[0], "AUROC").label == f"AUROC undefined, {missing}"
    assert line(panels(kept)[2], "best F1").label == f"best F1 undefined, {missing}"
    assert len(list(kept.pr_curves())) == (target == 1)


def test_an_absent_class_is_said_and_left_out():
    kept, _, _ = classes(3, present=2, class_names=CLASSES)
    for panel in panels(kept)[:3]:
        assert panel.note == ""
        assert line(panel, "bird").label == "bird: undefined, no positive targets"
        assert line(panel, "bird").y.isnan().all()
    assert [name for name, _ in kept.pr_curves()] == ["cat_1", "_dog $"]
    many, _, _ = classes(30, present=12)
    assert line(panels(many)[0], "mean of").label.startswith("mean of 12 of 30: ")
    assert "3 others" in [each.label for each in panels(many)[0].lines]


def test_one_class_alone_is_undefined_for_two_reasons():
    kept, _, _ = classes(3, present=1)
    assert panels(kept)[0].note == "undefined: no negative targets, no positive targets"
