"""Looking at an evaluation: one line, tables that fit a terminal, rows, a frame, figures on one's own axes."""

from __future__ import annotations

import io
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
import torch
from lightning.pytorch.utilities.model_summary import ModelSummary
from matplotlib.figure import Figure
from PIL import Image
from rich.console import Console
from sklearn import metrics as sklearn
from torch import Tensor, nn

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation, plotting
from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.modules import BinaryClassifier
from lightning_evalkit.sinks import figures

CLASSES = ["cat", "dog", "fox"]


def scores(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def binary(**options: Any) -> BinaryEvaluation:
    evaluation = BinaryEvaluation("logits", **options)
    target = torch.arange(400) % 2
    evaluation.update(scores(400) + target, target)
    return evaluation


def multiclass(**options: Any) -> MulticlassEvaluation:
    evaluation = MulticlassEvaluation("logits", 3, CLASSES, **options)
    evaluation.update(scores(90, 3) + nn.functional.one_hot(torch.arange(90) % 3), torch.arange(90) % 3)
    return evaluation


def multilabel(**options: Any) -> MultilabelEvaluation:
    evaluation = MultilabelEvaluation("logits", 3, CLASSES, **options)
    target = (torch.arange(90).view(30, 3) % 4 == 0).long()
    evaluation.update(scores(30, 3) + target, target)
    return evaluation


EACH = {"binary": binary, "multiclass": multiclass, "multilabel": multilabel}


def test_one_line_says_what_is_declared_and_what_was_counted():
    evaluation = binary(prefix="val/")
    values = evaluation.compute()
    said = f"accuracy {float(values['val/accuracy']):.4g}, f1 {float(values['val/f1']):.4g}"
    assert repr(evaluation) == f"BinaryEvaluation('logits', threshold=0.5, prefix='val/'): 400 samples, {said}"
    assert repr(multiclass()).startswith("MulticlassEvaluation('logits', 3): 90 samples, accuracy 0.")
    assert repr(multilabel()).startswith("MultilabelEvaluation('logits', 3, threshold=0.5): 30 samples, exact_match 0.")
    several = binary(threshold=[0.2, 0.7], statistics=["f1"])
    assert repr(several).startswith("BinaryEvaluation('logits', threshold=[0.2, 0.7]): 400 samples, f1@0.2 0.")
    assert repr(BinaryEvaluation("labels")) == "BinaryEvaluation('labels'): nothing counted"
    assert str(BinaryEvaluation("labels")) == "BinaryEvaluation('labels'): nothing counted"


def test_a_line_and_a_table_never_ask_other_ranks():
    """Whoever prints on one rank alone would wait for the others for ever."""

    def joined(state: Tensor, group: Any = None) -> list[Tensor]:
        raise AssertionError("the ranks were joined")

    evaluation = binary(dist_sync_fn=joined, distributed_available_fn=lambda: True)
    assert "400 samples on this rank" in repr(evaluation)
    assert "400 samples on this rank" in str(evaluation)
    both = binary(dist_sync_fn=lambda state, group=None: [state + state], distributed_available_fn=lambda: True)
    both.compute()
    assert "800 samples, accuracy" in repr(both)


@pytest.mark.parametrize("task", EACH)
@pytest.mark.parametrize("curves", [False, True])
def test_a_printed_table_has_every_number_with_its_interval_and_the_counts(task: str, curves: bool):
    evaluation = EACH[task](curves=curves)
    text, values, intervals = str(evaluation), evaluation.compute(), evaluation.intervals()
    assert max(map(len, text.splitlines())) <= 80
    lines = {line.split()[0]: line for line in reversed(text.splitlines()) if line.strip()}  # notes stand below
    for name, value in values.items():
        interval = intervals[name]
        ends = [f"[{interval.low:.4f},", f"{interval.high:.4f}]", str(interval.n)] if interval.known else []
        assert lines[name].split() == [name, f"{float(value):.4f}", *ends]
    counts = evaluation.counts
    if task == "binary":
        assert lines["0.5"].split() == ["0.5", *(str(int(cell)) for cell in counts.cells)]
    else:
        for place, name in enumerate(CLASSES):
            assert lines[name].split() == [name, *(str(int(cell[place])) for cell in counts.cells)]


def test_rich_and_notebooks_show_the_same_table():
    evaluation, printed = binary(curves=True), io.StringIO()
    Console(file=printed, width=80, force_terminal=True, color_system=None).print(evaluation)
    shown, markdown = printed.getvalue(), evaluation._repr_markdown_()
    assert max(map(len, shown.splitlines())) <= 80
    for name, interval in evaluation.intervals().items():
        wanted = [f"{interval.value:.4f}", *([f"[{interval.low:.4f}, {interval.high:.4f}]"] if interval.known else [])]
        for text in (shown, markdown):
            line = next(line for line in text.splitlines() if f" {name} " in line)
            assert all(
                each.replace("[", "").strip("]") in line.replace("&#91;", "").replace("[", "") for each in wanted
            )


def test_undefined_numbers_and_weights_are_shown_as_what_they_are():
    evaluation = BinaryEvaluation("labels", weighted=True)
    evaluation.update(torch.tensor([0, 0]), torch.tensor([0, 1]), torch.tensor([0.5, 2.0]))
    text = str(evaluation)
    assert "2.5 of weight" in text
    assert "precision undefined" in " ".join(text.split())
    assert "interval" not in text.splitlines()[2]


@pytest.mark.parametrize("task", EACH)
def test_a_printed_table_says_why_a_number_has_no_interval(task: str):
    evaluation, printed = EACH[task](curves=True), io.StringIO()
    text = str(evaluation)
    Console(file=printed, width=80, force_terminal=True, color_system=None).print(evaluation)
    assert max(map(len, text.splitlines())) <= 80
    reasons = {interval.reason for interval in evaluation.intervals().values() if not interval.known}
    assert reasons
    for reason in reasons:
        for shown in (text, printed.getvalue(), evaluation._repr_markdown_()):
            assert " ".join(shown.split()).count(f" – {reason}") == 1


def test_a_note_names_the_numbers_that_have_no_interval():
    evaluation = BinaryEvaluation("labels", weighted=True, statistics=["accuracy", "recall"])
    evaluation.update(torch.tensor([0, 1]), torch.tensor([0, 1]), torch.tensor([0.5, 2.0]))
    assert "\nno interval: accuracy, recall – sums of weights do not give the number" in str(evaluation)
    assert "no interval" not in str(binary())
    assert "no interval" not in str(BinaryEvaluation("labels"))


def test_labels_are_shown_without_a_threshold():
    evaluation = BinaryEvaluation("labels", statistics=["accuracy"])
    evaluation.update(torch.tensor([0, 1, 1, 1]), torch.tensor([0, 1, 1, 0]))
    assert "threshold" not in str(evaluation)
    assert [line.split() for line in str(evaluation).splitlines()[-2:]] == [["TP", "FP", "FN", "TN"], [*"2101"]]


def test_rows_and_a_frame_hold_what_intervals_give():
    evaluation = binary()
    rows, frame = evaluation.table(level=0.9), evaluation.to_pandas(level=0.9)
    intervals = evaluation.intervals(level=0.9)
    assert [row["statistic"] for row in rows] == [*intervals] == frame.index.tolist()
    for row in rows:
        interval = intervals[row["statistic"]]
        assert (row["value"], row["low"], row["high"], row["n"]) == (
            interval.value,
            interval.low,
            interval.high,
            interval.n,
        )
        assert frame.loc[row["statistic"], "low"] == interval.low


# ---- figures


def test_a_figure_has_the_matrix_and_with_curves_four_panels():
    titles = ["ROC", "Precision and recall", "Thresholds"]
    figure = binary(curves=True).plot()
    assert isinstance(figure, Figure)
    assert [axes.get_title("left").partition(" ·")[0] for axes in figure.axes] == ["", *titles, "Reliability"]
    assert len(binary().plot().axes) == 1
    assert len(multilabel(curves=True).plot().axes) == 5
    assert len(multiclass(curves=True, confusion_matrix=True).plot().axes) == 5


@pytest.mark.parametrize("curves", [False, True])
def test_classes_without_a_matrix_are_drawn_each_against_the_rest_and_the_figure_says_so(curves: bool):
    evaluation = multiclass(curves=curves)
    figure = evaluation.plot()
    first = figure.axes[0]
    assert len(figure.axes) == (5 if curves else 1)
    assert first.get_title("left") == "Counts, each class against the rest"
    assert first.get_xlabel().endswith("\nthe whole matrix needs confusion_matrix=True")
    tp, fp, fn, tn = (cell.tolist() for cell in evaluation.counts.cells)
    written = [text.get_text().partition("\n")[0] for text in first.texts]
    for counted in (tp, fp, fn, tn):
        assert {f"{int(number):,}" for number in counted} <= {*written}
    with pytest.raises(DeclarationError, match="confusion_matrix=True"):
        plotting.plot_confusion_matrix(evaluation)


def test_a_notebook_shows_a_figure_and_leaves_its_pixels_as_they_are():
    figure = binary(curves=True).plot()
    before = figures.pixels(figure)
    shown = figure._repr_png_()
    assert shown.startswith(b"\x89PNG")
    assert np.array_equal(figures.pixels(figure), before)


def ten_classes() -> MulticlassEvaluation:
    evaluation = MulticlassEvaluation("logits", 10, curves=True, confusion_matrix=True)
    target = torch.arange(2000) % 10
    evaluation.update(torch.randn(2000, 10) + 3 * nn.functional.one_hot(target, 10), target)
    return evaluation


def test_a_figure_is_saved_in_at_most_100_kb_that_look_alike():
    for evaluation in (binary(curves=True), ten_classes(), multilabel(curves=True)):
        figure, saved, clear = evaluation.plot(), io.BytesIO(), io.BytesIO()
        figure.savefig(saved)
        assert len(saved.getvalue()) <= 100_000
        wanted = figures.pixels(figure).astype(int)
        with Image.open(saved) as image:
            seen = np.asarray(image.convert("RGB"), int)
        assert seen.shape == wanted.shape
        assert np.abs(seen - wanted).mean() < 3, "of 255"
        figure.savefig(clear, transparent=True)
        with Image.open(clear) as image:
            assert np.asarray(image.convert("RGBA"))[0, 0, 3] == 0


def test_counts_fit_into_small_cells():
    axes = ten_classes().plot().axes[0]
    assert len(axes.texts) == 100
    for text in axes.texts:
        assert text.get_window_extent().width <= axes.bbox.width / 10
        assert text.get_window_extent().height <= axes.bbox.height / 10


def test_values_are_still_drawn_as_torchmetrics_does():
    evaluation = binary(statistics=["accuracy", "f1"])
    with mpl.rc_context({"backend": "agg"}):
        drawn = evaluation.plot([evaluation.compute()])
    assert len(drawn) == 2


PLOTS = [plotting.plot_roc, plotting.plot_precision_recall, plotting.plot_thresholds, plotting.plot_reliability]


@pytest.mark.parametrize("layout", [None, "constrained", "tight"])
def test_a_legend_below_one_s_own_axes_lies_within_the_figure(layout: Any):
    figure = Figure(figsize=(4, 4), layout=layout)
    axes = plotting.plot_thresholds(binary(curves=True), figure.subplots(), costs={"fp": 1, "fn": 5})
    figure.draw_without_rendering()
    legend = axes.get_legend().get_window_extent()
    assert legend.y1 < axes.xaxis.label.get_window_extent().y0 + 2, "pixels; earlier releases of matplotlib leave less"
    assert figure.bbox.x0 <= legend.x0
    assert figure.bbox.y0 <= legend.y0


def test_a_figure_with_a_colour_bar_keeps_its_layout_and_the_legend_lies_inside():
    figure = Figure(figsize=(8, 4))
    left, right = figure.subplots(1, 2)
    figure.colorbar(left.imshow(np.eye(3)))
    plotting.plot_roc(binary(curves=True), right)
    figure.draw_without_rendering()
    inside = right.get_legend().get_window_extent()
    assert figure.get_layout_engine() is None
    assert right.bbox.x0 <= inside.x0 <= inside.x1 <= right.bbox.x1


def test_a_legend_of_axes_that_no_layout_moves_lies_inside_of_them():
    figure = Figure(figsize=(4, 4))
    axes = plotting.plot_roc(binary(curves=True), figure.add_axes((0.15, 0.15, 0.8, 0.8)))
    figure.draw_without_rendering()
    inside = axes.get_legend().get_window_extent()
    assert figure.get_layout_engine() is None
    assert axes.bbox.x0 <= inside.x0 <= inside.x1 <= axes.bbox.x1
    assert axes.bbox.y0 <= inside.y0 <= inside.y1 <= axes.bbox.y1


@pytest.mark.parametrize("plot", PLOTS, ids=lambda plot: plot.__name__)
def test_curves_are_drawn_on_one_s_own_axes(plot: Any):
    figure = Figure(figsize=(8, 4))
    left, right = figure.subplots(1, 2)
    assert plot(binary(curves=True), right) is right
    assert right.lines
    assert not left.lines
    assert isinstance(plot(binary(curves=True)), Figure)
    with pytest.raises(DeclarationError, match="curves=True"):
        plot(binary())


@pytest.mark.parametrize("task", EACH)
def test_a_matrix_is_drawn_on_one_s_own_axes(task: str):
    axes = Figure(figsize=(5, 5)).subplots()
    evaluation = EACH[task](**({"confusion_matrix": True} if task == "multiclass" else {}))
    assert plotting.plot_confusion_matrix(evaluation, axes) is axes
    written = [text.get_text().splitlines()[0] for text in axes.texts]
    if task == "binary":
        target = torch.arange(400) % 2
        expected = sklearn.confusion_matrix(target, scores(400) + target > 0)
        assert written == [str(count) for count in expected.ravel()]
    else:
        assert len(written) == (9 if task == "multiclass" else 21)


# ---- a module that holds evaluations


def test_a_summary_has_one_line_for_each_evaluation():
    class Holding(BinaryClassifier):
        def __init__(self) -> None:
            super().__init__(num_features=2)
            self.mine = BinaryEvaluation("logits")

    summary = ModelSummary(Holding())
    kinds = dict(zip(summary.layer_names, summary.layer_types, strict=True))
    assert kinds["mine"] == "BinaryEvaluation"
    assert [name for name in kinds if "evaluations" in name] == [
        f"{stage}_evaluations" for stage in ("train", "val", "test")
    ]
    assert not any("kept" in name for name in kinds)
    assert "(mine): BinaryEvaluation('logits', threshold=0.5): nothing counted" in repr(Holding())
