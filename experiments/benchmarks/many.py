"""What do metrics of many classes or labels cost here, and what do they cost elsewhere?

python experiments/benchmarks/many.py [--quick] [--out FILE]

The time of one update. Multiclass: accuracy, macro precision, recall and F1, Matthews correlation. Multilabel: exact
match, Hamming accuracy, micro and macro F1. As an evaluation of this package, beside torchmetrics (a MetricCollection
whose compute groups have formed), torcheval (the metrics of these that it has) and scikit-learn (one confusion matrix
and one accuracy per batch). One thread. Times are the best of several rounds in which all take turns.
"""

from __future__ import annotations

import argparse
import platform
import sys
import warnings
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torchmetrics.classification as peer
from rich.console import Console
from rich.table import Table
from timing import Effort, best_of, duration, progress_bar, ratio, timed
from torch.utils._python_dispatch import TorchDispatchMode
from torchmetrics import MetricCollection

from lightning_evalkit import MulticlassEvaluation, MultilabelEvaluation

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    Updates = dict[str, Callable[[], object]]

PEERS = ("torchmetrics", "torcheval", "scikit-learn")
ARGMAX = "torch.argmax"
HEADINGS = ("update", "ours", *PEERS, ARGMAX, "ours / torchmetrics", "allowed", "ours / allowed")
SMALL, LARGE = 256, 65_536
LABELS = 20
RIGHT = 0.75


@dataclass(frozen=True)
class Case:
    """Updates that do the same work, what torcheval does of it, and the arg maxes in torchmetrics' update."""

    work: str
    updates: Updates
    torcheval: str
    argmaxes: int = 0


@dataclass(frozen=True)
class Measured:
    """The seconds of a case."""

    case: Case
    seconds: dict[str, float]

    @property
    def allowed(self) -> float:
        """An eighth of torchmetrics' time; for scores one arg max, and an eighth of what is beside its own ones."""
        argmax = self.seconds.get(ARGMAX, 0.0)
        return argmax + max(self.seconds["torchmetrics"] - self.case.argmaxes * argmax, 0.0) / 8

    def cells(self) -> tuple[str, ...]:
        ours = self.seconds["ours"]
        shown = {name: duration(seconds) for name, seconds in self.seconds.items()}
        shown["torcheval"] += f" ({self.case.torcheval})"
        columns = (shown.get(name, "") for name in ("ours", *PEERS, ARGMAX))
        compared = (ratio(ours, self.seconds["torchmetrics"]), duration(self.allowed), f"{ours / self.allowed:.2f}")
        return (self.case.work, *columns, *compared)


# ---- many classes


def multiclass(classes: int, inputs: str, size: int) -> Case:
    preds, target = classified(classes, inputs, size)
    evaluation = MulticlassEvaluation(
        inputs="labels" if inputs == "labels" else "logits",
        num_classes=classes,
        statistics=["accuracy", "precision/macro", "recall/macro", "f1/macro", "mcc"],
    )
    collection = MetricCollection(
        {
            "accuracy": peer.MulticlassAccuracy(classes, average="micro"),
            "precision/macro": peer.MulticlassPrecision(classes, average="macro"),
            "recall/macro": peer.MulticlassRecall(classes, average="macro"),
            "f1/macro": peer.MulticlassF1Score(classes, average="macro"),
            "mcc": peer.MulticlassMatthewsCorrCoef(classes),
        }
    )
    agree(evaluation, collection, *classified(classes, inputs, 20 * classes))
    updates = updates_of(evaluation, collection, preds, target)
    updates |= multiclass_peers(classes, preds, target)
    if inputs == "scores":
        updates[ARGMAX] = lambda: preds.argmax(1)
    return Case(
        f"{classes:,} classes, {inputs}, batch of {size:,}", updates, "4 of 5", argmaxes_of(updates["torchmetrics"])
    )


def classified(classes: int, inputs: str, size: int) -> tuple[Tensor, Tensor]:
    """Predictions that are mostly right, and targets."""
    generator = torch.Generator().manual_seed(size)
    target = torch.randint(0, classes, (size,), generator=generator)
    guess = torch.randint(0, classes, (size,), generator=generator)
    label = torch.where(torch.rand(size, generator=generator) < RIGHT, target, guess)
    if inputs == "labels":
        return label, target
    scores = torch.randn((size, classes), generator=generator)
    return scores.scatter_(1, label.unsqueeze(1), 6.0), target


def multiclass_peers(classes: int, preds: Tensor, target: Tensor) -> Updates:
    import numpy as np
    import torcheval.metrics as evaluated
    from sklearn.metrics import accuracy_score, confusion_matrix

    four = [
        evaluated.MulticlassAccuracy(average="micro"),
        evaluated.MulticlassPrecision(num_classes=classes, average="macro"),
        evaluated.MulticlassRecall(num_classes=classes, average="macro"),
        evaluated.MulticlassF1Score(num_classes=classes, average="macro"),
    ]
    given, truth, every = preds.numpy(), target.numpy(), np.arange(classes)

    def scikit_learn() -> None:
        label = given.argmax(1) if given.ndim > 1 else given
        confusion_matrix(truth, label, labels=every)
        accuracy_score(truth, label)

    return {"torcheval": lambda: [metric.update(preds, target) for metric in four], "scikit-learn": scikit_learn}


# ---- many labels


def multilabel(inputs: str, size: int) -> Case:
    preds, target = labelled(inputs, size)
    evaluation = MultilabelEvaluation(
        inputs=inputs,  # type: ignore[arg-type]
        num_labels=LABELS,
        statistics=["exact_match", "hamming_accuracy", "f1/micro", "f1/macro"],
    )
    collection = MetricCollection(
        {
            "exact_match": peer.MultilabelExactMatch(LABELS),
            "hamming_accuracy": peer.MultilabelAccuracy(LABELS, average="micro"),
            "f1/micro": peer.MultilabelF1Score(LABELS, average="micro"),
            "f1/macro": peer.MultilabelF1Score(LABELS, average="macro"),
        }
    )
    agree(evaluation, collection, *labelled(inputs, 20 * LABELS))
    updates = updates_of(evaluation, collection, preds, target) | multilabel_peers(inputs, preds, target)
    return Case(f"{LABELS} labels, {inputs}, batch of {size:,}", updates, "2 of 4")


def labelled(inputs: str, size: int) -> tuple[Tensor, Tensor]:
    """Predictions that are mostly right, so that some samples are right throughout, and targets."""
    generator = torch.Generator().manual_seed(size)
    target = torch.randint(0, 2, (size, LABELS), generator=generator)
    logits = torch.randn((size, LABELS), generator=generator) + 4 * target - 2
    return (logits > 0).long() if inputs == "labels" else logits, target


def multilabel_peers(inputs: str, preds: Tensor, target: Tensor) -> Updates:
    import torcheval.metrics as evaluated
    from sklearn.metrics import accuracy_score, multilabel_confusion_matrix

    cut = 0.5 if inputs == "labels" else 0.0
    two = [evaluated.MultilabelAccuracy(threshold=cut, criteria=meaning) for meaning in ("exact_match", "hamming")]
    given, truth = preds.numpy(), target.numpy()

    def scikit_learn() -> None:
        label = given if inputs == "labels" else given > 0
        multilabel_confusion_matrix(truth, label)
        accuracy_score(truth, label)

    return {"torcheval": lambda: [metric.update(preds, target) for metric in two], "scikit-learn": scikit_learn}


# ---- both


def updates_of(evaluation: Any, collection: MetricCollection, preds: Tensor, target: Tensor) -> Updates:
    return {
        "ours": lambda: evaluation.update(preds, target),
        "torchmetrics": lambda: collection.update(preds, target),
    }


def agree(evaluation: Any, collection: MetricCollection, preds: Tensor, target: Tensor) -> None:
    """Being faster at other numbers would mean nothing; this first batch also forms the groups that share a state.

    It holds every class: where one is missing, torchmetrics averages other classes.
    """
    evaluation.update(preds, target)
    collection.update(preds, target)
    torch.testing.assert_close(evaluation.compute(), collection.compute(), rtol=0, atol=1e-5)
    evaluation.reset()
    collection.reset()


class ArgMaxes(TorchDispatchMode):
    """Counts arg maxes: torchmetrics takes one for each group of metrics that share a state."""

    number = 0

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.number += operator is torch.ops.aten.argmax.default
        return operator(*args, **(kwargs or {}))


def argmaxes_of(update: Callable[[], object]) -> int:
    with ArgMaxes() as counted:
        update()
    return counted.number


def measured(case: Case, size: int, effort: Effort) -> Measured:
    calls, rounds = (100, 20) if size == SMALL else (1, 40)
    runs = {name: timed(update, calls) for name, update in case.updates.items()}
    return Measured(case, best_of(runs, effort.rounds(case.work, rounds)))


def measurements(effort: Effort) -> list[Measured]:
    cases = [
        *(partial(multiclass, classes, inputs) for classes in (10, 1_000) for inputs in ("labels", "scores")),
        *(partial(multilabel, inputs) for inputs in ("logits", "labels")),
    ]
    return [measured(case(size), size, effort) for case in cases for size in (SMALL, LARGE)]


def shown(rows: list[Measured]) -> Table:
    table = Table()
    for place, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="right" if place else "left")
    for row in rows:
        table.add_row(*row.cells())
    return table


def markdown(rows: list[Measured]) -> str:
    rule = ("---", *["---:"] * (len(HEADINGS) - 1))
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (HEADINGS, rule, *(row.cells() for row in rows)))


def explained(rows: list[Measured]) -> str:
    groups = max(row.case.argmaxes for row in rows)
    packages = ", ".join(f"{name} {version(name)}" for name in ("torch", *PEERS, "numpy"))
    return (
        f"Allowed: 1/8 of torchmetrics; for scores one torch.argmax and 1/8 of what torchmetrics spends beside its own "
        f"{groups}. torcheval has no Matthews correlation and no multilabel F1; it is timed with the rest. "
        f"Python {platform.python_version()}, {packages}; one thread."
    )


def one_thread() -> None:
    """Of torch, and of the matrix products of NumPy."""
    from threadpoolctl import threadpool_limits

    torch.set_num_threads(1)
    threadpool_limits(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rounds")
    parser.add_argument("--out", type=Path, help="a file for the table, as Markdown")
    chosen = parser.parse_args()
    one_thread()
    warnings.simplefilter("ignore")
    with progress_bar() as progress:
        rows = measurements(Effort(progress, chosen.quick))
    console = Console(width=None if sys.stdout.isatty() else 180)
    console.print(shown(rows))
    console.print(explained(rows), highlight=False)
    if chosen.out:
        chosen.out.write_text(f"{markdown(rows)}\n\n{explained(rows)}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
