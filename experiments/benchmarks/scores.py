"""What do curves of scores cost here, what do they cost elsewhere, and how far are they off?

python experiments/benchmarks/scores.py [--quick] [--only PART] [--out FILE]

The time of an update and of a compute beside torchmetrics' BinaryAUROC at 200 thresholds, the time of an update beside
torchmetrics' way to the same 14 numbers, the operators of an update on an accelerator, and the AUROC of up to ten
million scores beside scikit-learn and torchmetrics, each in a process of its own for its peak memory. One thread. Times
are the best of several rounds in which all take turns.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import warnings
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch
import torchmetrics.classification as peer
from binary import Operators
from timing import Effort, Row, best_of, duration, evenly_timed, markdown, progress_bar
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.functional import binary_cross_entropy_with_logits
from torchmetrics import MeanMetric, MeanSquaredError, MetricCollection

from lightning_evalkit import BinaryEvaluation
from lightning_evalkit.metrics import BinaryAUROC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor

READINGS = ("probabilities", "logits")
SMALL, LARGE = 256, 1_048_576
PEER = "torchmetrics, BinaryAUROC(thresholds=200)"
BATCH = 100_000
SAMPLES = (1_000_000, 10_000_000)


def batch(size: int, reading: str = "probabilities", seed: int = 0) -> tuple[Tensor, Tensor]:
    """Scores of two overlapping classes, one in five positive."""
    generator = torch.Generator().manual_seed(seed)
    target = (torch.rand(size, generator=generator) < 0.2).long()
    logits = torch.randn(size, generator=generator) + target - 0.5
    return logits.sigmoid() if reading == "probabilities" else logits, target


def ours(reading: str) -> dict[str, Any]:
    """What is timed; none keeps a computed value for the next call."""
    kept: dict[str, Any] = {"200 thresholds": 200, "1,000 thresholds": 1_000, "65,536 fine bins": "fine"}
    metrics: dict[str, Any] = {
        f"BinaryAUROC, {name}": BinaryAUROC(thresholds=thresholds, inputs=reading, compute_with_cache=False)  # type: ignore[arg-type]
        for name, thresholds in kept.items()
    }
    evaluation = BinaryEvaluation(inputs=reading, curves=True, compute_with_cache=False)  # type: ignore[arg-type]
    return metrics | {f"BinaryEvaluation(curves=True), {len(evaluation)} numbers": evaluation}


def theirs() -> peer.BinaryAUROC:
    return peer.BinaryAUROC(thresholds=200, compute_with_cache=False)


# ---- the time of an update, and of a compute


def updates(effort: Effort) -> str:
    rows = []
    for size, rounds, aim in ((LARGE, 12, "≤ 1/50"), (SMALL, 60, "")):
        for reading in READINGS:
            given, metrics = batch(size, reading), ours(reading) | {PEER: theirs()}
            works = {name: updating(metric, *given) for name, metric in metrics.items()}
            rows += compared(f"update of {size:,} {reading}", works, effort, rounds, aim)
    return markdown(rows)


# ---- the time of an update beside torchmetrics' way to the same numbers


PEERS = {
    "accuracy": "Accuracy",
    "precision": "Precision",
    "recall": "Recall",
    "specificity": "Specificity",
    "f1": "F1Score",
    "mcc": "MatthewsCorrCoef",
    "auroc": "AUROC",
    "average_precision": "AveragePrecision",
    "calibration_error": "CalibrationError",
    "curve": "PrecisionRecallCurve",
}
SAME = "torchmetrics, a collection of the same 14 numbers"


class TheirNumbers:
    """What BinaryEvaluation(curves=True) reports, by torchmetrics: its curves keep every score.

    Brier score and log loss, for which it has no class, are means that it takes.
    """

    def __init__(self) -> None:
        self.metrics = MetricCollection({name: getattr(peer, f"Binary{other}")() for name, other in PEERS.items()})
        self.brier, self.log_loss = MeanSquaredError(), MeanMetric()

    def update(self, logits: Tensor, target: Tensor) -> None:
        self.metrics.update(logits, target)
        truth = target.float()
        self.brier.update(logits.sigmoid(), truth)
        self.log_loss.update(binary_cross_entropy_with_logits(logits, truth), weight=len(logits))

    def compute(self) -> dict[str, Tensor]:
        values = self.metrics.compute()
        precision, recall, thresholds = values.pop("curve")
        best, place = (2 * precision * recall / (precision + recall)).nan_to_num(0.0)[:-1].max(0)
        values |= {"brier": self.brier.compute(), "log_loss": self.log_loss.compute()}
        values["balanced_accuracy"] = (values["recall"] + values["specificity"]) / 2
        return values | {"best_f1": best, "best_f1_threshold": thresholds[place]}


def same_numbers(effort: Effort) -> str:
    rows = []
    for size, rounds in ((SMALL, 60), (LARGE, 12)):
        given = batch(size, "logits")
        evaluation, theirs = BinaryEvaluation(inputs="logits", curves=True), TheirNumbers()
        for metric in (evaluation, theirs):
            metric.update(*given)
        torch.testing.assert_close(evaluation.compute(), theirs.compute(), rtol=0, atol=1e-3, check_dtype=False)
        works = {"ours": updating(evaluation, *given), "theirs": updating(theirs, *given)}
        work = f"update of {size:,} logits, BinaryEvaluation(curves=True), {len(evaluation)} numbers"
        seconds = best_of(evenly_timed(works), effort.rounds(f"{work}, beside a collection", rounds))
        rows.append(Row(work, SAME, seconds["theirs"], seconds["ours"]))
    return markdown(rows)


def updating(metric: Any, scores: Tensor, target: Tensor) -> Callable[[], object]:
    return lambda: metric.update(scores, target)


def computes(effort: Effort) -> str:
    metrics = ours("probabilities") | {PEER: theirs()}
    given = batch(LARGE)
    for metric in metrics.values():
        metric.update(*given)
    agree(metrics)
    works = {name: metric.compute for name, metric in metrics.items()}
    return markdown(compared(f"compute after {LARGE:,} probabilities", works, effort, 60, ""))


def agree(metrics: dict[str, Any]) -> None:
    """Being faster at other numbers would mean nothing."""
    torch.testing.assert_close(
        metrics["BinaryAUROC, 200 thresholds"].compute(), metrics[PEER].compute(), rtol=0, atol=1e-5
    )


def compared(work: str, works: dict[str, Callable[[], object]], effort: Effort, rounds: int, aim: str) -> list[Row]:
    seconds = best_of(evenly_timed(works), effort.rounds(work, rounds))
    beside = seconds.pop(PEER)
    aims = {name: aim if name.startswith("BinaryAUROC") else "" for name in seconds}  # an evaluation does more
    return [Row(f"{work}, {name}", PEER, beside, time, aims[name]) for name, time in seconds.items()]


# ---- operators and synchronisations of an update


class Dispatched(Operators):
    """Counts copies from the CPU too, for which the host waits."""

    copies = 0

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.copies += "_to_copy" in str(operator) and args[0].is_cpu and bool((kwargs or {}).get("device"))
        return super().__torch_dispatch__(operator, types, args, kwargs)


def operators(effort: Effort) -> str:
    with Dispatched() as elsewhere:
        theirs().update(*batch(SMALL))
    rows = []
    for name, metric in ours("probabilities").items():
        here = on_an_accelerator(getattr(metric, "tally", metric))
        work, waiting = f"operators of an update, {name}", here.waiting + here.copies
        rows += [
            Row(f"{work} (ours on an accelerator)", PEER, len(elsewhere.names), len(here.names), counted=True),
            Row("of them, waiting for the device", PEER, elsewhere.waiting, waiting, "0", counted=True),
        ]
    return markdown(rows)


def on_an_accelerator(tally: Any) -> Dispatched:
    """What an update dispatches for tensors that claim to be on a GPU; reading a value of theirs would raise."""
    device = torch.device("cuda:0")
    with FakeTensorMode(allow_non_fake_inputs=True):  # what a metric holds beside its state
        for name, state in tally._defaults.items():
            setattr(tally, name, torch.zeros(state.shape, dtype=state.dtype, device=device))
        tally._device = device
        scores = torch.zeros(SMALL, device=device)
        target = torch.zeros(SMALL, dtype=torch.int64, device=device)
        tally.update(scores, target)  # what happens only once is not counted
        with Dispatched() as dispatched:
            tally.update(scores, target)
    return dispatched


# ---- many scores: time, memory and error


@dataclass(frozen=True)
class Measured:
    """What a way of computing the AUROC took, in seconds and bytes, and what it gave."""

    seconds: float
    memory: int
    value: float
    bounds: tuple[float, float] | None = None


def batches(samples: int) -> Iterator[tuple[Tensor, Tensor]]:
    """The same scores in every process, never all of them in memory."""
    return (batch(BATCH, seed=place) for place in range(samples // BATCH))


def by_metric(make: type, samples: int, **declared: Any) -> Measured:
    """Batch by batch; making the scores is not timed."""
    before, seconds = peak_memory(), 0.0
    metric = make(**declared)
    metric.update(*batch(SMALL))
    metric.compute()  # what happens only once is not timed
    metric.reset()
    for given in batches(samples):
        start = perf_counter()
        metric.update(*given)
        seconds += perf_counter() - start
    start = perf_counter()
    value = float(metric.compute())
    seconds += perf_counter() - start
    found = Measured(seconds, peak_memory() - before, value)
    if not isinstance(metric, BinaryAUROC):
        return found
    low, _, high = (float(part) for part in metric.bounds())
    return replace(found, bounds=(low, high))


def by_scikit_learn(samples: int) -> Measured:
    """All scores at once, which have to be in memory."""
    import numpy as np
    from sklearn.metrics import roc_auc_score

    before = peak_memory()
    roc_auc_score(*(part.numpy() for part in reversed(batch(SMALL))))
    scores, target = np.empty(samples, np.float32), np.empty(samples, np.int64)
    for place, given in enumerate(batches(samples)):
        scores[place * BATCH :][:BATCH], target[place * BATCH :][:BATCH] = given
    start = perf_counter()
    value = float(roc_auc_score(target, scores))
    return Measured(perf_counter() - start, peak_memory() - before, value)


def peak_memory() -> int:
    """The most bytes that were resident so far.

    On Linux not by ``resource``, where a process inherits the peak of the one that started it.
    """
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text(encoding="utf-8").splitlines())
        return 1024 * int(lines["VmHWM"].split()[0])
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


WAYS: dict[str, Callable[[int], Measured]] = {
    "scikit-learn, roc_auc_score": by_scikit_learn,
    "torchmetrics, exact": partial(by_metric, peer.BinaryAUROC, thresholds=None),
    "torchmetrics, 200 thresholds": partial(by_metric, peer.BinaryAUROC, thresholds=200),
    "ours, exact": partial(by_metric, BinaryAUROC, thresholds=None, inputs="probabilities"),
    "ours, 200 thresholds": partial(by_metric, BinaryAUROC, thresholds=200, inputs="probabilities"),
    "ours, 65,536 fine bins": partial(by_metric, BinaryAUROC, inputs="probabilities"),
}


def print_measured(way: str, samples: int) -> None:
    one_thread()
    print(json.dumps(asdict(WAYS[way](samples))))


def measured(way: str, samples: int) -> Measured:
    """In a fresh process, whose memory nothing else has touched."""
    code = f"from scores import print_measured; print_measured({way!r}, {samples})"
    command, here = [sys.executable, "-c", code], Path(__file__).parent
    printed = subprocess.run(command, cwd=here, capture_output=True, text=True, check=True, timeout=600).stdout
    return Measured(**json.loads(printed))


def areas(effort: Effort) -> str:
    found: dict[tuple[int, str], list[Measured]] = {(samples, way): [] for samples in SAMPLES for way in WAYS}
    for _ in effort.rounds("AUROC of many scores", 3):
        for (samples, way), results in found.items():
            results.append(measured(way, samples))
    headings = ("AUROC of", "by", "time", "peak memory", "value", "certain bounds")
    rows = [shown(samples, way, results) for (samples, way), results in found.items()]
    table = "\n".join("| " + " | ".join(row) + " |" for row in (headings, ("---", "---", *["---:"] * 4), *rows))
    return f"{table}\n\nPeak memory is what was resident beyond the imports, a batch of {BATCH:,} scores included."


def shown(samples: int, way: str, results: list[Measured]) -> tuple[str, ...]:
    """The fewest seconds and bytes: more was not needed."""
    seconds, memory = (min(getattr(result, name) for result in results) for name in ("seconds", "memory"))
    value, bounds = results[0].value, results[0].bounds
    between = f"{bounds[0]:.6f} to {bounds[1]:.6f}" if bounds else ""
    return (f"{samples:,} scores", way, duration(seconds), f"{memory / 2**20:.1f} MB", f"{value:.6f}", between)


# ---- all of it


PARTS = {part.__name__: part for part in (updates, same_numbers, computes, operators, areas)}


def surroundings() -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in ("torch", "torchmetrics", "scikit-learn", "numpy"))
    return f"Python {platform.python_version()}, {packages}; one thread."


def one_thread() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rounds")
    parser.add_argument("--only", choices=PARTS, action="append", help="this part alone; may be repeated")
    parser.add_argument("--out", type=Path, help="a file for the tables, as Markdown")
    chosen = parser.parse_args()
    one_thread()
    with progress_bar() as progress:
        effort = Effort(progress, chosen.quick)
        tables = [PARTS[name](effort) for name in chosen.only or PARTS]
    text = "\n\n".join((*tables, surroundings()))
    print(text)
    if chosen.out:
        chosen.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
