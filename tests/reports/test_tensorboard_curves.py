"""Curves in TensorBoard: its PR curves hold scikit-learn's counts, figures draw scikit-learn's curves, legibly.

Scores are known to the width of a bin, at most 4e-5 as a probability: with 65,534 bins over 1 - 4 / (4 + |logit|),
signed, a bin is (4 + |x|)² / 4 · 2 / 65534 logits wide at x, and a logit is p (1 - p) of probability."""

from __future__ import annotations

import io
import urllib.parse
import warnings
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from drawn_curves import CLASSES, binary, check_area, classes, evaluation, labels, line, updated
from lightning.pytorch import LightningModule, Trainer
from PIL import Image
from sklearn import metrics as sklearn
from tensorboard.util import tensor_util
from tensorboard_runs import Server, events, image_steps, in_a_file, overlapping, texts, trainer
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from lightning_evalkit.callbacks import TensorBoardReport
from lightning_evalkit.evaluation.curve_panels import panels
from lightning_evalkit.evaluation.score_snapshot import score_snapshot
from lightning_evalkit.reports.drawing import CURVES
from lightning_evalkit.sinks import figures, tensorboard, thumbnails
from lightning_evalkit.sinks.panels import Line, Panel
from lightning_evalkit.statistics import SCORE_STATISTICS, exists

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from lightning_evalkit.evaluation.score_snapshot import ScoreSnapshot


"""Those that TensorBoard shows: 0, 1/126 ... 1."""


def test_no_figure_has_the_name_of_a_statistic():
    """Whose scalar would have the same tag, which TensorBoard's HParams tab does not survive."""
    names = {"confusion_matrix", "pr_curve", *CURVES}
    assert not [name for name in names if exists(name) or name in SCORE_STATISTICS]


# ---- a training of each task


ROWS, BATCH, EPOCHS = 90, 30, 2


def data(task: str, seed: int) -> TensorDataset:
    generator = torch.Generator().manual_seed(seed)
    x, noise = torch.randn(ROWS, 3, generator=generator), torch.randn(ROWS, 3, generator=generator)
    answers = (x + noise > 0.3).long()
    y = {"binary": answers[:, 0], "multiclass": (x + noise).argmax(1), "multilabel": answers}[task]
    return TensorDataset(x, y)


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
        server.wait(lambda: all("val/reliability" in server.get("images/tags").get(task, ()) for task in TASKS))
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
    scores, y = (torch.cat(parts) for parts in zip(*shown.modules[task].seen[EPOCHS - 1], strict=True))
    kept = updated(evaluation(task), scores.float(), y)
    for tag, panel in zip(CURVES, panels(kept), strict=True):
        images = shown.server.get("images/images", run=task, tag=f"val/{tag}", sample=0)
        assert [image["step"] for image in images] == LAST_STEPS
        (key,) = urllib.parse.parse_qs(images[-1]["query"])["blob_key"]
        content = shown.server.read("images/individualImage", blob_key=key)
        assert len(content) <= 100_000  # bytes
        with Image.open(io.BytesIO(content)) as decoded:
            assert decoded.format == "PNG"
            assert decoded.width <= 600  # a thumbnail is half as wide, and its letters still half as large
            seen = np.asarray(decoded.convert("RGB"))
        assert np.array_equal(seen, in_a_file(thumbnails.panel(panel, f"val · epoch {EPOCHS - 1}")))


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
        "both": {"val/confusion_matrix", *(f"val/{name}" for name in CURVES)},
    }
    assert [len(curves_of(tmp_path, name)) for name in chosen] == [0, 1, 1]


def test_an_evaluation_without_curves_is_drawn_without(tmp_path: Path):
    fit(tmp_path, Trained(curves=False), max_epochs=1)
    assert events(tmp_path).Tags()["images"] == ["val/confusion_matrix"]
    assert curves_of(tmp_path) == {}


def test_fewer_epochs_are_drawn_and_always_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    unseen = np.zeros((2, 2, 3), dtype=np.uint8)  # not drawn in full
    monkeypatch.setattr(thumbnails, "fitted", lambda _: unseen)
    module = Trained()
    fit(tmp_path, module, report=TensorBoardReport(every_n_epochs=2), max_epochs=3)
    assert image_steps(tmp_path, "val/roc") == [5, 8]
    steps = [each.step for each in events(tmp_path).Tensors("val/pr_curve")]
    assert steps == [5, 8]
    last = curves_of(tmp_path)["val/pr_curve"][-1]
    truth = torch.cat([y for _, y in module.seen[2]])
    assert (last[0] + last[3]).tolist() == [int(truth.sum())] * 127  # of the last epoch, which was reset long ago


def test_tags_have_prefix_and_postfix_and_many_classes_no_pr_curve(tmp_path: Path):
    module = Trained("multiclass", prefix="a_", postfix="_b")
    fit(tmp_path, module, max_epochs=1)
    assert set(curves_of(tmp_path)) == {f"a_pr_curve/{name}_b" for name in CLASSES}
    assert "a_roc_b" in events(tmp_path).Tags()["images"]


@pytest.mark.parametrize(
    ("place", "name", "doing"),
    [(tensorboard, "add_pr_curve", "draw the curves"), (thumbnails, "panel", "draw the curves")],
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
