"""What does drawing cost of a run?

python experiments/benchmarks/drawing.py [--quick]

Handwritten digits, ten classes with curves and a confusion matrix, counted by ``Evaluate`` with a TensorBoardLogger:
the same run without and with figures, which are drawn at its end and at a few epochs before; and the bytes of events.
The figures of the end take the same time however short a run is, so short runs are measured as whole programs too:
the processor time of a fresh Python that imports Lightning, trains and draws, the median of eight. The other times are
the least of four: other work on the machine only adds. Runs with and without figures take turns.
"""

from __future__ import annotations

import argparse
import logging
import resource
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from statistics import median
from time import perf_counter

from lightning.pytorch import Trainer, seed_everything
from lightning.pytorch.loggers import TensorBoardLogger
from timing import Row, markdown

from lightning_evalkit import MulticlassEvaluation
from lightning_evalkit.callbacks import Evaluate
from lightning_evalkit.data import DigitsDataModule
from lightning_evalkit.modules import MulticlassClassifier

TURNS = 4


def run(epochs: int, figures: bool, folder: Path) -> tuple[float, int]:
    """Seconds of a fit, and the bytes it left for TensorBoard."""
    seed_everything(0, verbose=False)
    data = DigitsDataModule()
    module = MulticlassClassifier(num_features=data.num_features, num_classes=data.num_classes)
    evaluation = MulticlassEvaluation("logits", data.num_classes, curves=True, confusion_matrix=True, prefix="mine/")
    trainer = Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        logger=TensorBoardLogger(folder, name="", version="run"),
        callbacks=[Evaluate(evaluation, figures=figures)],
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    start = perf_counter()
    trainer.fit(module, datamodule=data)
    seconds = perf_counter() - start
    return seconds, sum(path.stat().st_size for path in folder.rglob("events*"))


def rows(epochs: int) -> list[Row]:
    found: dict[bool, list[tuple[float, int]]] = {False: [], True: []}
    for figures in (True, False) * TURNS:
        with tempfile.TemporaryDirectory() as folder:
            found[figures].append(run(epochs, figures, Path(folder)))
    (without, bare), (seconds, drawn) = min(found[False]), min(found[True])
    work = f"digits, {epochs} epochs, with figures"
    return [
        Row(work, "without figures", without, seconds, "≤ 1.05"),
        Row(f"{work}: bytes of events", "without figures", bare, drawn, counted=True),
    ]


def program(epochs: int, figures: bool) -> float:
    """Processor seconds of a program of its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        code = f"from pathlib import Path; from drawing import run; run({epochs}, {figures}, Path({folder!r}))"
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code],
            cwd=Path(__file__).parent,
            check=True,
            stderr=subprocess.DEVNULL,
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def program_row(epochs: int) -> Row:
    found = [(program(epochs, False), program(epochs, True)) for _ in range(2 * TURNS)]
    without, drawn = (median(each) for each in zip(*found, strict=True))
    work = f"digits, {epochs} epochs, the whole program with figures"
    return Row(work, "without figures", without, drawn, "≤ 1.05")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="Three epochs and thirty instead of thirty and 150.")
    quick = parser.parse_args().quick
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    whole = [program_row(epochs) for epochs in (3, 30)]
    print(markdown([*whole, *(row for epochs in ((3, 30) if quick else (30, 150)) for row in rows(epochs))]))
