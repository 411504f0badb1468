"""Rules that compare numbers with those of the training data, or of another model."""

from __future__ import annotations

from math import log

from lightning_evalkit.counts import Counts
from lightning_evalkit.diagnosis.numbers import SeenNumbers
from lightning_evalkit.diagnosis.rules.table import Found, Power, rule
from lightning_evalkit.intervals import Comparison

APART = 0.25
"""On the logit scale: 0.5 against 0.56, or 0.1 against 0.125."""


def _compared(low: float, verdict: str) -> SeenNumbers:
    compared = Comparison(0.01, low, 0.05, 0.4, False, 200, verdict, 0.06)
    return SeenNumbers("binary", {}, comparisons={"accuracy": compared})


@rule(
    "EK222",
    "an interval is too wide for the comparison",
    "numbers",
    severity="warning",
    certainty="certain",
    why="The interval of the difference contains 0: these samples do not show which of the two is better, and other "
    "samples may reverse the order.",
    remedy="Evaluate more samples, or evaluate both models with buckets=1024 and sample ids, which pairs their "
    "samples.",
    known_problems="The rule applies only if another evaluation is given: diagnose(evaluation, against=other).",
    example=lambda: _compared(-0.03, "undecided"),
    counterexample=lambda: _compared(0.002, "better"),
)
def undecided(seen: SeenNumbers) -> list[Found] | None:
    """The interval of the difference to another evaluation contains 0, so the comparison is undecided."""
    if not seen.comparisons:
        return None
    return [
        (
            name,
            f"{name} differs by {each.difference:+.4f} [{each.low:+.4f}, {each.high:+.4f}]: these {each.n:,} samples "
            f"can detect a difference of {each.minimum_detectable:.4f}.",
            {"difference": each.difference, "low": each.low, "high": each.high, "found": each.minimum_detectable},
        )
        for name, each in seen.comparisons.items()
        if each.verdict == "undecided" and each.difference
    ]


def _trained(positives: int) -> SeenNumbers:
    train = {"": Counts(tp=positives, fp=0, fn=0, tn=1_000 - positives)}
    return SeenNumbers("binary", {"": Counts(tp=80, fp=20, fn=20, tn=880)}, train=train)


@rule(
    "EK223",
    "training has other shares of the classes",
    "numbers",
    severity="warning",
    certainty="significant",
    why="A model learns how frequent the classes are in training. On data with other shares, its logits are off by the "
    "difference between the logits of the two shares, and the same threshold decides differently.",
    remedy="If training was resampled on purpose, correct the logits with PriorCorrection; else stratify the split.",
    known_problems="Shares less than 0.25 apart on the logit scale are not reported (0.5 and 0.56, 0.1 and 0.125). In "
    "a run, Diagnose compares metrics of training and validation that count the same classes, if all such metrics of a "
    "stage have counted the same samples. On several ranks it only knows the counts of this package's metrics, and "
    "those of training from the second epoch on: merging the states of stock metrics would take another collective. "
    "Metrics that count other samples in training on purpose, such as those of a discriminator, are reported too.",
    example=lambda: _trained(500),
    counterexample=lambda: _trained(100),
    power=Power("half of the training samples are positive, and three in ten of the validation samples", 500, 0.95),
)
def other_shares(seen: SeenNumbers) -> list[Found] | None:
    """The share of a class or label in training differs from that in validation by more than chance (Fisher's test)."""
    from scipy.stats import fisher_exact

    if not seen.train or seen.weighted:
        return None
    found: list[Found] = []
    for name, table in seen.tables.items():
        here = [int(table.positives), int(table.negatives)]
        there = [int(seen.train[name].positives), int(seen.train[name].negatives)]
        if sum(here) and sum(there):
            far = abs(_logit(*here) - _logit(*there)) > APART
            shares = [part[0] / sum(part) for part in (there, here)]
            who = name or "positive"
            words = f"{who} makes up {shares[0]:.4f} of the training samples and {shares[1]:.4f} of these samples."
            p = float(fisher_exact([here, there]).pvalue) if far else 1.0
            found.append((who, words, {"train": shares[0], "here": shares[1], "p_value": p}))
    return found


def _logit(yes: int, no: int) -> float:
    """The logit of a share, with half a sample added to each side so that it is finite."""
    return log((yes + 0.5) / (no + 0.5))
