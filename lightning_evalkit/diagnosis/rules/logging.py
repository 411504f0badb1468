"""Rules on how numbers are logged."""

from __future__ import annotations

import re

from lightning_evalkit.diagnosis.rules.table import Found, rule
from lightning_evalkit.diagnosis.seen import (
    STEPS,
    SeenLoader,
    SeenLog,
    SeenMetric,
    SeenMonitor,
    SeenRun,
    SeenValue,
    told,
)

SAME = 1e-6
"""Single precision does not show smaller differences."""


def _logged(log: SeenLog, *, ranks: int = 1, **facts: object) -> SeenRun:
    metric = SeenMetric("f1", "BinaryF1Score")
    for name, value in facts.items():
        setattr(metric, name, value)
    return SeenRun(metrics={"f1": metric}, logs={log.name: log}, ranks=ranks)


@rule(
    "EK101",
    "a value is logged instead of its metric",
    "run",
    severity="error",
    certainty="certain",
    why="The epoch's number is then the mean of the batches' values, which is not the metric of all samples and "
    "changes with the batch size.",
    remedy="Log the object: self.val_f1.update(preds, target); self.log('val/f1', self.val_f1).",
    known_problems="Values of functions, and values that were turned into Python numbers, are not recognised.",
    example=lambda: _logged(SeenLog("val/f1", "validation_step", "value", "f1", batches=4)),
    counterexample=lambda: _logged(SeenLog("val/f1", "validation_step", "object", "f1", batches=4)),
)
def value_logged(run: SeenRun) -> list[Found] | None:
    """A step logged a tensor that a metric returned, and Lightning averaged it over the batches of the epoch."""
    found = []
    for log in run.logs.values():
        if log.source == "value" and log.hook in STEPS and log.on_epoch and log.batches > 1:
            numbers, evidence = told(run.value(log), "the epoch's own samples")
            if evidence and abs(evidence["reported"] - evidence["truth"]) < SAME:
                continue  # a share of samples, whose mean by batch size is right
            words = f"{log.name} is the mean of the values of {log.metric} in {log.batches} batches{numbers}."
            evidence |= {"batches": log.batches}
            found.append((log.name, words, evidence))
    return found if run.logs else None


@rule(
    "EK112",
    "values of ranks are averaged",
    "run",
    severity="error",
    certainty="certain",
    why="The mean of the values that each rank computes from its own samples is not the metric of all samples.",
    remedy="Log the object: Lightning and torchmetrics then sum the states of all ranks before they divide.",
    known_problems="Values that were already synchronised by hand are reported too.",
    example=lambda: _logged(SeenLog("f1", "validation_step", "value", "f1", sync_dist=True), ranks=2),
    counterexample=lambda: _logged(SeenLog("f1", "validation_step", "object", "f1", sync_dist=True), ranks=2),
)
def ranks_averaged(run: SeenRun) -> list[Found] | None:
    """A metric's value on one rank was logged with sync_dist=True, so Lightning averages the values of the ranks."""
    if run.ranks == 1:
        return None
    return [
        (log.name, f"{log.name} averages the values of {log.metric} on {run.ranks} ranks.", {"ranks": run.ranks})
        for log in run.logs.values()
        if log.source == "value" and log.sync_dist and log.hook in STEPS
    ]


def _monitored(mode: str) -> SeenRun:
    run = _logged(SeenLog("val/f1", "validation_step", "object", "f1", higher_is_better=True))
    run.monitors.append(SeenMonitor("ModelCheckpoint", "val/f1", mode))
    return run


@rule(
    "EK114",
    "the wrong direction is called better",
    "run",
    severity="error",
    certainty="certain",
    why="The worst epoch is kept as the best one, or training stops as soon as it improves.",
    remedy="Set mode='max' where higher is better, and mode='min' for losses and errors.",
    known_problems="Numbers of unknown direction (plain values under any name) are not judged, except losses.",
    example=lambda: _monitored("min"),
    counterexample=lambda: _monitored("max"),
)
def wrong_mode(run: SeenRun) -> list[Found] | None:
    """A checkpoint callback, early stopping or a scheduler takes a worse value of a metric for a better one."""
    found = []
    for monitor in run.monitors:
        wanted = _direction(run, monitor.name)
        if wanted and monitor.mode != wanted:
            better = "higher" if wanted == "max" else "lower"
            words = f"{monitor.owner} monitors {monitor.name} with mode={monitor.mode!r}, but {better} is better."
            found.append((f"{monitor.owner}/{monitor.name}", words, {"mode": monitor.mode, "expected": wanted}))
    return found if run.monitors else None


def _direction(run: SeenRun, name: str) -> str:
    log = run.logs.get(name)
    if log is None or log.higher_is_better is None:
        return "min" if re.split(r"[/_.]", name)[-1] == "loss" else ""
    return "max" if log.higher_is_better else "min"


@rule(
    "EK116",
    "the batch size is guessed",
    "run",
    severity="warning",
    certainty="certain",
    why="Lightning weights the values of batches by the batch size. If the tensors of a batch have several sizes, it "
    "takes the first that it finds.",
    remedy="Pass it: self.log(name, value, batch_size=len(target)).",
    known_problems="The weights matter only if batches differ in size.",
    example=lambda: SeenRun(logs={"loss": SeenLog("loss", "validation_step")}, ambiguous_batch="3 and 32"),
    counterexample=lambda: SeenRun(
        logs={"loss": SeenLog("loss", "validation_step", batch_size_given=True)}, ambiguous_batch="3 and 32"
    ),
)
def batch_size_guessed(run: SeenRun) -> list[Found] | None:
    """A number is averaged over batches whose size Lightning had to guess."""
    if not run.ambiguous_batch:
        return None
    return [
        (log.name, f"{log.name} is weighted by a guessed batch size: tensors have {run.ambiguous_batch} rows.", {})
        for log in run.logs.values()
        if log.hook in STEPS and log.source != "object" and log.on_epoch and not log.batch_size_given
    ]


@rule(
    "EK119",
    "a metric is computed by hand and logged",
    "run",
    severity="warning",
    certainty="certain",
    why="Lightning computes and resets a metric that is logged as an object. An additional compute or reset by hand "
    "works on another part of the epoch.",
    remedy="Choose one: log the object in the step, or update there and compute, log and reset at the epoch's end.",
    known_problems="A compute whose value is only printed is reported too.",
    example=lambda: _logged(SeenLog("f1", "validation_step", "object", "f1"), computed_in_steps=3),
    counterexample=lambda: _logged(SeenLog("f1", "validation_step", "object", "f1")),
)
def both_ways(run: SeenRun) -> list[Found] | None:
    """A metric whose object is logged is also computed by hand in a step."""
    found = []
    for metric in run.metrics.values():
        logged = [log.name for log in run.logs_of(metric) if log.source == "object"]
        if logged and metric.computed_in_steps:
            words = (
                f"{metric.path} is logged as {logged[0]} and also computed by hand in {metric.computed_in_steps} steps."
            )
            found.append((metric.path, words, {"logged": logged, "computed": metric.computed_in_steps}))
    return found if run.metrics else None


def _weighted(hook: str) -> SeenRun:
    return SeenRun(logs={"val_loss": SeenLog("val_loss", hook, batches=4)}, class_weights=("criterion",))


@rule(
    "EK120",
    "a weighted loss is averaged over batches",
    "run",
    severity="warning",
    certainty="hint",
    why="A loss with class weights divides by the sum of the batch's weights, so the mean over batches depends on the "
    "batch size and on the order of the samples.",
    remedy="Sum weighted losses and weights over the epoch, as lightning_evalkit.metrics.MeanLoss does.",
    known_problems="If a logged value is not the tensor that the loss returned, the rule recognises it by its name and "
    "does not know the true number. On several ranks it never does.",
    example=lambda: _weighted("validation_step"),
    counterexample=lambda: _weighted("on_validation_epoch_end"),
)
def weighted_loss(run: SeenRun) -> list[Found] | None:
    """The value of a loss with class weights, or a number called loss in its module, is averaged over batches."""
    if not run.class_weights:
        return None
    found: list[Found] = []
    for log in run.logs.values():
        is_loss = bool(log.loss) or ("loss" in log.name and log.source == "plain")
        value = None
        if log.loss_of_epoch is not None and log.reported is not None:
            value = SeenValue(log.name, log.reported, log.loss_of_epoch)
        is_right = value is not None and 0 <= value.distance < SAME  # as for batches of equal weight
        if is_loss and log.on_epoch and log.hook in STEPS[1:] and not is_right:
            numbers, evidence = told(value, "the epoch's samples in one batch")
            whose = log.loss or run.class_weights[0]
            words = f"{log.name} is the mean over batches of a loss with class weights ({whose}){numbers}."
            found.append((log.name, words, evidence))
    return found


@rule(
    "EK124",
    "forward where update is enough",
    "run",
    severity="tip",
    certainty="hint",
    why="Calling the metric also computes the value of every batch, which is not logged; update only counts.",
    remedy="Call metric.update(preds, target) in the step.",
    known_problems="The value may be used for something other than logging.",
    example=lambda: _logged(SeenLog("f1", "validation_step", "object", "f1"), forwards=10),
    counterexample=lambda: _logged(SeenLog("f1", "validation_step", "object", "f1")),
)
def forward_unused(run: SeenRun) -> list[Found] | None:
    """A metric is called, which computes the value of every batch, but only its value of the epoch is logged."""
    found = []
    for metric in run.metrics.values():
        logs = run.logs_of(metric)
        if metric.forwards and logs and all(log.source == "object" and not log.on_step for log in logs):
            words = f"{metric.path} computed {metric.forwards} batch values that were not logged."
            found.append((metric.path, words, {"forwards": metric.forwards}))
    return found if run.metrics else None


@rule(
    "EK123",
    "ranks with unequal rows are averaged",
    "run",
    severity="warning",
    certainty="certain",
    why="Lightning averages the batch size over ranks as a whole number before it divides by it, so a mean over ranks "
    "with unequal numbers of rows is wrong (Lightning issue 21859).",
    remedy="Add lightning_evalkit.callbacks.ExactDistributedEvaluation(), or log a torchmetrics MeanMetric.",
    known_problems="Only loaders whose sampler deals out rows to the ranks in turn are recognised.",
    example=lambda: _unequal(sync_dist=True),
    counterexample=lambda: _unequal(sync_dist=False),
)
def unequal_rows(run: SeenRun) -> list[Found] | None:
    """A number is averaged over ranks with sync_dist=True while the ranks hold unequal numbers of rows."""
    if run.ranks == 1 or run.exact:
        return None
    uneven = [each for each in run.loaders if (each.rows + each.repeats) % run.ranks]
    return [
        (log.name, f"{log.name} is averaged over {run.ranks} ranks that hold unequal numbers of rows.", {})
        for log in run.logs.values()
        if uneven and log.sync_dist and log.source == "plain" and log.hook in STEPS[1:]
    ]


def _unequal(sync_dist: bool) -> SeenRun:
    log = SeenLog("val_loss", "validation_step", sync_dist=sync_dist)
    return SeenRun(logs={"val_loss": log}, loaders=[SeenLoader("val", 0, 5, 0)], ranks=2)
