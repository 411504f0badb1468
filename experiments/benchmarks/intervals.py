"""What does it cost to say how sure a number is?

python experiments/benchmarks/intervals.py [--quick] [--full] [--out FILE]

1,000 resamples of F1 and of the Matthews correlation of 1,048,576 samples, beside torchmetrics' BootStrapper, which
resamples the samples themselves: it is timed with 20 resamples, times 50, and with all 1,000 by ``--full`` (a minute or
two each). All intervals of an evaluation, beside its compute. Updates that count in 1,024 buckets, beside plain ones.
One thread.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torchmetrics.classification as peer
from scores import one_thread, surroundings
from timing import Effort, Row, best_of, evenly_timed, markdown, progress_bar, timed
from torchmetrics.wrappers import BootStrapper

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit.intervals.resampling import DRAWS

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.evaluation.base import Evaluation

SAMPLES, RESAMPLES, TIMED, CLASSES, FEW, BUCKETS = 1_048_576, 1_000, 20, 100, 10, 1_024
RESAMPLED = {"f1": peer.BinaryF1Score, "mcc": peer.BinaryMatthewsCorrCoef}


def binary(samples: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    target = torch.randint(0, 2, (samples,), generator=generator)
    return torch.randn(samples, generator=generator) + 2 * target - 1, target


def multiclass(samples: int, classes: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    target = torch.randint(0, classes, (samples,), generator=generator)
    return torch.randn(samples, classes, generator=generator) + 3 * torch.nn.functional.one_hot(target, classes), target


def multilabel(samples: int, labels: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    target = torch.randint(0, 2, (samples, labels), generator=generator)
    return torch.randn(samples, labels, generator=generator) + 2 * target - 1, target


def resampled(name: str, effort: Effort, full: bool) -> Row:
    """The interval of all resamples here, ten times as many as there."""
    batch, evaluation = binary(SAMPLES), BinaryEvaluation("logits")
    evaluation.update(*batch)
    counts, number = evaluation.counts, RESAMPLES if full else TIMED

    found: list[dict[str, Tensor]] = []

    def theirs() -> None:
        wrapped = BootStrapper(RESAMPLED[name](validate_args=False), num_bootstraps=number)
        wrapped.update(*batch)
        found.append(wrapped.compute())

    work = f"{RESAMPLES:,} resamples of {name} of {SAMPLES:,} samples (here {DRAWS:,})"
    ours = evenly_timed({"ours": lambda: counts.intervals(name, method="bootstrap")})
    seconds = best_of(ours, effort.rounds(work, 40))
    seconds |= best_of({"theirs": timed(theirs, 1)}, range(1) if full else effort.rounds(work, 3))
    agree(found[-1]["mean"], counts.intervals(name)[name].value)
    scaled = seconds["theirs"] * RESAMPLES / number
    said = "torchmetrics, BootStrapper" + ("" if full else f" ({number} resamples, times {RESAMPLES // number})")
    return Row(work, said, scaled, seconds["ours"], "≤ 1/10,000")


def agree(theirs: Tensor, ours: float) -> None:
    """Being faster at another number would mean nothing."""
    torch.testing.assert_close(theirs.double(), torch.tensor(ours, dtype=torch.float64), rtol=0, atol=2e-3)


def described(evaluation: Evaluation, batch: tuple[Tensor, Tensor], aim: str, effort: Effort) -> Row:
    evaluation.update(*batch)
    work = f"intervals() of {len(evaluation)} numbers, {type(evaluation).__name__}"
    works: dict[str, Any] = {"ours": evaluation.intervals, "theirs": evaluation.compute}
    seconds = best_of(evenly_timed(works), effort.rounds(work, 20))
    return Row(work, "its compute()", seconds["theirs"], seconds["ours"], aim)


def bucketed(what: str, evaluation: Evaluation, batch: tuple[Tensor, Tensor], aim: str, effort: Effort) -> Row:
    """Both count the same; each state grows, which costs nothing."""
    ids, buckets = torch.arange(len(batch[1])), evaluation.replace(buckets=BUCKETS)
    work = f"update in {BUCKETS:,} buckets, {what}, batch of {len(ids):,}"
    works = {"ours": lambda: buckets.update(*batch, sample=ids), "theirs": lambda: evaluation.update(*batch)}
    seconds = best_of(evenly_timed(works), effort.rounds(work, 60))
    return Row(work, "the plain update", seconds["theirs"], seconds["ours"], aim)


def costs(effort: Effort, full: bool) -> str:
    uncached = {"compute_with_cache": False}
    rows = [resampled(name, effort, full) for name in RESAMPLED]
    rows.append(described(BinaryEvaluation("logits", **uncached), binary(10_000), "≤ 10 ms", effort))
    many = MulticlassEvaluation("logits", CLASSES, per_class=True, **uncached)
    rows.append(described(many, multiclass(20_000, CLASSES), "≤ 1 s", effort))
    for samples, aim in ((SAMPLES, "≤ 10"), (256, "")):
        rows.append(bucketed("binary", BinaryEvaluation("logits"), binary(samples), aim, effort))
    for samples in (65_536, 256):
        one, several = MulticlassEvaluation("logits", FEW), MultilabelEvaluation("logits", FEW)
        rows.append(bucketed(f"{FEW} classes", one, multiclass(samples, FEW), "", effort))
        rows.append(bucketed(f"{FEW} labels", several, multilabel(samples, FEW), "", effort))
    return markdown(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rounds")
    parser.add_argument("--full", action="store_true", help="torchmetrics resamples 1,000 times too")
    parser.add_argument("--out", type=Path, help="a file for the table, as Markdown")
    chosen = parser.parse_args()
    one_thread()
    with progress_bar() as progress:
        text = f"{costs(Effort(progress, chosen.quick), chosen.full)}\n\n{surroundings()}"
    print(text)
    if chosen.out:
        chosen.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
