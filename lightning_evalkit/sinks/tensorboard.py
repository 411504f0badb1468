"""Writes images, texts, PR curves, charts and hyperparameters to an event file: the one file that knows TensorBoard.

Scalars are not written here: the training's logger writes them, and charts and the HParams tab show those.
"""

from __future__ import annotations

import math
import os
import re
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lightning_evalkit.errors import required
from lightning_evalkit.sinks.png import png_of

with required("tensorboard"):
    from tensorboard.compat.proto.summary_pb2 import Summary  # type: ignore[import-untyped]
    from tensorboard.plugins.hparams import api_pb2, metadata  # type: ignore[import-untyped]
    from tensorboard.plugins.hparams import plugin_data_pb2 as proto

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch.utils.tensorboard import SummaryWriter

    from lightning_evalkit.counts import Counts

LONGEST = 250
"""Texts of hyperparameters are cut to this many characters."""

Plain = bool | int | float | str
"""The types of hyperparameters that TensorBoard stores."""


@contextmanager
def opened(folder: str) -> Iterator[SummaryWriter]:
    """Open a writer for a separate run."""
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(folder)
    try:
        yield writer
    finally:
        writer.close()


def add_image(writer: SummaryWriter, tag: str, pixels: NDArray[np.uint8], step: int) -> None:
    """Write an image of shape (height, width, 3)."""
    height, width, colours = pixels.shape
    image = Summary.Image(height=height, width=width, colorspace=colours, encoded_image_string=png_of(pixels))
    writer._get_file_writer().add_summary(Summary(value=[Summary.Value(tag=tag, image=image)]), step)


def add_text(writer: SummaryWriter, tag: str, markdown: str, step: int) -> None:
    """Write a text in Markdown."""
    writer.add_text(tag, markdown, step)


def add_pr_curve(writer: SummaryWriter, tag: str, counts: Counts, step: int) -> None:
    """Write counts at up to 127 even thresholds from 0 to 1; TensorBoard cuts those without a prediction."""
    real = counts.real()
    precision, recall = (real.tp / real.predicted_positives).nan_to_num(1.0), real.tp / real.positives
    tp, fp, fn, tn = (cell.numpy() for cell in real.cells)
    writer.add_pr_curve_raw(tag, tp, fp, tn, fn, precision.numpy(), recall.numpy(), step, len(precision))


class SubRuns:
    """Runs inside the folder of a run, one for each line of a chart: TensorBoard colours lines by run, not by tag."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._writers: dict[str, SummaryWriter] = {}

    def add_scalar(self, line: str, chart: str, value: float, step: int) -> None:
        """Write a point of a line, under the tag of its chart."""
        if line not in self._writers:
            from torch.utils.tensorboard import SummaryWriter

            self._writers[line] = SummaryWriter(os.path.join(self._folder, line.replace("/", "_")))
        self._writers[line].add_scalar(chart, value, step)

    def close(self) -> None:
        """Write what is left."""
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()


def add_charts(
    writer: SummaryWriter, category: str, charts: Mapping[str, Iterable[str]], bands: Iterable[str] = ()
) -> None:
    """Write charts by title, each of several scalar tags; TensorBoard shows the layout that was written last."""
    layout = {title: ["Multiline", list(map(_only, tags))] for title, tags in charts.items()}
    layout |= {f"{tag} and its interval": ["Margin", [tag, f"{tag}/low", f"{tag}/high"]] for tag in bands}
    writer.add_custom_scalars({category: layout})


def _only(tag: str) -> str:
    """A pattern that matches one tag only; TensorBoard matches prefixes of tags."""
    return f"{re.escape(tag)}$"


# ---- hyperparameters


def start_session(writer: SummaryWriter, hyperparameters: Mapping[str, Any]) -> None:
    """Write the hyperparameters of a run, once.

    No list of metrics goes with them: TensorBoard would use the list of one run for all, and hide what others have.
    Without a list it offers the last value of every scalar of every run, and columns for the hyperparameters of all.
    """
    info = proto.SessionStartInfo(start_time_secs=time.time())
    for name, value in flat(hyperparameters).items():
        kind = "bool_value" if isinstance(value, bool) else "string_value" if isinstance(value, str) else "number_value"
        setattr(info.hparams[name], kind, value)
    _add(writer, metadata.SESSION_START_INFO_TAG, proto.HParamsPluginData(session_start_info=info))


def end_session(writer: SummaryWriter, succeeded: bool) -> None:
    """Write how the run ended, once."""
    status = api_pb2.STATUS_SUCCESS if succeeded else api_pb2.STATUS_FAILURE
    info = proto.SessionEndInfo(status=status, end_time_secs=time.time())
    _add(writer, metadata.SESSION_END_INFO_TAG, proto.HParamsPluginData(session_end_info=info))


def _add(writer: SummaryWriter, tag: str, data: proto.HParamsPluginData) -> None:
    described = metadata.create_summary_metadata(data)
    value = Summary.Value(tag=tag, metadata=described, tensor=metadata.NULL_TENSOR)
    writer._get_file_writer().add_summary(Summary(value=[value]))  # as add_hparams does, which would open a second run


def flat(hyperparameters: Mapping[str, Any]) -> dict[str, Plain]:
    """Flatten nested values by their path, as numbers, texts and truth values.

    >>> flat({"lr": 0.1, "optimizer": {"name": "Adam", "betas": [0.9, 0.99], "decay": None}})
    {'lr': 0.1, 'optimizer/name': 'Adam', 'optimizer/betas': '[0.9, 0.99]', 'optimizer/decay': 'None'}
    """
    return {name: _plain(value) for name, value in _leaves(hyperparameters, "")}


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    value = vars(value) if isinstance(value, Namespace) else value
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}/{name}" if path else str(name))
    else:
        yield path, value


def _plain(value: Any) -> Plain:
    if getattr(value, "ndim", None) == 0:  # scalars of torch and NumPy
        value = value.item()
    if isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value)):
        return value  # TensorBoard shows no infinite number or NaN
    text = str(getattr(value, "__qualname__", value))
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
