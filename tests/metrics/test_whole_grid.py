"""Every class and function of torchmetrics.classification beside ours, over a grid of options, precisions and targets.

Cases are drawn from torchmetrics' own signatures. What differs must be one of the reasons below, each of which is a row
of docs/torchmetrics.md, and each reason must still be found: a deviation that is mended has to leave the table.
"""

from __future__ import annotations

import inspect
import warnings
from collections import Counter
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import TYPE_CHECKING, Any

import torch
import torchmetrics.classification as peer
import torchmetrics.functional.classification as peer_functions
from versions import CORRELATION, IGNORED_LABELS, TOP_K, UNDEFINED

from lightning_evalkit import functional, metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CLASSES, ROWS, CASES = 3, 12, 30
OPTIONS: dict[str, list[Any]] = {
    "num_classes": [CLASSES],
    "num_labels": [CLASSES],
    "num_groups": [2],
    "average": ["micro", "macro", "weighted", "none"],
    "ignore_index": [None, -1, 0],
    "top_k": [1, 2],
    "multidim_average": ["global", "samplewise"],
    "thresholds": [None, 5, [0.0, 0.25, 0.5, 1.0], torch.tensor([0.1, 0.5, 0.9])],
    "threshold": [0.5, 0.3],
    "norm": ["l1", "l2", "max"],
    "n_bins": [15, 4],
    "normalize": [None, "true", "pred", "all"],
    "weights": [None, "linear", "quadratic"],
    "beta": [0.5, 2.0],
    "max_fpr": [None, 0.3],
    "zero_division": [0, 1],
    "squared": [False, True],
    "multiclass_mode": ["crammer-singer", "one-vs-all"],
    "fpr_range": [(0.001, 0.1), (0.1, 0.9)],
    **{f"min_{name}": [0.5] for name in ("precision", "recall", "specificity", "sensitivity")},
}
HALVES = (torch.float16, torch.bfloat16)
SCORES = [(kind, of) for kind in (*HALVES, torch.float32, torch.float64) for of in ("probabilities", "logits")]
TARGETS = ("usual", "absent", "zeros", "ones", "empty")
TASKS = ("Binary", "Multiclass", "Multilabel")
GROUPED = ("BinaryFairness", "BinaryGroupStatRates")
COUNTED = ("Curve", "ROC", "AveragePrecision", "EER", "LogAUC", "AtFixed", "AtSpecificity", "AtSensitivity")
RANKED = ("MultilabelCoverageError", "MultilabelRankingLoss", "MultilabelRankingAveragePrecision")
NAMES = [name for name in vars(peer) if name.startswith(TASKS)]
FUNCTIONS = {name.replace("_", "").replace("groups", "group"): name for name in vars(peer_functions)}


@dataclass(frozen=True)
class Case:
    """One metric, its options, and what kind of data it gets; ``scores`` is None for labels."""

    name: str
    options: dict[str, Any]
    scores: tuple[torch.dtype, str] | None
    target: str

    @property
    def task(self) -> str:
        return next(task for task in TASKS if self.name.startswith(task))

    @property
    def is_curve(self) -> bool:
        return any(word in self.name for word in COUNTED) and self.name not in RANKED

    @property
    def ignored(self) -> Any:
        return self.options.get("ignore_index")

    @property
    def is_averaged(self) -> bool:
        return self.options.get("average") in ("macro", "weighted")

    @property
    def lacks_all(self) -> bool:
        """Whether nothing is counted."""
        return self.target == "empty" or (self.target == "zeros" and self.ignored == 0)

    @property
    def lacks_some(self) -> bool:
        """Whether a class or label has no positive or no negative samples."""
        return self.target != "usual" or self.ignored == 0

    def batch(self, seed: int) -> tuple[torch.Tensor, ...]:
        generator = torch.Generator().manual_seed(seed)
        rows = 0 if self.target == "empty" else ROWS
        more = (4,) if self.options.get("multidim_average") == "samplewise" or "ExactMatch" in self.name else ()
        wide, narrow = (rows, CLASSES, *more), (rows, *more)
        choices = CLASSES if self.task == "Multiclass" else 2
        target = torch.randint(choices, wide if self.task == "Multilabel" else narrow, generator=generator)
        if self.scores is None:
            preds = torch.randint(choices, target.shape, generator=generator)
        else:
            preds = torch.randn(narrow if self.task == "Binary" else wide, generator=generator, dtype=torch.float64) * 2
            if self.scores[1] == "probabilities":
                preds = preds.softmax(1) if self.task == "Multiclass" else preds.sigmoid()
            preds = preds.to(self.scores[0])
        target = self._as_named(target)
        if self.ignored == -1 and rows:
            target.view(-1)[::4] = -1
        return (preds, target, torch.arange(rows) % 2) if self.name in GROUPED else (preds, target)

    def _as_named(self, target: torch.Tensor) -> torch.Tensor:
        if self.target in ("zeros", "ones"):
            return torch.full_like(target, self.target == "ones")
        if self.target == "absent" and self.task == "Multiclass":
            return target.clamp(max=1)
        if self.target == "absent" and self.task == "Multilabel":
            target.select(1, 0).zero_()
        return target


def cases_of(name: str) -> Iterator[Case]:
    """Some of all combinations, always the same."""
    known = [key for key in inspect.signature(getattr(peer, name).__init__).parameters if key in OPTIONS]
    choices = [OPTIONS[key] for key in known]
    drawn = list(product(*choices, [None, *SCORES], TARGETS))
    for *options, scores, target in Random(name).sample(drawn, min(CASES, len(drawn))):
        given = dict(zip(known, options, strict=True))
        if scores is not None or given.get("top_k", 1) == 1:
            yield Case(name, given, scores, target)


# ---- reasons to differ, each a row of docs/torchmetrics.md


REASONS: dict[str, Callable[[Case], bool]] = {
    "classes or labels without positive or negative targets": lambda case: (
        case.is_curve and case.is_averaged and case.lacks_some
    ),
    "no samples at all, or all ignored": lambda case: case.lacks_all,
    "ignore_index inside the class range, macro average": lambda case: (
        case.task == "Multiclass" and case.ignored == 0 and case.options.get("average") == "macro"
    ),
    "labels given to BinaryAUROC, LogAUC and hinge losses": lambda case: (
        case.scores is None and (case.is_curve or "Hinge" in case.name)
    ),
    "half-precision logits, every score kept": lambda case: (
        case.is_curve
        and case.scores in [(kind, "logits") for kind in HALVES]
        and case.options.get("thresholds", "given") is None
    ),
    "LogAUC where several points have one false-positive rate": lambda case: "LogAUC" in case.name,
    "precision-recall curves of classes whose targets are all 0": lambda case: (
        case.task == "Multiclass" and case.is_curve and case.target == "zeros"
    ),
    "micro average of MulticlassROC and MulticlassEER at given thresholds": lambda case: (
        case.name in ("MulticlassROC", "MulticlassEER") and case.options["average"] == "micro"
    ),
    "ignored labels in coverage error and ranking loss": lambda case: case.name in RANKED and case.ignored is not None,
    "samplewise weighted stat scores of labels": lambda case: (
        case.name == "MultilabelStatScores" and case.options["average"] == "weighted"
    ),
    "a class that is ignored has no positives, which is not told": lambda case: (
        case.is_curve and case.task == "Multiclass" and case.ignored == 0 and case.options["thresholds"] is None
    ),
    "multilabel_jaccard_index(ignore_index=0), the function": lambda case: (
        case.name == "MultilabelJaccardIndex" and case.ignored == 0
    ),
}
EARLIER: dict[str, Callable[[Case], bool]] = {
    change.reason: lambda case, change=change: change.is_of(case.name)
    for change in (CORRELATION, IGNORED_LABELS, TOP_K, UNDEFINED)
    if not change.is_here()
}
"""Those of an installed release that is not the newest."""


def close(ours: Any, theirs: Any, case: Case) -> bool:
    """Equal in form, and in value as far as the precision goes in which torchmetrics computes."""
    if isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(close(ours[key], theirs[key], case) for key in theirs)
    if isinstance(theirs, (list, tuple)):
        return len(ours) == len(theirs) and all(close(*pair, case) for pair in zip(ours, theirs, strict=True))
    if ours.shape != theirs.shape or ours.is_floating_point() != theirs.is_floating_point():
        return False
    if "Calibration" in case.name and ours.dtype != theirs.dtype:
        return False
    half = case.scores is not None and case.scores[0] in HALVES and not counts(case)
    ours, theirs = ours.to(theirs.dtype).double(), theirs.double()  # thresholds have the precision of scores there
    return torch.allclose(ours, theirs, *((1e-2, 5e-3) if half else (1e-5, 1e-6)), equal_nan=True)


def counts(case: Case) -> bool:
    """Whether samples are counted, and scores only compared."""
    return not any(word in case.name for word in ("Hinge", "Calibration"))


def called(call: Callable[[], Any]) -> tuple[Any, set[str]]:
    """The result or the error, and what was warned of it."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            result = call()
        except Exception as error:  # of torchmetrics, whatever it is
            result = error
    return result, {str(each.message) for each in said if "memory" not in str(each.message)}


def of_class(module: Any, case: Case) -> Any:
    metric = getattr(module, case.name)(**case.options)
    for seed in (1, 2):
        metric.update(*case.batch(seed))
    return metric.compute()


def of_function(module: Any, case: Case) -> Any:
    parts = [torch.cat(pair) for pair in zip(case.batch(1), case.batch(2), strict=True)]
    function = getattr(module, FUNCTIONS[case.name.lower()])
    known = inspect.signature(getattr(peer_functions, function.__name__)).parameters
    return function(*parts, **{key: value for key, value in case.options.items() if key in known})


WAYS: dict[str, tuple[Callable[[Any, Case], Any], Any, Any]] = {
    "class": (of_class, metrics, peer),
    "function": (of_function, functional, peer_functions),
}


def compared(way: str) -> tuple[Counter[str], list[Any]]:
    """How many cases were compared and why they differ, and those that differ for no known reason."""
    call, ours, theirs = WAYS[way]
    found: Counter[str] = Counter()
    unknown = []
    for name in NAMES:
        for case in cases_of(name):
            expected, their_words = called(lambda case=case: call(theirs, case))
            if isinstance(expected, Exception):
                found["torchmetrics raises"] += 1
                continue
            result, words = called(lambda case=case: call(ours, case))
            found["compared"] += 1
            if not isinstance(result, Exception) and close(result, expected, case) and (words or not their_words):
                continue
            why = [reason for reason, holds in (REASONS | EARLIER).items() if holds(case)]
            found.update(why)
            if not why:
                unknown.append((case, result, expected, words, their_words))
    return found, unknown


def test_results_and_warnings_are_those_of_torchmetrics_but_for_known_reasons() -> None:
    found: Counter[str] = Counter()
    for way in WAYS:
        reasons, unknown = compared(way)
        assert not unknown, unknown[:3]
        found.update(reasons)
    assert found["compared"] > 2500
    assert all(found[reason] for reason in REASONS), {reason: found[reason] for reason in REASONS}
