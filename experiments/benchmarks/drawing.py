"""What does drawing cost of a run?

python experiments/benchmarks/drawing.py [--quick]

Handwritten digits, ten classes with curves and a confusion matrix, counted by ``Evaluate`` with a TensorBoardLogger:
the same run without and with figures, which are drawn at its end and at a few epochs before; and the bytes of events.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import warnings
from pathlib import Path
from time import perf_counter

from lightning.pytorch import Trainer, seed_everything
from lightning.pytorch.loggers import TensorBoardLogger
from timing import Row, markdown

from lightning_evalkit import MulticlassEvaluation
from lightning_evalkit.callbacks import Evaluate
from lightning_evalkit.data import DigitsDataModule
from lightning_evalkit.modules import MulticlassClassifier


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
    found = {}
    for figures in (True, False, True):  # the first loads what both need
        with tempfile.TemporaryDirectory() as folder:
            found[figures] = run(epochs, figures, Path(folder))
    (without, bare), (seconds, drawn) = found[False], found[True]
    work = f"digits, {epochs} epochs, with figures"
    return [
        Row(work, "without figures", without, seconds, "≤ 1.05"),
        Row(f"{work}: bytes of events", "without figures", bare, drawn, counted=True),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="Three epochs and thirty instead of thirty and 150.")
    quick = parser.parse_args().quick
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    print(markdown([row for epochs in ((3, 30) if quick else (30, 150)) for row in rows(epochs)]))
