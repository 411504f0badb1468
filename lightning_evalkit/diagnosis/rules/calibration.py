"""Rules on scores: whether probabilities are calibrated, and whether the threshold is well chosen."""

from __future__ import annotations

from math import isnan, log, sqrt
from typing import Any

from lightning_evalkit.counts import Counts
from lightning_evalkit.diagnosis.numbers import SeenNumbers, SeenScores
from lightning_evalkit.diagnosis.rules.table import Found, Power, rule
from lightning_evalkit.intervals import Interval
from lightning_evalkit.intervals.calibrated import HalfF1, Sharpness

HALF, MOST = 0.5, 0.7310586
"""The sigmoid of a probability lies between these two."""
FEW = 20
"""The range of fewer scores than this says nothing."""


def _scored(mean: float = 0.3, sharpness: Sharpness | None = None, **facts: Any) -> SeenNumbers:
    usual: dict[str, Any] = {"inputs": "logits", "lowest": -4.0, "highest": 5.0, "threshold": 0.5, "f1": 0.79}
    best: dict[str, Any] = {"best": HalfF1(0.8, 0.41, 0.2), "gain": Interval(0.01, -0.01, 0.03, 0.99, "linearised", 1)}
    scores = SeenScores(mean=mean, variance=100.0, **(usual | best | facts))
    tables = {"": Counts(tp=240, fp=60, fn=60, tn=640)}
    return SeenNumbers("binary", tables, scores={"": scores}, sharpness={"": sharpness or Sharpness(1.02, 0.3)})


def _p_value(z: float) -> float:
    from scipy.stats import norm

    return float(2 * norm.sf(abs(z)))


def _of(name: str, what: str) -> str:
    """The subject of a finding, with the name of the label if there is one."""
    return f"{what} of {name}" if name else what


@rule(
    "EK215",
    "another threshold would be better",
    "numbers",
    severity="tip",
    certainty="hint",
    why="The threshold 0.5 gives calibrated probabilities their best accuracy, but not their best F1.",
    remedy="ThresholdTuning chooses it in validation and applies it in test; evaluation.best_threshold('f1') returns "
    "it.",
    known_problems="F1 is optimistic on the data that chose the threshold: choose in validation, report in test.",
    example=lambda: _scored(f1=0.5, gain=Interval(0.3, 0.25, 0.35, 0.99, "linearised", 1)),
    counterexample=lambda: _scored(),
    power=Power("one sample in ten is positive, and 0.5 is the threshold of calibrated scores", 2_000, 0.8),
)
def better_threshold(seen: SeenNumbers) -> list[Found] | None:
    """F1 would be higher at another threshold, and the 99 % interval of the gain does not reach 0."""
    found: list[Found] = []
    for name, scores in seen.scores.items():
        gain = scores.gain
        if gain is not None and gain.known and gain.low > 0:
            words = (
                f"{_of(name, 'f1')} is {scores.f1:.4f} at the threshold {scores.threshold:g}, and would be "
                f"{scores.f1 + gain.value:.4f} at {scores.best.threshold:.4g}: {gain.value:+.4f} [{gain.low:+.4f}, "
                f"{gain.high:+.4f}]."
            )
            evidence = {"gain": gain.value, "low": gain.low, "high": gain.high, "threshold": scores.best.threshold}
            found.append((_of(name, "threshold"), words, evidence))
    return found if seen.scores and not seen.weighted else None


@rule(
    "EK216",
    "probabilities are shifted",
    "numbers",
    severity="warning",
    certainty="significant",
    why="The mean of calibrated probabilities is the share of positives. A weighted loss or resampled data shifts "
    "them, as pos_weight shifts the logits by ln(pos_weight), and the threshold 0.5 then decides differently.",
    remedy="Subtract the shift from the logits: PriorCorrection, or TemperatureScaling(vector=True) in validation.",
    known_problems="The rule needs curves=True. It cannot tell a shift of the data from a shift by the loss.",
    example=lambda: _scored(mean=0.5),
    counterexample=lambda: _scored(mean=0.3),
    power=Power("logits are moved by ln 3, as pos_weight=3 does", 500, 0.95),
)
def shifted(seen: SeenNumbers) -> list[Found] | None:
    """The mean predicted probability differs from the share of positives by more than chance."""
    if not seen.scores or seen.weighted:
        return None
    found: list[Found] = []
    for name, scores in seen.scores.items():
        table = seen.tables[name]
        if not scores.variance or not table.positives * table.negatives:
            continue
        share = float(table.prevalence)
        z = (scores.mean - share) * table.total / sqrt(scores.variance)
        by = _logit(scores.mean) - _logit(share)
        words = (
            f"the mean predicted probability{f' of {name}' if name else ''} is {scores.mean:.4f}, but {share:.4f} of "
            f"the samples are positive: the logits are shifted by about {by:+.2f}."
        )
        evidence = {"mean": scores.mean, "prevalence": share, "shift": by, "p_value": _p_value(float(z))}
        found.append((_of(name, "probabilities"), words, evidence))
    return found


def _logit(share: float) -> float:
    share = min(max(share, 1e-12), 1 - 1e-12)
    return log(share / (1 - share))


@rule(
    "EK217",
    "overconfident or underconfident",
    "numbers",
    severity="warning",
    certainty="significant",
    why="Overconfident probabilities are too close to 0 and 1, underconfident ones too close to 0.5: predictions with "
    "a probability of 0.9 are not right in 90 % of cases. Neither accuracy nor F1 shows it.",
    remedy="Divide the logits by the temperature: TemperatureScaling() fits it in validation.",
    known_problems="The rule needs curves=True. With several classes it estimates the temperature from one-vs-rest "
    "log-odds.",
    example=lambda: _scored(sharpness=Sharpness(2.1, 8.0)),
    counterexample=lambda: _scored(),
    power=Power("logits are twice too large, as after training too long", 1_000, 0.95),
)
def too_sharp(seen: SeenNumbers) -> list[Found] | None:
    """The temperature that fits the logits best differs from 1 by more than chance."""
    if not seen.sharpness or seen.weighted:
        return None
    found: list[Found] = []
    for name, (temperature, z) in seen.sharpness.items():
        if not isnan(z):
            how = "overconfident" if z > 0 else "underconfident"
            words = f"{_of(name, 'probabilities')} are {how}: divide the logits by about {temperature:.2f}."
            evidence = {"temperature": temperature, "p_value": _p_value(z)}
            found.append((_of(name, "probabilities"), words, evidence))
    return found


@rule(
    "EK221",
    "the best threshold is not half of its F1",
    "numbers",
    severity="tip",
    certainty="significant",
    why="Calibrated probabilities reach their best F1 at a threshold of half that F1. Otherwise the scores are not "
    "calibrated, and thresholds chosen by costs or by prior knowledge will be wrong too.",
    remedy="Calibrate with TemperatureScaling or PriorCorrection, then choose the threshold.",
    known_problems="The rule needs curves=True. It simulates how far chance moves the threshold, with a fixed seed.",
    example=lambda: _scored(best=HalfF1(0.8, 0.7, 6.0)),
    counterexample=lambda: _scored(),
    power=Power("logits are moved by ln 9, as pos_weight=9 does", 1_000, 0.9),
)
def not_half(seen: SeenNumbers) -> list[Found] | None:
    """The threshold with the best F1 differs from half of that F1 by more than chance."""
    found: list[Found] = []
    for name, scores in seen.scores.items():
        f1, threshold, z = scores.best
        if not isnan(z):
            words = (
                f"the best {_of(name, 'f1')} is {f1:.4f}, at the threshold {threshold:.4f}; with calibrated scores it "
                f"would be at {f1 / 2:.4f}."
            )
            evidence = {"f1": f1, "threshold": threshold, "p_value": _p_value(z)}
            found.append((_of(name, "threshold"), words, evidence))
    return found if seen.scores and not seen.weighted else None


@rule(
    "EK218",
    "scores do not look like what was declared",
    "numbers",
    severity="warning",
    certainty="hint",
    why="Probabilities that are declared as logits are cut at 0: every sample is predicted positive. Labels cannot be "
    "ranked, and the sigmoid of a probability is never below 0.5.",
    remedy="Set inputs= to the kind of scores that is passed: logits, or probabilities after exactly one sigmoid.",
    known_problems="Logits may lie between 0 and 1 by chance, and probabilities may all be 0 or 1. Logits that are "
    "declared as probabilities need no rule: update refuses them.",
    example=lambda: _scored(lowest=0.001, highest=0.999),
    counterexample=lambda: _scored(),
    power=Power("probabilities are declared as logits", 100, 1.0),
)
def declared_wrongly(seen: SeenNumbers) -> list[Found] | None:
    """Declared logits look like probabilities, or declared probabilities look like labels or got a second sigmoid."""
    if not seen.scores or seen.total < FEW:
        return None
    found: list[Found] = []
    for name, scores in seen.scores.items():
        looks = _looks_like(scores)
        if looks:
            words = (
                f"{_of(name, 'scores')} are declared as {scores.inputs} but look like {looks}: all lie between "
                f"{scores.lowest:.3g} and {scores.highest:.3g}."
            )
            found.append((_of(name, "inputs"), words, {"lowest": scores.lowest, "highest": scores.highest}))
    return found


def _looks_like(scores: SeenScores) -> str:
    """Name the kind of scores that these look like instead of the declared one; empty if they look right."""
    inside = -0.01 <= scores.lowest <= scores.highest <= 1
    ends = abs(scores.lowest) < 0.01 and abs(scores.highest - 1) < 0.01
    if inside and ends and scores.only_two:
        return "labels"
    if scores.inputs == "logits":
        return "probabilities" if inside else ""
    twice = HALF - 1e-3 <= scores.lowest < scores.highest <= MOST + 1e-3
    return "a sigmoid over probabilities" if twice else ""


@rule(
    "EK219",
    "bins are too coarse",
    "numbers",
    severity="tip",
    certainty="certain",
    why="A histogram determines AUROC only within bounds, because it does not order two scores of one bin.",
    remedy="Raise resolution=, or leave it out: the default has up to 65,536 bins.",
    known_problems="Widths below 0.01 are not reported.",
    example=lambda: SeenNumbers("binary", {}, bound_width=0.05),
    counterexample=lambda: SeenNumbers("binary", {}, bound_width=0.0001),
)
def coarse_bins(seen: SeenNumbers) -> list[Found] | None:
    """The certain bounds of AUROC are more than 0.01 apart."""
    if not seen.bound_width:
        return None
    words = f"the certain bounds of auroc are {seen.bound_width:.3g} apart."
    return [("auroc", words, {"width": seen.bound_width})] if seen.bound_width > 0.01 else []
