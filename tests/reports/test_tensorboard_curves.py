"""Curves in TensorBoard: its PR curves hold scikit-learn's counts, figures draw scikit-learn's curves, legibly.

Scores are known to the width of a bin, at most 4e-5 as a probability: with 65,534 bins over 1 - 4 / (4 + |logit|),
signed, a bin is (4 + |x|)² / 4 · 2 / 65534 logits wide at x, and a logit is p (1 - p) of probability.
"""

from __future__ import annotations

import io
import re
import urllib.parse
import warnings
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from PIL import Image
from sklearn import metrics as sklearn
from statsmodels.stats.proportion import proportion_confint
from tensorboard.util import tensor_util
from tensorboard_runs import Server, events, image_steps, overlapping, texts, trainer
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit.callbacks import TensorBoardReport
from lightning_evalkit.evaluation.curve_panels import panels, thresholds
from lightning_evalkit.evaluation.score_snapshot import score_snapshot
from lightning_evalkit.sinks import figures, tensorboard
from lightning_evalkit.sinks.panels import Line, Panel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from lightning_evalkit.evaluation.score_snapshot import ScoreSnapshot


WIDTH = 4e-5
THRESHOLDS = np.linspace(0, 1, 127)
"""Those that TensorBoard shows: 0, 1/126 ... 1."""

# ---- a training of each task

ROWS, BATCH, EPOCHS = 90, 30, 2
CLASSES = ("cat_1", "_dog $", "bird")


def data(task: str, seed: int) -> TensorDataset:
    generator = torch.Generator().manual_seed(seed)
    x, noise = torch.randn(ROWS, 3, generator=generator), torch.randn(ROWS, 3, generator=generator)
    answers = (x + noise > 0.3).long()
    y = {"binary": answers[:, 0], "multiclass": (x + noise).argmax(1), "multilabel": answers}[task]
    return TensorDataset(x, y)


def evaluation(task: str, **options: Any) -> Any:
    options = {"inputs": "logits", "curves": True, "zero_division": 0.0, "prefix": "val/"} | options
    if task == "binary":
        return BinaryEvaluation(**options)
    if task == "multiclass":
        return MulticlassEvaluation(**({"num_classes": 3, "class_names": CLASSES, "confusion_matrix": True} | options))
    return MultilabelEvaluation(**({"num_labels": 3, "label_names": CLASSES} | options))


class Trained(LightningModule):
    """A linear model that remembers what it said in each validation epoch, for scikit-learn alone."""

    def __init__(self, task: str = "binary", **options: Any) -> None:
        super().__init__()
        self.task, self.seen = task, {}
        self.layer = nn.Linear(3, 1 if task == "binary" else 3)
        self.evaluation = evaluation(task, **options)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x).squeeze(-1)

    def training_step(self, batch: Any, _: int) -> Tensor:
        x, y = batch
        if self.task == "multiclass":
            return functional.cross_entropy(self(x), y)
        return functional.binary_cross_entropy_with_logits(self(x), y.float())

    def validation_step(self, batch: Any, _: int) -> None:
        x, y = batch
        scores = self(x)
        self.evaluation.update(scores, y)
        if not self.trainer.sanity_checking:
            self.seen.setdefault(self.current_epoch, []).append((scores.double(), y))

    def on_validation_epoch_end(self) -> None:
        self.log_dict(self.evaluation.compute())
        self.evaluation.reset()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=1.0)

    def answers(self, epoch: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Probabilities and truth by the tag of the curve."""
        scores, y = (torch.cat(parts).numpy() for parts in zip(*self.seen[epoch], strict=True))
        if self.task == "binary":
            return {"val/pr_curve": (1 / (1 + np.exp(-scores)), y)}
        if self.task == "multiclass":
            scores, y = np.exp(scores) / np.exp(scores).sum(1, keepdims=True), np.eye(3)[y]
        else:
            scores = 1 / (1 + np.exp(-scores))
        return {f"val/pr_curve/{name}": (scores[:, k], y[:, k]) for k, name in enumerate(CLASSES)}


def fit(folder: Path, module: LightningModule, **options: Any) -> Trainer:
    fitting = trainer(folder, **({"max_epochs": EPOCHS, "num_sanity_val_steps": 1} | options))
    task = getattr(module, "task", "binary")
    loaders = (DataLoader(data(task, seed), batch_size=BATCH) for seed in (1, 2))
    fitting.fit(module, *loaders)
    return fitting


# ---- over HTTP

TASKS = ("binary", "multiclass", "multilabel")
LAST_STEPS = [(epoch + 1) * ROWS // BATCH - 1 for epoch in range(EPOCHS)]


class Shown:
    """The server, and what each module said."""

    def __init__(self, server: Server, modules: dict[str, Trained]) -> None:
        self.server, self.modules = server, modules


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    folder, log = tmp_path_factory.mktemp("runs"), tmp_path_factory.mktemp("server") / "log"
    torch.manual_seed(0)
    modules = {task: Trained(task) for task in TASKS}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")  # fixtures of a module do not know the filters of its tests
        for task, module in modules.items():
            fit(folder, module, name=task)
    assert [each for each in caught if "TensorBoardReport" in str(each.message)] == []
    server = Server(folder, log)
    try:
        # Texts are written after images, and curves before them.
        server.wait(lambda: all("val/curves" in server.get("images/tags").get(task, ()) for task in TASKS))
        yield Shown(server, modules)
    finally:
        server.stop()


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_pr_curves_hold_what_scikit_learn_counts(shown: Shown, task: str):
    module = shown.modules[task]
    assert set(shown.server.get("pr_curves/tags")[task]) == set(module.answers(0))
    for epoch in range(EPOCHS):
        for tag, (scores, truth) in module.answers(epoch).items():
            found = shown.server.get("pr_curves/pr_curves", run=task, tag=tag)[task]
            assert [curve["step"] for curve in found] == LAST_STEPS
            check_curve(found[epoch], scores, truth)


def check_curve(curve: dict[str, Any], scores: np.ndarray, truth: np.ndarray) -> None:
    """Every point is one of scikit-learn's, and its other numbers follow from it; points of few samples repeat."""
    fpr, tpr, _ = sklearn.roc_curve(truth, scores, drop_intermediate=False)
    positives, negatives = int(truth.sum()), int((1 - truth).sum())
    known = {*zip((fpr * negatives).round().tolist(), (tpr * positives).round().tolist(), strict=True)}
    fp, tp = np.array(curve["false_positives"]), np.array(curve["true_positives"])
    found = {*zip(fp.tolist(), tp.tolist(), strict=True)}
    assert len(found - known) <= len(known) / 20  # two scores in one bin are one point
    assert len(found) > len(known) / 2
    assert np.array(curve["true_negatives"]).tolist() == (negatives - fp).tolist()
    assert np.array(curve["false_negatives"]).tolist() == (positives - tp).tolist()
    assert np.array(curve["recall"]) == pytest.approx(tp / positives)
    assert np.array(curve["precision"]) == pytest.approx(np.where(tp + fp > 0, tp / np.maximum(tp + fp, 1), 1.0))


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_images_show_the_curves_of_each_epoch(shown: Shown, task: str):
    images = shown.server.get("images/images", run=task, tag="val/curves", sample=0)
    assert [image["step"] for image in images] == LAST_STEPS
    seen = []
    for image in images:
        (key,) = urllib.parse.parse_qs(image["query"])["blob_key"]
        with Image.open(io.BytesIO(shown.server.read("images/individualImage", blob_key=key))) as decoded:
            assert decoded.format == "PNG"
            seen.append(np.asarray(decoded.convert("RGB")))
    scores, y = (torch.cat(parts) for parts in zip(*shown.modules[task].seen[EPOCHS - 1], strict=True))
    kept = updated(evaluation(task), scores.float(), y)
    title = f"val/curves · epoch {EPOCHS - 1}"
    assert np.array_equal(seen[-1], figures.pixels(figures.panels(panels(kept), title)))
    assert seen[0].shape != seen[1].shape or not np.array_equal(*seen)


# ---- the lines that are drawn


def updated(metric: Any, scores: Tensor, target: Tensor, *weight: Tensor) -> ScoreSnapshot:
    metric.update(scores, target, *weight)
    kept = score_snapshot(metric)
    assert kept is not None
    return kept


def binary(rows: int = 500, separation: float = 1.5, **options: Any) -> tuple[Tensor, Tensor]:
    y = (torch.rand(rows) < 0.3).long()
    return torch.randn(rows) + separation * y - 1, y


def line(panel: Panel, beginning: str) -> Line:
    (found,) = [each for each in panel.lines if each.label.startswith(beginning)]
    return found


def written(label: str) -> list[float]:
    """The numbers at the end of a label."""
    return [float(number) for number in re.findall(r"\d+\.?\d*(?:e-\d+)?", label.rpartition(":")[2])]


def check_area(label: str, exact: float) -> None:
    """As scikit-learn has it; an interval is around it, and what bins leave open cannot be seen here."""
    value, *interval = written(re.sub(r".*AUROC |.*precision ", "", label))
    assert value == pytest.approx(exact, abs=2e-4)
    assert "open" not in label
    assert not interval or interval[0] < exact < interval[1]


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
    cost, least = line(panel, "mean cost, as a share of "), line(panel, "least cost ")
    highest = written(cost.label)[0]
    at = [
        (np.mean((chance >= cut) & (y.numpy() == 0)) + 5 * np.mean((chance < cut) & (y.numpy() == 1))) for cut in chance
    ]
    said, where = written(least.label)[0], float(least.x)
    assert said == pytest.approx(min(at), abs=1e-4)
    assert float(least.y) * highest == pytest.approx(min(at), rel=1e-3)
    assert where == pytest.approx(chance[np.argmin(at)], abs=0.01)
    assert max(cost.y.tolist()) == pytest.approx(1)
    assert line(panel, "declared: 0.3").x == (0.3, 0.3)


def classes(number: int, rows: int = 400, present: int | None = None, **options: Any) -> tuple[ScoreSnapshot, Any, Any]:
    y = torch.randint(0, present or number, (rows,))
    scores = torch.randn(rows, number) + torch.linspace(0.5, 3, number) * functional.one_hot(y, number)
    names = options.pop("class_names", None)
    return updated(evaluation("multiclass", num_classes=number, class_names=names), scores, y), scores.softmax(1), y


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


def labels(number: int, rows: int = 300) -> ScoreSnapshot:
    y = (torch.rand(rows, number) < torch.linspace(0.1, 0.7, number)).long()
    scores = torch.randn(rows, number) + torch.linspace(0.3, 3, number) * y - 1
    names = CLASSES if number == 3 else None
    return updated(evaluation("multilabel", num_labels=number, label_names=names), scores, y)


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


# ---- from the state alone


def test_what_is_kept_does_not_grow_with_the_samples():
    metric = evaluation("binary", resolution=64)
    sizes = [updated(metric, *binary(5000)).scores.yes.numel() for _ in range(3)]
    assert max(sizes) <= 64
    assert int(score_snapshot(metric).scores.yes.sum() + score_snapshot(metric).scores.no.sum()) == 15000


def test_what_is_kept_stays_when_the_evaluation_is_reset():
    metric = evaluation("binary")
    kept = updated(metric, *binary())
    before = [panel.title for panel in panels(kept)]
    metric.reset()
    metric.update(torch.ones(5), torch.ones(5).long())
    assert [panel.title for panel in panels(kept)] == before
    assert int(kept.positives + kept.negatives) == 500


def test_a_score_of_one_half_reaches_a_threshold_of_one_half():
    for inputs, score in (("logits", 0.0), ("probabilities", 0.5)):
        kept = updated(evaluation("binary", inputs=inputs), torch.full((4,), score), torch.tensor([0, 1, 1, 1]))
        counts = kept.counts_at(torch.tensor([0.0, 0.4999, 0.5, 0.5001, 1.0], dtype=torch.float64))
        assert counts.tp.tolist() == [[3, 3, 3, 0, 0]]
        assert counts.tn.tolist() == [[0, 0, 0, 1, 1]]


def test_points_of_pr_curves_are_quantiles_of_the_scores():
    """However small all scores are: thresholds that are evenly spaced would leave one point."""
    scores, y = binary(2000)
    kept = updated(evaluation("binary"), scores - 9, y)
    ((name, counts),) = kept.pr_curves()
    fpr, tpr, _ = sklearn.roc_curve(y, scores, drop_intermediate=False)
    known = {*zip((fpr * float((y == 0).sum())).round().tolist(), (tpr * float(y.sum())).round().tolist(), strict=True)}
    found = [*zip(counts.fp.tolist(), counts.tp.tolist(), strict=True)]
    assert (name, len(found)) == ("", 127)
    assert {*found} <= known
    assert len({*found}) > 120
    assert found == sorted(found, reverse=True)  # from the lowest threshold, at which everything is positive
    assert max(a - b for a, b in pairwise(sorted(counts.tp.tolist(), reverse=True))) <= len(y) / 60


def test_weights_count():
    scores, y = binary(60)
    weight = torch.rand(60) + 0.5
    kept = updated(evaluation("binary", weighted=True), scores, y, weight)
    check_area(line(panels(kept)[0], "AUROC").label, sklearn.roc_auc_score(y, scores, sample_weight=weight))
    ((_, counts),) = kept.pr_curves()
    fpr, tpr, _ = sklearn.roc_curve(y, scores, sample_weight=weight, drop_intermediate=False)
    known = np.stack((fpr * float(weight[y == 0].sum()), tpr * float(weight[y == 1].sum())), 1)
    for point in zip(counts.fp.tolist(), counts.tp.tolist(), strict=True):
        assert np.abs(known - point).sum(1).min() < 1e-4


def test_an_evaluation_without_curves_keeps_nothing():
    metric = evaluation("binary", curves=False)
    metric.update(*binary(5))
    assert score_snapshot(metric) is None


# ---- figures

ODD = ["$x_1$", "_hidden", r"$\alpha{$", "two\nlines", "a name that is much too long for any legend 17", "100 % $"]


def single(scores: Sequence[float], target: Sequence[int]) -> ScoreSnapshot:
    return updated(evaluation("binary"), torch.tensor(scores), torch.tensor(target))


FIGURES: dict[str, Callable[[], ScoreSnapshot]] = {
    "binary": lambda: updated(evaluation("binary"), *binary(2000)),
    "ten_samples": lambda: updated(evaluation("binary"), *binary(10)),
    "perfect": lambda: single([-2.0, -1.0, 1.0, 2.0], [0, 0, 1, 1]),
    "no_negatives": lambda: single([-1.0, 2.0], [1, 1]),
    "no_positives": lambda: single([-1.0, 2.0], [0, 0]),
    "odd_names": lambda: classes(6, class_names=ODD)[0],
    "one_class_alone": lambda: classes(3, present=1)[0],
    "30_classes": lambda: classes(30)[0],
    "3_labels": lambda: labels(3),
}


@pytest.mark.parametrize("case", FIGURES)
def test_figures_are_legible(case: str):
    """Warnings are errors: what is undefined warns of nothing."""
    drawn = panels(FIGURES[case]())
    figure = figures.panels(drawn, "val/curves · epoch 3")
    image = figures.pixels(figure)
    width, height = figure.bbox.size
    assert image.shape == (int(height), int(width), 3)
    assert 1000 <= width <= 2400
    for text in texts(figure):
        box = text.get_window_extent()
        assert text.get_fontsize() >= 7
        assert min(box.x0, box.y0) >= 0, text
        assert box.x1 <= width, text
        assert box.y1 <= height, text
    for axes, panel in zip(figure.axes, drawn, strict=True):
        legend = axes.get_legend()
        assert [text.get_text() for text in legend.get_texts()] == [each.label for each in panel.lines if each.label]
        assert len(legend.get_texts()) <= 12
        around = [
            axes.xaxis.label,
            axes.yaxis.label,
            axes._left_title,
            *axes.get_xticklabels(),
            *axes.get_yticklabels(),
        ]
        assert overlapping([*around, *legend.get_texts()]) == []
        assert legend.get_window_extent().y1 < axes.xaxis.label.get_window_extent().y0  # below, not on the curves
        assert not any(legend.get_window_extent().overlaps(other.bbox) for other in figure.axes)
    assert figure.axes[0]._left_title.get_text().splitlines()[0] == "val/curves · epoch 3"


def test_the_size_of_points_shows_that_of_bins():
    x = torch.tensor([0.2, 0.8])
    lines = [Line(x, x, "bins", "solid", 3, torch.tensor([0.1, 0.9])), Line(x, x, "bars", "bars")]
    axes = figures.panels([Panel("title", "x", "y", lines)]).axes[0]
    small, large = axes.collections[0].get_sizes()
    assert large > 3 * small
    assert [bar.get_height() for bar in axes.patches] == pytest.approx([0.2, 0.8])
    assert axes._left_title.get_text() == "title"


# ---- the callback


def curves_of(folder: Path, name: str = "run") -> dict[str, list[np.ndarray]]:
    """The tensors of TensorBoard's PR curves by tag."""
    found = events(folder, name)
    tags = found.PluginTagToContent("pr_curves") if "pr_curves" in plugins(found) else {}
    return {tag: [tensor_util.make_ndarray(each.tensor_proto) for each in found.Tensors(tag)] for tag in tags}


def plugins(found: Any) -> set[str]:
    return {found.SummaryMetadata(tag).plugin_data.plugin_name for tag in found.Tags()["tensors"]}


def test_curves_can_be_left_out(tmp_path: Path):
    chosen = {"neither": {"curves": False}, "no_figures": {"figures": False}, "both": {}}
    for name, options in chosen.items():
        fit(tmp_path, Trained(), name=name, report=TensorBoardReport(explanations=False, **options), max_epochs=1)
    images = {name: set(events(tmp_path, name).Tags()["images"]) for name in chosen}
    assert images == {
        "neither": {"val/confusion_matrix"},
        "no_figures": set(),
        "both": {"val/confusion_matrix", "val/curves"},
    }
    assert [len(curves_of(tmp_path, name)) for name in chosen] == [0, 1, 1]


def test_an_evaluation_without_curves_is_drawn_without(tmp_path: Path):
    fit(tmp_path, Trained(curves=False), max_epochs=1)
    assert events(tmp_path).Tags()["images"] == ["val/confusion_matrix"]
    assert curves_of(tmp_path) == {}


def test_fewer_epochs_are_drawn_and_always_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(figures, "pixels", lambda _: np.zeros((2, 2, 3), dtype=np.uint8))  # not drawn in full
    module = Trained()
    fit(tmp_path, module, report=TensorBoardReport(every_n_epochs=2), max_epochs=3)
    assert image_steps(tmp_path, "val/curves") == [5, 8]
    steps = [each.step for each in events(tmp_path).Tensors("val/pr_curve")]
    assert steps == [5, 8]
    last = curves_of(tmp_path)["val/pr_curve"][-1]
    truth = torch.cat([y for _, y in module.seen[2]])
    assert (last[0] + last[3]).tolist() == [int(truth.sum())] * 127  # of the last epoch, which was reset long ago


def test_tags_have_prefix_and_postfix_and_many_classes_no_pr_curve(tmp_path: Path):
    module = Trained("multiclass", prefix="a_", postfix="_b")
    fit(tmp_path, module, max_epochs=1)
    assert set(curves_of(tmp_path)) == {f"a_pr_curve/{name}_b" for name in CLASSES}
    assert "a_curves_b" in events(tmp_path).Tags()["images"]


@pytest.mark.parametrize(
    ("place", "name", "doing"),
    [(tensorboard, "add_pr_curve", "draw the curves"), (figures, "panels", "draw the curves")],
)
def test_a_failure_is_told_once_and_training_goes_on(
    place: Any, name: str, doing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def broken(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(place, name, broken)
    with pytest.warns(UserWarning, match=f"could not {doing} under 'val/': OSError: disk full") as caught:
        running = fit(tmp_path, Trained())
    assert sum("TensorBoardReport" in str(warning.message) for warning in caught) == 1
    assert running.current_epoch == EPOCHS
    assert image_steps(tmp_path, "val/confusion_matrix") == LAST_STEPS


# ---- several ranks


class Twice:
    """A sum over two ranks with the same rows, and how often it was asked for."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, state: Tensor, group: Any = None) -> list[Tensor]:
        self.calls += 1
        return [state + state]


@pytest.mark.parametrize("zero", [True, False])
def test_every_rank_reads_and_the_first_one_draws(zero: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Trainer, "is_global_zero", property(lambda _: zero))
    twice = Twice()
    module = Trained(dist_sync_fn=twice, distributed_available_fn=lambda: True)
    report = TensorBoardReport(explanations=False)
    fit(tmp_path, module, report=report, max_epochs=1, num_sanity_val_steps=0)
    assert twice.calls == 1  # the report and the module's own numbers, of one joined state
    if zero:
        (curve,) = curves_of(tmp_path)["val/pr_curve"]
        assert curve[:4].sum(0).tolist() == [2 * ROWS] * 127
    else:
        assert curves_of(tmp_path) == {}
