"""TensorBoard as a server and its event files as tests read them."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Any

import numpy as np
from lightning.pytorch import Trainer
from lightning.pytorch.loggers import TensorBoardLogger
from matplotlib.text import Text
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from lightning_evalkit.callbacks import TensorBoardReport
from lightning_evalkit.sinks.png import png_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

EPOCHS = 3
STAGES = ("train", "val", "test")


def texts(figure: Figure) -> list[Text]:
    return [text for text in figure.findobj(Text) if text.get_visible() and text.get_text()]


def overlapping(labels: list[Text]) -> list[tuple[str, str]]:
    boxes = [(label.get_text(), label.get_window_extent()) for label in labels]
    return [(a, b) for k, (a, box) in enumerate(boxes) for b, other in boxes[k + 1 :] if box.overlaps(other)]


def in_a_file(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The pixels of an image after they were written with 256 colours."""
    with Image.open(io.BytesIO(png_of(pixels))) as seen:
        return np.asarray(seen.convert("RGB"))


def trainer(folder: Path, name: str = "run", report: TensorBoardReport | None = None, **options: Any) -> Trainer:
    quiet = {"accelerator": "cpu", "enable_progress_bar": False, "enable_model_summary": False}
    settings = {
        "max_epochs": EPOCHS,
        "logger": TensorBoardLogger(folder, name="", version=name),
        "callbacks": [report or TensorBoardReport(every_n_epochs=1, stages=STAGES)],
        "enable_checkpointing": False,
    }
    return Trainer(**(quiet | settings | options))


class Server:
    """TensorBoard in a process of its own."""

    def __init__(self, folder: Path, log: Path) -> None:
        command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(folder), "--load_fast=false"]
        with log.open("w") as stderr:
            self.process = subprocess.Popen(
                [*command, "--host", "127.0.0.1", "--port", "0"], stdout=subprocess.DEVNULL, stderr=stderr
            )
        try:
            self.address = self.wait(lambda: re.search(r"at (http://127\.0\.0\.1:\d+/)", log.read_text()))[1]
        except BaseException:
            self.stop()
            raise

    def wait(self, ready: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + 240
        while time.monotonic() < deadline:
            if found := ready():
                return found
            assert self.process.poll() is None, "TensorBoard ended by itself"
            time.sleep(0.1)
        raise TimeoutError("TensorBoard was not ready within four minutes")

    def read(self, route: str, **query: Any) -> bytes:
        address = f"{self.address}data/plugin/{route}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(address, timeout=120) as answer:
            return answer.read()

    def get(self, route: str, **query: Any) -> Any:
        return json.loads(self.read(route, **query))

    def post(self, route: str, **body: Any) -> Any:
        address, content = f"{self.address}data/plugin/{route}", json.dumps(body).encode()
        request = urllib.request.Request(address, content, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.loads(answer.read())

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)


def events(folder: Path, name: str = "run") -> EventAccumulator:
    return EventAccumulator(str(folder / name), size_guidance={"images": 0, "scalars": 0, "tensors": 0}).Reload()


def image_steps(folder: Path, tag: str) -> list[int]:
    return [event.step for event in events(folder).Images(tag)]
