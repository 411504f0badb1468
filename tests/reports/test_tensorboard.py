"""What is drawn in TensorBoard: legible figures, and over HTTP from the real server the numbers of scikit-learn.

As in the tests of Lightning, parameters stay as they are and scores shift by epoch, so that every epoch's numbers are
known from the whole data. Each task's module resets and logs in a way of its own.
"""

from __future__ import annotations

import io
import math
import re
import sys
import urllib.parse
import urllib.request
import warnings
from argparse import Namespace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
import torch
from lightning.pytorch import LightningDataModule, LightningModule, Trainer
from lightning.pytorch.cli import LightningCLI
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from lightning.pytorch.strategies import DDPStrategy
from PIL import Image
from sklearn import metrics as sklearn
from tensorboard.plugins.custom_scalar.layout_pb2 import Layout
from tensorboard.plugins.hparams import metadata
from tensorboard_runs import EPOCHS, Server, events, image_steps, overlapping, texts, trainer
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lightning_evalkit import BinaryEvaluation, Counts, MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit.callbacks import TensorBoardReport
from lightning_evalkit.diagnosis import explain
from lightning_evalkit.errors import DeclarationError, InputError
from lightning_evalkit.sinks import figures, tensorboard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from matplotlib.figure import Figure

    from lightning_evalkit.evaluation.base import Evaluation

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


# ---- hyperparameters


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (3, 3),
        (True, True),
        (0.5, 0.5),
        ("Adam", "Adam"),
        (None, "None"),
        ((1, 2), "(1, 2)"),
        ({}, "{}"),
        (math.inf, "inf"),
        (math.nan, "nan"),
        (torch.tensor(2), 2),
        (np.float32(0.25), 0.25),
        (torch.tensor([1.0, 2.0]), "tensor([1., 2.])"),
        (Path("a") / "b", str(Path("a") / "b")),
        (nn.Linear, "Linear"),
        ("x" * 999, "x" * 249 + "…"),
    ],
)
def test_a_hyperparameter_is_made_plain(value: Any, plain: Any):
    found = tensorboard.flat({"name": value})
    assert found == {"name": plain}
    assert type(found["name"]) is type(plain)


def test_nested_hyperparameters_have_the_name_of_their_path():
    nested = {"a": {"b": {"c": 1}, 2: "two"}, "d": Namespace(e=None)}
    assert tensorboard.flat(nested) == {"a/b/c": 1, "a/2": "two", "d/e": "None"}


# ---- three tasks, each reset and logged in another way

ROWS, BATCH, SHIFT = 48, 8, 0.4
BATCHES = ROWS // BATCH
SEEDS = {"train": 1, "val": 2, "test": 3}
CLASSES = ("cat_1", "dog $", "bird")


def data(task: str, stage: str) -> TensorDataset:
    generator = torch.Generator().manual_seed(SEEDS[stage])
    x = torch.randn(ROWS, 3, generator=generator)
    shape, highest = {"binary": ((ROWS,), 2), "multiclass": ((ROWS,), 3), "multilabel": ((ROWS, 3), 2)}[task]
    y = torch.randint(0, highest, shape, generator=generator)
    return TensorDataset(x[:, 0] if task == "binary" else x, y)


def loader(task: str, stage: str) -> DataLoader[Any]:
    return DataLoader(data(task, stage), batch_size=BATCH)


def decided(task: str, x: np.ndarray, epoch: int) -> np.ndarray:
    if task == "multiclass":
        return (x + SHIFT * epoch * np.array([1, 0, 0])).argmax(1)
    return x + SHIFT * epoch > 0


def numbers(task: str, stage: str, epoch: int) -> dict[str, Any]:
    """Scikit-learn's values and matrix of a whole epoch."""
    x, y = (tensor.numpy() for tensor in data(task, stage).tensors)
    predicted = decided(task, x, epoch)
    if task == "multilabel":
        return {
            "exact_match": sklearn.accuracy_score(y, predicted),
            "hamming_accuracy": 1 - sklearn.hamming_loss(y, predicted),
            "f1/micro": sklearn.f1_score(y, predicted, average="micro"),
            "f1/macro": sklearn.f1_score(y, predicted, average="macro"),
            "matrix": sklearn.multilabel_confusion_matrix(y, predicted),
        }
    average = {"binary": {"f1": "binary"}, "multiclass": {"f1/macro": "macro"}}[task]
    f1 = {name: sklearn.f1_score(y, predicted, average=kind) for name, kind in average.items()}
    matrix = sklearn.confusion_matrix(y, predicted)
    return {"accuracy": sklearn.accuracy_score(y, predicted), **f1, "matrix": matrix}


def evaluation(task: str, prefix: str | None, **options: Any) -> Evaluation:
    options = {"inputs": "logits", "zero_division": 0.0, "prefix": prefix} | options
    if task == "binary":
        return BinaryEvaluation(**options)
    if task == "multiclass":
        return MulticlassEvaluation(**({"num_classes": 3, "class_names": CLASSES, "confusion_matrix": True} | options))
    return MultilabelEvaluation(num_labels=3, label_names=CLASSES, **options)


class Tiny(LightningModule):
    """Evaluations under names that mislead; ``way`` says when they are logged and reset: "end", "start" or "step"."""

    def __init__(
        self, task: str = "binary", way: str = "end", nested: Any = None, flag: bool = True, **options: Any
    ) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.task, self.way = task, way
        self.scale = nn.Parameter(torch.ones(()))
        self.test_evaluation = evaluation(task, "train/", **options)
        self.held = nn.ModuleDict({"train_one": evaluation(task, "val/", **options)})
        self.more = nn.ModuleList([evaluation(task, "test/", **options)])

    def of(self, stage: str) -> Any:
        return {"train": self.test_evaluation, "val": self.held["train_one"], "test": self.more[0]}[stage]

    def forward(self, x: Tensor) -> Tensor:
        shift = torch.tensor([1, 0, 0]) if self.task == "multiclass" else 1
        return x * self.scale + SHIFT * self.current_epoch * shift

    def step(self, stage: str, batch: tuple[Tensor, Tensor]) -> Tensor:
        x, y = batch
        scores = self(x)
        self.of(stage).update(scores, y)
        if self.way == "step":
            self.log_dict(self.of(stage), on_step=stage == "train", on_epoch=True)
        return scores.sum()

    def training_step(self, batch: Any, _: int) -> Tensor:
        return self.step("train", batch)

    def validation_step(self, batch: Any, _: int) -> None:
        self.step("val", batch)

    def test_step(self, batch: Any, batch_idx: int) -> None:
        self.step("test", batch)

    def begin(self, stage: str) -> None:
        if self.way == "start":
            self.of(stage).reset()

    def end(self, stage: str) -> None:
        if self.way != "step":
            self.log_dict(self.of(stage).compute())
        if self.way == "end":
            self.of(stage).reset()

    def on_train_epoch_start(self) -> None:
        self.begin("train")

    def on_validation_epoch_start(self) -> None:
        self.begin("val")

    def on_test_epoch_start(self) -> None:
        self.begin("test")

    def on_train_epoch_end(self) -> None:
        self.end("train")

    def on_validation_epoch_end(self) -> None:
        self.end("val")

    def on_test_epoch_end(self) -> None:
        self.end("test")

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.0)


class Rows(LightningDataModule):
    def __init__(self, task: str = "binary", prevalence: float = 0.5) -> None:
        super().__init__()
        self.save_hyperparameters()

    def train_dataloader(self) -> DataLoader[Any]:
        return loader(self.hparams["task"], "train")

    def val_dataloader(self) -> Any:
        return loader(self.hparams["task"], "val")

    def test_dataloader(self) -> DataLoader[Any]:
        return loader(self.hparams["task"], "test")


# ---- over HTTP

WAYS = {"binary": "end", "multiclass": "start", "multilabel": "step"}
STEPS = {stage: [(epoch + 1) * BATCHES - 1 for epoch in range(EPOCHS)] for stage in ("train", "val")}
STEPS["test"] = [EPOCHS * BATCHES]
"""Where Lightning logs the scalars of an epoch."""
AT = {"train": range(EPOCHS), "val": range(EPOCHS), "test": [EPOCHS]}
"""The epochs of which they are."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One run for each task, and the server that shows them all."""
    folder, log = tmp_path_factory.mktemp("runs"), tmp_path_factory.mktemp("server") / "log"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the tests, filtered there; fixtures of a module do not know their filters
        for task, way in WAYS.items():
            fitting, module = trainer(folder, task), Tiny(task, way, {"widths": [4, 2], "bias": None})
            fitting.fit(module, datamodule=Rows(task))
            fitting.test(module, datamodule=Rows(task), verbose=False)
    server = Server(folder, log)
    try:
        server.wait(lambda: all("test/explanation/text_summary" in tags for tags in three(server.get("text/tags"))))
        yield server
    finally:
        server.stop()


def three(by_run: dict[str, Any]) -> list[Any]:
    """What each of the runs has."""
    return [by_run.get(run, []) for run in WAYS]


def points(server: Server, task: str, tag: str) -> list[tuple[int, float]]:
    found = server.get("scalars/scalars", run=task, tag=tag)
    return [(step, value) for _, step, value in found]


def logged(task: str, stage: str, name: str) -> str:
    """The tag that Lightning makes of a name; it tells values of steps and epochs apart where both are logged."""
    return f"{stage}/{name}_epoch" if (WAYS[task], stage) == ("step", "train") else f"{stage}/{name}"


@pytest.mark.slow
@pytest.mark.parametrize("task", WAYS)
@pytest.mark.parametrize("stage", AT)
def test_scalars_are_those_of_scikit_learn(server: Server, task: str, stage: str):
    expected = [numbers(task, stage, epoch) for epoch in AT[stage]]
    names = [name for name in expected[0] if name != "matrix"]
    assert len(names) >= 2
    for name in names:
        values = [pytest.approx(each[name], abs=1e-6) for each in expected]
        assert points(server, task, logged(task, stage, name)) == list(zip(STEPS[stage], values, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("task", WAYS)
def test_no_scalar_was_added(server: Server, task: str):
    tags = server.get("scalars/tags")[task]
    assert not [tag for tag in tags if "hp" in tag]
    names = {name.rpartition("_")[0] if WAYS[task] == "step" else name for name in tags}
    assert "epoch" in tags
    assert "train/f1" in names | {name.rpartition("/")[0] for name in names}
    for tag in tags:
        assert points(server, task, tag)[0][0] > 0, tag


@pytest.mark.slow
@pytest.mark.parametrize("task", WAYS)
@pytest.mark.parametrize("stage", AT)
def test_images_show_the_matrices_of_scikit_learn(server: Server, task: str, stage: str):
    tag = f"{stage}/confusion_matrix"
    images = server.get("images/images", run=task, tag=tag, sample=0)
    assert [image["step"] for image in images] == STEPS[stage]
    draw = figures.label_counts if task == "multilabel" else figures.confusion_matrix
    names = ("negative", "positive") if task == "binary" else CLASSES
    for image, epoch in zip(images, AT[stage], strict=True):
        (query,) = urllib.parse.parse_qs(image["query"])["blob_key"]
        with Image.open(io.BytesIO(server.read("images/individualImage", blob_key=query))) as shown:
            assert shown.format == "PNG"
            seen = np.asarray(shown.convert("RGB"))
        title = tag if stage == "test" else f"{tag} · epoch {epoch}"
        matrix = torch.from_numpy(numbers(task, stage, epoch)["matrix"])
        assert np.array_equal(seen, figures.pixels(draw(matrix, names, title)))


def plain(text: str) -> str:
    """HTML or Markdown without its marks."""
    return " ".join(re.sub(r"<[^>]*>|[*|#:-]", " ", text).split())


@pytest.mark.slow
@pytest.mark.parametrize("stage", AT)
def test_texts_explain_the_counts_of_scikit_learn(server: Server, stage: str):
    found = server.get("text/text", run="binary", tag=f"{stage}/explanation/text_summary")
    assert [text["step"] for text in found] == STEPS[stage]
    for text, epoch in zip(found, AT[stage], strict=True):
        (tn, fp), (fn, tp) = numbers("binary", stage, epoch)["matrix"].tolist()
        assert plain(text["text"]) == plain(explain(Counts(tp=tp, fp=fp, fn=fn, tn=tn)).markdown())
        assert "<strong>accuracy and f1" in text["text"]


@pytest.mark.slow
@pytest.mark.parametrize(("task", "pair"), [("multiclass", "accuracy and f1/micro"), ("multilabel", "exact_match and")])
def test_texts_explain_many_classes_and_labels(server: Server, task: str, pair: str):
    for stage in AT:
        found = server.get("text/text", run=task, tag=f"{stage}/explanation/text_summary")
        assert [text["step"] for text in found] == STEPS[stage]
        assert all(pair in text["text"] for text in found)


@pytest.mark.slow
def test_charts_hold_accuracy_and_f1_of_each_stage_and_of_all(server: Server):
    (category,) = server.get("custom_scalars/layout")["category"]
    assert category["title"] == "accuracy and F1"
    charts: dict[str, list[set[str]]] = {}
    for chart in category["chart"]:
        matched = set()
        for pattern in chart["multiline"]["tag"]:
            shown = [server.get("custom_scalars/scalars", run=task, tag=pattern) for task in WAYS]
            assert all(each["regex_valid"] for each in shown)
            found = {tag for each in shown for tag, series in each["tag_to_events"].items() if series}
            assert len(found) == 1, pattern  # one tag, and it has points
            matched |= found
        charts.setdefault(chart["title"], []).append(matched)
    expected: dict[str, list[set[str]]] = {}
    for task in WAYS:
        stages = {stage: {logged(task, stage, name) for name in numbers(task, stage, 0)} for stage in AT}
        stages = {stage: {tag for tag in tags if "matrix" not in tag} for stage, tags in stages.items()}
        for title, tags in {**stages, "all stages": set.union(*stages.values())}.items():
            expected.setdefault(title, []).append(tags)
    assert charts == expected


@pytest.mark.slow
def test_hyperparameters_stand_beside_the_last_values(server: Server):
    infos = server.post("hparams/experiment", experimentName="")
    assert {info["name"] for info in infos["hparamInfos"]} == {
        *("model", "data", "task", "way", "flag", "nested/widths", "nested/bias", "data/task", "data/prevalence")
    }
    statuses = ["STATUS_UNKNOWN", "STATUS_SUCCESS", "STATUS_FAILURE", "STATUS_RUNNING"]
    asked = {"experimentName": "", "startIndex": 0, "sliceSize": 9, "allowedStatuses": statuses, "colParams": []}
    groups = {group["name"]: group for group in server.post("hparams/session_groups", **asked)["sessionGroups"]}
    assert groups.keys() == WAYS.keys()
    for task, group in groups.items():
        own = {"model": "Tiny", "data": "Rows", "task": task, "way": WAYS[task]}
        assert group["hparams"] == own | {
            "flag": True,
            "data/task": task,
            "data/prevalence": 0.5,
            "nested/widths": "[4, 2]",
            "nested/bias": "None",
        }
        assert group["hparams"]["flag"] is True  # and not 1
        assert [session["status"] for session in group["sessions"]] == ["STATUS_SUCCESS"]
        values = {metric["name"]["tag"]: metric["value"] for metric in group["metricValues"]}
        for stage, epochs in AT.items():
            for name, value in numbers(task, stage, epochs[-1]).items():
                if name != "matrix":
                    assert values[logged(task, stage, name)] == pytest.approx(value, abs=1e-6)


# ---- without a server: what is drawn, and when

Drawing = tuple[str, Any]


@pytest.fixture
def drawings(monkeypatch: pytest.MonkeyPatch) -> list[Drawing]:
    """Titles and counts of all figures."""
    noted: list[Drawing] = []

    def noting(draw: Callable[..., Figure]) -> Callable[..., Figure]:
        def noted_too(matrix: Tensor, names: Any, title: str = "") -> Figure:
            noted.append((title, matrix.tolist()))
            return draw(matrix, names, title)

        return noted_too

    for name in ("confusion_matrix", "label_counts"):
        monkeypatch.setattr(figures, name, noting(getattr(figures, name)))
    return noted


def drawing(task: str, stage: str, epoch: int) -> Drawing:
    """What has to be drawn."""
    return f"{stage}/confusion_matrix · epoch {epoch}", numbers(task, stage, epoch)["matrix"].tolist()


def fit(folder: Path, module: LightningModule | None = None, val: Any = None, **options: Any) -> Trainer:
    fitting = trainer(folder, **options)
    fitting.fit(module or Tiny(), loader("binary", "train"), val or loader("binary", "val"))
    return fitting


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
    running = fit(tmp_path, report=TensorBoardReport(every_n_epochs=every))
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
    expected = [(f"{stage}/confusion_matrix", drawing("binary", stage, 0)[1]) for stage in ("test", "val")]
    assert drawings == expected
    assert set(events(tmp_path).Tags()["images"]) == {"test/confusion_matrix", "val/confusion_matrix"}


class Failing(Tiny):
    def on_train_batch_start(self, *_: Any) -> None:
        if self.current_epoch == 2:
            raise RuntimeError("out of memory")


def test_an_interrupted_training_shows_its_last_state(tmp_path: Path, drawings: list[Drawing]):
    with pytest.raises(RuntimeError, match="out of memory"):
        fit(tmp_path, Failing(), report=TensorBoardReport(every_n_epochs=5))
    assert drawings == [drawing("binary", stage, 1) for stage in ("val", "train")]
    tags = events(tmp_path).Tags()["tensors"]
    assert {"_hparams_/session_start_info", "_hparams_/session_end_info"} <= set(tags)


def test_figures_and_explanations_can_be_left_out(tmp_path: Path):
    for name, chosen in {"figures": {"figures": False}, "texts": {"explanations": False}}.items():
        fit(tmp_path, name=name, report=TensorBoardReport(**chosen))
    without_figures, without_texts = events(tmp_path, "figures").Tags(), events(tmp_path, "texts").Tags()
    assert (without_figures["images"], len(without_texts["images"])) == ([], 2)
    assert "val/explanation/text_summary" in set(without_figures["tensors"]) - set(without_texts["tensors"])


def test_weighted_counts_are_drawn_and_explained(tmp_path: Path, drawings: list[Drawing]):
    fit(tmp_path, Weighted(weighted=True), max_epochs=1)
    assert drawings == [(title, (1.5 * np.array(matrix)).tolist()) for title, matrix in first_epoch()]
    assert len(events(tmp_path).Tensors("val/explanation/text_summary")) == 1


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
    assert dict(drawings)["cut_confusion_matrix! · epoch 0"] == matrices
    (text,) = events(tmp_path).Tensors("cut_explanation!/text_summary")
    written = text.tensor_proto.string_val[0].decode()
    first, second = (explain(counts(matrix)).markdown() for matrix in matrices)
    assert written == f"#### threshold 0.2\n\n{first}\n\n#### threshold 0.9\n\n{second}"
    assert chart_patterns(tmp_path)["val"] == [r"cut_f1@0\.2!$", r"cut_f1@0\.9!$"]


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
    assert chart_patterns(tmp_path)["val"] == [
        f"val/{name}/dataloader_idx_{number}$" for name in ("accuracy", "f1") for number in (0, 1)
    ]


def test_the_prefix_of_the_logger_is_kept(tmp_path: Path):
    logger = TensorBoardLogger(tmp_path, name="", version="run", prefix="mine")
    fit(tmp_path, logger=logger, max_epochs=1)
    assert set(events(tmp_path).Tags()["images"]) == {"mine-train/confusion_matrix", "mine-val/confusion_matrix"}
    assert "mine-val/f1" in events(tmp_path).Tags()["scalars"]
    assert chart_patterns(tmp_path)["val"] == [r"mine\-val/accuracy$", r"mine\-val/f1$"]


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
    assert {"train/explanation/text_summary", "val/explanation/text_summary"} <= set(tags["tensors"])


def test_a_failure_to_draw_is_told_once_and_training_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def broken(*_: Any) -> None:
        raise ValueError("no canvas")

    monkeypatch.setattr(figures, "pixels", broken)
    with pytest.warns(
        UserWarning, match="could not draw the confusion matrix under 'val/': ValueError: no canvas"
    ) as caught:
        running = fit(tmp_path)
    assert sum("TensorBoardReport" in str(warning.message) for warning in caught) == 1
    assert running.current_epoch == EPOCHS
    assert len(events(tmp_path).Tensors("val/explanation/text_summary")) == EPOCHS


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
        DeclarationError, match=f"expected every_n_epochs to be a whole number from 1 on, got {every!r}"
    ):
        TensorBoardReport(every_n_epochs=every)


# ---- two processes


class OneSided(Tiny):
    """An evaluation that only one rank updates."""

    def __init__(self) -> None:
        super().__init__()
        self.lonely = evaluation("binary", "lonely/")

    def validation_step(self, batch: Any, number: int) -> None:
        super().validation_step(batch, number)
        if self.global_rank == 1:
            self.lonely.update(self(batch[0]), batch[1])

    def on_validation_epoch_start(self) -> None:
        self.lonely.reset()


@pytest.mark.slow
def test_two_processes_draw_once_and_count_together(tmp_path: Path):
    """Ranks have to agree on what they read: reading is a collective, and what one rank asks alone would hang."""
    fit(
        tmp_path,
        OneSided(),
        devices=2,
        strategy=DDPStrategy(start_method="forkserver", process_group_backend="gloo", timeout=timedelta(seconds=60)),
        max_epochs=2,
        num_sanity_val_steps=2,
    )
    found = events(tmp_path)
    half = BATCHES // 2
    assert set(found.Tags()["images"]) == {f"{name}/confusion_matrix" for name in ("train", "val", "lonely")}
    assert len(list(tmp_path.rglob("events*"))) == 1
    for stage in ("train", "val"):
        shown = found.Images(f"{stage}/confusion_matrix")
        assert [image.step for image in shown] == [half - 1, 2 * half - 1]
        for epoch, image in enumerate(shown):
            title, matrix = drawing("binary", stage, epoch)
            expected = figures.confusion_matrix(torch.tensor(matrix), ("negative", "positive"), title)
            with Image.open(io.BytesIO(image.encoded_image_string)) as seen:
                assert np.array_equal(np.asarray(seen.convert("RGB")), figures.pixels(expected))
