"""Rules on states that mix samples which do not belong together."""

from __future__ import annotations

from lightning_evalkit.diagnosis.rules.table import Found, rule
from lightning_evalkit.diagnosis.seen import SANITY, Owner, SeenLoader, SeenMetric, SeenRun, told


def _mixed(*owners: Owner) -> SeenRun:
    return SeenRun(metrics={"f1": SeenMetric("f1", "BinaryF1Score", together={frozenset(owners)}, computes=1)})


def _clean() -> SeenRun:
    return SeenRun(metrics={"f1": SeenMetric("f1", "BinaryF1Score", computes=1)})


@rule(
    "EK102",
    "one metric for two stages",
    "run",
    severity="error",
    certainty="certain",
    why="Validation begins before the training epoch ends, so its samples are added to those of training, and the "
    "reset that follows discards both: validation reports a mixture, and training only what is counted afterwards.",
    remedy="Give every stage its own metric: self.train_f1 and self.val_f1, or one clone of a collection for each.",
    known_problems="Updates inside a compiled step are not seen.",
    example=lambda: _mixed(Owner("train"), Owner("val")),
    counterexample=_clean,
)
def two_stages(run: SeenRun) -> list[Found] | None:
    """One metric object counted training and validation (or test) samples into one state, without a reset between."""
    found = []
    for metric in run.metrics.values():
        stages = [stage for stage in metric.mixed("stage") if stage != SANITY]
        if len(stages) > 1:
            numbers, evidence = run.numbers(metric)
            words = f"{metric.path} ({metric.kind}) counts {' and '.join(stages)} samples into one state{numbers}."
            found.append((metric.path, words, {"stages": stages, **evidence}))
    return found if run.metrics else None


@rule(
    "EK104",
    "a metric that is not reset",
    "run",
    severity="error",
    certainty="certain",
    why="A value that is computed by hand covers all samples since the last reset: those of several epochs, and of the "
    "sanity check that Lightning runs before training.",
    remedy="Call metric.reset() after metric.compute() in on_validation_epoch_end, or log the object: self.log('f1', "
    "self.f1) lets Lightning reset it.",
    known_problems="A sum that is meant to count over the whole run is reported too: ignore the rule by its code. "
    "Running extremes and windows (MaxMetric, MinMetric, Running) are reported only if they hold the sanity check.",
    example=lambda: _mixed(Owner(SANITY), Owner("val")),
    counterexample=_clean,
)
def not_reset(run: SeenRun) -> list[Found] | None:
    """A metric whose value was computed still held the samples of an earlier epoch, or of the sanity check."""
    found = []
    for metric in run.metrics.values():
        epochs, sanity = [] if metric.lasting else metric.mixed("epoch"), SANITY in metric.mixed("stage")
        if metric.computes and (sanity or epochs):
            whose = f"{len(epochs)} epochs" if epochs else "the sanity check"
            numbers, evidence = run.numbers(metric)
            words = f"{metric.path} ({metric.kind}) was not reset and still holds the samples of {whose}{numbers}."
            found.append((metric.path, words, {"epochs": len(epochs), "sanity_check": sanity, **evidence}))
    return found if run.metrics else None


@rule(
    "EK110",
    "one metric for several dataloaders",
    "run",
    severity="error",
    certainty="certain",
    why="The value of each dataloader covers its own samples and those of the loaders before it.",
    remedy="Keep one metric per dataloader: self.f1s = torch.nn.ModuleList(...), indexed by dataloader_idx.",
    known_problems="If one number over all dataloaders is wanted, ignore this rule by its code.",
    example=lambda: _mixed(Owner("val", 0), Owner("val", 1)),
    counterexample=_clean,
)
def several_loaders(run: SeenRun) -> list[Found] | None:
    """One metric object counted the samples of several dataloaders of a stage into one state."""
    found = []
    for metric in run.metrics.values():
        loaders = metric.mixed("dataloader")
        if loaders:
            last = metric.last_loader
            samples = "" if last is None else f"the samples of dataloader {last.dataloader} alone"
            numbers, evidence = told(last and last.reported, samples, is_named=True)
            words = f"{metric.path} ({metric.kind}) counts {len(loaders)} dataloaders into one state{numbers}."
            found.append((metric.path, words, {"dataloaders": loaders, **evidence}))
    return found if run.metrics else None


def _loader(repeats: int) -> SeenRun:
    return SeenRun(loaders=[SeenLoader("val", 0, 297, repeats)], ranks=2)


@rule(
    "EK106",
    "padded repeats are counted",
    "run",
    severity="warning",
    certainty="certain",
    why="A DistributedSampler repeats rows so that every rank has the same number: these rows count twice.",
    remedy="Add lightning_evalkit.callbacks.ExactDistributedEvaluation() to the trainer's callbacks.",
    known_problems="Only samplers that deal out rows to the ranks in turn are recognised.",
    example=lambda: _loader(1),
    counterexample=lambda: _loader(0),
)
def padded_repeats(run: SeenRun) -> list[Found] | None:
    """A validation or test loader gives some rows to two ranks, and both count them."""
    if run.ranks == 1 or run.exact:
        return None
    return [
        (
            f"{each.stage}/{each.dataloader}",
            f"{each.repeats} of the {each.rows:,} rows of {each.stage} dataloader {each.dataloader} are counted twice.",
            {"rows": each.rows, "repeats": each.repeats},
        )
        for each in run.loaders
        if each.repeats
    ]


def _grouped(*thresholds: float) -> SeenRun:
    metrics = {f"p{t}": SeenMetric(f"p{t}", "BinaryPrecision", {"threshold": t}) for t in thresholds}
    metrics["again"] = SeenMetric("again", "BinaryPrecision", {"threshold": thresholds[0]})
    return SeenRun(metrics=metrics, groups=[tuple(metrics)])


@rule(
    "EK111",
    "unequal metrics share one state",
    "run",
    severity="error",
    certainty="certain",
    why="torchmetrics compares states after the first batch and permanently merges members whose states happen to be "
    "equal: all of them then report the number of the first.",
    remedy="Use MetricCollection(..., compute_groups=False), or an evaluation of this package: threshold=[0.1, 0.5, "
    "0.9].",
    known_problems="The rule compares only the options of torchmetrics' own metrics.",
    example=lambda: _grouped(0.1, 0.5),
    counterexample=lambda: _grouped(0.5),
)
def merged_groups(run: SeenRun) -> list[Found] | None:
    """A MetricCollection merged members that differ in threshold, ignore_index or top_k into one state."""
    found = []
    for group in run.groups:
        for option in ("threshold", "ignore_index", "top_k"):
            values = [run.metrics[path].options.get(option) for path in group]
            if len({*map(repr, values)}) > 1:
                words = f"{', '.join(group)} share one state although their {option} differs: {values}."
                found.append((group[0], words, {"option": option, "values": [repr(value) for value in values]}))
    return found if run.groups else None
