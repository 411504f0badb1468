"""Rules on the kinds of metrics that a module has, and on where it keeps them."""

from __future__ import annotations

from typing import Any

from lightning_evalkit.diagnosis.rules.table import Found, rule
from lightning_evalkit.diagnosis.seen import SeenMetric, SeenRun

MICRO = ("Accuracy", "Precision", "Recall", "F1Score")
LARGE = 2**28
"""The size of stored predictions that is reported, in bytes: a quarter of a gigabyte."""


def _of(*metrics: SeenMetric) -> SeenRun:
    return SeenRun(metrics={metric.path: metric for metric in metrics})


def _one(**facts: Any) -> SeenRun:
    return _of(SeenMetric("f1", "BinaryF1Score", **facts))


def _averaged(kind: str, average: str) -> SeenMetric:
    return SeenMetric(kind.lower(), kind, {"average": average, "num_classes": 3, "top_k": 1})


@rule(
    "EK103",
    "micro averages are the accuracy",
    "run",
    severity="warning",
    certainty="certain",
    why="Every sample has one target and one prediction, so each error is one false positive and one false negative: "
    "micro-averaged precision, recall and F1 are all the accuracy. Reporting several of them says nothing new.",
    remedy="Use average='macro' for F1, precision and recall, or average='none' for one number per class.",
    known_problems="ignore_index inside the class range breaks the identity; such metrics are left out.",
    example=lambda: _of(_averaged("MulticlassF1Score", "micro"), _averaged("MulticlassAccuracy", "micro")),
    counterexample=lambda: _of(_averaged("MulticlassF1Score", "macro"), _averaged("MulticlassAccuracy", "micro")),
)
def micro_is_accuracy(run: SeenRun) -> list[Found] | None:
    """Two or more of accuracy, precision, recall and F1 are micro averages over classes, so they are always equal."""
    kinds = {f"Multiclass{name}" for name in MICRO}
    by_owner: dict[str, list[SeenMetric]] = {}
    for metric in run.metrics.values():
        options = metric.options
        plain = options.get("top_k", 1) == 1 and options.get("ignore_index") is None
        if metric.kind in kinds and options.get("average") == "micro" and plain:
            by_owner.setdefault(metric.path.rpartition(".")[0], []).append(metric)
    found: list[Found] = []
    for owner, metrics in by_owner.items():
        if len({metric.kind for metric in metrics}) > 1:
            paths = [metric.path for metric in metrics]
            words = f"{', '.join(paths)} are micro averages over classes: they are equal whatever the model does."
            found.append((owner or paths[0], words, {"metrics": paths}))
    return found if run.metrics else None


@rule(
    "EK105",
    "two accuracies with different averages",
    "run",
    severity="tip",
    certainty="certain",
    why="Accuracy(task='multiclass') averages over samples (micro), MulticlassAccuracy over classes (macro recall): "
    "on imbalanced data the two numbers differ although both are called accuracy.",
    remedy="Pass average= wherever an accuracy is constructed.",
    known_problems="The rule cannot tell an average that was chosen on purpose from a default.",
    example=lambda: _of(
        SeenMetric("a", "MulticlassAccuracy", {"average": "micro"}),
        SeenMetric("b", "MulticlassAccuracy", {"average": "macro"}),
    ),
    counterexample=lambda: _of(SeenMetric("a", "MulticlassAccuracy", {"average": "micro"})),
)
def two_accuracies(run: SeenRun) -> list[Found] | None:
    """A module has accuracies over samples (micro) and over classes (macro) side by side."""
    of: dict[str, list[str]] = {"micro": [], "macro": []}
    for metric in run.metrics.values():
        if metric.kind == "MulticlassAccuracy" and metric.options.get("average") in of:
            of[metric.options["average"]].append(metric.path)
    if not (of["micro"] and of["macro"]):
        return [] if run.metrics else None
    words = f"{of['micro'][0]} is accuracy over samples (micro), {of['macro'][0]} the mean recall of classes (macro)."
    return [(of["macro"][0], words, dict(of))]


@rule(
    "EK108",
    "metrics in a plain dict or list",
    "run",
    severity="error",
    certainty="certain",
    why="A metric in a plain list or dict is not registered as a submodule: Lightning neither moves it to the device "
    "nor resets it, and its state is in no checkpoint.",
    remedy="Use torch.nn.ModuleDict, torch.nn.ModuleList or a MetricCollection.",
    known_problems="Containers deeper than one level are not searched.",
    example=lambda: _one(held_in="container"),
    counterexample=lambda: _one(),
)
def plain_container(run: SeenRun) -> list[Found] | None:
    """A metric lives in a plain dict, list or tuple of the module."""
    return [
        (metric.path, f"{metric.path} ({metric.kind}) is in a plain dict or list of the module.", {})
        for metric in run.metrics.values()
        if metric.held_in == "container"
    ] or ([] if run.metrics else None)


@rule(
    "EK113",
    "stored predictions grow",
    "run",
    severity="warning",
    certainty="certain",
    why="A metric with thresholds=None keeps every prediction of the epoch on the device, and gathers them across "
    "ranks.",
    remedy="Use thresholds=200, or this package's AUROC and average precision, which keep a histogram of fixed size.",
    known_problems="The limit of 256 MB is a choice.",
    example=lambda: _one(list_bytes=LARGE),
    counterexample=lambda: _one(list_bytes=1_000),
)
def stored_predictions(run: SeenRun) -> list[Found] | None:
    """A metric stored at least 256 MB of predictions in one epoch."""
    return [
        (metric.path, f"{metric.path} ({metric.kind}) stored {metric.list_bytes / 2**20:,.0f} MB of predictions.", {})
        for metric in run.metrics.values()
        if metric.list_bytes >= LARGE
    ] or ([] if run.metrics else None)


@rule(
    "EK121",
    "a state in low precision",
    "run",
    severity="error",
    certainty="certain",
    why="A sum in bfloat16 stops growing at 256, one in float16 at 2,048: later samples are lost.",
    remedy="Create metrics after the cast, or use metrics that count in integers, as this package's do.",
    known_problems="A state that never grows large is not harmed.",
    example=lambda: _one(low_precision=("sum_value",)),
    counterexample=lambda: _one(),
)
def low_precision(run: SeenRun) -> list[Found] | None:
    """A metric keeps a sum in float16 or bfloat16."""
    return [
        (
            metric.path,
            f"{metric.path} ({metric.kind}) keeps {', '.join(metric.low_precision)} in 16 bits.",
            {"states": list(metric.low_precision)},
        )
        for metric in run.metrics.values()
        if metric.low_precision
    ] or ([] if run.metrics else None)
