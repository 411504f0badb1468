"""What do ``forward`` and ``update`` of single metrics cost here, and what do they cost in torchmetrics?

python experiments/benchmarks/forward.py [--quick] [--out FILE]

Every family of curves, counts beside them, and AUROC, accuracy and F1 in one MetricCollection, for the three tasks at
batches of 32, 256 and 1,024 probabilities, each beside torchmetrics' metric of the same name with its own defaults.
torchmetrics keeps every score; ours keep a histogram of fixed size, and copies of small batches until they are counted
together. ``forward`` and ``update`` are timed 100 times in a row, behind one reset. An epoch is 100 updates and one
compute: work that an update leaves to later is in it. One thread.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torchmetrics.classification as peer
from scores import one_thread, surroundings
from timing import Effort, Row, best_of, evenly_timed, markdown, progress_bar
from torchmetrics import MetricCollection

import lightning_evalkit.metrics as ours

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

SIZES, CLASSES, BATCHES = (32, 256, 1024), 10, 100
COUNTED = ("Accuracy", "StatScores", "ConfusionMatrix")
SCORED = ("AUROC", "AveragePrecision", "ROC", "PrecisionRecallCurve", "EER", "CalibrationError")
TOGETHER = "AUROC, Accuracy, F1Score"
FAMILIES = (*COUNTED, *SCORED, TOGETHER)
TASKS: dict[str, tuple[int, ...]] = {"Binary": (), "Multiclass": (CLASSES,), "Multilabel": (CLASSES,)}


def batch(task: str, size: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(size)
    shape = (size,) if task == "Binary" else (size, CLASSES)
    scores = torch.randn(shape, generator=generator)
    if task == "Multiclass":
        return scores.softmax(1), torch.randint(0, CLASSES, (size,), generator=generator)
    return scores.sigmoid(), torch.randint(0, 2, shape, generator=generator)


def repeated(metric: Any, work: Callable[..., object], given: tuple[Tensor, Tensor]) -> Callable[[], object]:
    """The work on every batch of an epoch, behind one reset."""

    def run() -> None:
        metric.reset()
        for _ in range(BATCHES):
            work(*given)

    return run


def epoch(metric: Any, given: tuple[Tensor, Tensor]) -> Callable[[], object]:
    """All updates of an epoch and one compute."""
    count = repeated(metric, metric.update, given)

    def run() -> object:
        count()
        return metric.compute()

    return run


def exists(task: str, family: str) -> bool:
    return all(hasattr(peer, f"{task}{name}") for name in family.split(", "))


def made(package: Any, task: str, family: str) -> Any:
    """A metric, or several in a collection."""
    metrics = [getattr(package, f"{task}{name}")(*TASKS[task]) for name in family.split(", ")]
    return metrics[0] if len(metrics) == 1 else MetricCollection(metrics)


def rows(task: str, family: str, size: int, effort: Effort) -> list[Row]:
    name, given = f"{task}{family}", batch(task, size)
    works = {}
    for whose, package in (("ours", ours), ("theirs", peer)):
        metric = made(package, task, family)
        works[f"forward {whose}"] = repeated(metric, metric.__call__, given)
        works[f"update {whose}"] = repeated(metric, metric.update, given)
        works[f"epoch {whose}"] = epoch(metric, given)
    seconds = best_of(evenly_timed(works, 0.01), effort.rounds(f"{name}, {size}", 20))

    def row(what: str, times: int, aim: str = "") -> Row:
        theirs, here = (seconds[f"{what} {whose}"] / times for whose in ("theirs", "ours"))
        return Row(f"{what} of {size}, {name}", "torchmetrics", theirs, here, aim)

    return [row("forward", BATCHES, "≤ 0.7"), row("update", BATCHES, "≤ 0.7"), row("epoch", 1)]


def table(effort: Effort) -> str:
    cases = [(task, family) for task in TASKS for family in FAMILIES if exists(task, family)]
    return markdown([row for task, family in cases for size in SIZES for row in rows(task, family, size, effort)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rounds")
    parser.add_argument("--out", type=Path, help="a file for the table, as Markdown")
    chosen = parser.parse_args()
    one_thread()
    with progress_bar() as progress:
        text = f"{table(Effort(progress, chosen.quick))}\n\n{surroundings()}"
    print(text)
    if chosen.out:
        chosen.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
