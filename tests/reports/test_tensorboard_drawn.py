"""What a report draws and when, under which names, and that it never ends a training."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
import torch
from lightning.pytorch import LightningModule
from lightning.pytorch.cli import LightningCLI
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from PIL import Image
from reported import BATCHES, STEPS, Drawing, Rows, Tiny, data, drawing, evaluation, fit, loader
from sklearn import metrics as sklearn
from tensorboard.plugins.custom_scalar.layout_pb2 import Layout
from tensorboard.plugins.hparams import metadata
from tensorboard_runs import EPOCHS, STAGES, events, image_steps, overlapping, texts, trainer
from torch import Tensor, nn

from lightning_evalkit import BinaryEvaluation, Counts
from lightning_evalkit.callbacks import TensorBoardReport
from lightning_evalkit.diagnosis import explain
from lightning_evalkit.errors import DeclarationError, InputError
from lightning_evalkit.sinks import figures, tensorboard, thumbnails

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from matplotlib.figure import Figure
    from numpy.typing import NDArray


pytestmark = [
    # About the machine and the tiny trainers of these tests, not about what is tested.
    pytest.mark.filterwarnings("ignore:It is recommended to use .self.log.*sync_dist=True"),
]


# ---- figures


ODD = ["$x_1$", "100 % $", "a_b^c", r"$\alpha{$", "über", "two\nlines", "a name that is much too long for any axis 17"]


def named(number: int) -> list[str]:
    return [ODD[n] if n < len(ODD) else f"class_{n}" for n in range(number)]


def table(classes: int) -> Tensor:
    """Rows of very different sizes, and one without samples."""
    counts = torch.randint(0, 9, (classes, classes)) + torch.diag(torch.randint(20, 90, (classes,)))
    counts[0] *= 12345
    counts[classes // 2] *= classes > 2
    return counts


def tables(labels: int) -> Tensor:
    counts = torch.randint(0, 99, (labels, 2, 2)) * torch.tensor([[9000, 1], [1, 1]])
    counts[labels // 2, 1] = 0
    return counts


class Drawn(NamedTuple):
    figure: Figure
    image: np.ndarray
    few: bool
    """Whether there is room for numbers."""


DRAWN = [("classes", n) for n in (2, 10, 15, 16, 50, 200)] + [("labels", n) for n in (2, 50, 101)]


@pytest.fixture(scope="module", params=DRAWN, ids=lambda drawn: f"{drawn[1]}_{drawn[0]}")
def drawn(request: pytest.FixtureRequest) -> Drawn:
    """A figure on which everything has its place."""
    kind, number = request.param
    torch.manual_seed(0)
    draw, counts, most = {
        "classes": (figures.confusion_matrix, table, 15),
        "labels": (figures.label_counts, tables, 100),
    }[kind]
    figure = draw(counts(number), named(number), "val/confusion_matrix · epoch 3")
    return Drawn(figure, figures.pixels(figure) / 255, number <= most)


def test_texts_are_large_enough_and_inside_the_figure(drawn: Drawn):
    found = texts(drawn.figure)
    width, height = drawn.figure.bbox.size
    assert len(found) > 6
    assert min(text.get_fontsize() for text in found) >= 6
    for text in found:
        box = text.get_window_extent()
        assert box.x0 >= 0, text
        assert box.y0 >= 0, text
        assert box.x1 <= width, text
        assert box.y1 <= height, text


def test_names_do_not_overlap(drawn: Drawn):
    axes = drawn.figure.axes[0]
    around = [*axes.get_xticklabels(), *axes.get_yticklabels(), axes.xaxis.label, axes.yaxis.label, axes.title]
    around = [text for text in (*around, axes._left_title) if text.get_text()]
    assert len(around) >= 7
    assert overlapping(around) == []


def brightness(colour: np.ndarray) -> float:
    """Relative luminance (WCAG 2.2, https://www.w3.org/TR/WCAG22/#dfn-relative-luminance)."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_numbers_fit_into_their_cells_and_contrast_with_them(drawn: Drawn):
    axes, total = drawn.figure.axes[0], len(drawn.image)
    rows, columns = axes.images[0].get_array().shape[:2]
    assert len(axes.texts) == (rows * columns if drawn.few else 0)
    width, height = axes.bbox.width / columns, axes.bbox.height / rows
    for text in axes.texts:
        box = text.get_window_extent()
        assert box.width <= width, text
        assert box.height <= height, text
        x, y = axes.transData.transform(text.get_position())
        ground = brightness(drawn.image[int(total - y - 0.42 * height), int(x - 0.42 * width)])
        dark, light = sorted((ground, {"black": 0.0, "white": 1.0}[text.get_color()]))
        assert (light + 0.05) / (dark + 0.05) >= 4.5, text  # WCAG's least contrast of text


def labels_of(axis: Any) -> list[str]:
    return [label.get_text() for label in axis.get_ticklabels()]


def test_a_figure_grows_and_fifty_classes_all_have_their_name():
    small, large = (figures.confusion_matrix(table(n), named(n)) for n in (2, 50))
    assert large.get_size_inches().min() > 2 * small.get_size_inches().max()
    axes = large.axes[0]
    assert labels_of(axes.xaxis) == labels_of(axes.yaxis)
    assert labels_of(axes.yaxis)[: len(ODD)] == [*ODD[:5], "two lines", "a name that is … axis 17"]
    assert labels_of(axes.yaxis)[len(ODD) :] == named(50)[len(ODD) :]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("predicted", "target")


@pytest.mark.parametrize("largest", [9, 99_999])
def test_counts_of_ten_classes_can_be_read_as_they_are_shown_in_tensorboard(largest: int):
    figure = figures.confusion_matrix(largest * torch.eye(10, dtype=torch.long), [*"0123456789"])
    cells = [text.get_text() for text in figure.axes[0].texts]
    assert cells[:2] == [f"{largest:,}", "0"], "shares below them would make both too small"
    shown = figures.thumbnail(figure).shape[1]
    pixels = figure.axes[0].texts[0].get_fontsize() / 72 * 350 / figure.get_figwidth()
    assert pixels >= (8 if largest == 9 else 5)
    assert shown <= 700


def test_cells_show_counts_and_shares_of_the_row():
    figure = figures.confusion_matrix(torch.tensor([[6, 2], [0, 0]]), ["no", "yes"], "title $1")
    axes = figure.axes[0]
    assert [text.get_text() for text in axes.texts] == ["6\n75.0%", "2\n25.0%", "0\n–", "0\n–"]
    assert axes.get_title("left") == "title $1"


def test_colours_are_of_the_row_alone():
    matrix = torch.tensor([[30, 10, 0], [300_000, 100_000, 0], [0, 0, 0]])
    for factor, repeats in ((1, 1), (0.5, 1), (1, 6)):  # counts, weighted counts, many classes
        counts = torch.zeros(3 * repeats, 3 * repeats)
        counts[:3, :3] = matrix * factor
        colours = figures.confusion_matrix(counts, named(3 * repeats)).axes[0].images[0].get_array()
        assert np.array_equal(colours[0], colours[1])
        assert len(np.unique(colours[0, :3], axis=0)) == 3
        assert (colours[2] == colours[2, 0]).all()
        assert len(np.unique(colours[2, 0, :3])) == 1  # grey: a share of nothing


def test_labels_show_counts_and_values():
    counts = torch.tensor([[[50, 10], [20, 30]], [[9, 0], [0, 0]]])
    axes = figures.label_counts(counts, ["a", "b"]).axes[0]
    written = [text.get_text() for text in axes.texts]
    assert labels_of(axes.xaxis) == ["TP", "FP", "FN", "TN", "precision", "recall", "F1"]
    assert written[:7] == ["30", "10", "20", "50", "75.0%", "60.0%", "66.7%"]
    assert written[7:] == ["0", "0", "0", "9", "–", "–", "–"]


@pytest.mark.parametrize(("number", "shown"), [(1234567, "1,234,567"), (2**40, "1.10e+12"), (0.5, "0.5")])
def test_counts_are_short(number: float, shown: str):
    matrix = torch.tensor([[number, 0], [0, 1]], dtype=torch.float64)
    assert figures.confusion_matrix(matrix, ["a", "b"]).axes[0].texts[0].get_text() == f"{shown}\n100.0%"


@pytest.mark.parametrize("draw", [figures.confusion_matrix, figures.label_counts])
@pytest.mark.parametrize("names", [["a", "b", "c"], []])
def test_counts_of_another_shape_are_refused(draw: Callable[..., Figure], names: list[str]):
    expected = rf"expected counts of shape \({len(names)}, .*for {len(names)} names, got \(4, 4\)"
    with pytest.raises(InputError, match=expected):
        draw(torch.ones(4, 4), names)


def test_a_figure_is_saved_whole(tmp_path: Path):
    figure = figures.confusion_matrix(table(2), ["no", "yes"])
    figures.save(figure, tmp_path / "matrix.png")
    with Image.open(tmp_path / "matrix.png") as image:
        image.load()
        assert (image.format, image.size) == ("PNG", tuple(map(int, figure.bbox.size)))
    assert [path.name for path in tmp_path.iterdir()] == ["matrix.png"]


def test_a_figure_is_saved_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    figure, path = figures.confusion_matrix(table(2), ["no", "yes"]), tmp_path / "matrix.png"
    path.write_bytes(b"old")

    def disk_full(unfinished: Path, **_: Any) -> None:
        unfinished.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(figure, "savefig", disk_full)
    with pytest.raises(OSError, match="disk full"):
        figures.save(figure, path)
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("matrix.png", b"old")]


# ---- without a server: what is drawn, and when


@pytest.fixture
def drawings(monkeypatch: pytest.MonkeyPatch) -> list[Drawing]:
    """Titles and counts of all figures."""
    noted: list[Drawing] = []

    draw = thumbnails.counts

    def noting(matrix: Tensor, names: Any, title: str = "") -> NDArray[np.uint8]:
        noted.append((title, matrix.tolist()))
        return draw(matrix, names, title)

    monkeypatch.setattr(thumbnails, "counts", noting)
    return noted


@pytest.mark.parametrize("way", ["end", "start", "step"])
def test_each_epoch_is_drawn_whole_and_without_the_sanity_check(way: str, tmp_path: Path, drawings: list[Drawing]):
    fit(tmp_path, Tiny(way=way), num_sanity_val_steps=2)
    assert drawings == [drawing("binary", stage, epoch) for epoch in range(EPOCHS) for stage in ("val", "train")]


@pytest.mark.parametrize("way", ["end", "start", "step"])
def test_validation_inside_an_epoch_is_not_the_training_s(way: str, tmp_path: Path, drawings: list[Drawing]):
    fit(tmp_path, Tiny(way=way), max_epochs=2, val_check_interval=0.5)
    stages = [("val", 0), ("val", 0), ("train", 0), ("val", 1), ("val", 1), ("train", 1)]
    assert drawings == [drawing("binary", stage, epoch) for stage, epoch in stages]
    steps = [BATCHES // 2 - 1, BATCHES - 1, BATCHES + BATCHES // 2 - 1, 2 * BATCHES - 1]
    assert image_steps(tmp_path, "val/confusion_matrix") == steps
    assert [scalar.step for scalar in events(tmp_path).Scalars("val/f1")] == steps


@pytest.mark.parametrize(("every", "epochs"), [(2, [1, 2]), (3, [2]), (5, [2])])
def test_fewer_epochs_are_drawn_and_always_the_last(
    every: int, epochs: list[int], tmp_path: Path, drawings: list[Drawing]
):
    running = fit(tmp_path, report=TensorBoardReport(every_n_epochs=every, stages=STAGES))
    assert drawings == [drawing("binary", stage, epoch) for epoch in epochs for stage in ("val", "train")]
    running.test(Tiny(), loader("binary", "test"), verbose=False)
    assert len(drawings) == 2 * len(epochs) + 1
    for stage in ("val", "train"):
        assert image_steps(tmp_path, f"{stage}/confusion_matrix") == [STEPS[stage][epoch] for epoch in epochs]


def test_a_test_and_a_validation_alone_are_always_drawn(tmp_path: Path, drawings: list[Drawing]):
    report = TensorBoardReport(every_n_epochs=7)
    running = trainer(tmp_path, report=report)
    running.test(Tiny(), loader("binary", "test"), verbose=False)
    running.validate(Tiny(), loader("binary", "val"), verbose=False)
    expected = [(stage, drawing("binary", stage, 0)[1]) for stage in ("test", "val")]
    assert drawings == expected
    assert set(events(tmp_path).Tags()["images"]) == {"test/confusion_matrix", "val/confusion_matrix"}


class Failing(Tiny):
    def on_train_batch_start(self, *_: Any) -> None:
        if self.current_epoch == 2:
            raise RuntimeError("out of memory")


def test_an_interrupted_training_shows_its_last_state(tmp_path: Path, drawings: list[Drawing]):
    with pytest.raises(RuntimeError, match="out of memory"):
        fit(tmp_path, Failing(), report=TensorBoardReport(every_n_epochs=5, stages=STAGES))
    assert drawings == [drawing("binary", stage, 1) for stage in ("val", "train")]
    tags = events(tmp_path).Tags()["tensors"]
    assert {"_hparams_/session_start_info", "_hparams_/session_end_info"} <= set(tags)


def test_figures_and_explanations_can_be_left_out(tmp_path: Path):
    for name, chosen in {"figures": {"figures": False}, "texts": {"explanations": False}}.items():
        fit(tmp_path, name=name, report=TensorBoardReport(stages=STAGES, **chosen))
    without_figures, without_texts = events(tmp_path, "figures").Tags(), events(tmp_path, "texts").Tags()
    assert (without_figures["images"], len(without_texts["images"])) == ([], 2)
    assert "findings/val/explanation/text_summary" in set(without_figures["tensors"]) - set(without_texts["tensors"])


def test_weighted_counts_are_drawn_and_explained(tmp_path: Path, drawings: list[Drawing]):
    fit(tmp_path, Weighted(weighted=True), max_epochs=1)
    assert drawings == [(title, (1.5 * np.array(matrix)).tolist()) for title, matrix in first_epoch()]
    assert len(events(tmp_path).Tensors("findings/val/explanation/text_summary")) == 1


def first_epoch() -> list[Drawing]:
    return [drawing("binary", stage, 0) for stage in ("val", "train")]


class Weighted(Tiny):
    def step(self, stage: str, batch: tuple[Tensor, Tensor]) -> Tensor:
        x, y = batch
        self.of(stage).update(self(x), y, torch.full(y.shape, 1.5))
        return self(x).sum()


# ---- names


class Several(Tiny):
    """Several evaluations in validation; two have no prefix."""

    def __init__(self) -> None:
        super().__init__()
        self.both = nn.ModuleList([evaluation("binary", None), evaluation("binary", None)])
        self.cut = BinaryEvaluation("logits", threshold=[0.2, 0.9], statistics=["f1"], prefix="cut_", postfix="!")

    def validation_step(self, batch: Any, _: int) -> None:
        x, y = batch
        for each in (*self.both, self.cut):
            each.update(self(x), y)

    def on_validation_epoch_end(self) -> None:
        for each in (*self.both, self.cut):
            values = each.compute()
            each.reset()
        self.log_dict(values)


def test_every_evaluation_has_a_place_of_its_own(tmp_path: Path, drawings: list[Drawing]):
    fit(tmp_path, Several(), max_epochs=1)
    places = {"val/confusion_matrix/both.0", "val/confusion_matrix/both.1", "cut_confusion_matrix!"}
    assert set(events(tmp_path).Tags()["images"]) == places | {"train/confusion_matrix"}


def test_several_thresholds_are_drawn_and_explained_one_by_one(tmp_path: Path, drawings: list[Drawing]):
    fit(tmp_path, Several(), max_epochs=1)
    x, y = (tensor.numpy() for tensor in data("binary", "val").tensors)
    matrices = [sklearn.confusion_matrix(y, 1 / (1 + np.exp(-x)) > cut).tolist() for cut in (0.2, 0.9)]
    assert dict(drawings)["cut_! · epoch 0"] == matrices
    (text,) = events(tmp_path).Tensors("findings/cut_explanation!/text_summary")
    written = text.tensor_proto.string_val[0].decode()
    first, second = (explain(counts(matrix)).markdown() for matrix in matrices)
    assert written == f"#### threshold 0.2\n\n{first}\n\n#### threshold 0.9\n\n{second}"
    assert chart_patterns(tmp_path)["val"] == [r"accuracy\ and\ F1/cut_!$"]
    for cut in (0.2, 0.9):
        assert events(tmp_path, f"run/f1@{cut}").Tags()["scalars"] == ["accuracy and F1/cut_!"]


def counts(matrix: list[list[int]]) -> Counts:
    (tn, fp), (fn, tp) = matrix
    return Counts(tp=tp, fp=fp, fn=fn, tn=tn)


def chart_patterns(folder: Path, name: str = "run") -> dict[str, list[str]]:
    """The layout written last."""
    content = events(folder, name).Tensors("custom_scalars__config__")[-1].tensor_proto.string_val[0]
    (category,) = Layout.FromString(content).category
    return {chart.title: list(chart.multiline.tag) for chart in category.chart}


class Loaders(Tiny):
    """Two dataloaders in validation, logged in the step, where Lightning adds a suffix."""

    def __init__(self) -> None:
        super().__init__(way="step")
        self.second = evaluation("binary", "val/")

    def validation_step(self, batch: Any, _: int, dataloader_idx: int = 0) -> None:  # type: ignore[override]
        x, y = batch
        chosen = (self.of("val"), self.second)[dataloader_idx]
        chosen.update(self(x), y)
        self.log_dict(chosen)


def test_each_dataloader_has_a_figure_and_a_line(tmp_path: Path, drawings: list[Drawing]):
    fit(tmp_path, Loaders(), [loader("binary", "val"), loader("binary", "test")], max_epochs=1)
    assert [matrix for _, matrix in drawings] == [drawing("binary", s, 0)[1] for s in ("val", "test", "train")]
    assert set(events(tmp_path).Tags()["images"]) == {
        *("val/confusion_matrix/held.train_one", "val/confusion_matrix/second", "train/confusion_matrix")
    }
    charts = [f"accuracy and F1/val/dataloader_idx_{number}" for number in (0, 1)]
    assert chart_patterns(tmp_path)["val"] == [f"{re.escape(chart)}$" for chart in charts]
    assert {*charts} <= {*events(tmp_path, "run/accuracy").Tags()["scalars"]}


def test_the_prefix_of_the_logger_is_kept(tmp_path: Path):
    logger = TensorBoardLogger(tmp_path, name="", version="run", prefix="mine")
    fit(tmp_path, logger=logger, max_epochs=1)
    assert set(events(tmp_path).Tags()["images"]) == {"mine-train/confusion_matrix", "mine-val/confusion_matrix"}
    assert "mine-val/f1" in events(tmp_path).Tags()["scalars"]
    assert chart_patterns(tmp_path)["val"] == [r"mine\-accuracy\ and\ F1/val$"]
    assert "mine-accuracy and F1/val" in events(tmp_path, "run/f1").Tags()["scalars"]


def test_every_tensorboard_logger_is_written_to(tmp_path: Path):
    loggers = [TensorBoardLogger(tmp_path, name="", version=name) for name in ("one", "two")]
    fit(tmp_path, logger=[*loggers, CSVLogger(tmp_path / "csv")], max_epochs=1)
    one, two = (events(tmp_path, name).Tags() for name in ("one", "two"))
    assert one == two
    assert len(one["images"]) == 2


class Unlogged(Tiny):
    def __init__(self) -> None:
        super().__init__()
        self.save_hyperparameters(logger=False)

    def log_dict(self, *_: Any, **__: Any) -> None:
        pass


def test_what_is_not_logged_is_in_no_chart_and_hyperparameters_may_be_kept_back(tmp_path: Path):
    fit(tmp_path, Unlogged(), max_epochs=1)
    tags = events(tmp_path).Tags()
    assert tags["scalars"] == []
    assert "custom_scalars__config__" not in tags["tensors"]
    assert hyperparameters(tmp_path) == {"model"}


def hyperparameters(folder: Path) -> set[str]:
    content = events(folder).SummaryMetadata(metadata.SESSION_START_INFO_TAG).plugin_data.content
    return set(metadata.parse_session_start_info_plugin_data(content).hparams)


class Configured(Tiny):
    def __init__(self, way: str) -> None:
        super().__init__(way=way)


def test_the_command_line_can_configure_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "argv", ["train"])
    monkeypatch.setenv("JSONARGPARSE_DEPRECATION_WARNINGS", "off")  # of what Lightning calls
    logger = {"class_path": "TensorBoardLogger", "init_args": {"save_dir": str(tmp_path), "name": "", "version": "run"}}
    report = {"class_path": "TensorBoardReport", "init_args": {"every_n_epochs": 2, "explanations": False}}
    chosen = {"logger": logger, "callbacks": [report], "max_epochs": EPOCHS, "accelerator": "cpu"}
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    config = {"trainer": chosen | quiet, "model": {"way": "start"}, "data": {"prevalence": 0.25}}
    options = {"run": False, "save_config_callback": None, "seed_everything_default": False}
    cli = LightningCLI(Configured, Rows, args=config, **options)
    cli.trainer.fit(cli.model, cli.datamodule)
    assert image_steps(tmp_path, "val/confusion_matrix") == [STEPS["val"][epoch] for epoch in (1, 2)]
    assert hyperparameters(tmp_path) == {"model", "data", "way", "data/task", "data/prevalence"}


# ---- a report never ends a training, and never fails in silence


def test_a_matrix_that_was_not_kept_is_missed_once(tmp_path: Path):
    module = Tiny("multiclass", confusion_matrix=False)
    running = trainer(tmp_path)
    told = r"could not draw the confusion matrix under 'val/': .*construct with confusion_matrix=True"
    with pytest.warns(UserWarning, match=told) as caught:
        running.fit(module, datamodule=Rows("multiclass"))
    assert sum("TensorBoardReport" in str(warning.message) for warning in caught) == 1
    tags = events(tmp_path).Tags()
    assert tags["images"] == []
    assert {"findings/train/explanation/text_summary", "findings/val/explanation/text_summary"} <= set(tags["tensors"])


def test_a_failure_to_draw_is_told_once_and_training_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def broken(*_: Any) -> None:
        raise ValueError("no canvas")

    monkeypatch.setattr(thumbnails, "fitted", broken)
    with pytest.warns(
        UserWarning, match="could not draw the confusion matrix under 'val/': ValueError: no canvas"
    ) as caught:
        running = fit(tmp_path)
    assert sum("TensorBoardReport" in str(warning.message) for warning in caught) == 1
    assert running.current_epoch == EPOCHS
    assert len(events(tmp_path).Tensors("findings/val/explanation/text_summary")) == 1


@pytest.mark.parametrize(
    ("function", "doing"),
    [
        ("start_session", "write the hyperparameters"),
        ("end_session", "write how the run ended"),
        ("add_text", "write the explanation under 'val/'"),
        ("add_charts", "arrange charts"),
    ],
)
def test_a_failure_to_write_is_told(function: str, doing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def broken(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(tensorboard, function, broken)
    with pytest.warns(UserWarning, match=f"TensorBoardReport could not {doing}: OSError: disk full"):
        running = fit(tmp_path, max_epochs=1)
    assert running.current_epoch == 1


def test_numbers_that_cannot_be_explained_are_told(tmp_path: Path):
    module = Tiny("multilabel", statistics=["f1/macro"])
    running = trainer(tmp_path, max_epochs=1)
    with pytest.warns(
        UserWarning, match="could not write the explanation under 'val/': there is no entry 'exact_match'"
    ):
        running.fit(module, datamodule=Rows("multilabel"))
    assert len(events(tmp_path).Tags()["images"]) == 2


@pytest.mark.parametrize(("logger", "kinds"), [(False, "none"), ("csv", "CSVLogger")])
def test_a_missing_logger_is_told_once(logger: Any, kinds: str, tmp_path: Path, drawings: list[Drawing]):
    told = f"could not draw anything: expected a TensorBoardLogger, got {kinds}: add --trainer.logger TensorBoardLogger"
    running = trainer(tmp_path, logger=CSVLogger(tmp_path) if logger else False, max_epochs=1)
    with pytest.warns(UserWarning, match=told) as caught:
        running.fit(Tiny(), datamodule=Rows())
    running.test(Tiny(), datamodule=Rows(), verbose=False)  # in silence
    assert sum("TensorBoardReport" in str(warning.message) for warning in caught) == 1
    assert drawings == []


def test_a_fast_development_run_draws_nothing_and_says_nothing(tmp_path: Path, drawings: list[Drawing]):
    fit(tmp_path, fast_dev_run=2)
    assert drawings == []
    assert not list(tmp_path.rglob("events*"))


class Plain(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def training_step(self, batch: Any, _: int) -> Tensor:
        return (batch[0] * self.scale).sum()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.0)


def test_a_module_without_evaluations_is_told(tmp_path: Path):
    running = trainer(tmp_path, max_epochs=1)
    with pytest.warns(UserWarning, match="could not find an evaluation: make one an attribute of Plain"):
        running.fit(Plain(), loader("binary", "train"))


@pytest.mark.parametrize("every", [0, -1, 0.5, "2"])
def test_a_senseless_interval_is_refused(every: Any):
    with pytest.raises(
        DeclarationError, match=f"expected every_n_epochs to be a whole number from 1 on, or None, got {every!r}"
    ):
        TensorBoardReport(every_n_epochs=every)


@pytest.mark.parametrize("number", [2, 3, 10, 40])
def test_an_image_is_a_multiple_of_what_tensorboard_shows(number: int):
    """TensorBoard scales to 350 pixels by leaving out pixels, here and there a stroke unless it is a multiple."""
    figure = figures.confusion_matrix(torch.eye(number), [*map(str, range(number))])
    before = figure.dpi
    image = figures.thumbnail(figure)
    assert image.shape[1] % 350 == 0 or image.shape[1] < 350
    assert image.shape[0] / image.shape[1] == pytest.approx(figure.get_figheight() / figure.get_figwidth(), abs=0.01)
    assert figure.dpi == before
