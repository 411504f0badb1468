"""Rules on metrics that make a run hang or end in an exception."""

from __future__ import annotations

from lightning_evalkit.diagnosis.rules.table import Found, rule
from lightning_evalkit.diagnosis.seen import SeenGuard, SeenRefusal, SeenRun


@rule(
    "EK107",
    "only some ranks compute a metric",
    "run",
    severity="error",
    certainty="certain",
    why="compute() merges the states of all ranks and waits until every rank calls it. If one does not, the run hangs, "
    "or the rank takes part in a collective that was meant for something else.",
    remedy="Call compute() on every rank and put the condition around the print or the file only: value = "
    "self.f1.compute(); if self.trainer.is_global_zero: print(value).",
    known_problems="Before the run, the rule reads conditions on the rank from the module's source. It sees a "
    "compute() of a local variable, or inside another function, only when a rank waits for it. It leaves out metrics "
    "with a process_group or a dist_sync_fn of their own.",
    example=lambda: SeenRun(
        guards=[SeenGuard("f1", "on_validation_epoch_end", "self.trainer.is_global_zero")], ranks=2
    ),
    counterexample=lambda: SeenRun(ranks=2),
)
def some_ranks(run: SeenRun) -> list[Found] | None:
    """compute() of a metric stands under a condition on the rank, or a rank waits for another that has moved on."""
    if run.ranks == 1:
        return None
    waits: list[Found] = [
        (
            each.metric,
            f"rank {each.rank} waits in {each.metric}.compute() for rank {each.other}, which has ended the epoch "
            f"without it: they synchronised this metric {each.syncs} and {each.other_syncs} times.",
            each._asdict(),
        )
        for each in run.waits
    ]
    waiting = {each.metric for each in run.waits}
    guards: list[Found] = [
        (
            each.metric,
            f"{each.metric}.compute() in {each.function} is called on some of the {run.ranks} ranks only ("
            f"{each.condition}): the run will wait forever for the others.",
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
    why="A logger takes one number for each name. Lightning refuses anything else, and the run ends.",
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
    "reset in inference mode is an inference tensor, and changing it elsewhere is an error in torch: an update in fit "
    "raises.",
    remedy="Set Trainer(inference_mode=False), or reset the metric in on_fit_start, also one that a callback holds. "
    "The metrics of this package create their states outside of inference mode.",
    known_problems="The rule finds it only when an update raises. Metrics whose update makes a new tensor (accuracy, "
    "F1) do not raise.",
    example=lambda: SeenRun(inference_states=["Callback.mean (MeanMetric)"]),
    counterexample=SeenRun,
)
def inference_state(run: SeenRun) -> list[Found] | None:
    """An update outside of inference mode raised, because the state had been reset inside of it."""
    return [
        (path, f"the state of {path} was reset in inference mode, and updated outside of it.", {})
        for path in run.inference_states
    ] or None
