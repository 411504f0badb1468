"""Rules on what makes a run hang or end in an exception."""

from __future__ import annotations

from lightning_evalkit.diagnosis.rules.table import Found, rule
from lightning_evalkit.diagnosis.seen import SeenGuard, SeenRefusal, SeenRun


@rule(
    "EK107",
    "only some ranks compute a metric",
    "run",
    severity="error",
    certainty="certain",
    why="compute() joins the states of all ranks and waits until every rank calls it. If one does not, the run hangs, "
    "or the rank takes part in a collective that was meant for something else.",
    remedy="Call compute() on every rank and put the condition around the print or the file only: value = "
    "self.f1.compute(); if self.trainer.is_global_zero: print(value).",
    known_problems="What stands under a condition on the rank is read from the module's source before the run; a "
    "compute() of a local variable, or behind another function, is seen only when a rank waits for it. A metric with a "
    "process_group or a dist_sync_fn of its own is left out.",
    example=lambda: SeenRun(
        guards=[SeenGuard("f1", "on_validation_epoch_end", "self.trainer.is_global_zero")], ranks=2
    ),
    counterexample=lambda: SeenRun(ranks=2),
)
def some_ranks(run: SeenRun) -> list[Found] | None:
    """compute() of a metric stands under a condition on the rank, or a rank waits for another that has gone on."""
    if run.ranks == 1:
        return None
    waits: list[Found] = [
        (
            each.metric,
            f"rank {each.rank} waits in {each.metric}.compute() for rank {each.other}, which has ended the epoch "
            f"without it: they joined this metric {each.syncs} and {each.other_syncs} times.",
            each._asdict(),
        )
        for each in run.waits
    ]
    waiting = {each.metric for each in run.waits}
    guards: list[Found] = [
        (
            each.metric,
            f"{each.metric}.compute() in {each.function} is called on some of the {run.ranks} ranks only ("
            f"{each.condition}): the run will wait for the others for ever.",
            each._asdict(),
        )
        for each in run.guards
        if each.metric not in waiting
    ]
    return waits + guards


@rule(
    "EK122",
    "a tensor with several values is logged",
    "run",
    severity="error",
    certainty="certain",
    why="A logger draws one number for each name. Lightning refuses anything else, and the run ends.",
    remedy="Log each value under its own name: self.log_dict({f'f1/{k}': v for k, v in enumerate(values)}), or use an "
    "evaluation of this package with per_class=True, whose entries are scalars. Draw a confusion matrix as a figure.",
    known_problems="No case is known where it is wrong.",
    example=lambda: SeenRun(refusals=[SeenRefusal("val/f1", "f1 (MulticlassF1Score)", (4,))]),
    counterexample=SeenRun,
)
def several_values(run: SeenRun) -> list[Found] | None:
    """log or log_dict was given a tensor of several values, or a metric that computes one."""
    found: list[Found] = []
    for each in run.refusals:
        shape = " × ".join(map(str, each.shape))
        of = f" of {each.metric}" if each.metric else ""
        words = f"{each.name} is a tensor of {shape} values{of}, and a logger takes one number for each name."
        found.append((each.name, words, {"shape": list(each.shape), "metric": each.metric}))
    return found or None


@rule(
    "EK125",
    "a state of inference mode is changed outside of it",
    "run",
    severity="error",
    certainty="certain",
    why="trainer.validate and trainer.test run in inference mode, validation within fit does not. A state that is "
    "reset in inference mode is an inference tensor, which torch forbids to change elsewhere: an update in fit raises.",
    remedy="Trainer(inference_mode=False), or reset the metric in on_fit_start, that of a callback too. The metrics of "
    "this package make their states outside of inference mode.",
    known_problems="Found when it raises. Metrics whose update makes a new tensor (accuracy, F1) do not raise.",
    example=lambda: SeenRun(inference_states=["Callback.mean (MeanMetric)"]),
    counterexample=SeenRun,
)
def inference_state(run: SeenRun) -> list[Found] | None:
    """An update outside of inference mode met a state that was reset inside of it, and raised."""
    return [
        (path, f"the state of {path} was reset in inference mode, and updated outside of it.", {})
        for path in run.inference_states
    ] or None
