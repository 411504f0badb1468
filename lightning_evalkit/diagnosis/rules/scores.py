"""Rules on the predictions that metrics are given."""

from __future__ import annotations

from lightning_evalkit.diagnosis.rules.table import Found, rule
from lightning_evalkit.diagnosis.seen import SeenAbsence, SeenMetric, SeenRun, SeenScores

RANKING = ("AUROC", "ROC", "AveragePrecision", "PrecisionRecallCurve", "LogAUC", "EER")
GUESSING = ("Binary", "Multilabel")
HALF, MOST = 0.5, 0.7310586
"""The sigmoid of a probability lies between these two."""


def _given(scores: SeenScores, kind: str = "BinaryAUROC") -> SeenRun:
    return SeenRun(metrics={"auroc": SeenMetric("auroc", kind, scores=scores)})


def _good() -> SeenRun:
    return _given(SeenScores(batches=4, outside_unit=0, lowest=0.01, highest=0.98))


@rule(
    "EK109",
    "logits in some batches, probabilities in others",
    "run",
    severity="error",
    certainty="certain",
    why="torchmetrics takes a batch for probabilities if all its scores lie between 0 and 1, and otherwise applies a "
    "sigmoid to it. This package's single metrics do the same unless inputs= is declared. Scores of different batches "
    "are then not on one scale.",
    remedy="Pass probabilities, torch.sigmoid(logits), or declare inputs='logits' with this package's metrics.",
    known_problems="The true number cannot be computed: the state no longer holds the scores. Evaluations and metrics "
    "with declared inputs do not guess, and are not judged.",
    example=lambda: _given(SeenScores(batches=4, outside_unit=3)),
    counterexample=_good,
)
def guessed_per_batch(run: SeenRun) -> list[Found] | None:
    """A metric that guesses per batch got scores outside of 0 to 1 in some batches, and only inside in others."""
    found = []
    for metric in run.metrics.values():
        scores = metric.scores
        guesses = metric.kind.startswith(GUESSING) and metric.options.get("inputs", "auto") == "auto"
        if scores and guesses and 0 < scores.outside_unit < scores.batches:
            inside = scores.batches - scores.outside_unit
            words = (
                f"{metric.path} read {scores.outside_unit} batches as logits and {inside} as probabilities: its scores "
                "are not on one scale."
            )
            found.append((metric.path, words, {"logits": scores.outside_unit, "probabilities": inside}))
    return found if any(metric.scores for metric in run.metrics.values()) else None


@rule(
    "EK115",
    "a sigmoid over probabilities",
    "run",
    severity="warning",
    certainty="hint",
    why="The sigmoid of a probability lies between 0.5 and 0.731, so every sample is predicted positive at 0.5. A "
    "metric with inputs='logits' applies the sigmoid itself.",
    remedy="Apply the sigmoid once: to the logits, or not at all where the metric does it.",
    known_problems="Scores may lie in that range without a second sigmoid. A cut of logits at 0.5 by hand is not seen. "
    "EK218 judges evaluations with curves.",
    example=lambda: _given(SeenScores(batches=4, lowest=0.5001, highest=0.73)),
    counterexample=_good,
)
def double_sigmoid(run: SeenRun) -> list[Found] | None:
    """All scores lie between 0.5 and 0.731, as a sigmoid of probabilities does, or declared logits between 0 and 1."""
    found = []
    for metric in run.metrics.values():
        scores, is_logits = metric.scores, metric.options.get("inputs") == "logits"
        low, high = (0.0, 1.0) if is_logits else (HALF, MOST)
        if scores and low <= scores.lowest < scores.highest <= high:
            declared = "logits" if is_logits else "scores"
            words = f"{metric.path} got only {declared} between {scores.lowest:.3f} and {scores.highest:.3f}."
            found.append((metric.path, words, {"lowest": scores.lowest, "highest": scores.highest}))
    return found if any(metric.scores for metric in run.metrics.values()) else None


@rule(
    "EK117",
    "a ranking of labels",
    "run",
    severity="error",
    certainty="certain",
    why="AUROC and average precision rank scores. Labels have only two ranks: AUROC is then the balanced "
    "accuracy at one threshold.",
    remedy="Pass probabilities or logits to the metric, before they are cut at a threshold.",
    known_problems="Scores that really are all 0 or 1 are reported too.",
    example=lambda: _given(SeenScores(batches=4, only_labels=True)),
    counterexample=_good,
)
def ranked_labels(run: SeenRun) -> list[Found] | None:
    """A metric that ranks scores was given labels: every score of an epoch was exactly 0 or 1."""
    found: list[Found] = [
        (metric.path, f"{metric.path} ({metric.kind}) ranks labels: every score was 0 or 1.", {})
        for metric in run.metrics.values()
        if metric.scores and metric.scores.only_labels and metric.kind.endswith(RANKING)
    ]
    return found if any(metric.scores for metric in run.metrics.values()) else None


def _absent(*classes: int) -> SeenRun:
    absence = SeenAbsence(classes, 0.795, 0.994) if classes else None
    metric = SeenMetric("auroc", "MulticlassAUROC", {"average": "macro", "num_classes": 10}, absent=absence)
    return SeenRun(metrics={"auroc": metric})


@rule(
    "EK118",
    "absent classes count as 0",
    "run",
    severity="warning",
    certainty="certain",
    why="A class without a target has no recall and no AUROC. A macro average that counts it as 0 falls with every "
    "class that does not occur, whatever the model does.",
    remedy="Average over the classes that occur, as recall/macro of MulticlassEvaluation does, or look at "
    "average='none'.",
    known_problems="Only macro averages over classes of single metrics are looked at. This package's single metrics "
    "report torchmetrics' number, except for areas under curves.",
    example=lambda: _absent(8, 9),
    counterexample=_absent,
)
def absent_classes(run: SeenRun) -> list[Found] | None:
    """A macro average counts classes that never occur as a target as 0."""
    found = []
    for metric in run.metrics.values():
        if metric.absent:
            absent, classes = metric.absent, metric.options.get("num_classes")
            words = (
                f"{metric.path} counts {len(absent.classes)} of {classes} classes as 0, which never occur as a target: "
                f"{absent.reported:.4f} is reported, but the average over the others is {absent.truth:.4f}."
            )
            found.append((metric.path, words, absent._asdict()))
    return found if run.metrics else None
