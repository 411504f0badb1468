"""Rules on the numbers of several classes or labels."""

from __future__ import annotations

from math import prod

import numpy as np

from lightning_evalkit.counts import Counts
from lightning_evalkit.diagnosis.numbers import SeenNumbers, seen_counts
from lightning_evalkit.diagnosis.rules.table import Found, Power, rule
from lightning_evalkit.diagnosis.value import numbered
from lightning_evalkit.intervals import table_interval
from lightning_evalkit.statistics import find

MICRO = ("precision/micro", "recall/micro", "f1/micro")
MAX_NAMED = 8
"""More classes than this share one finding."""
FEW = 0.2
"""A recall whose interval is wider than this says little."""


def _matrix(*rows: tuple[int, ...], **values: float) -> SeenNumbers:
    """The facts of a confusion matrix, with targets in rows and predictions in columns."""
    total, places = sum(map(sum, rows)), range(len(rows))
    tables = {}
    for k in places:
        tp, predicted = rows[k][k], sum(row[k] for row in rows)
        fn, fp = sum(rows[k]) - tp, predicted - tp
        tables[str(k)] = Counts(tp=tp, fp=fp, fn=fn, tn=total - tp - fn - fp)
    return SeenNumbers("multiclass", tables, dict(values))


def _good() -> SeenNumbers:
    return _matrix((90, 5, 5), (5, 90, 5), (5, 5, 90), accuracy=0.9)


@rule(
    "EK202",
    "micro averages are the accuracy",
    "numbers",
    severity="warning",
    certainty="certain",
    why="Every sample has one target and one prediction, so each error is one false positive and one false negative, "
    "and micro-averaged precision, recall and F1 are all the accuracy.",
    remedy="Report f1/macro, balanced_accuracy or one number per class beside the accuracy.",
    known_problems="No case is known where it is wrong.",
    example=lambda: _matrix((9, 1), (1, 9), **{"accuracy": 0.9, "f1/micro": 0.9}),
    counterexample=lambda: _matrix((9, 1), (1, 9), **{"accuracy": 0.9, "f1/macro": 0.9}),
)
def micro_is_accuracy(seen: SeenNumbers) -> list[Found] | None:
    """Accuracy and a micro average over classes are both reported, although they are the same number."""
    if not seen.exclusive:
        return None
    same = [name for name in (*MICRO, "accuracy") if name in seen.values]
    if len(same) < 2:
        return []
    return [(", ".join(same), f"{', '.join(same)} are the same number by identity: {seen.values[same[0]]:.6g}.", {})]


@rule(
    "EK206",
    "a class is recognised less than by chance",
    "numbers",
    severity="warning",
    certainty="significant",
    why="A model that has learnt anything predicts a class more often for its own samples than for others. If it does "
    "the opposite, labels may be swapped.",
    remedy="Compare the order of the class names with that of the logits, and look at the confusion matrix.",
    known_problems="Fisher's exact test assumes independent samples.",
    example=lambda: seen_counts(Counts(tp=5, fp=60, fn=45, tn=40)),
    counterexample=_good,
    power=Power("a classifier that is right in 70 % of cases has its labels swapped", 300, 0.95),
)
def below_chance(seen: SeenNumbers) -> list[Found] | None:
    """A class or label is predicted less often for its own samples than for the others (Fisher's exact test)."""
    from scipy.stats import hypergeom

    if seen.weighted or not seen.total:
        return None
    asked = {
        k: each for k, each in seen.tables.items() if each.positives and each.negatives and each.predicted_positives
    }
    cells = [(int(t.tp), int(t.total), int(t.positives), int(t.predicted_positives)) for t in asked.values()]
    chances = hypergeom.cdf(*np.array(cells, dtype=np.int64).reshape(-1, 4).T)
    found: list[Found] = []
    for (name, table), p in zip(asked.items(), chances, strict=True):
        own, others = table.tp / table.positives, table.fp / table.negatives
        words = f"{name or 'positive'} is predicted for {own:.3f} of its samples and for {others:.3f} of the others."
        found.append((name or "positive", words, {"own": float(own), "others": float(others), "p_value": float(p)}))
    return found


@rule(
    "EK207",
    "a class is absent or never predicted",
    "numbers",
    severity="tip",
    certainty="certain",
    why="The numbers of an absent class are 0/0, and averages leave it out or count it as 0.",
    remedy="Evaluate on data that has every class; look at evaluation.averaged_over().",
    known_problems="No case is known where it is wrong.",
    example=lambda: _matrix((5, 5, 0), (5, 5, 0), (0, 0, 0)),
    counterexample=_good,
)
def absent(seen: SeenNumbers) -> list[Found] | None:
    """A class or label never occurs as a target, or is never predicted."""
    if seen.task == "binary":
        return None
    found: list[Found] = []
    for name, table in seen.tables.items():
        if not table.positives:
            found.append((name, f"{name} never occurs as a target.", {"support": 0}))
        elif not table.predicted_positives:
            found.append(
                (name, f"{name} occurs {numbered(table.positives, 'time')} and is never predicted.", {"predicted": 0})
            )
    return _few(found, f"of {len(seen.tables):,} classes or labels never occur as a target or are never predicted")


@rule(
    "EK208",
    "a class is too small to conclude",
    "numbers",
    severity="tip",
    certainty="certain",
    why="The recall of a few samples is mostly chance: its interval is wider than most differences between models.",
    remedy="Collect more samples of the class (lightning_evalkit.required says how many), or report the interval.",
    known_problems="The limit of 0.2 is a choice.",
    example=lambda: seen_counts(Counts(tp=4, fp=1, fn=1, tn=900)),
    counterexample=lambda: seen_counts(Counts(tp=400, fp=1, fn=100, tn=900)),
)
def too_small(seen: SeenNumbers) -> list[Found] | None:
    """The 95 % interval of a class's recall is wider than 0.2."""
    if seen.weighted:
        return None
    found: list[Found] = []
    for name, table in seen.tables.items():
        interval = table_interval(table, find("recall"))
        if interval.known and interval.width > FEW:
            subject = name or "positive"
            words = f"recall of {subject} is {interval}, from {numbered(interval.n, 'sample')}."
            found.append((subject, words, {"n": interval.n, "low": interval.low, "high": interval.high}))
    return _few(found, f"of {len(seen.tables):,} classes or labels have too few samples for a conclusion")


def _few(found: list[Found], words: str) -> list[Found]:
    """Replace more than MAX_NAMED findings by one about all of them."""
    if len(found) <= MAX_NAMED:
        return found
    names = [name for name, _, _ in found]
    return [("classes", f"{len(names):,} {words}: {', '.join(names[:MAX_NAMED])} and others.", {"classes": names})]


@rule(
    "EK212",
    "one-vs-rest accuracy is inflated",
    "numbers",
    severity="tip",
    certainty="certain",
    why="Each error is wrong in two of the C one-vs-rest tables and right in the others: the mean is 1 − 2(1 − "
    "accuracy)/C, which approaches 1 as the number of classes grows, whatever the model does.",
    remedy="Report accuracy, or recall per class.",
    known_problems="No case is known where it is wrong.",
    example=lambda: _matrix((90, 5, 5), (5, 90, 5), (5, 5, 90), **{"one_vs_rest_accuracy/macro": 0.9333}),
    counterexample=_good,
)
def inflated(seen: SeenNumbers) -> list[Found] | None:
    """The mean one-vs-rest accuracy of the classes is reported."""
    if not seen.exclusive:
        return None
    if "one_vs_rest_accuracy/macro" not in seen.values:
        return []
    right = float(sum(table.tp for table in seen.tables.values()) / seen.total)
    value = seen.values["one_vs_rest_accuracy/macro"]
    words = f"one_vs_rest_accuracy/macro is {value:.4f}, but {right:.4f} of the samples are predicted right."
    return [("one_vs_rest_accuracy/macro", words, {"accuracy": right})]


def _labels(exact_match: float) -> SeenNumbers:
    tables = {name: Counts(tp=45, fp=5, fn=5, tn=45) for name in "abc"}
    return SeenNumbers("multilabel", tables, {"exact_match": exact_match}, exact_match=exact_match)


@rule(
    "EK213",
    "errors of labels come together",
    "numbers",
    severity="tip",
    certainty="significant",
    why="If the errors of labels were independent, exact match would be the product of the labels' accuracies. Above "
    "it, errors come together in the same samples; below it, they are spread over more samples.",
    remedy="Look at the samples with several wrong labels: they may be of one kind, or annotated wrongly.",
    known_problems="Differences below 0.05 are not reported.",
    example=lambda: _labels(0.88),
    counterexample=lambda: _labels(0.73),
    power=Power("all four labels are wrong together in 15 % of the samples", 400, 0.95),
)
def dependent_labels(seen: SeenNumbers) -> list[Found] | None:
    """Exact match differs from the product of the labels' accuracies by more than chance (binomial test)."""
    from scipy.stats import binomtest

    if seen.task != "multilabel" or seen.exact_match is None or len(seen.tables) < 2 or not seen.total or seen.weighted:
        return None
    expected = prod(float(find("accuracy")(table).value()) for table in seen.tables.values())
    far = abs(seen.exact_match - expected) > 0.05
    p = float(binomtest(round(seen.exact_match * seen.total), seen.total, expected).pvalue) if far else 1.0
    words = f"exact_match is {seen.exact_match:.4f}; independent errors of the labels would give {expected:.4f}."
    return [("exact_match", words, {"exact_match": seen.exact_match, "independent": expected, "p_value": p})]


@rule(
    "EK214",
    "micro and macro averages are far apart",
    "numbers",
    severity="tip",
    certainty="certain",
    why="A micro average weights all samples equally, a macro average all classes: small classes with a low F1 pull "
    "the macro average down and hardly change the micro average.",
    remedy="Report both, and the classes that cause it.",
    known_problems="Differences of F1 below 0.05 are not reported.",
    example=lambda: _matrix((980, 5, 5), (4, 1, 0), (4, 0, 1)),
    counterexample=_good,
)
def micro_and_macro(seen: SeenNumbers) -> list[Found] | None:
    """F1 over all samples (micro) and the mean F1 of classes or labels (macro) differ by more than 0.05."""
    each = {name: float(find("f1")(table).value()) for name, table in seen.tables.items()}
    defined = {name: value for name, value in each.items() if value == value}
    if seen.task == "binary" or len(defined) < 2:
        return None
    whole = Counts(*(sum(cells) for cells in zip(*(table.cells for table in seen.tables.values()), strict=True)))
    micro, macro = float(find("f1")(whole).value()), sum(defined.values()) / len(defined)
    if not abs(micro - macro) > 0.05:
        return []
    worst = sorted(defined, key=lambda name: -abs(defined[name] - micro))[:2]
    causes = " and ".join(
        f"{name} (F1 {defined[name]:.3f}, {numbered(seen.tables[name].positives, 'sample')})" for name in worst
    )
    words = f"F1 is {micro:.4f} over all samples (micro) and {macro:.4f} over classes (macro), mostly due to {causes}."
    return [("f1", words, {"micro": micro, "macro": macro, "classes": worst})]
