"""What is drawn in TensorBoard: legible figures, and over HTTP from the real server the numbers of scikit-learn.

As in the tests of Lightning, parameters stay as they are and scores shift by epoch, so that every epoch's numbers are
known from the whole data. Each task's module resets and logs in a way of its own."""

from __future__ import annotations

import html
import io
import math
import re
import urllib.parse
import urllib.request
import warnings
from argparse import Namespace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from lightning.pytorch.strategies import DDPStrategy
from PIL import Image
from reported import BATCHES, CLASSES, STEPS, Rows, Tiny, drawing, evaluation, fit, numbers
from tensorboard_runs import EPOCHS, Server, events, in_a_file, trainer
from torch import nn

from lightning_evalkit import Counts
from lightning_evalkit.diagnosis import explain
from lightning_evalkit.sinks import tensorboard, thumbnails

if TYPE_CHECKING:
    from collections.abc import Iterator


pytestmark = [
    # About the machine and the tiny trainers of these tests, not about what is tested.
    pytest.mark.filterwarnings("ignore:It is recommended to use .self.log.*sync_dist=True"),
]


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


# ---- over HTTP


WAYS = {"binary": "end", "multiclass": "start", "multilabel": "step"}

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
        server.wait(
            lambda: all("findings/test/explanation/text_summary" in tags for tags in three(server.get("text/tags")))
        )
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
def test_no_scalar_was_added_to_the_run_itself(server: Server, task: str):
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
    names = ("negative", "positive") if task == "binary" else CLASSES
    for image, epoch in zip(images, AT[stage], strict=True):
        (query,) = urllib.parse.parse_qs(image["query"])["blob_key"]
        with Image.open(io.BytesIO(server.read("images/individualImage", blob_key=query))) as shown:
            assert shown.format == "PNG"
            seen = np.asarray(shown.convert("RGB"))
        title = stage if stage == "test" else f"{stage} · epoch {epoch}"
        matrix = torch.from_numpy(numbers(task, stage, epoch)["matrix"])
        assert np.array_equal(seen, in_a_file(thumbnails.counts(matrix, names, title)))


def plain(text: str) -> str:
    """HTML or Markdown without its marks."""
    return " ".join(re.sub(r"<[^>]*>|[*|#:-]", " ", html.unescape(text)).split())


@pytest.mark.slow
@pytest.mark.parametrize("stage", AT)
def test_texts_explain_the_counts_of_scikit_learn(server: Server, stage: str):
    found = server.get("text/text", run="binary", tag=f"findings/{stage}/explanation/text_summary")
    (text,) = found  # of the last epoch alone
    assert text["step"] == STEPS[stage][-1]
    (tn, fp), (fn, tp) = numbers("binary", stage, AT[stage][-1])["matrix"].tolist()
    assert plain(text["text"]) == plain(explain(Counts(tp=tp, fp=fp, fn=fn, tn=tn)).markdown())
    assert "<strong>accuracy and f1" in text["text"]


@pytest.mark.slow
@pytest.mark.parametrize(("task", "pair"), [("multiclass", "accuracy and f1/micro"), ("multilabel", "exact_match and")])
def test_texts_explain_many_classes_and_labels(server: Server, task: str, pair: str):
    for stage in AT:
        found = server.get("text/text", run=task, tag=f"findings/{stage}/explanation/text_summary")
        assert [text["step"] for text in found] == STEPS[stage][-1:]
        assert all(pair in text["text"] for text in found)


@pytest.mark.slow
@pytest.mark.parametrize("task", WAYS)
@pytest.mark.parametrize("stage", AT)
def test_accuracy_and_f1_are_lines_of_one_chart_in_colours_of_their_own(server: Server, task: str, stage: str):
    """TensorBoard colours by run: every line is a run, which has the tag of the chart and scikit-learn's numbers."""
    expected = [numbers(task, stage, epoch) for epoch in AT[stage]]
    tags = server.get("scalars/tags")
    for name in (name for name in expected[0] if name != "matrix"):
        run = f"{task}/{name.replace('/', '_')}"
        assert f"accuracy and F1/{stage}" in tags[run]
        found = server.get("scalars/scalars", run=run, tag=f"accuracy and F1/{stage}")
        values = [pytest.approx(each[name], abs=1e-6) for each in expected]
        assert [(step, value) for _, step, value in found] == [*zip(STEPS[stage], values, strict=True)]


@pytest.mark.slow
def test_the_layout_has_a_chart_for_each_stage(server: Server):
    (category,) = server.get("custom_scalars/layout")["category"]
    assert category["title"] == "accuracy and F1"
    assert {chart["title"] for chart in category["chart"]} == {*AT}
    for chart in category["chart"]:
        (pattern,) = {*chart["multiline"]["tag"]}
        shown = server.get("custom_scalars/scalars", run="binary/f1", tag=pattern)
        assert shown["regex_valid"]
        assert [*shown["tag_to_events"]] == [f"accuracy and F1/{chart['title']}"]


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
    assert len(list((tmp_path / "run").glob("events*"))) == 1
    for stage in ("train", "val"):
        shown = found.Images(f"{stage}/confusion_matrix")
        assert [image.step for image in shown] == [half - 1, 2 * half - 1]
        for epoch, image in enumerate(shown):
            title, matrix = drawing("binary", stage, epoch)
            expected = thumbnails.counts(torch.tensor(matrix), ("negative", "positive"), title)
            with Image.open(io.BytesIO(image.encoded_image_string)) as seen:
                assert np.array_equal(np.asarray(seen.convert("RGB")), in_a_file(expected))
