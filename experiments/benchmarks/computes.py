"""What does a compute of 7, 14 and 92 numbers cost here, and what does it cost in torchmetrics?

python experiments/benchmarks/computes.py [--quick] [--out FILE]

After 100 batches of 256: a BinaryEvaluation, the same with curves, and a MulticlassEvaluation of ten classes with
curves and per-class values, beside a torchmetrics MetricCollection of the same statistics, whose compute groups have
formed. torchmetrics has no Brier score and no log loss, which are left out there. Its curves keep every score
(``thresholds=None``), and its best F1 is read from its precision-recall curve. One thread.
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

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

BATCHES, SIZE, CLASSES = 100, 256, 10
UNCACHED = {"compute_with_cache": False}
COUNTED = ("Accuracy", "Precision", "Recall", "Specificity", "F1Score", "MatthewsCorrCoef")
SCORED = ("AUROC", "AveragePrecision", "CalibrationError", "PrecisionRecallCurve")


def batch(classes: int | None, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(0, classes or 2, (SIZE,), generator=generator)
    if classes is None:
        return torch.randn(SIZE, generator=generator) + target, target
    return torch.randn(SIZE, classes, generator=generator) + torch.nn.functional.one_hot(target, classes), target


def binary_peer(names: tuple[str, ...]) -> MetricCollection:
    return MetricCollection({name: getattr(peer, f"Binary{name}")(**UNCACHED) for name in names})


def multiclass_peer() -> MetricCollection:
    given: dict[str, Any] = {"num_classes": CLASSES, **UNCACHED}
    metrics: dict[str, Any] = {"accuracy": peer.MulticlassAccuracy(average="micro", **given)}
    for name in ("Accuracy", "Precision", "Recall", "F1Score", "AUROC", "AveragePrecision"):
        for average in ("macro", "none"):
            metrics[f"{name}/{average}"] = getattr(peer, f"Multiclass{name}")(average=average, **given)
    for name in ("MatthewsCorrCoef", "CalibrationError", "PrecisionRecallCurve"):
        metrics[name] = getattr(peer, f"Multiclass{name}")(**given)
    return MetricCollection(metrics)


def best_f1(curve: Any) -> list[tuple[Tensor, Tensor]]:
    """Of one curve, or one for each class, and its threshold."""
    curves = zip(*curve, strict=True) if isinstance(curve[0], list) else [curve]
    found = []
    for precision, recall, thresholds in curves:
        value, place = (2 * precision * recall / (precision + recall)).nan_to_num(0.0).max(0)
        found.append((value, thresholds[place.clamp(max=len(thresholds) - 1)]))
    return found


def reading(collection: MetricCollection) -> Callable[[], dict[str, Any]]:
    """All numbers of the collection, best F1 included."""

    def read() -> dict[str, Any]:
        values = collection.compute()
        curve = values.pop("PrecisionRecallCurve", None)
        return values if curve is None else values | {"best_f1": best_f1(curve)}

    return read


def filled(metric: Any, classes: int | None) -> Any:
    for seed in range(BATCHES):
        metric.update(*batch(classes, seed))
    return metric


def compared(ours: Any, theirs: MetricCollection, classes: int | None, effort: Effort) -> Row:
    filled(ours, classes)
    read = reading(filled(theirs, classes))
    agree(ours.compute(), read())
    work = f"compute of {len(ours)} numbers after {BATCHES} batches of {SIZE}"
    seconds = best_of(evenly_timed({"ours": ours.compute, "theirs": read}), effort.rounds(work, 40))
    return Row(work, "torchmetrics, MetricCollection", seconds["theirs"], seconds["ours"], "≤ 1/2")


def agree(ours: dict[str, Tensor], theirs: dict[str, Any]) -> None:
    """Being faster at other numbers would mean nothing."""
    pairs = {"accuracy": "Accuracy" if "Accuracy" in theirs else "accuracy", "mcc": "MatthewsCorrCoef"}
    pairs |= {"auroc": "AUROC"} if "AUROC" in theirs else {}
    pairs |= {"auroc/macro": "AUROC/macro", "f1/macro": "F1Score/macro"} if "AUROC/macro" in theirs else {}
    for name, other in pairs.items():
        torch.testing.assert_close(ours[name], theirs[other], rtol=0, atol=1e-4)


def computes(effort: Effort) -> str:
    cases = (
        (BinaryEvaluation("logits", **UNCACHED), binary_peer(COUNTED), None),
        (BinaryEvaluation("logits", curves=True, **UNCACHED), binary_peer(COUNTED + SCORED), None),
        (
            MulticlassEvaluation("logits", CLASSES, curves=True, per_class=True, **UNCACHED),
            multiclass_peer(),
            CLASSES,
        ),
    )
    return markdown([compared(ours, theirs, classes, effort) for ours, theirs, classes in cases])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rounds")
    parser.add_argument("--out", type=Path, help="a file for the table, as Markdown")
    chosen = parser.parse_args()
    one_thread()
    with progress_bar() as progress:
        text = f"{computes(Effort(progress, chosen.quick))}\n\n{surroundings()}"
    print(text)
    if chosen.out:
        chosen.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
